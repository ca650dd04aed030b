"""The sources that a session has already: what its searches found and the pages that it fetched, newest first.

Nothing is kept of them: they are read again from the artifacts, of which a bounded number is looked at for a bounded
time, and remembered while the process lives. Only what was stored before the artifact in question counts, so that
posting the same search again later gives the same answer. It moves no expiry: being looked at is not being read.
"""

import time
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import datetime
from typing import Final

from msgspec import Struct

from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Caller
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.kinds.spec import SPECS, spec_of
from coatcheck.core.search import (
    EarlierSource,
    ResponseLayout,
    canonical,
    fingerprint,
    fingerprints,
    lay_out,
    normalise,
)
from coatcheck.core.views.window import decode
from coatcheck.ports.catalog import ArtifactFilter, Catalog, FoundArtifact
from coatcheck.ports.clock import Clock
from coatcheck.runtime.lru import Lru
from coatcheck.runtime.pool import in_pool
from coatcheck.storing.content import OpenContent

MOST: Final = 50
"""Searches, and as many pages, that are looked at: the newest."""
_LISTED: Final = 200
"""Artifacts of a kind that are listed to find those that are older than the one in question."""
_PATIENCE: Final = 1.5
"""Seconds after which no further artifact is read; what is remembered takes none."""
_SEARCH_BYTES: Final = 4 * 1024 * 1024
"""Of a response that is read again; a larger one is passed over, and that is said."""
_PAGE_BYTES: Final = 160 * 1024
"""Of a page: as much as a fingerprint looks at."""
_REMEMBERED: Final = 16 * 1024 * 1024
_COST: Final = 200
"""Bytes of a source beside its address and fingerprint."""

_Key = tuple[str, str, bytes]


class SessionSources(Struct, frozen=True):
    """The sources of a session, oldest first."""

    sources: tuple[EarlierSource, ...]
    partial: bool = False
    """Some were not looked at: they were too large, could not be read, or took too long."""


class Sources:
    """Collects the sources that a session has already, from its artifacts."""

    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        open_content: OpenContent,
        pool: Executor,
        *,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ticks` returns seconds and never steps back."""
        self._catalog = catalog
        self._clock = clock
        self._open = open_content
        self._pool = pool
        self._ticks = ticks
        self._remembered: Lru[_Key, tuple[EarlierSource, ...]] = Lru(_REMEMBERED)

    async def __call__(self, caller: Caller, session: str, artifact: Artifact) -> SessionSources:
        """What the session had when an artifact was stored.

        Raises:
            CoatcheckError: `storage_unavailable`, `overloaded` when the catalogue cannot say.
        """
        ends = self._ticks() + _PATIENCE
        now = self._clock.now()
        found: list[tuple[datetime, str, tuple[EarlierSource, ...]]] = []
        partial = False
        for kind in (kind for kind, spec in SPECS.items() if spec.source is not None):
            where = ArtifactFilter(session=session, kind=kind)
            page = await self._catalog.list_artifacts(caller.namespace, where, now, before=None, limit=_LISTED)
            older = [
                each for each in page.artifacts if each.created_at < artifact.created_at and each.id != artifact.id
            ]
            partial = partial or (page.before is not None and len(older) < MOST)
            for each in older[:MOST]:
                sources = self._remembered.get(_key(each))
                if sources is None:
                    sources = await self._read(each, now) if self._ticks() < ends else None
                if sources is None:
                    partial = True
                    continue
                found.append((each.created_at, each.id, sources))
        found.sort(key=lambda each: each[:2])
        return SessionSources(tuple(source for _, _, sources in found for source in sources), partial)

    def remember(self, artifact: Artifact, sources: tuple[EarlierSource, ...]) -> None:
        """Spare reading a response again that was read just now."""
        cost = sum(len(each.canonical_url or "") + len(each.fingerprint) + _COST for each in sources)
        self._remembered.put(_key(artifact), sources, cost + _COST)

    async def _read(self, artifact: Artifact, now: datetime) -> tuple[EarlierSource, ...] | None:
        """The sources of an artifact; None where it could not be looked at."""
        is_page = spec_of(artifact.facts.kind).source == "page"
        if not is_page and artifact.measure.size > _SEARCH_BYTES:
            return None
        try:
            number = ids.parse(artifact.id)
            found = await self._catalog.find(artifact.namespace, number, now, with_bytes=True, with_view=is_page)
            if not isinstance(found, FoundArtifact):
                return ()  # it went away meanwhile
            if is_page:
                made = await self._page(found)
            else:
                data = await self._open(found).read(0, artifact.measure.size)
                made = await in_pool(self._pool, _of_response, artifact.id, data)
        except CoatcheckError:
            return None  # a source that cannot be read folds nothing
        self.remember(artifact, made)
        return made

    async def _page(self, found: FoundArtifact) -> tuple[EarlierSource, ...]:
        """A page under the addresses that it has: an equal text is folded into it, another one names it."""
        a, kept = found.artifact, found.text_view
        urls = [canonical(url) or url for url in (a.said.url, a.facts.url) if url]
        if not urls:
            return ()
        own = kept is not None and kept.blob is not None
        content = await self._open.of_view(a.namespace, kept) if kept is not None and own else self._open(found)
        text = decode(await content.read(0, min(content.size, _PAGE_BYTES)))
        printed = await in_pool(self._pool, fingerprint, text)
        return tuple(EarlierSource(a.id, url, printed) for url in dict.fromkeys(urls)) if printed else ()


def sources_of(artifact_id: str, laid: ResponseLayout, prints: tuple[bytes, ...]) -> tuple[EarlierSource, ...]:
    """The sources that a response is, for later searches of its session."""
    return tuple(
        EarlierSource(f"{artifact_id}#{section.name}", result.canonical_url or result.url, printed)
        for result, section, printed in zip(laid.response.results, laid.sections, prints, strict=False)
    )


def _of_response(artifact_id: str, data: bytes) -> tuple[EarlierSource, ...]:
    laid = lay_out(normalise(data))
    return sources_of(artifact_id, laid, fingerprints(laid))


def _key(artifact: Artifact) -> _Key:
    return artifact.namespace, artifact.id, artifact.measure.sha256
