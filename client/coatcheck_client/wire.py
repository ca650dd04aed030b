"""Encodes text for the wire: UTF-8, a header field's value, a form around a payload. Pure.

Everything that can be sent is accepted, because the service judges its meaning. What HTTP cannot represent raises an
error that names the argument, before anything is sent.
"""

import uuid
from typing import Final

from coatcheck_client.errors import WRONG, ServiceError

LONGEST_FIELD: Final = 1_024
"""Maximum characters of a header field: four times the most that the service accepts in any field. With much longer
fields, servers break the connection, which looks as if the service could not be reached."""
LONGEST_QUERY: Final = 7_000
"""Maximum bytes of a query string. With a path, it is within the 8,000 bytes that every server and proxy should accept
in a request line (RFC 9112 section 3)."""

Pairs = tuple[tuple[str, str], ...]
"""Query parameters or header fields: names and values."""
Around = tuple[bytes, bytes]
"""The bytes before and after a payload in a body."""


def mended(text: str) -> str:
    """Returns a text with U+FFFD for each half of a surrogate pair, which UTF-8 cannot represent.

    The service does the same in JSON.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def field_value(name: str, value: str) -> str:
    """Returns a header field's value without surrounding blanks, which are not part of it (RFC 9110 section 5.5).

    Args:
        name: the name of the argument, for the error.
        value: the value of the argument.

    Raises:
        ServiceError: `invalid_request` for anything but printable ASCII and tabs, at most LONGEST_FIELD characters.
    """
    value = value.strip(" \t")
    if len(value) > LONGEST_FIELD:
        raise _unsendable(name, f"is longer than {LONGEST_FIELD:,} characters")
    odd = next((char for char in value if char != "\t" and not (char.isascii() and char.isprintable())), None)
    if odd is not None:
        raise _unsendable(
            name, f"contains U+{ord(odd):04X} at position {value.index(odd)}, and only printable ASCII is allowed"
        )
    return value


def sendable_value(value: object) -> str:
    """Returns the value of a header field that only describes a payload; empty if no header field can contain it."""
    try:
        return field_value("", value) if isinstance(value, str) else ""
    except ServiceError:
        return ""


def form(params: Pairs) -> tuple[str, Around]:
    """Returns a form's media type, and the bytes before and after the payload in it (RFC 7578).

    The fields come first, because the service needs some of them before the payload. The boundary is random, so that no
    payload can contain it.
    """
    boundary = uuid.uuid4().hex
    fields = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in params
    )
    before = f'{fields}--{boundary}\r\nContent-Disposition: form-data; name="file"\r\n\r\n'
    return f"multipart/form-data; boundary={boundary}", (before.encode(), f"\r\n--{boundary}--\r\n".encode())


def _unsendable(name: str, why: str) -> ServiceError:
    return ServiceError(WRONG, f"'{name}' cannot be sent in a header field: it {why}.", extra={"field": name})
