"""Where a reading of a view continues, as a word that only the same artifact accepts."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.opaque import read_cursor, write_cursor
from coatcheck.core.views.view import ViewName
from coatcheck.core.views.window import NUMBER_LIMIT, Unit

_Number = Annotated[int, Meta(ge=0, le=NUMBER_LIMIT)]


class Cursor(Struct, frozen=True, array_like=True):
    """The next part to read."""

    view: ViewName
    unit: Unit
    byte: _Number
    """Where in the view it continues."""
    page: _Number | None = None
    """Units per page that the caller requested; None: unlimited."""
    page_remaining: _Number | None = None
    """Units of the current page that are still to come; None: unlimited."""
    token: _Number = 0
    """The token position of `byte`, for `unit` token."""
    section: _Number | None = None
    """Index, from 0, of the section that is read; None: the whole view."""
    version: _Number = 0
    """That of the view, if it is not the payload itself."""


_DECODER: Final = msgspec.msgpack.Decoder(Cursor)

write = write_cursor


def read(text: str, artifact: int) -> Cursor:
    """Returns what `write` encoded.

    Raises:
        CoatcheckError: `invalid_cursor` for anything else, or for another artifact's cursor.
    """
    try:
        return read_cursor(text, _DECODER, artifact)
    except ValueError:
        raise CoatcheckError(
            Code.INVALID_CURSOR,
            "This cursor does not belong to this artifact. Use the `next` of its last answer unchanged, or give an "
            "offset.",
        ) from None
