"""Reads `multipart/form-data` (RFC 7578) while it streams: fields before the file, the file, fields after it.

Nothing is buffered on disk: the file's bytes are passed on as they arrive, and the size of a field is limited. The
payload is the part that has a file name or is named `file` or `content`; there must be exactly one such part. The field
`oversize` decides how the file is read, so it must precede the file.
"""

from collections.abc import Iterator
from typing import Self

from multipart import (
    MultipartError,
    MultipartSegment,
    ParserLimitReached,
    PushMultipartParser,
    parse_options_header,
)

from coatcheck.api.http.body import RequestBody, truncation_error
from coatcheck.api.http.limits import RequestLimits
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.metadata_bounds import DESCRIBING

_MAX_QUIET_BYTES = 64 * 1024
"""Maximum consecutive bytes that belong to no part, such as a preamble or an epilogue."""
_UNKNOWN_TYPES = frozenset({"", "application/octet-stream"})
"""Media types that clients send for a file of unknown type."""
PAYLOAD_NAMES = frozenset({"file", "content"})
"""Names of a part that is the payload even without a file name."""

Event = MultipartSegment | bytes | bytearray | None
"""An event of the parser: the start of a part, some of its bytes, or (None) its end."""


class Form:
    """A form that is read as a stream.

    `open` reads the fields before the file. Iteration yields the file's bytes, and then reads the fields after it.
    """

    def __init__(self, body: RequestBody, boundary: str, limits: RequestLimits) -> None:
        self._body = body
        self._limit = limits.field
        self._parser = PushMultipartParser(boundary, max_segment_count=limits.fields)
        self._events: Iterator[Event] = iter(())
        self._quiet = 0
        """Bytes since the parser last reported an event."""
        self._delimiter = b"--" + boundary.encode("ascii")
        """The boundary as it stands in the body, after two hyphens."""
        self._tail = b""
        """The last bytes read, kept until the delimiter has been found, because they may contain its beginning."""
        self._has_delimiter = False
        """Whether the delimiter has been found in the body."""
        self._name = ""
        """Name of the field that is being read."""
        self._field = bytearray()
        """The bytes read so far of the field that is being read."""
        self.fields: list[tuple[str, str]] = []
        """Names and texts of the fields read so far."""
        self.media_type: str | None = None
        """Media type of the file; None: the form declares none, or one that says nothing."""
        self.filename: str | None = None
        """Name of the file; None: the file has not begun, or its part has no file name."""

    async def open(self) -> None:
        """Reads the fields before the file.

        Raises:
            CoatcheckError: `invalid_request` if there is no file or the form is malformed; the errors of the body.
        """
        while await self._advance():
            for event in self._parse_events():
                if isinstance(event, MultipartSegment) and _is_payload(event):
                    # Leave the iterator at this event: `__anext__` continues with the file's bytes.
                    self._begin_file(event)
                    return
                self._process(event)
        raise _invalid("The form has no file. Send the payload as a part with a file name, or named 'file'.")

    def _begin_file(self, part: MultipartSegment) -> None:
        if (_header(part, "Content-Transfer-Encoding") or "binary").lower() not in {"binary", "8bit", "7bit"}:
            raise _invalid("Content-Transfer-Encoding is not supported in a form (RFC 7578 section 4.7).")
        declared = _header(part, "Content-Type")
        self.media_type = None if declared is None or declared.strip().lower() in _UNKNOWN_TYPES else declared.strip()
        self.filename = part.filename

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Returns the file's next bytes. At its end, reads the rest of the form and verifies the body."""
        while True:
            for event in self._parse_events():
                if isinstance(event, bytes | bytearray):
                    return bytes(event)
                # Any other event is the end of the part: the file is complete.
                await self._read_rest()
                raise StopAsyncIteration
            if not await self._advance():  # pragma: no cover - the parser refuses a form that ends inside its file
                raise StopAsyncIteration

    async def _read_rest(self) -> None:
        while True:
            for event in self._parse_events():
                if isinstance(event, MultipartSegment) and _is_payload(event):
                    raise _invalid("The form has more than one file. Send one payload in one request.")
                self._process(event)
            if not await self._advance():
                return

    async def _advance(self) -> bool:
        """Passes the body's next bytes to the parser. Returns false at the end of a complete form."""
        data = await self._body.read()
        self._quiet += len(data)
        if not self._has_delimiter:
            # The delimiter may be split between two reads.
            window = self._tail + data
            self._has_delimiter, self._tail = self._delimiter in window, window[1 - len(self._delimiter) :]
        # The bytes just read are not counted here, because they may contain events.
        if self._quiet > _MAX_QUIET_BYTES + len(data):
            raise _invalid("The form has too much data outside its parts.")
        self._events = self._parser.parse(data) if data else iter(())
        if not data:
            try:
                # The parser raises the same error for a form that was cut off and for a body without the boundary.
                self._parser.close()
            except MultipartError:
                raise truncation_error() if self._has_delimiter else _no_boundary() from None
        return bool(data)

    def _parse_events(self) -> Iterator[Event]:
        try:
            for event in self._events:
                self._quiet = 0
                yield event
        except MultipartError as e:
            raise _malformed_error(e) from e

    def _process(self, event: Event) -> None:
        """Processes an event of a field: its start, some of its bytes, or its end."""
        if isinstance(event, MultipartSegment):
            self._name = event.name or ""
            self._field = bytearray()
        elif event is None:
            # Ignore invalid bytes only in a clipped field: clipping may have cut a character in two.
            clipped = self._name in DESCRIBING and len(self._field) == self._limit
            try:
                self.fields.append((self._name, self._field.decode(errors="ignore" if clipped else "strict")))
            except UnicodeDecodeError:
                raise _invalid(f"The field '{self._name[:80]}' is not UTF-8.") from None
        else:
            self._field += event
            if self._name in DESCRIBING:
                # Metadata that only describes the payload is clipped, here and later to a much smaller size.
                del self._field[self._limit :]
            elif len(self._field) > self._limit:
                raise CoatcheckError(
                    Code.BODY_TOO_LARGE,
                    f"The field '{self._name[:80]}' is larger than {self._limit:,} bytes. Send the payload as a part "
                    "with a file name, or named 'file'.",
                    limit=self._limit,
                )


def boundary(content_type: str) -> str:
    """Returns the boundary in a Content-Type.

    Raises:
        CoatcheckError: `invalid_request` if there is no valid boundary.
    """
    value = parse_options_header(content_type)[1].get("boundary", "")
    if not 1 <= len(value) <= 70 or not value.isascii():  # noqa: PLR2004 - RFC 2046 section 5.1.1
        raise _invalid("The Content-Type names no boundary of 1 to 70 characters.")
    return value


def _header(part: MultipartSegment, name: str) -> str | None:
    return next((value for key, value in part.headerlist if key == name), None)


def _is_payload(part: MultipartSegment) -> bool:
    return part.filename is not None or part.name in PAYLOAD_NAMES


def _malformed_error(error: MultipartError) -> CoatcheckError:
    if isinstance(error, ParserLimitReached):
        return _invalid(f"The form is over a limit: {_describe_error(error)}.")
    return _invalid(f"The form is malformed: {_describe_error(error)}.")


def _no_boundary() -> CoatcheckError:
    return _invalid("The boundary in Content-Type does not occur in the body: it is not a form, or a different one.")


def _describe_error(error: MultipartError) -> str:
    """Returns the message of a parser's error, joined from all of the error's arguments."""
    return " ".join(str(argument) for argument in error.args).rstrip(".")


def _invalid(detail: str) -> CoatcheckError:
    return CoatcheckError(Code.INVALID_REQUEST, detail)
