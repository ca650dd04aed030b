"""Converts the response of any web search into one form: by the provider's format, or by a general rule.

`normalise` never raises and invents nothing: a result has only the values that the provider gave it, and results keep
the provider's order. `unknown` names the members that were not understood; `warnings` report broken parts. Only titles
are cleaned.
"""

import json
from itertools import chain, islice
from typing import Final

from msgspec.structs import replace

from coatcheck.core.search.model import (
    MAX_LINE,
    MAX_RESULTS,
    MAX_UNREAD,
    REASON_CHARS,
    UNKNOWN,
    AnswerKind,
    ProviderAnswer,
    SearchResponse,
    SearchResult,
)
from coatcheck.core.search.responses.failures import (
    has_list,
    is_error_result,
    is_silence,
    reasons_of,
    reports_no_results,
    text_failure,
    unwrap_response,
)
from coatcheck.core.search.responses.generic_results import result_lists
from coatcheck.core.search.responses.listing import read_listing
from coatcheck.core.search.responses.markup import excerpt_text, format_of, one_line, page_title, readable
from coatcheck.core.search.responses.providers import (
    ANSWER_TEXTS,
    ANSWER_TITLES,
    ANSWER_URLS,
    ANSWERS,
    BOXES,
    COMMON,
    HARMLESS,
    ORDINARY,
    PROVIDERS,
    QUERIES,
    SHAPES,
    Shape,
    complete_response,
)
from coatcheck.core.search.responses.reading import read_result
from coatcheck.core.search.responses.values import (
    Record,
    decode_document,
    find_values,
    fold_names,
    head,
    holds,
    is_empty,
    is_url,
    items_of,
    key,
    record_of,
    text_at,
    text_of,
)
from coatcheck.core.structure import read_json

_MAX_WARNINGS: Final = 8
"""Maximum warnings of one response, including our own. Chosen, not measured, as are the next three numbers."""
_MAX_ANSWERS: Final = 20
"""Maximum answers of the provider that are read from one response."""
_MAX_FACTS: Final = 12
"""Maximum attributes of a knowledge panel that are read, one per line."""
_MAX_UNKNOWN: Final = 32
"""Maximum names of members that were not understood."""
_NULLS: Final = frozenset({"", "null", "none", "undefined"})
"""Texts that programs print in place of a missing value."""
_QUERIES: Final = tuple(QUERIES.split())
_PICTURES: Final = ("images", "data.images", "images_results", "inline_images", "image_results", "images.results")
_MAX_PICTURES: Final = 100
"""Maximum pictures beside the results that are read; the text shows twelve. Chosen, not measured."""


def normalise(body: object) -> SearchResponse:
    """Converts a response, given as bytes, as text or as decoded JSON.

    Text that is not JSON is read as a list that a tool wrote for a model (listing.py). JSON that is cut off is read up
    to the cut, with a warning.
    """
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    value, broken = _decode_body(body) if isinstance(body, str) else (body, False)
    # Wrappers of MCP, JSON-RPC and tool results are removed first, so that shapes describe only the response itself.
    inner = unwrap_response(value)
    response = _read(inner)
    # A tool marks its failure outside the text, which need not look like a failure.
    if is_error_result(value) and not (response.results or response.failed):
        text = inner if isinstance(inner, str) else _dump(inner)
        response = replace(response, failures=(" ".join(text.split())[:REASON_CHARS],), failed=True, unread="")
    if broken:
        unread = body if isinstance(body, str) and not (response.results or response.answers) else response.unread
        response = replace(response, unread=unread[:MAX_UNREAD])
        warning = "The response is not well-formed JSON: only its beginning could be read."
        return replace(response, warnings=(warning, *response.warnings))
    return response


def _decode_body(text: str) -> tuple[object, bool]:
    """Returns the JSON in a text, and whether it is cut off; for any other text, the text itself and False."""
    if text.lstrip("\ufeff \t\r\n")[:1] not in {"{", "[", '"'}:
        return text, False
    data = text.encode("utf-8", "replace")
    reading = read_json(data, whole=True)
    if reading is None:
        return decode_document(text), False
    if not is_empty(reading.value):
        return reading.value, not reading.complete and reading.lines < 2  # noqa: PLR2004 - a document a line is whole
    return (reading.value, False) if reading.complete else (text, False)


def _read(value: object) -> SearchResponse:
    if isinstance(value, str):
        return _read_text(value)
    provider = _provider_of(value)
    shape = SHAPES.get(provider, ORDINARY)
    kinds: dict[str, AnswerKind] = {**ANSWERS, **shape.answers}
    # First the lists that the provider's entry in `SHAPES` names.
    paths = shape.lists.split()
    lists = [[item for each in find_values(value, path) for item in _list_items(each)] for path in paths]
    results, dropped_count = _all_results(lists, shape)
    heads = {_head(path) for path in paths}
    # Often these lists have no results, since most providers have no entry and formats change. The general rule then
    # looks everywhere except where answers are.
    if not results and not shape.note:
        apart = BOXES | {_head(path) for path in shape.answers}
        by_rule = [each for each in result_lists(value) if _head(each.path) not in apart]
        results, dropped_count = _all_results([each.items for each in by_rule], shape)
        heads = {_head(each.path) for each in by_rule} if results else heads
    # The response of an image search has only pictures, so these are the results.
    pictures = _pictures(value)
    if not results:
        results, pictures = pictures, []
    known = heads | HARMLESS | set(shape.ignored_members.split()) | {_head(path) for path in (*kinds, *_QUERIES)}
    response = SearchResponse(
        provider=provider,
        query=" ".join(text_at(value, *_QUERIES).split())[:MAX_LINE] or None,
        answers=tuple(_answers(value, kinds))[:_MAX_ANSWERS],
        results=tuple(results),
        pictures=tuple(pictures),
        warnings=_warnings(value, dropped_count, len(results), shape.note),
        unknown=_unknown(value, known),
    )
    return _judge_response(complete_response(response, value), value, shape, heads)


def _provider_of(value: object) -> str:
    """Returns the name of the provider whose format a response has; `UNKNOWN` if no format fits."""
    record = record_of(value)
    names = frozenset({""} if record is None else fold_names(record))
    rows = ((provider, row) for provider, rows in PROVIDERS.items() for row in rows)
    return next((provider for provider, row in rows if _holds_all(value, row, names)), UNKNOWN)


def _judge_response(response: SearchResponse, value: object, shape: Shape, heads: set[str]) -> SearchResponse:
    """Returns the response with its failures; if nothing was understood, also with text that the model can read."""
    has_any = bool(response.results or response.answers or response.actions or shape.note)
    record = record_of(value)
    alone = not has_any and record is not None and not has_list(record)
    # A message alone means failure only if it says so or if nothing else is there: many responses have a `message` of
    # `ok`.
    reasons = reasons_of(value, alone=alone, skipped=frozenset(heads) if response.results else frozenset())
    empty = [each for each in reasons if reports_no_results(each)]
    failures = tuple(each for each in reasons if each not in empty)
    # If one engine of a metasearch fails, the whole search has not failed.
    failed = bool(failures) and not (response.results or response.answers) and not all(map(is_silence, failures))
    messages = [f"The provider says: {each}" for each in (empty if failed else reasons) if not is_silence(each)]
    messages += [f"{each}." for each in failures if is_silence(each) and not failed]
    warnings = tuple(dict.fromkeys((*messages, *response.warnings)))[:_MAX_WARNINGS]
    response = replace(response, failures=failures, failed=failed, warnings=warnings)
    # Nothing was understood, but there is something to read: the model gets its beginning instead of `0 results`.
    if has_any or failed or empty or not _is_readable(value, HARMLESS | set(shape.ignored_members.split())):
        return response
    return replace(response, unread=_dump(value))


def _read_text(text: str) -> SearchResponse:
    response = read_listing(text)
    if response.results:
        return response
    readable_text = readable(text, "html") if format_of(text) == "html" else text.strip()
    plain = f"{title}\n\n{readable_text}".strip() if (title := page_title(text)) not in readable_text else readable_text
    if plain.lower() in _NULLS:
        return replace(response, unknown=())
    if reports_no_results(plain):
        return replace(response, warnings=(f"The response says: {' '.join(plain.split())[:REASON_CHARS]}",), unknown=())
    failure = text_failure(plain)
    if failure is not None:
        return replace(response, failures=(failure,), failed=True, unknown=())
    return replace(response, answers=(), unread=plain or text.strip())


def _holds_all(value: object, row: str, names: frozenset[str]) -> bool:
    """Returns whether all conditions of a row hold. Paths that begin with a name outside `names` are not followed."""
    conditions = row.split()
    return all(head(each) in names for each in conditions) and all(holds(value, each) for each in conditions)


def _head(path: str) -> str:
    return key(path.split(".", 1)[0].split("[", 1)[0])


def _list_items(value: object) -> list[object]:
    """Returns the items of a list. Any other value is the only item, unless it is empty."""
    items = items_of(value)
    return items if items is not None else [] if is_empty(value) else [value]


def _all_results(lists: list[list[object]], shape: Shape) -> tuple[list[SearchResult], int]:
    """Returns the results of several lists as one ranking, and the number of items that were left out."""
    results: list[SearchResult] = []
    dropped_count = 0
    for item in chain.from_iterable(lists):
        result = read_result(item, shape.fields, len(results) + 1) if len(results) < MAX_RESULTS else None
        if result is not None:
            results.append(result)
        elif len(results) == MAX_RESULTS or not _holds_others(item):
            dropped_count += 1
    return _distinct(results) if shape.distinct else results, dropped_count


def _pictures(value: object) -> list[SearchResult]:
    """Returns the pictures that a response lists beside its results."""
    items = [item for path in _PICTURES for each in find_values(value, path) for item in _list_items(each)]
    candidates = (read_result(item, COMMON, rank) for rank, item in enumerate(items[:_MAX_PICTURES], 1))
    pictures = (each for each in candidates if each is not None and each.url)
    return [replace(each, rank=rank, title=each.title or each.snippet) for rank, each in enumerate(pictures, 1)]


def _is_readable(value: object, ignored_names: frozenset[str], depth: int = 8) -> bool:
    """Returns whether a value has anything to read besides empty members and those with `ignored_names`."""
    inner = decode_document(value)
    items, record = items_of(inner), record_of(inner)
    if depth == 0:
        return not is_empty(inner)
    if items is not None:
        return any(_is_readable(item, ignored_names, depth - 1) for item in items)
    if record is not None:
        members = ((key(name), member) for name, member in record.items())
        return any(
            name not in ignored_names and _is_readable(member, ignored_names, depth - 1) for name, member in members
        )
    return bool(inner.strip()) if isinstance(inner, str) else not is_empty(inner)


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ": "))[:MAX_UNREAD]


def _holds_others(item: object) -> bool:
    """Returns whether an item is no result, but contains other values or is a text among the results."""
    record = record_of(item)
    return isinstance(item, str) or (record is not None and any(isinstance(v, (list, dict)) for v in record.values()))


def _distinct(results: list[SearchResult]) -> list[SearchResult]:
    results_by_name: dict[str, SearchResult] = {}
    for result in results:
        name = result.url or f"{result.title}\n{result.content}"
        if name not in results_by_name or (not results_by_name[name].title and result.title):
            results_by_name[name] = result
    return [replace(result, rank=rank) for rank, result in enumerate(results_by_name.values(), 1)]


def _answers(value: object, kinds: dict[str, AnswerKind]) -> list[ProviderAnswer]:
    out: list[ProviderAnswer] = []
    for path, kind in kinds.items():
        for item in (item for each in find_values(value, path) for item in _list_items(each)):
            answer = _answer(item, kind)
            if answer is not None and answer not in out:
                out.append(answer)
    return out


def _answer(item: object, kind: AnswerKind) -> ProviderAnswer | None:
    record = record_of(item)
    if record is None:
        text = excerpt_text(text_of(item)) if isinstance(item, str) else ""
        return ProviderAnswer(kind=kind, text=text) if text else None
    title = _first(record, ANSWER_TITLES)
    text = "\n".join(piece for piece in (excerpt_text(_first(record, ANSWER_TEXTS)), _facts(record)) if piece)
    url = _first(record, ANSWER_URLS, url=True) or None
    return ProviderAnswer(kind=kind, text=text, title=one_line(title)[:MAX_LINE], url=url) if text else None


def _first(record: Record, names: tuple[str, ...], *, url: bool = False) -> str:
    texts = (_lines_of(each) for name in names for each in find_values(record, name))
    return next((text for text in texts if text and (is_url(text) or not url)), "")


def _lines_of(value: object) -> str:
    items = items_of(value)
    return text_of(value) if items is None else "\n".join(text for item in items if (text := text_of(item)))


def _facts(record: Record) -> str:
    """Returns the attributes of a knowledge panel, one per line."""
    attributes = next((each for each in find_values(record, "attributes")), None)
    pairs = record_of(attributes)
    if pairs is not None:
        attribute_pairs = [(name, text_of(value)) for name, value in pairs.items()]
    else:
        rows = [record_of(item) or {} for item in items_of(attributes) or ()]
        attribute_pairs = [(text_of(row.get("label")), text_of(row.get("value"))) for row in rows]
    return "\n".join(f"{name}: {text}" for name, text in attribute_pairs[:_MAX_FACTS] if name and text)


def _warnings(value: object, dropped_count: int, result_count: int, note: str) -> tuple[str, ...]:
    out = [note] if note else []
    messages = (
        " ".join(text_of(each).split()) for path in ("warning", "warnings[]") for each in find_values(value, path)
    )
    out += [f"The provider says: {text[:REASON_CHARS]}" for text in messages if text]
    if result_count == MAX_RESULTS and dropped_count:
        out.append(f"There are {dropped_count} more results than the {MAX_RESULTS} that are read.")
    elif dropped_count:
        out.append(
            f"{dropped_count} of {dropped_count + result_count} items have no URL and no title with a text, and "
            f"were left out."
        )
    return tuple(dict.fromkeys(out))


def _unknown(value: object, known: frozenset[str] | set[str]) -> tuple[str, ...]:
    """Returns the names of members that have something to read and are not in `known`, at most `_MAX_UNKNOWN`."""
    members = ((name, member) for name, member in (record_of(value) or {}).items() if key(name) not in known)
    return tuple(islice((name[:MAX_LINE] for name, member in members if _is_readable(member, HARMLESS)), _MAX_UNKNOWN))
