"""Messages between the service and its workers, and the writer of text views.

Messages are MessagePack, each sent as one message of `multiprocessing.connection`. A `ViewWriter` keeps a view within
limits of size, time and sections.
"""

import time
from typing import Final, final

import msgspec
from msgspec import Struct
from typing_extensions import override

from coatcheck.core.extract.blocks import SectionStart, TextWriter, one_line
from coatcheck.core.views.view import MAX_SECTIONS, ExtractedText, Section, TextForm

LONGEST: Final = 192 * 1024**2
"""Maximum bytes of a message: a payload or a view, with its metadata."""


class ExtractJob(Struct, frozen=True, array_like=True):
    """A payload to extract, and how long it may take."""

    form: TextForm
    media_type: str | None
    url: str | None
    payload: bytes
    seconds: int
    """Wall and CPU time after which the system ends the worker, should nobody else do it."""
    simple: bool = False
    """Only remove the markup: the payload has killed another worker."""


class ExtractAnswer(Struct, frozen=True, array_like=True):
    """The result of a job; the first answer says that the worker is ready."""

    extracted: ExtractedText | None = None
    failed: str | None = None
    """The name of what went wrong; never text of the payload."""
    peak: int = 0
    """Peak memory of the worker in bytes, if the system provides it."""


encode_message: Final = msgspec.msgpack.Encoder().encode
decode_job: Final = msgspec.msgpack.Decoder(ExtractJob).decode
decode_answer: Final = msgspec.msgpack.Decoder(ExtractAnswer).decode
"""Both raise msgspec.MsgspecError for an invalid message."""


def check(extracted: ExtractedText, payload: bytes) -> None:
    """Refuses a view that is not UTF-8, or whose sections are misplaced.

    Raises:
        ValueError: the reason.
    """
    if extracted.text is not None:
        extracted.text.decode()
    view = payload if extracted.text is None else extracted.text
    view_sections = extracted.sections
    if len(view_sections) > MAX_SECTIONS or len({each.name for each in view_sections}) < len(view_sections):
        raise ValueError("too many sections, or two of a name")
    if not all(_is_at_lines(each, view) for each in view_sections):
        raise ValueError("a section is not at lines of the view")


def _is_at_lines(section: Section, view: bytes) -> bool:
    edges = (section.start, section.end)
    inside = 0 <= section.start <= section.end <= len(view)
    return inside and all(at in {0, len(view)} or view[at - 1 : at] == b"\n" for at in edges)


TEXT_BYTES: Final = 16 * 1024 * 1024
"""Bytes of text that are taken from one document."""
_CELL: Final = 2_000
"""Characters of a cell."""
_WRITING: Final = 0.3
"""Share of the time that is kept for writing."""
_MAX_LEVEL: Final = 6
"""The last level of a Markdown heading."""


@final
class ViewWriter(TextWriter):
    """Gathers lines under titles, within limits of size, time and sections."""

    def __init__(self, until: float) -> None:
        """`until` is the CPU time of this process, in seconds, after which nothing more is accepted."""
        super().__init__()
        self._until = until
        self._read_until = until - _WRITING * (until - time.process_time())
        self.partial = False

    @property
    def late(self) -> bool:
        """Whether time is up."""
        return time.process_time() > self._until

    @property
    def must_write(self) -> bool:
        """Whether what was read has to be written now, or there would be no time for that."""
        return time.process_time() > self._read_until

    @property
    def room(self) -> int:
        """Bytes of text that may still be written."""
        return TEXT_BYTES - self.size

    @override
    def begin(self, title: str, level: int = 1, *, url: str | None = None, aside: bool = False) -> None:
        """Starts a section with this title; beyond MAX_SECTIONS, the text continues in the last one."""
        if len(self._starts) < MAX_SECTIONS:
            super().begin(title, level, url=url, aside=aside)
        else:
            self.partial = True

    def heading(self, title: str, level: int = 1, *, aside: bool = False) -> bool:
        """Starts a section with this title as its first line, after an empty one. Returns False as `put`."""
        if self.size and not self.put(""):
            return False
        start_count = len(self._starts)
        self.begin(title, level, aside=aside)
        is_written = self.put(f"{'#' * min(level + 1, _MAX_LEVEL)} {one_line(title)}")
        if not is_written:
            del self._starts[start_count:]
        return is_written

    def include(self, extracted: ExtractedText, level: int) -> None:
        """Writes another view, whose sections become parts of the open section of this level."""
        size, lines = self.size, self._lines
        if self.put((extracted.text or b"").decode()):
            for each in extracted.sections[: MAX_SECTIONS - len(self._starts)]:
                at, line = size + each.start, lines + each.line
                start = SectionStart(each.title, level + each.level, at, line, aside=each.aside)
                if each.aside:
                    start.end, start.end_line = min(size + each.end, self.size), line + each.lines
                self._starts.append(start)
        self.partial = self.partial or extracted.partial

    @override
    def put(self, text: str) -> bool:
        """Writes text and ends its line. Returns False, writing nothing, if there is no more room or time."""
        data = f"{text.rstrip()}\n".encode("utf-8", "replace")
        if len(data) > self.room or self.late:
            self.partial = True
            return False
        self.write(data)
        return True

    @override
    def finish(self, extractor: str, prefix: str = "p", *, partial: bool = False) -> ExtractedText | None:
        """Returns the view; None if nothing was written."""
        return super().finish(extractor, prefix, partial=partial or self.partial)


def cell(value: object, chars: int = _CELL) -> str:
    """Returns a table's value on one line, in at most `chars` characters; whole numbers without a decimal point."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:  # noqa: PLR2004 - exact so far
        return str(int(value))
    text = " ".join(str(value).split())
    return text if len(text) <= chars else f"{text[: chars - 1]}…"
