"""Entries that begin at a line of their own, and reach to the next of their level or above."""

from abc import ABC, abstractmethod
from typing import ClassVar

from coatcheck.core.outline.model import MAX_ENTRIES, Entry, EntryStart, What, reaching
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position


class StartScanner:
    """What OutlineScanners share that note where entries begin; how lines are fed is a subclass's."""

    def __init__(self) -> None:
        self.starts: list[EntryStart] = []

    @property
    def full(self) -> bool:
        """Whether as many entries were found as are kept."""
        return len(self.starts) >= MAX_ENTRIES

    def finish(self, end: Position, *, ends_line: bool) -> list[Entry]:
        """Returns the entries, once the lines have ended at this place; `ends_line`: with a line feed."""
        return reaching(self.starts, end, ends_line=ends_line)


class LineScanner(StartScanner, ABC):
    """An OutlineScanner whose entries are the lines that a pattern finds."""

    marks: ClassVar[BlockPattern]
    longest: ClassVar[int] = 1 << 30
    """Bytes of a line above which it is no entry."""

    @abstractmethod
    def entry(self, line: bytes) -> tuple[What, str, int]:
        """Returns what a line is that the pattern found, its title and its level."""

    def feed(self, data: bytes, place: Position) -> None:
        """Look at whole lines, of which the first begins at this place."""
        counted, here = 0, place
        for start, end, *_ in self.marks.lines(data):
            if self.full:
                return
            if end - start <= self.longest:
                here, counted = here.after(data[counted:start]), start
                self.starts.append(EntryStart(*self.entry(data[start:end]), here))
