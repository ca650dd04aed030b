"""Keep a value of any length without decoding it: where it ends, and its beginning."""

from coatcheck.core.jsonpath.decode import BrokenError, TooDeepError, decode
from coatcheck.core.jsonpath.hits import Hit, Resume, Within, cells_of, cut, kind_of
from coatcheck.core.jsonpath.location import Step
from coatcheck.core.jsonpath.tally import Ask, Tally
from coatcheck.core.jsonpath.walk import CutShortError, Source, Walk, Want
from coatcheck.core.jsonpath.walk import end_of as walk_end


def end_of(source: Source, at: int, tally: Tally) -> Walk[int]:
    """Where the value at `at` ends; the document's end, which is noted, where that comes first."""
    try:
        return (yield from walk_end(source, at))
    except CutShortError:
        tally.cut_short = True
        return source.size


def undecoded(ask: Ask, tally: Tally, start: int, end: int, path: list[Step], resume: Resume) -> Walk[None]:
    """Keep a value of any length, of which only the beginning is read."""
    keep = tally.keep
    raw = yield Want(start, min(end, start + 4 * keep))
    kind = kind_of(raw[0]) or "number"
    try:
        decoded = decode(raw) if start + len(raw) == end else None
    except (BrokenError, TooDeepError):
        decoded = None
    cells = None
    if decoded is None or kind == "number":
        text = raw.decode("utf-8", "replace")
        text, whole = text[:keep], len(text) <= keep and start + len(raw) == end
    else:
        tally.odd |= decoded.odd
        text, whole = cut(decoded.value, keep)
        cells = cells_of(decoded.value, ask.fields, keep) if ask.fields else None
    tally.put(Hit(Within(path, None, 0), None, kind, text, whole, resume, cells, (start, end)))
