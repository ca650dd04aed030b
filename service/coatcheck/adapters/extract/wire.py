"""Messages between the service and its workers, and the writer of text views.

Messages are encoded as MessagePack, and each is sent as one message of `multiprocessing.connection`. A `ViewWriter`
limits the size of a view, its number of sections, and the time for writing it.
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
    """A payload whose text is to be extracted, with a time limit."""

    form: TextForm
    media_type: str | None
    url: str | None
    payload: bytes
    seconds: int
    """Time limit of the job in seconds. Shortly after this much wall or CPU time, the operating system ends the worker,
    if the service has not done so before."""
    simple: bool = False
    """Whether to extract in a simpler way, because earlier attempts at the payload have failed."""


class ExtractAnswer(Struct, frozen=True, array_like=True):
    """The result of a job. The first answer of a worker has no result, and only says that the worker is ready."""

    extracted: ExtractedText | None = None
    """The text view; None: the payload has none, or the extraction failed."""
    failed: str | None = None
    """The name of the error; never text of the payload. None: the extraction succeeded."""
    peak: int = 0
    """Peak memory of the worker in bytes; 0: unknown."""


encode_message: Final = msgspec.msgpack.Encoder().encode
decode_job: Final = msgspec.msgpack.Decoder(ExtractJob).decode
decode_answer: Final = msgspec.msgpack.Decoder(ExtractAnswer).decode
"""Decodes an answer. This and `decode_job` raise msgspec.MsgspecError for an invalid message."""


def check(extracted: ExtractedText, payload: bytes) -> None:
    """Checks a view that a worker has sent.

    Raises:
        ValueError: the view is not UTF-8, has too many sections or two with the same name, or has a section that does
            not begin and end at lines of the view. The text says which.
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
"""Maximum bytes of the text view of one document."""
_CELL: Final = 2_000
"""Maximum characters that are shown of a table's cell."""
_WRITING: Final = 0.3
"""Share of the time that is reserved for writing the view."""
_MAX_LEVEL: Final = 6
"""Deepest level of a Markdown heading."""


@final
class ViewWriter(TextWriter):
    """Gathers lines under titles, within limits of size, time and sections."""

    def __init__(self, until: float) -> None:
        """Creates an empty view. `until` is the CPU time of this process, in seconds, after which writing ends."""
        super().__init__()
        self._until = until
        self._read_until = until - _WRITING * (until - time.process_time())
        self.partial = False

    @property
    def late(self) -> bool:
        """Whether the time for the view is used up."""
        return time.process_time() > self._until

    @property
    def must_write(self) -> bool:
        """Whether reading has to end now, because the remaining time is reserved for writing."""
        return time.process_time() > self._read_until

    @property
    def room(self) -> int:
        """Number of bytes that may still be written."""
        return TEXT_BYTES - self.size

    @override
    def begin(self, title: str, level: int = 1, *, url: str | None = None, aside: bool = False) -> None:
        """Begins a section. If there are MAX_SECTIONS already, the text continues in the last section instead."""
        if len(self._starts) < MAX_SECTIONS:
            super().begin(title, level, url=url, aside=aside)
        else:
            self.partial = True

    def heading(self, title: str, level: int = 1, *, aside: bool = False) -> bool:
        """Begins a section after an empty line, with the title as its first line.

        If there is no more room or time, begins no section and returns False.
        """
        if self.size and not self.put(""):
            return False
        start_count = len(self._starts)
        self.begin(title, level, aside=aside)
        is_written = self.put(f"{'#' * min(level + 1, _MAX_LEVEL)} {one_line(title)}")
        if not is_written:
            del self._starts[start_count:]
        return is_written

    def include(self, extracted: ExtractedText, level: int) -> None:
        """Writes another view into this one. Its sections become subsections of the open section of level `level`."""
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
        """Writes text and a line end. Returns False, writing nothing, if there is not enough room or no more time."""
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
    """Returns the value of a table's cell on one line, with at most `chars` characters.

    Whole numbers are written without a decimal point.
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:  # noqa: PLR2004 - floats are exact below
        return str(int(value))
    text = " ".join(str(value).split())
    return text if len(text) <= chars else f"{text[: chars - 1]}…"
