"""List the live artifacts of a namespace, newest first, in pages; by a query, those that say all of its words.

A query sees what was acknowledged before it: what still waits for the index is indexed first, and where that takes too
long the answer says that it is partial; so it does when a part of the index is damaged, which is then made anew.
"""

import base64
import binascii

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.artifact import Artifact, Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.fulltext import query_keys
from coatcheck.ports.catalog import Catalog, Filter
from coatcheck.ports.clock import Clock
from coatcheck.usecases.index import Index
from coatcheck.usecases.redaction import Redacting

MAX_PAGE = 200
_PREFIX = b"l1:"


class Listing(Struct, frozen=True):
    """One page. `next` continues it; None means that this was the last."""

    items: list[Artifact]
    next: str | None
    partial: bool = False
    """The newest may be missing: they wait for the index still, and the same call will find them later."""


class Browse:
    """The verb."""

    def __init__(
        self, catalog: Catalog, clock: Clock, index: Index | None = None, redacting: Redacting | None = None
    ) -> None:
        """Make the verb. Without an index, what waits for it is not found by a query."""
        self._redacting = redacting
        self._catalog = catalog
        self._clock = clock
        self._index = index

    async def __call__(
        self, caller: Caller, where: Filter, cursor: str | None, limit: int, *, query: str | None = None
    ) -> Listing:
        """A page of at most `limit` (1 to 200) artifacts that meet all conditions, continuing at `cursor`.

        Raises:
            CoatcheckError: `invalid_cursor`; `invalid_request` for a limit out of bounds, and for a query that names
                nothing to look for or is too long.
        """
        if not 1 <= limit <= MAX_PAGE:
            raise CoatcheckError(Code.INVALID_REQUEST, f"limit must be 1 to {MAX_PAGE}, not {limit}.", limit=limit)
        before = None if cursor is None else _position(cursor)
        if caller.session_prefix is not None:
            where = replace(where, session_prefix=caller.session_prefix)
        partial = False
        if query is not None:
            where = replace(where, terms=query_keys(query))
            partial = self._index is not None and not await self._index.catch_up(caller.namespace)
        page = await self._catalog.list_artifacts(
            caller.namespace, where, self._clock.now(), before=before, limit=limit
        )
        if page.damaged and self._index is not None:
            await self._index.drop(caller.namespace, page.damaged)
        partial = partial or bool(page.damaged)
        items = page.artifacts if self._redacting is None else list(map(self._redacting.artifact, page.artifacts))
        return Listing(items, None if page.before is None else _cursor(page.before), partial)


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
