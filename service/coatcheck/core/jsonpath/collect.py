"""Carry out a plan on a document of any size: one page of values, what they add up to, where the next page begins.

A walk (see `walk.py`): it yields which bytes it needs. At most MEMORY_LIMIT bytes of JSON text are decoded at a time.
It stops when the page is full, then counts on for a while, and always when its time is over; what it found is kept.
"""

from collections.abc import Callable

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.jsonpath.decode import BrokenError, TooDeepError, decode, mended
from coatcheck.core.jsonpath.descend import Place, descend, miss, not_json, sniff, too_large
from coatcheck.core.jsonpath.evaluate import OutOfEffortError, evaluate
from coatcheck.core.jsonpath.fan import MEMORY_LIMIT, Children
from coatcheck.core.jsonpath.hits import Page, Resume, Within
from coatcheck.core.jsonpath.location import normalized
from coatcheck.core.jsonpath.query import Slice, Wildcard
from coatcheck.core.jsonpath.tally import Ask, Tally
from coatcheck.core.jsonpath.undecoded import end_of, undecoded
from coatcheck.core.jsonpath.walk import CutShortError, Source, Walk, Want


def collect(ask: Ask, clock: Callable[[], float]) -> Walk[Page]:
    """The page.

    Raises:
        CoatcheckError: `not_json`, `json_too_large`.
    """
    tally = Tally(ask, clock)
    document = yield from sniff(ask.size, last=ask.size <= MEMORY_LIMIT)
    message = None
    try:
        place = yield from descend(document.source, document.start, ask.plan.descent)
        if place.missing is None:
            yield from _take_place(ask, tally, document.source, place)
        else:
            message = yield from miss(document.source, place)
    except CutShortError:
        tally.cut_short = True
        message = "No match before the place where the document is cut off."
    except OutOfEffortError:
        tally.spent_at = tally.spent_at or tally.start
    return tally.page(message if tally.found == 0 else None)


def _take_place(ask: Ask, tally: Tally, source: Source, place: Place) -> Walk[None]:
    plan = ask.plan
    if plan.single and not place.lines:
        end = yield from end_of(source, place.at, tally)
        yield from undecoded(ask, tally, place.at, end, place.path, Resume())
        tally.found += 1
        return
    fan = plan.fan
    if fan is None and (plan.single or (plan.spread and place.kind == "array")):
        fan = Wildcard()  # of lines: every line; and `..name` gives on an array what it gives on each element
    if fan is None:
        yield from _whole(ask, tally, source, place)
    elif place.kind == "array" or (place.kind == "object" and not isinstance(fan, Slice)):
        yield from Children(ask, tally, source, place, fan).run()


# --------------------------------------------------------------------------------------------- a value in memory


def _whole(ask: Ask, tally: Tally, source: Source, place: Place) -> Walk[None]:
    end = source.size
    if not place.lines:
        end = yield from end_of(source, place.at, tally)
    if end - place.at > MEMORY_LIMIT:
        raise too_large(normalized(place.path), f"{(end - place.at) / 1e6:,.0f} MB")
    raw = yield Want(place.at, end)
    value = _lines(raw, tally) if place.lines else _decoded(raw, place, tally)
    taken, skip = 0, tally.start.skip
    within = Within(place.path, None if place.lines else raw, place.at)
    try:
        for location, found in evaluate(ask.plan.rest, (None, value), value, tally.effort):
            taken += 1
            if taken > skip:
                tally.add(found, within, location, Resume(0, 0, taken - 1, tally.found))
    except OutOfEffortError:
        tally.spent_at = Resume(0, 0, max(taken, skip), tally.found)


def _decoded(raw: bytes, place: Place, tally: Tally) -> object:
    try:
        decoded = decode(raw)
    except TooDeepError:
        raise CoatcheckError(
            Code.JSON_TOO_LARGE,
            "The document is nested too deeply for this path (about 1,000 levels). Use a path of names and indices "
            "only, with at most a [*] at its end, which may go as deep as the document does.",
        ) from None
    except BrokenError:
        rest = mended(raw) if tally.cut_short else None
        try:
            decoded = decode(rest) if rest is not None else None
        except (BrokenError, TooDeepError):
            decoded = None
        if decoded is None:
            raise not_json(f"what is at {normalized(place.path)[:200]} is not valid") from None
    tally.odd |= decoded.odd
    return decoded.value


def _lines(raw: bytes, tally: Tally) -> list[object]:
    values: list[object] = []
    for line in raw.split(b"\n"):
        if line.strip():
            try:
                decoded = decode(line)
            except (BrokenError, TooDeepError):
                tally.broken += 1
                values.append(None)
                continue
            tally.odd |= decoded.odd
            values.append(decoded.value)
    return values
