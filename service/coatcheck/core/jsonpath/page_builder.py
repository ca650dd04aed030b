"""A page that fills: values that are kept while there is room, counted afterwards, and what must be said beside them.

It reads no document and evaluates nothing.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from coatcheck.core.jsonpath.decode import ODD
from coatcheck.core.jsonpath.evaluate import Effort
from coatcheck.core.jsonpath.hits import (
    HOLD,
    HOLD_ALONE,
    Resume,
    Span,
    ValueContainer,
    ValueHit,
    ValuePage,
    cells_of,
    cut,
    kind_of_value,
)
from coatcheck.core.jsonpath.location import Location, Step, normalized
from coatcheck.core.jsonpath.plan import QueryPlan

PATIENCE_SECONDS: Final = 1.0
COUNT_ON_SECONDS: Final = 0.3
"""How long a full page's values are counted on, for `total`."""
_LOCATE_BYTES: Final = 32 * 1024 * 1024
"""Bytes that are read again to say where values are."""
_ROW: Final = 8
"""Characters that a row costs beside its value."""


_SMALL: Final = 4 * 1024
"""Bytes of an element that are kept until somebody asks where in it a value is."""


class PageRequest(Struct, frozen=True, kw_only=True):
    """A page that is asked for."""

    plan: QueryPlan
    size: int
    limit: int
    chars: int
    """Characters of values that are certainly enough."""
    fields: tuple[str, ...] = ()
    resume: Resume | None = None
    patience: float = PATIENCE_SECONDS


class PageBuilder:
    """What was found so far.

    Attributes:
        start: where this page begins.
        found: values of this and all earlier pages.
        full_at: the first value that the page has no room for.
        spent_at: where the time was over.
        broken: children that are no JSON.
        odd: whether something was read that strict JSON cannot say.
        cut_short: whether the document, or the line that is looked at, ends before its JSON does.
        line: the element that is looked at, where that is a line of its own.
        damaged: what is no JSON and was asked for all the same.
        lost: whether the walk could not go on in what is no JSON.
        notices: sentences for the caller.
    """

    def __init__(self, ask: PageRequest, clock: Callable[[], float]) -> None:
        self._ask = ask
        self._deadline = _Deadline(clock, ask.patience)
        self.effort = Effort(self._deadline.passed)  # not of this tally: what was found would wait for a collector
        self.start = ask.resume or Resume()
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
        self.notices: list[str] = []
        self._chars = 0
        self._locating = _LOCATE_BYTES

    def room(self, resume: Resume) -> bool:
        """Whether the page takes another value; if not, it is noted where the next page begins."""
        if len(self.hits) < self._ask.limit and self._chars <= self._ask.chars:
            return True
        if self.full_at is None:
            self.full_at = resume
            self._deadline.at_most(COUNT_ON_SECONDS)
        return False

    @property
    def keep(self) -> int:
        """Characters to keep of the next value."""
        return HOLD if self.hits else HOLD_ALONE

    def add(self, value: object, within: ValueContainer, location: Location, resume: Resume) -> None:
        """Count a value, and keep it if there is room."""
        if self.room(resume):
            keep = HOLD if self.hits else HOLD_ALONE
            fields = self._ask.fields
            text, whole = cut(value, keep, odd=self.odd)
            cells = cells_of(value, fields, keep, odd=self.odd) if fields else None
            looked = None
            if within.raw is not None and len(within.raw) > _SMALL:
                looked = self._look(within, len(within.raw), location)
                within = ValueContainer(within.path, None, 0)
            self.put(ValueHit(within, location, kind_of_value(value), text, whole, resume, cells, "sound", looked))
        self.found += 1

    def put(self, hit: ValueHit) -> None:
        """Keep a value."""
        self._chars += sum(map(len, hit.cells)) if hit.cells is not None else min(len(hit.text), HOLD)
        self._chars += _ROW
        self.hits.append(hit)

    def _look(self, within: ValueContainer, size: int, location: Location) -> Span | None:
        """Where a value is written; None where that is not known, or looking would take too long."""
        if self._locating < size:
            return None
        self._locating -= size
        return within.span(location)

    def page(self, message: str | None = None) -> ValuePage:
        """The page as it stands."""
        following = self.full_at or self.spent_at
        only = self._ask.plan.single and self.found > 0  # a path of names and indices leads to one value at most
        exact = self.spent_at is None and (only or not (self.cut_short or self.lost))
        if self.full_at is None and self.spent_at is not None and not self.hits and self._stuck(self.spent_at):
            following = None
            self.notices.append(
                "One step of this path takes more work than one call may, so the answer is incomplete. Use a narrower "
                "path: fewer `..`, no filter inside a filter, or an index in place of *."
            )
        return ValuePage(
            hits=self.hits,
            total=self.found,
            exact=exact,
            stopped="limit" if self.full_at is not None else "deadline" if self.spent_at is not None else "end",
            next=following,
            notices=[*self.notices, *self._said()],
            partial=self.cut_short
            or self.broken > 0
            or self.damaged is not None
            or (self.spent_at is not None and following is None),
            message=message,
        )

    def _stuck(self, at: Resume) -> bool:
        return (at.byte, at.skip) == (self.start.byte, self.start.skip)

    def _said(self) -> list[str]:
        out: list[str] = []
        if self.cut_short and self.line is None:
            out.append(
                f"The document is cut off: its {self._ask.size:,} bytes end before its JSON does. What is whole counts."
            )
        elif self.cut_short:
            out.append(f"$[{self.line}] is not valid JSON: its line ends before its JSON does. What is whole counts.")
        elif self.damaged is not None:
            where = normalized(self.damaged)[:300]
            out.append(f"{where} is not valid JSON; what is found in it is given as it is written.")
        if self.broken:
            ending = "s" if self.broken > 1 else ""
            out.append(f"Left out as invalid JSON or nested too deeply: {self.broken:,} element{ending}.")
        if self.odd:
            out.append(ODD)
        return out


class _Deadline:
    """When a call's time is over."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock = clock
        self._at = clock() + seconds

    def passed(self) -> bool:
        """Whether it is."""
        return self._clock() > self._at

    def at_most(self, seconds: float) -> None:
        """Leave no more than that."""
        self._at = min(self._at, self._clock() + seconds)
