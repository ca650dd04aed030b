"""Search results: rank, title, URL and one line of each, whatever provider's list they came in."""

from typing import Final, cast

from coatcheck.core.artifact import Said, Sample
from coatcheck.core.kinds.description import Description, plural
from coatcheck.core.structure.json_values import read_json

_LISTS: Final = (
    "results",
    "organic_results",
    "organic",
    "items",
    "data",
    "value",
    "web",
    "hits",
    "webPages",
    "citations",
)
_URLS: Final = ("url", "link", "href", "uri", "source_url")
_TITLES: Final = ("title", "name", "heading")
_TEXTS: Final = ("snippet", "description", "content", "summary", "text", "body", "raw_content")
_SHARE: Final = 0.3
"""Of a list, the records that must be results: some providers mix pages with pictures."""
_SHOWN: Final = 20
_TITLE: Final = 120
_URL: Final = 300
_TEXT: Final = 250
_MORE: Final = 1_200
"""Characters of a result's text that are kept for a card: a first piece for every result, then the rest in turn."""


def results(value: object, depth: int = 0) -> list[dict[str, object]] | None:
    """The list of results in a provider's response, or None: records with a URL and a title."""
    if isinstance(value, list):
        records = [cast("dict[str, object]", item) for item in cast("list[object]", value) if isinstance(item, dict)]
        good = [record for record in records if _first(record, _URLS) and _first(record, _TITLES)]
        enough = bool(good) and len(good) >= _SHARE * len(cast("list[object]", value))
        return good if enough and any(_first(record, _TEXTS) for record in good) else None
    if isinstance(value, dict) and depth < 3:  # noqa: PLR2004 - providers nest twice
        members = cast("dict[str, object]", value)
        for key in _LISTS:
            found = results(members[key], depth + 1) if key in members else None
            if found:
                return found
    return None


def _first(record: dict[str, object], names: tuple[str, ...]) -> str:
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return ""


def _clip(text: str, size: int) -> str:
    flat = " ".join(text[: size * 4].split())
    return flat if len(flat) <= size else flat[: size - 1] + "…"


def _word_end(text: str, size: int) -> int:
    """Where to cut near `size`: after a word, or there where words have no blanks between them."""
    if len(text) <= size:
        return len(text)
    blank = text.rfind(" ", size // 2, size)
    return blank if blank > 0 else size


def describe_results(sample: Sample, declared: Said) -> Description:
    """Returns a line for each result, so that a reader can choose; URLs whole, because it may want to fetch them."""
    del declared
    reading = read_json(sample.head, whole=sample.whole)
    found = results(reading.value) if reading is not None else None
    if not found:
        return Description()
    lines = [f"{plural(len(found), 'result')}:"]
    texts = [" ".join(_first(record, _TEXTS)[: _MORE * 2].split()) for record in found[:_SHOWN]]
    for rank, record in enumerate(found[:_SHOWN], 1):
        url = _clip(_first(record, _URLS), _URL)
        lines.append(f"r{rank} {_clip(_first(record, _TITLES), _TITLE)} | {url}")
    cuts = [_word_end(text, _TEXT) for text in texts]
    for rank, (text, cut) in enumerate(zip(texts, cuts, strict=True), 1):
        if text:
            lines.append(f"r{rank}: {text[:cut]}{'…' if cut < len(text) else ''}")
    for rank, (text, cut) in enumerate(zip(texts, cuts, strict=True), 1):
        if cut < len(text):
            lines.append(f"r{rank} goes on: …{text[cut : _word_end(text, _MORE)]}…")
    return Description(facts=tuple(lines))
