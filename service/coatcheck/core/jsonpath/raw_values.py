"""Keep a value of any length without decoding it: where it ends, and its beginning."""

from coatcheck.core.jsonpath.decode import BrokenError, DecodedText, TooDeepError, decode
from coatcheck.core.jsonpath.hits import Resume, State, ValueContainer, ValueHit, cells_of, cut, kind_of
from coatcheck.core.jsonpath.location import Step
from coatcheck.core.jsonpath.page_builder import PageBuilder, PageRequest
from coatcheck.core.jsonpath.walk import CutShortError, Walk, WalkSource, Want
from coatcheck.core.jsonpath.walk import end_of as walk_end

_CLOSED = frozenset(b'[{"')
"""What begins a value that says itself where it ends."""


def end_of(source: WalkSource, at: int, tally: PageBuilder, *, inside: bool) -> Walk[tuple[int, bool]]:
    """Where the value at `at` ends, and whether all of it is there; where not, that is noted.

    `inside`: it stands in another value, so that something must follow, or a number may be half of one.
    """
    try:
        end = yield from walk_end(source, at)
    except CutShortError:
        tally.cut_short = True
        return source.size, False
    if inside and end == source.size and (yield Want(at, at + 1))[0] not in _CLOSED:
        tally.cut_short = True
        return end, False
    return end, True


def undecoded(
    ask: PageRequest,
    tally: PageBuilder,
    start: int,
    end: int,
    path: list[Step],
    resume: Resume,
    *,
    all_there: bool = True,
) -> Walk[None]:
    """Keep a value of any length, of which only the beginning is read.

    What is no JSON is kept as it is written, is never `whole`, and is noted.
    """
    keep = tally.keep
    raw = yield Want(start, min(end, start + 4 * keep))
    kind = kind_of(raw[0]) or "number"
    state: State = "sound" if all_there else "cut"
    decoded: DecodedText | None = None
    if all_there and start + len(raw) == end:
        try:
            decoded = decode(raw)
        except TooDeepError:
            decoded = None
        except BrokenError:
            state, tally.damaged = "broken", path
    cells = None
    if decoded is None or kind == "number":  # a number's text says more than a double can
        text = raw.decode("utf-8", "replace")
        text, whole = text[:keep], len(text) <= keep and decoded is not None
    else:
        text, whole = cut(decoded.value, keep, odd=decoded.odd)
        cells = cells_of(decoded.value, ask.fields, keep, odd=decoded.odd) if ask.fields else None
    tally.odd |= decoded is not None and decoded.odd
    tally.put(ValueHit(ValueContainer(path, None, 0), None, kind, text, whole, resume, cells, state, (start, end)))
