"""What text becomes on the wire: UTF-8, a header field's value, a form around a payload. Pure.

Refuses nothing that can be sent: what it means is for the service to judge. What HTTP has no way to carry is an error
that names the argument, before anything is sent.
"""

import uuid
from typing import Final

from coatcheck_client.errors import WRONG, ServiceError

LONGEST_FIELD: Final = 1_024
"""Characters of a header field: four times what the service takes of any. Of much longer ones servers break off the
connection, which looks like an outage."""
LONGEST_QUERY: Final = 7_000
"""Bytes of a query string: with a path within the 8,000 that every server and proxy should take of a request line
(RFC 9112 section 3)."""

Pairs = tuple[tuple[str, str], ...]
"""Query parameters or header fields: names and values."""
Around = tuple[bytes, bytes]
"""What stands before and after a payload in a body."""


def mended(text: str) -> str:
    """The text with U+FFFD for each half of a surrogate pair, which UTF-8 cannot hold; as the service mends JSON."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def field_value(name: str, value: str) -> str:
    """The value of a header field, without the blanks around it, which are no part of it (RFC 9110 section 5.5).

    Args:
        name: of the argument, for the error.
        value: what was given for it.

    Raises:
        ServiceError: `invalid_request` for what is not printable ASCII of at most LONGEST_FIELD characters.
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


def form(params: Pairs) -> tuple[str, Around]:
    """A form's media type, and what stands before and after the payload in it (RFC 7578).

    The fields come first: the service wants to know some of them before the payload. The boundary is of chance, so
    that no payload can hold it.
    """
    boundary = uuid.uuid4().hex
    fields = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in params
    )
    before = f'{fields}--{boundary}\r\nContent-Disposition: form-data; name="file"\r\n\r\n'
    return f"multipart/form-data; boundary={boundary}", (before.encode(), f"\r\n--{boundary}--\r\n".encode())


def _unsendable(name: str, why: str) -> ServiceError:
    return ServiceError(WRONG, f"'{name}' cannot be sent in a header field: it {why}.", extra={"field": name})
