"""Entries of an outline, which can be read by section, by lines, by bytes or by path. Values only."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, Literal, Protocol

from msgspec import Struct

from coatcheck.core.views.window import Extent, LineExtent, Position
from coatcheck_client.contract.inert import one_line

MAX_ENTRIES: Final = 5_000
"""Maximum number of entries; only the first are found."""
TITLE_CHARS: Final = 120
"""Maximum characters of a title that is cut from a line."""

What = Literal[
    "heading",
    "result",
    "part",
    "document",
    "symbol",
    "block",
    "item",
    "commit",
    "file",
    "hunk",
    "phase",
    "cell",
    "column",
    "rows",
    "value",
]


class OutlineEntry(Struct, frozen=True, kw_only=True):
    """One thing in an artifact. Lines and bytes refer to the outlined view."""

    what: What
    section: str | None = None
    """Value to use as `section`, if there is one."""
    title: str
    """One line, inert."""
    level: int = 1
    """Level of the entry; 1 is the top level. The following entries with a higher number are parts of this entry."""
    lines: LineExtent | None = None
    bytes: Extent | None = None
    path: str | None = None
    """Value to use as `path`: a JSONPath."""
    detail: str | None = None
    """Types or counts: one line, inert."""
    url: str | None = None
    added: int | None = None
    """Lines that a file of a diff, or a hunk, adds."""
    removed: int | None = None
    """Lines that the file or the hunk removes."""


class OutlineEntries(Struct, frozen=True):
    """The entries of an artifact, and how completely it was examined."""

    entries: list[OutlineEntry]
    exact: bool = True
    """Whether these are all entries, with their full extent; false: perhaps not."""
    notices: tuple[str, ...] = ()


class OutlineScanner(Protocol):
    """Finds entries in streamed lines."""

    @property
    def full(self) -> bool:
        """Whether the maximum number of entries was found."""
        ...

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines, the first of which begins at this place."""
        ...

    def finish(self, end: Position, *, ends_line: bool) -> list[OutlineEntry]:
        """Returns the entries, once the lines have ended at this place; `ends_line`: with a line feed."""
        ...


class OutlineReader(Protocol):
    """Reads the entries of a payload that is one structure from its beginning."""

    def __call__(self, head: bytes, lines: int, /, *, whole: bool) -> OutlineEntries:
        """Returns the entries; none if `head` is not the beginning of such a structure.

        Args:
            head: bytes from the beginning on.
            lines: number of lines in the whole payload.
            whole: whether `head` is the whole payload.
        """
        ...


class Landmarks(Struct, frozen=True, kw_only=True):
    """How to find the entries of one sort of payload. The row of each kind names its `Landmarks`."""

    scanner: Callable[[tuple[str | None, ...], bytes], OutlineScanner | None] = lambda _names, _head: None
    """Takes possible names of the payload's file, and its first bytes. Returns the scanner that finds entries line by
    line; None if there is none for this payload."""
    structure: OutlineReader | None = None
    """The reader that is used instead of a scanner; None: the scanner is used."""
    whole_bytes: int | None = None
    """Payloads up to this size are passed to `structure` whole; None: their beginning is enough, however large they
    are."""
    beside_sections: bool = False
    """Whether entries are listed after sections. If not, an outline with sections contains only the sections."""


class EntryStart(Struct, frozen=True):
    """The beginning of an entry, which extends to the next entry of the same or an outer level."""

    what: What
    title: str
    level: int
    place: Position


def reaching(
    starts: list[EntryStart], end: Position, *, ends_line: bool, ends: Mapping[int, Position] | None = None
) -> list[OutlineEntry]:
    """Returns the entries that begin at `starts`, in order. Entries with a number in `ends` end there at the latest."""
    out: list[OutlineEntry] = []
    after: list[Position] = [end] * len(starts)
    open_: list[int] = []
    for number, start in enumerate(starts):
        while open_ and starts[open_[-1]].level >= start.level:
            after[open_.pop()] = start.place
        open_.append(number)
    # If a scanner knows the end of an entry, the text after that end belongs to the entry around it.
    for number, place in (ends or {}).items():
        after[number] = min(after[number], place, key=lambda each: each.byte)
    last = end.newlines if ends_line else end.newlines + 1
    for start, stop in zip(starts, after, strict=True):
        line = last if stop == end else stop.newlines
        out.append(
            OutlineEntry(
                what=start.what,
                title=start.title,
                level=start.level,
                lines=LineExtent(start.place.newlines + 1, line),
                bytes=Extent(start.place.byte, stop.byte),
            )
        )
    return out


def make_title(line: bytes | str) -> str:
    """Returns a line as a title: trimmed, inert, of at most TITLE_CHARS characters."""
    if isinstance(line, str):
        line = line.encode("utf-8", "replace")
    text = one_line(line[: TITLE_CHARS * 4].decode("utf-8", "replace"))
    is_long = len(text) > TITLE_CHARS or line[TITLE_CHARS * 4 :].strip()
    return text[: TITLE_CHARS - 1] + "…" if is_long else text


def details_of(entries: list[OutlineEntry]) -> str:
    """Returns how many entries have each detail, as `: Service 3, Job 1`; empty if none has any."""
    details = Counter(entry.detail for entry in entries if entry.detail).most_common()
    return f": {', '.join(f'{detail} {count}' for detail, count in details)}" if details else ""
