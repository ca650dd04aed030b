"""List the live artifacts of a namespace, newest first, in pages."""

import base64
import binascii

from msgspec import Struct

from coatcheck.core.artifact import Artifact, Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports import Catalog, Clock, Filter

MAX_PAGE = 200
_PREFIX = b"l1:"


class Listing(Struct, frozen=True):
    """One page. `next` continues it; None means that this was the last."""

    items: list[Artifact]
    next: str | None


class Browse:
    """The verb."""

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self._catalog = catalog
        self._clock = clock

    async def __call__(self, caller: Caller, where: Filter, cursor: str | None, limit: int) -> Listing:
        """A page of at most `limit` (1 to 200) artifacts, continuing at `cursor`.

        Raises:
            CoatcheckError: `invalid_cursor`, `invalid_request` for a limit out of bounds.
        """
        if not 1 <= limit <= MAX_PAGE:
            raise CoatcheckError(Code.INVALID_REQUEST, f"limit must be 1 to {MAX_PAGE}, not {limit}.", limit=limit)
        before = None if cursor is None else _position(cursor)
        page = await self._catalog.list_artifacts(
            caller.namespace, where, self._clock.now(), before=before, limit=limit
        )
        return Listing(page.artifacts, None if page.before is None else _cursor(page.before))


def _cursor(position: int) -> str:
    return base64.urlsafe_b64encode(_PREFIX + str(position).encode()).rstrip(b"=").decode()


def _position(cursor: str) -> int:
    try:
        raw = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        if len(raw) <= len(_PREFIX) + 18 and raw.startswith(_PREFIX):
            return int(raw.removeprefix(_PREFIX))
    except (UnicodeEncodeError, binascii.Error, ValueError):
        pass
    raise CoatcheckError(Code.INVALID_CURSOR, "The cursor is not one that a list gave. Start again without a cursor.")
