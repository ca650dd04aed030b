"""What the service and its workers say to each other over a pipe: MessagePack, with its length before each message."""

import struct
from typing import Final

import msgspec
from msgspec import Struct

from coatcheck.core.views.view import MAX_SECTIONS, ExtractedText, Section, TextForm

HEADER: Final = struct.Struct(">I")
"""Length of the message that follows, in bytes."""
LONGEST: Final = 192 * 1024**2
"""Bytes of a message: a payload or a view with what is said of it."""


class ExtractJob(Struct, frozen=True, array_like=True):
    """One payload to make a view of, and how long it may take."""

    form: TextForm
    media_type: str | None
    url: str | None
    payload: bytes
    seconds: int
    """Of wall time and of CPU time, after which the system ends the worker, should nobody else do it."""
    simple: bool = False
    """Only drop the markup: the payload was the end of another worker."""


class ExtractAnswer(Struct, frozen=True, array_like=True):
    """What became of a job; the first answer says that the worker is ready."""

    extracted: ExtractedText | None = None
    failed: str | None = None
    """The name of what went wrong; never the payload's words."""
    peak: int = 0
    """Bytes of memory that the worker has had at most, as far as the system says it."""


_encode: Final = msgspec.msgpack.Encoder().encode
_job: Final = msgspec.msgpack.Decoder(ExtractJob).decode
_answer: Final = msgspec.msgpack.Decoder(ExtractAnswer).decode


def framed(message: ExtractJob | ExtractAnswer) -> bytes:
    """The message as it goes through the pipe."""
    body = _encode(message)
    return HEADER.pack(len(body)) + body


def job(body: bytes) -> ExtractJob:
    """A job, read."""
    return _job(body)


def answer(body: bytes) -> ExtractAnswer:
    """An answer, read.

    Raises:
        msgspec.MsgspecError: it is none.
    """
    return _answer(body)


def check(extracted: ExtractedText, payload: bytes) -> None:
    """Refuse a view that is not UTF-8, or whose sections are not where sections are.

    Raises:
        ValueError: with the reason.
    """
    if extracted.text is not None:
        extracted.text.decode()
    view = payload if extracted.text is None else extracted.text
    found = extracted.sections
    if len(found) > MAX_SECTIONS or len({each.name for each in found}) < len(found):
        raise ValueError("too many sections, or two of a name")
    if not all(_is_placed(each, view) for each in found):
        raise ValueError("a section is not at lines of the view")


def _is_placed(section: Section, view: bytes) -> bool:
    edges = (section.start, section.end)
    inside = 0 <= section.start <= section.end <= len(view)
    return inside and all(at in {0, len(view)} or view[at - 1 : at] == b"\n" for at in edges)
