"""List the live artifacts of a namespace, newest first, in pages.

A query restricts the list to artifacts that contain all words of the query. It finds every artifact whose storage was
acknowledged before the query: artifacts that still wait for the full-text index are indexed first. The answer says that
it is partial if indexing them takes too long, or if a part of the index is damaged. A damaged part is dropped and
rebuilt.
"""

from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.artifact import Artifact, Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.fulltext import query_keys
from coatcheck.core.keys import check_page_limit
from coatcheck.core.opaque import seal_position, unseal_position
from coatcheck.ports.catalog import ArtifactFilter, Catalog
from coatcheck.ports.telemetry import Clock
from coatcheck.storing.find import SessionNames
from coatcheck.storing.redaction import RedactionPolicy
from coatcheck.upkeep.index import Index
from coatcheck.upkeep.store_binding import SealKey


class Listing(Struct, frozen=True):
    """A page of a list. `next` continues it; None means that this was the last page."""

    items: list[Artifact]
    next: str | None
    partial: bool = False
    """Whether artifacts may be missing because they still wait for the index; the same call finds them later."""


@dataclass(frozen=True)
class Browse:
    """Lists live artifacts of a namespace, newest first."""

    catalog: Catalog
    clock: Clock
    seal_key: SealKey
    redacting: RedactionPolicy
    session_names: SessionNames
    index: Index | None = None
    """Indexes waiting artifacts before a query; None: queries do not find artifacts that wait to be indexed."""

    async def __call__(
        self, caller: Caller, where: ArtifactFilter, cursor: str | None, limit: int, *, query: str | None = None
    ) -> Listing:
        """Returns a page of the artifacts that meet all conditions.

        Args:
            caller: the caller, who gets only the artifacts of sessions that the caller may see.
            where: the conditions.
            cursor: `next` of the previous page; None: the first page.
            limit: maximum artifacts of the page, 1 to 200.
            query: words that an artifact must contain; None: any artifact.

        Raises:
            CoatcheckError: `invalid_cursor`; `invalid_request` for a limit out of bounds, and for a query that is too
                long or contains no words; `storage_unavailable`.
        """
        check_page_limit(limit)
        space = caller.namespace
        before = None if cursor is None else _position(await self.seal_key(), space, cursor)
        # A caller may give the session as lists show it, with a secret in its name masked.
        if where.session is not None:
            where = replace(where, session=await self.session_names.real(caller, where.session))
        if caller.session_prefix is not None:
            # The catalogue applies this condition: if it were applied afterwards, pages would be short or empty.
            where = replace(where, session_prefix=caller.session_prefix)
        partial = False
        if query is not None:
            where = replace(where, terms=query_keys(query))
            # Waiting artifacts are indexed first, so that the page contains all that were acknowledged before this
            # call.
            partial = self.index is not None and not await self.index.catch_up(space)
        page = await self.catalog.list_artifacts(space, where, self.clock.now(), before=before, limit=limit)
        # A damaged segment of the index is dropped. The next round of indexing rebuilds it; until then, answers are
        # partial.
        if page.damaged and self.index is not None:
            await self.index.drop(space, page.damaged)
        partial = partial or bool(page.damaged)
        items = list(map(self.redacting.mask_listed_artifact, page.artifacts))
        following = None if page.before is None else seal_position(await self.seal_key(), space, page.before)
        return Listing(items, following, partial)


def _position(key: bytes, namespace: str, cursor: str) -> int:
    try:
        return unseal_position(key, namespace, cursor)
    except ValueError:
        raise CoatcheckError(
            Code.INVALID_CURSOR, "The cursor did not come from this list. Start again without a cursor."
        ) from None
