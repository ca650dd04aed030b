"""Fills a page: keeps values while there is room, counts further ones, and collects what must be said about them."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from coatcheck.core.jsonpath.decode import ODD, BrokenError, TooDeepError, decode, span_of
from coatcheck.core.jsonpath.effort import Effort
from coatcheck.core.jsonpath.hits import (
    Resume,
    Span,
    State,
    ValueHit,
    ValuePage,
    cells_of,
    cut,
    kind_of,
    kind_of_value,
)
from coatcheck.core.jsonpath.location import Location, Step, normalize_path, steps
from coatcheck.core.jsonpath.query import QueryPlan

PATIENCE_SECONDS: Final = 1.0
COUNT_ON_SECONDS: Final = 0.3
"""Seconds for which values are counted after a page is full, for `total`."""
HOLD: Final = 4_000
"""Characters kept of a value if there are others."""
HOLD_ALONE: Final = 30_000
"""Characters kept of the first value of a page, which may be the only one."""
_LOCATE_BYTES: Final = 32 * 1024 * 1024
"""Bytes that are read again to determine where values are."""
_SMALL: Final = 4 * 1024
"""Bytes that are read again in any case."""
_ROW: Final = 8
"""Characters that a row costs in addition to its value."""
_STUCK: Final = (
    "One step of this path takes more work than one call may, so the answer is incomplete. Use a narrower path: fewer "
    "`..`, no filter inside a filter, or an index in place of *."
)


class PageRequest(Struct, frozen=True, kw_only=True):
    """The request for a page."""

    plan: QueryPlan
    size: int
    limit: int
    chars: int
    """Characters of values that are certainly enough."""
    fields: tuple[str, ...] = ()
    resume: Resume | None = None
    patience: float = PATIENCE_SECONDS


class PageBuilder:
    """The results so far.

    Attributes:
        start: where this page begins.
        found: number of values on this and all earlier pages.
        full_at: the first value that the page has no room for.
        spent_at: where time was up.
        broken: number of children that are not JSON.
        odd: whether something was read that strict JSON cannot represent.
        cut_short: whether the document, or the present line, ends before its JSON does.
        line: the present element, if that is a line of its own.
        damaged: what is not JSON but was requested nevertheless.
        lost: whether the walk could not continue in what is not JSON.
    """

    def __init__(self, request: PageRequest, clock: Callable[[], float]) -> None:
        self._request = request
        self.effort = Effort(
            clock, request.patience
        )  # not a reference to this builder: results would wait for a collector
        self.start = request.resume or Resume()
        self.found = self.start.seen
        self.hits: list[ValueHit] = []
        self.full_at: Resume | None = None
        self.spent_at: Resume | None = None
        self.broken = 0
        self.odd = False
        self.cut_short = False
        self.line: int | None = None
        self.damaged: list[Step] | None = None
        self.lost = False
        self._chars = 0
        self._locating = _LOCATE_BYTES

    @property
    def keep(self) -> int:
        """Characters to keep of the next value."""
        return HOLD if self.hits else HOLD_ALONE

    def room(self, resume: Resume) -> bool:
        """Counts a value. Returns whether the page takes it too; if not, records where the next page begins."""
        self.found += 1
        if len(self.hits) < self._request.limit and self._chars <= self._request.chars:
            return True
        if self.full_at is None:
            self.full_at = resume
            self.effort.at_most(COUNT_ON_SECONDS)
        return False

    def put(
        self, value: object, path: list[Step], location: Location, raw: bytes | None, at: int, resume: Resume
    ) -> None:
        """Keeps a value, which is at `location` in what is written as `raw` at `path`, from byte `at` on."""
        inner = steps(location)
        span = None
        if raw is not None and (len(raw) <= _SMALL or self._locating >= len(raw)):
            self._locating -= len(raw) if len(raw) > _SMALL else 0
            span = span_of(raw, inner)
        span = None if span is None else (span[0] + at, span[1] + at)
        text, whole = cut(value, self.keep, odd=self.odd)
        path, cells = [*path, *inner], self._cells(value)
        self._append(ValueHit(path, kind_of_value(value), text, whole, resume, span, cells))

    def put_written(self, raw: bytes, path: list[Step], span: Span, resume: Resume, *, all_there: bool = True) -> None:
        """Keeps the beginning of a value that cannot, or need not, be decoded because it is too long or too deep.

        `raw` has at least four bytes per character to keep, or is complete. What is not JSON is kept as it is written,
        is never `whole`, and is recorded.
        """
        keep = self.keep
        raw, decoded = raw[: 4 * keep], None
        kind = kind_of(raw[0]) or "number"
        state: State = "sound" if all_there else "cut"
        if all_there and len(raw) == span[1] - span[0]:
            try:
                decoded = decode(raw)
                self.odd |= decoded.odd
            except TooDeepError:
                decoded = None
            except BrokenError:
                state, self.damaged = "broken", path
        if decoded is None or kind == "number":  # a number's text is more precise than a double
            text = raw.decode("utf-8", "replace")
            text, whole = text[:keep], len(text) <= keep and decoded is not None
        else:
            text, whole = cut(decoded.value, keep, odd=self.odd)
        cells = None if decoded is None else self._cells(decoded.value)
        self._append(ValueHit(path, kind, text, whole, resume, span, cells, state))

    def _cells(self, value: object) -> tuple[str, ...] | None:
        fields = self._request.fields
        return cells_of(value, fields, self.keep, odd=self.odd) if fields else None

    def _append(self, hit: ValueHit) -> None:
        self._chars += sum(map(len, hit.cells)) if hit.cells is not None else min(len(hit.text), HOLD)
        self._chars += _ROW
        self.hits.append(hit)

    def page(self, message: str | None = None) -> ValuePage:
        """Returns the page."""
        only = self._request.plan.single and self.found > 0  # a path of names and indices leads to at most one value
        stuck = False
        if self.full_at is None and self.spent_at is not None and not self.hits:
            stuck = (self.spent_at.byte, self.spent_at.skip) == (self.start.byte, self.start.skip)
        return ValuePage(
            hits=self.hits,
            total=self.found,
            exact=self.spent_at is None and (only or not (self.cut_short or self.lost)),
            stopped="limit" if self.full_at is not None else "deadline" if self.spent_at is not None else "end",
            next=None if stuck else self.full_at or self.spent_at,
            notices=[_STUCK, *self._list_notices()] if stuck else self._list_notices(),
            partial=self.cut_short or self.broken > 0 or self.damaged is not None or stuck,
            message=message,
        )

    def _list_notices(self) -> list[str]:
        out: list[str] = []
        if self.cut_short and self.line is None:
            out.append(
                f"The document is cut off: its {self._request.size:,} bytes end before its JSON does. What is whole "
                f"counts."
            )
        elif self.cut_short:
            out.append(f"$[{self.line}] is not valid JSON: its line ends before its JSON does. What is whole counts.")
        elif self.damaged is not None:
            where = normalize_path(self.damaged)[:300]
            out.append(f"{where} is not valid JSON; what is found in it is shown as it is written.")
        if self.broken:
            ending = "s" if self.broken > 1 else ""
            out.append(f"Left out as invalid JSON or nested too deeply: {self.broken:,} element{ending}.")
        if self.odd:
            out.append(ODD)
        return out
