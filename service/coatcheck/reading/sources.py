"""Collects the sources that a session already has: results of its web searches, and pages that it fetched.

Sources have no rows of their own. They are read again from the session's artifacts, newest first, up to a number of
artifacts and a time limit, and the process caches them. Only artifacts that are older than the search's own artifact
count, so that a search gets the same answer when it is posted again later. Collecting sources does not count as a read,
so it moves no expiry.
"""

import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Final

from msgspec import Struct

from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Caller
from coatcheck.core.caches import BoundedCache
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.kinds.spec import SEARCH_RESPONSE, SPECS, spec_of
from coatcheck.core.search.fold import EarlierSource, fingerprint, fingerprints
from coatcheck.core.search.responses.normalise import normalise
from coatcheck.core.search.view import ResponseLayout, lay_out
from coatcheck.core.views.window import decode
from coatcheck.ports.catalog import ArtifactFilter, Catalog, FoundArtifact
from coatcheck.ports.telemetry import Clock
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.content import OpenContent
from coatcheck_client.contract.canonical import canonical

MAX_SOURCES: Final = 50
"""Maximum number of artifacts of each kind, searches and pages, that are examined: the newest ones."""
_LISTED: Final = 200
"""Maximum artifacts of each kind that are listed, to find those that are older than the present search."""
_READ_SECONDS: Final = 1.5
"""Seconds after which no further artifact is read. Cached sources are used even after that, as they take no time."""
_SEARCH_BYTES: Final = 4 * 1024 * 1024
"""Maximum bytes of a search response that is read again. A larger one is skipped, and the result is `partial`."""
_PAGE_BYTES: Final = 160 * 1024
"""Maximum bytes that are read from the beginning of a page, because a fingerprint uses no more."""
_CACHE_BYTES: Final = 16 * 1024 * 1024
"""Size of the cache of sources, in bytes."""

_Key = tuple[str, str, bytes]
"""Namespace, ID and digest of an artifact: the key of its sources in the cache."""


class SessionSources(Struct, frozen=True):
    """The sources of a session, oldest first."""

    sources: tuple[EarlierSource, ...]
    partial: bool = False
    """Whether some artifacts were left out: not among those listed, too large, unreadable, or past the time limit."""


@dataclass(frozen=True)
class Sources:
    """Collects the sources that a session already has, from its artifacts."""

    catalog: Catalog
    clock: Clock
    open_content: OpenContent
    pool: Executor
    _: KW_ONLY
    ticks: Callable[[], float] = time.monotonic
    """Returns the time of a monotonic clock, in seconds."""
    _remembered: BoundedCache[_Key, tuple[EarlierSource, ...]] = field(
        default_factory=lambda: BoundedCache("search_sources", _CACHE_BYTES), init=False
    )

    async def __call__(self, caller: Caller, session: str, artifact: Artifact) -> SessionSources:
        """Returns the sources that a session had when `artifact` was stored.

        Raises:
            CoatcheckError: `storage_unavailable`, `overloaded` if the catalogue cannot be queried.
        """
        deadline = self.ticks() + _READ_SECONDS
        now = self.clock.now()
        dated_sources: list[tuple[datetime, str, tuple[EarlierSource, ...]]] = []
        partial = False
        for kind in (kind for kind, spec in SPECS.items() if spec.source is not None):
            where = ArtifactFilter(session=session, kind=kind)
            page = await self.catalog.list_artifacts(caller.namespace, where, now, before=None, limit=_LISTED)
            # Only artifacts stored earlier count, so that a search that is posted again gets the sources of its first
            # answer.
            older = [
                each for each in page.artifacts if each.created_at < artifact.created_at and each.id != artifact.id
            ]
            partial = partial or (page.before is not None and len(older) < MAX_SOURCES)
            for each in older[:MAX_SOURCES]:
                sources = self._remembered.get(_key(each))
                if sources is None:
                    # When time is up, no more artifacts are read, but cached sources are still used, so that a repeated
                    # call gets further.
                    sources = await self._read(each, now) if self.ticks() < deadline else None
                if sources is None:
                    partial = True
                    continue
                dated_sources.append((each.created_at, each.id, sources))
        # Sources of all kinds are sorted by time. The ID decides between equal times, so that the order is always the
        # same.
        dated_sources.sort(key=lambda each: each[:2])
        return SessionSources(tuple(source for _, _, sources in dated_sources for source in sources), partial)

    async def searches(self, caller: Caller, session: str, label: str | None, most: int) -> list[Artifact]:
        """Returns the latest searches of a session that had results, at most `most` of them.

        With a `label`, only searches that have this label are returned.

        Raises:
            CoatcheckError: `storage_unavailable`, `overloaded` if the catalogue cannot be queried.
        """
        where = ArtifactFilter(session=session, kind=SEARCH_RESPONSE, label=label)
        page = await self.catalog.list_artifacts(caller.namespace, where, self.clock.now(), before=None, limit=most)
        return page.artifacts

    def remember(self, artifact: Artifact, sources: tuple[EarlierSource, ...]) -> None:
        """Caches the sources of an artifact that was just read."""
        self._remembered.put(_key(artifact), sources)

    async def _read(self, artifact: Artifact, now: datetime) -> tuple[EarlierSource, ...] | None:
        """Returns the sources of an artifact; None if the artifact could not be examined."""
        is_page = spec_of(artifact.facts.kind).source == "page"
        if not is_page and artifact.measure.size > _SEARCH_BYTES:
            return None
        try:
            number = ids.parse(artifact.id)
            entry = await self.catalog.find(
                artifact.namespace, number, now, with_bytes=True, with_view=is_page, with_receipt=True
            )
            if not isinstance(entry, FoundArtifact):
                return ()  # the artifact was deleted in the meantime
            if is_page:
                sources = await self._page(entry)
            else:
                data = await self.open_content(entry).read(0, artifact.measure.size)
                sources = await in_pool(self.pool, _of_response, artifact.id, data, query_of(entry))
        except CoatcheckError:
            return None  # the search goes on without the sources of this artifact
        self.remember(artifact, sources)
        return sources

    async def _page(self, entry: FoundArtifact) -> tuple[EarlierSource, ...]:
        """Returns one source for each URL of a page: the declared URL and the detected one.

        A later search result with nearly the same text as the page is folded. A result with the same URL but another
        text only refers to the page. Returns no source if the page has no URL, or too little text for a fingerprint.
        """
        a, view = entry.artifact, entry.text_view
        urls = [canonical(url) or url for url in (a.declared.url, a.facts.url) if url]
        if not urls:
            return ()
        own = view is not None and view.blob is not None
        content = (
            await self.open_content.of_view(a.namespace, view) if view is not None and own else self.open_content(entry)
        )
        text = decode(await content.read(0, min(content.size, _PAGE_BYTES)))
        printed = await in_pool(self.pool, fingerprint, text)
        return tuple(EarlierSource(a.id, url, printed) for url in dict.fromkeys(urls)) if printed else ()


def query_of(entry: FoundArtifact) -> str:
    """Returns the query of the request that stored a search response; empty if the query is not known."""
    return (entry.receipt.query or "") if entry.receipt is not None else ""


def sources_of(
    artifact_id: str, laid: ResponseLayout, prints: tuple[bytes, ...], query: str
) -> tuple[EarlierSource, ...]:
    """Returns the sources in a search response, for later searches of the same session."""
    query = query or laid.response.query or ""
    return tuple(
        EarlierSource(f"{artifact_id}#{section.name}", result.canonical_url or result.url, printed, query)
        for result, section, printed in zip(laid.response.results, laid.sections, prints, strict=False)
    )


def _of_response(artifact_id: str, data: bytes, query: str) -> tuple[EarlierSource, ...]:
    laid = lay_out(normalise(data))
    return sources_of(artifact_id, laid, fingerprints(laid), query)


def _key(artifact: Artifact) -> _Key:
    return artifact.namespace, artifact.id, artifact.measure.sha256
