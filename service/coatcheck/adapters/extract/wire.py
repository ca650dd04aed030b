"""Messages between the service and its workers: MessagePack over a pipe, each preceded by its length."""

import struct
from typing import Final

import msgspec
from msgspec import Struct

from coatcheck.core.views.view import MAX_SECTIONS, ExtractedText, Section, TextForm

HEADER: Final = struct.Struct(">I")
"""Length of the message that follows, in bytes."""
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


_encode: Final = msgspec.msgpack.Encoder().encode
_job: Final = msgspec.msgpack.Decoder(ExtractJob).decode
_answer: Final = msgspec.msgpack.Decoder(ExtractAnswer).decode


def frame_message(message: ExtractJob | ExtractAnswer) -> bytes:
    """Returns a message as it is sent through the pipe."""
    body = _encode(message)
    return HEADER.pack(len(body)) + body


def job(body: bytes) -> ExtractJob:
    """Decodes a job."""
    return _job(body)


def answer(body: bytes) -> ExtractAnswer:
    """Decodes an answer.

    Raises:
        msgspec.MsgspecError: it is invalid.
    """
    return _answer(body)


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
