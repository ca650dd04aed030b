"""Reads the response of any web search into one form: by the provider's format, or by a rule that fits most.

`normalise` never raises and never invents: a result has what the provider gave it, in the given order. What is not
understood is named in `unknown`; what is broken is reported in `warnings`. Only titles are cleaned.
"""

from itertools import islice
from typing import Final

from msgspec.structs import replace

from coatcheck.core.search.model import (
    MAX_LINE,
    MAX_RESULTS,
    UNKNOWN,
    AnswerKind,
    ProviderAnswer,
    SearchResponse,
    SearchResult,
)
from coatcheck.core.search.responses.generic_results import best_list
from coatcheck.core.search.responses.listing import read_listing
from coatcheck.core.search.responses.markup import one_line
from coatcheck.core.search.responses.provider_extras import finished
from coatcheck.core.search.responses.providers import (
    ANSWER_TEXTS,
    ANSWER_TITLES,
    ANSWER_URLS,
    COMMON,
    FAILURES,
    HARMLESS,
    SHAPES,
    Fields,
    Shape,
)
from coatcheck.core.search.responses.reading import read_result
from coatcheck.core.search.responses.values import (
    Record,
    folded,
    found,
    head,
    holds,
    is_empty,
    is_url,
    items_of,
    key,
    opened,
    record_of,
    text_at,
    text_of,
)
from coatcheck.core.search.responses.wrappers import unwrapped
from coatcheck.core.structure.json_values import read_json

_WARNED: Final = 300
"""Maximum characters of a provider's own warning."""
_MOST_WARNINGS: Final = 8
_MOST_ANSWERS: Final = 20
_MOST_FACTS: Final = 12
_MOST_UNKNOWN: Final = 32


def normalise(body: object) -> SearchResponse:
    """Reads a response: its bytes, its text, or decoded JSON.

    Text other than JSON is read as a list that tools write for models (listing.py). JSON that ends early is read as far
    as it goes, with a warning.
    """
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    if not isinstance(body, str):
        return _read(unwrapped(body))
    value, broken = _decoded(body)
    response = _read(unwrapped(value))
    if broken:
        warning = "The response is not well-formed JSON: only its beginning could be read."
        return replace(response, warnings=(warning, *response.warnings))
    return response


def _decoded(text: str) -> tuple[object, bool]:
    """Returns the JSON in a text, as far as it goes, and whether it is cut off; or the text."""
    if text.lstrip("\ufeff \t\r\n")[:1] not in {"{", "[", '"'}:
        return text, False
    data = text.encode("utf-8", "replace")
    reading = read_json(data, whole=True)
    if reading is None:
        return opened(text), False
    if not is_empty(reading.value):
        return reading.value, not reading.complete and reading.lines < 2  # noqa: PLR2004 - a document a line is whole
    return (reading.value, False) if reading.complete else (text, False)


def _read(value: object) -> SearchResponse:
    if isinstance(value, str):
        return read_listing(value)
    record = record_of(value)
    names = frozenset({""} if record is None else folded(record))
    for shape in SHAPES:
        if any(_has(value, mark, names) for mark in shape.marks):
            response = _by_shape(value, shape)
            if response.results or response.answers or shape.note or not best_list(value)[1]:
                return response
    return _by_rule(value)


def _has(value: object, mark: str, names: frozenset[str]) -> bool:
    """Returns whether all conditions of a mark hold. A path that begins with none of `names` is not followed."""
    conditions = mark.split()
    return all(head(each) in names for each in conditions) and all(holds(value, each) for each in conditions)


def _by_shape(value: object, shape: Shape) -> SearchResponse:
    results: list[SearchResult] = []
    left = 0
    for path in shape.lists.split():
        named, _, plain = path.rpartition(":")
        items = [item for each in found(value, plain) for item in _listed(each)]
        taken, missed = _results(items, shape.fields, len(results), named)
        results += taken
        left += missed
    if shape.distinct:
        results = _distinct(results)
    response = SearchResponse(
        provider=shape.provider,
        query=_query(value, shape.query.split()),
        answers=tuple(_answers(value, shape.answers))[:_MOST_ANSWERS],
        results=tuple(results),
        warnings=_warnings(value, left, len(results), shape.note),
        unknown=_unknown(value, shape),
    )
    return finished(response, value)


def _listed(value: object) -> list[object]:
    """Returns the items of a list; anything else is one item, unless it is empty."""
    items = items_of(value)
    return items if items is not None else [] if is_empty(value) else [value]


def _by_rule(value: object) -> SearchResponse:
    path, items = best_list(value)
    results, left = _results(items, COMMON, 0, "")
    head = path.split(".", 1)[0]
    answers = _answers(value, {"answer": "answer"}) if results else []
    return SearchResponse(
        provider=UNKNOWN,
        query=_query(value, ["query", "q", "search_query"]),
        answers=tuple(answers),
        results=tuple(results),
        warnings=_warnings(value, left, len(results), ""),
        unknown=_members(value, {key(head), "answer"}),
    )


def _results(items: list[object], fields: Fields, before: int, listed: str) -> tuple[list[SearchResult], int]:
    """Returns results for items, ranked after those before, and how many items were none."""
    out: list[SearchResult] = []
    left = 0
    for item in items:
        if before + len(out) == MAX_RESULTS:
            left += 1
            continue
        result = read_result(item, fields, before + len(out) + 1, listed)
        if result is not None:
            out.append(result)
        elif not _holds_others(item):
            left += 1
    return out, left


def _holds_others(item: object) -> bool:
    """Returns whether an item is not a result but contains lists of its own, or is text among results."""
    record = record_of(item)
    return isinstance(item, str) or (record is not None and any(isinstance(v, (list, dict)) for v in record.values()))


def _distinct(results: list[SearchResult]) -> list[SearchResult]:
    seen: dict[str, SearchResult] = {}
    for result in results:
        known = seen.get(result.url or "")
        if known is None or (not known.title and result.title):
            seen[result.url or ""] = result
    return [replace(result, rank=rank) for rank, result in enumerate(seen.values(), 1)]


def _query(value: object, paths: list[str]) -> str | None:
    return " ".join(text_at(value, *paths).split())[:MAX_LINE] or None


def _answers(value: object, kinds: dict[str, AnswerKind]) -> list[ProviderAnswer]:
    out: list[ProviderAnswer] = []
    for path, kind in kinds.items():
        for item in (item for each in found(value, path) for item in _listed(each)):
            answer = _answer(item, kind)
            if answer is not None and answer not in out:
                out.append(answer)
    return out


def _answer(item: object, kind: AnswerKind) -> ProviderAnswer | None:
    record = record_of(item)
    if record is None:
        text = text_of(item) if isinstance(item, str) else ""
        return ProviderAnswer(kind=kind, text=text) if text else None
    title = _first(record, ANSWER_TITLES)
    text = "\n".join(piece for piece in (_first(record, ANSWER_TEXTS), _facts(record)) if piece)
    url = _first(record, ANSWER_URLS, url=True) or None
    return ProviderAnswer(kind=kind, text=text, title=one_line(title)[:MAX_LINE], url=url) if text else None


def _first(record: Record, names: tuple[str, ...], *, url: bool = False) -> str:
    texts = (_lines_of(each) for name in names for each in found(record, name))
    return next((text for text in texts if text and (is_url(text) or not url)), "")


def _lines_of(value: object) -> str:
    items = items_of(value)
    return text_of(value) if items is None else "\n".join(text for item in items if (text := text_of(item)))


def _facts(record: Record) -> str:
    """Returns a knowledge panel's attributes, one per line."""
    attributes = next((each for each in found(record, "attributes")), None)
    pairs = record_of(attributes)
    if pairs is not None:
        named = [(name, text_of(value)) for name, value in pairs.items()]
    else:
        rows = [record_of(item) or {} for item in items_of(attributes) or ()]
        named = [(text_of(row.get("label")), text_of(row.get("value"))) for row in rows]
    return "\n".join(f"{name}: {text}" for name, text in named[:_MOST_FACTS] if name and text)


def _warnings(value: object, left: int, taken: int, note: str) -> tuple[str, ...]:
    out = [note] if note else []
    for path in FAILURES:
        for each in found(value, path):
            text = " ".join(text_of(each).split()) if isinstance(each, str) else ""
            warning = f"The provider says: {text[:_WARNED]}"
            if text and text.lower().rstrip(".") not in {"ok", "success"} and warning not in out:
                out.append(warning)
    for each in found(value, "unresponsive_engines[]"):
        names = [text_of(part) for part in items_of(each) or [each]]
        out.append(f"No answer from {' '.join(name for name in names if name)[:_WARNED]}.")
    if taken == MAX_RESULTS and left:
        out.append(f"There are {left} more results than the {MAX_RESULTS} that are read.")
    elif left:
        out.append(f"{left} of {left + taken} items have no URL and no title with a text, and were left out.")
    return tuple(out[:_MOST_WARNINGS])


def _unknown(value: object, shape: Shape) -> tuple[str, ...]:
    paths = [path.rpartition(":")[2] for path in shape.lists.split()]
    heads = {key(path.split(".", 1)[0].split("[", 1)[0]) for path in (*paths, *shape.answers, *shape.query.split())}
    return _members(value, heads | {key(name) for name in shape.known.split()})


def _members(value: object, known: set[str]) -> tuple[str, ...]:
    """Returns the names of members that are not empty and not known, to a limited depth."""
    record = record_of(value) or {}
    names = (
        name[:MAX_LINE]
        for name, member in record.items()
        if key(name) not in known and key(name) not in HARMLESS and not is_empty(member)
    )
    return tuple(islice(names, _MOST_UNKNOWN))
