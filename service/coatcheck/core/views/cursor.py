"""The cursor of a view: the position at which reading continues, as a word that is valid for one artifact only."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.opaque import read_cursor, write_cursor
from coatcheck.core.views.view import ViewName
from coatcheck.core.views.window import NUMBER_LIMIT, Unit

_Number = Annotated[int, Meta(ge=0, le=NUMBER_LIMIT)]


class Cursor(Struct, frozen=True, array_like=True):
    """The next part of a view to read."""

    view: ViewName
    unit: Unit
    byte: _Number
    """Offset in the view at which reading continues."""
    page: _Number | None = None
    """Units per page that the caller requested; None: unlimited."""
    page_remaining: _Number | None = None
    """Units of the current page that were not read yet; None: unlimited."""
    token: _Number = 0
    """Number of tokens before `byte`, if `unit` is `token`; otherwise 0."""
    section: _Number | None = None
    """Index, from 0, of the section that is read; None: the whole view."""
    version: _Number = 0
    """Version of the view; 0 if the view is the payload itself."""


_DECODER: Final = msgspec.msgpack.Decoder(Cursor)

write = write_cursor


def read(text: str, artifact: int) -> Cursor:
    """Returns the cursor that `write` encoded.

    Raises:
        CoatcheckError: `invalid_cursor` for a text that is no cursor, and for a cursor of another artifact.
    """
    try:
        return read_cursor(text, _DECODER, artifact)
    except ValueError:
        raise CoatcheckError(
            Code.INVALID_CURSOR,
            "This cursor does not belong to this artifact. Use the `next` of its last answer unchanged, or give an "
            "offset.",
        ) from None
