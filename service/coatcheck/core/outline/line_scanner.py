"""Entries that begin at a line, and extend to the next one of their level or above."""

from abc import ABC, abstractmethod
from typing import ClassVar

from coatcheck.core.outline.model import MAX_ENTRIES, Entry, EntryStart, What, reaching
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position


class StartScanner:
    """The common part of scanners that record where entries begin; subclasses feed them lines."""

    def __init__(self) -> None:
        self.starts: list[EntryStart] = []

    @property
    def full(self) -> bool:
        """Whether the maximum number of entries was found."""
        return len(self.starts) >= MAX_ENTRIES

    def finish(self, end: Position, *, ends_line: bool) -> list[Entry]:
        """Returns the entries, once the lines have ended at this place; `ends_line`: with a line feed."""
        return reaching(self.starts, end, ends_line=ends_line)


class LineScanner(StartScanner, ABC):
    """A scanner whose entries are the lines that a pattern finds."""

    pattern: BlockPattern
    longest: ClassVar[int] = 1 << 30
    """Maximum bytes of a line that can be an entry."""

    @abstractmethod
    def entry(self, line: bytes) -> tuple[What, str, int]:
        """Returns the type of a line that the pattern found, its title and its level."""

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines, the first of which begins at this place."""
        offset, here = 0, place
        for start, end, *_ in self.pattern.lines(data):
            if self.full:
                return
            if end - start <= self.longest:
                here, offset = here.after(data[offset:start]), start
                self.starts.append(EntryStart(*self.entry(data[start:end]), here))
