"""Carries out a plan on a document of any size: one page of values, their number, where the next page begins.

A walk (see `walk.py`): it yields which bytes it needs. At most MEMORY_LIMIT bytes of JSON text are decoded at a time.
It stops when the page is full, then counts on for a while, and always when its time is up; what it found is kept.
"""

from collections.abc import Callable
from typing import Final

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.jsonpath import walk
from coatcheck.core.jsonpath.children import Children
from coatcheck.core.jsonpath.decode import MEMORY_LIMIT, BrokenError, TooDeepError, decode, mend_document, too_large
from coatcheck.core.jsonpath.descend import (
    NO_JSON,
    DescentPosition,
    begin,
    descend,
    is_line_damaged,
    miss,
    not_json,
    nothing,
    sniff,
)
from coatcheck.core.jsonpath.effort import OutOfEffortError
from coatcheck.core.jsonpath.evaluate import evaluate
from coatcheck.core.jsonpath.hits import Resume, ValuePage
from coatcheck.core.jsonpath.location import normalize_path
from coatcheck.core.jsonpath.page import PageBuilder, PageRequest
from coatcheck.core.jsonpath.query import Slice, Wildcard
from coatcheck.core.jsonpath.walk import CutShortError, Walk, Want

_LEFT_OUT: Final = object()
"""Stands for a line that is not JSON, so that the others keep their indices."""
_CLOSED: Final = frozenset(b'[{"')
"""What begins a value that has an explicit end."""


def collect(ask: PageRequest, clock: Callable[[], float]) -> Walk[ValuePage]:
    """Returns the page.

    Raises:
        CoatcheckError: `not_json`, `json_too_large`.
    """
    page_builder = PageBuilder(ask, clock)
    document = yield from sniff(ask.size, last=ask.size <= MEMORY_LIMIT)
    message = None
    first = yield from begin(document, ask.plan.descent)
    page_builder.line = first.line
    try:
        message = yield from _from(ask, page_builder, first)
    except CutShortError:
        page_builder.cut_short = True
        where = "the document" if page_builder.line is None else normalize_path(first.path)
        message = f"No match before the place where {where} is cut off."
    except BrokenError:
        page_builder.damaged, page_builder.lost = first.path, True
        message = "No match before the place where it is no JSON."
    except OutOfEffortError:
        page_builder.spent_at = page_builder.spent_at or page_builder.start
    return page_builder.page(message if page_builder.found == 0 else None)


def _from(ask: PageRequest, page_builder: PageBuilder, first: DescentPosition) -> Walk[str | None]:
    """Takes what the path leads to from there; returns a sentence if it leads nowhere."""
    plan = ask.plan
    place = yield from descend(first, plan.descent)
    if (yield from is_line_damaged(first, place)):
        page_builder.damaged = first.path
    if place.missing is not None:
        return (yield from miss(place))
    if place.kind == NO_JSON:
        page_builder.damaged = page_builder.damaged or place.path
        return (yield from nothing(place))
    if plan.single and not place.source.lines:
        end, all_there = yield from _end(page_builder, place)
        raw = yield Want(place.at, min(end, place.at + 4 * page_builder.keep))
        if page_builder.room(Resume()):
            page_builder.put_written(raw, place.path, (place.at, end), Resume(), all_there=all_there)
        return None
    fan = plan.fan
    if fan is None and (plan.single or (plan.spread and place.kind == "array")):
        fan = Wildcard()  # for lines: every line; and `..name` gives for an array what it gives for each element
    if fan is None:
        yield from _whole(ask, page_builder, place)
    elif place.kind == "array" or (place.kind == "object" and not isinstance(fan, Slice)):
        yield from Children(page_builder, place, fan, plan.rest).run()
    return None


def _end(page_builder: PageBuilder, place: DescentPosition) -> Walk[tuple[int, bool]]:
    """Returns where the value at a place ends, and whether it is complete; if not, that is recorded."""
    source = place.source
    try:
        end = yield from walk.end_of(source, place.at)
    except CutShortError:
        page_builder.cut_short = True
        return source.size, False
    inside = len(place.path) > (0 if place.line is None else 1)  # something must follow, or a number may be incomplete
    if inside and end == source.size and (yield Want(place.at, place.at + 1))[0] not in _CLOSED:
        page_builder.cut_short = True
        return end, False
    return end, True


# --------------------------------------------------------------------------------------------- a value in memory


def _whole(ask: PageRequest, page_builder: PageBuilder, place: DescentPosition) -> Walk[None]:
    lines = place.source.lines
    end = place.source.size if lines else (yield from _end(page_builder, place))[0]
    if end - place.at > MEMORY_LIMIT:
        raise too_large(normalize_path(place.path), f"{(end - place.at) / 1e6:,.0f} MB")
    raw = yield Want(place.at, end)
    value = _lines(raw, page_builder) if lines else _decode_value(raw, place, page_builder)
    count, skip = 0, page_builder.start.skip
    try:
        for location, result in evaluate(ask.plan.rest, (None, value), value, page_builder.effort):
            if result is _LEFT_OUT:
                continue
            count += 1
            resume = Resume(0, 0, count - 1, page_builder.found)
            if count > skip and page_builder.room(resume):
                page_builder.put(result, place.path, location, None if lines else raw, place.at, resume)
    except OutOfEffortError:
        page_builder.spent_at = Resume(0, 0, max(count, skip), page_builder.found)


def _decode_value(raw: bytes, place: DescentPosition, page_builder: PageBuilder) -> object:
    try:
        decoded = decode(raw)
    except TooDeepError:
        raise CoatcheckError(
            Code.JSON_TOO_LARGE,
            "The document is nested too deeply for this path (about 1,000 levels). Use a path of names and indices "
            "only, with at most a [*] at its end, which may go as deep as the document does.",
        ) from None
    except BrokenError:
        rest = mend_document(raw) if page_builder.cut_short else None
        try:
            decoded = decode(rest) if rest is not None else None
        except (BrokenError, TooDeepError):
            decoded = None
        if decoded is None:
            raise not_json(f"what is at {normalize_path(place.path)[:200]} is not valid") from None
    page_builder.odd |= decoded.odd
    return decoded.value


def _lines(raw: bytes, page_builder: PageBuilder) -> list[object]:
    values: list[object] = []
    for line in raw.split(b"\n"):
        if line.strip():
            try:
                decoded = decode(line)
            except (BrokenError, TooDeepError):
                page_builder.broken += 1
                values.append(_LEFT_OUT)
                continue
            page_builder.odd |= decoded.odd
            values.append(decoded.value)
    return values
