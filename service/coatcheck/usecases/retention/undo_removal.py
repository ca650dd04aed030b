"""Restore removed artifacts while their bytes still exist, which is until the sweep's grace period has passed.

A dead blob never becomes live again. Instead its bytes are read, verified and stored as a new blob, like the bytes of
any payload.

Crash story: as in an ingest, the copy begins with an intent and a file, and one transaction then restores the artifact.
After a crash before that transaction, the reaper removes the intent and the file. After that transaction the artifact
exists, and nothing remains to be done.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from coatcheck.core import ids
from coatcheck.core.artifact import Blob, Caller
from coatcheck.core.encoding.payload_encoder import PayloadEncoder
from coatcheck.core.errors import CoatcheckError, Code, invalid_request
from coatcheck.core.keys import resolve_administered
from coatcheck.core.policies.policy import resolve_terms
from coatcheck.core.retention.audit import By
from coatcheck.ports.artifacts import IngestResult, UploadFenced
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.retention import RemovedArtifact, RestoreArtifact, RestoredView, Retention
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.content import OpenContent
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.storing.upload_session import BLOCK, UploadSession, fenced_error
from coatcheck.usecases.retention.run_retention import find_run

LIMIT: Final = 500
"""Maximum artifacts that one call restores."""
_CONCURRENT_RESTORES: Final = 8
"""Maximum artifacts that one call restores at the same time: chosen, not measured."""


class UndoFailure(Struct, frozen=True):
    """An artifact that could not be restored."""

    id: str
    code: str
    """The code of the error, the same as if the request had been about this artifact alone."""
    detail: str


class UndoResult(Struct, frozen=True, kw_only=True):
    """The result of an undo."""

    restored: Annotated[tuple[str, ...], Meta(description="IDs of artifacts that are back.")]
    there: Annotated[tuple[str, ...], Meta(description="IDs of artifacts that were not removed.")]
    """They were posted again, or restored by an earlier call."""
    failed: tuple[UndoFailure, ...]
    next: Annotated[
        int | None, Meta(description="Where to continue with the run. Null: the run is restored completely.")
    ]


@dataclass(frozen=True)
class UndoRemoval:
    """Restores removed artifacts while their bytes still exist."""

    retention: Retention
    deps: IngestDeps
    open_content: OpenContent
    _: KW_ONLY
    grace: timedelta
    """How long the bytes of a removed artifact are kept."""

    async def artifacts(
        self, caller: Caller, namespace: str | None, numbers: Sequence[int], *, ttl: int | None | UnsetType
    ) -> UndoResult:
        """Restores removed artifacts by their numbers, even if the namespace then exceeds its quota.

        An error that concerns a single artifact is not raised: it is in `failed` of the result.

        Args:
            caller: the caller.
            namespace: the namespace of the artifacts; None: the namespace that the caller administers.
            numbers: the numbers of the artifacts, at least one and at most LIMIT.
            ttl: the new life, in seconds from now, of artifacts that had expired, reduced to the `max_ttl` of each
                artifact's policy; None: forever; UNSET: such artifacts are not restored. Artifacts that had not
                expired keep their expiry.

        Raises:
            CoatcheckError: `forbidden`, `invalid_request`, `storage_unavailable`, `storage_full`.
        """
        if not 1 <= len(numbers) <= LIMIT:
            raise invalid_request(f"Name 1 to {LIMIT} artifacts.", parameter="artifacts")
        namespace, since = resolve_administered(caller, namespace), self._since()
        removals = [
            (number, await self.retention.find_removal(namespace, number, since)) for number in dict.fromkeys(numbers)
        ]
        return await self._all(namespace, removals, ttl, By.of(caller))

    async def run(self, caller: Caller, run_id: str, *, after: int = 0, ttl: int | None | UnsetType) -> UndoResult:
        """Restores up to LIMIT of the artifacts that a run removed.

        Args:
            caller: the caller.
            run_id: the run.
            after: `next` of the previous result; 0: begin with the first artifact.
            ttl: as in `artifacts`.

        Raises:
            CoatcheckError: `run_not_found`; otherwise as in `artifacts`.
        """
        await find_run(self.retention, caller, run_id)
        # One removal more than this call restores is read, which shows whether more artifacts follow.
        removals = await self.retention.list_removals(run_id, self._since(), after=after, limit=LIMIT + 1)
        page = removals[:LIMIT]
        result = await self._all("", [(removed.number, removed) for removed in page], ttl, By.of(caller))
        return replace(result, next=page[-1].seq if len(removals) > LIMIT else None)

    def _since(self) -> datetime:
        """Returns the moment since which removals can be undone."""
        return self.deps.clock.now() - self.grace

    async def _all(
        self,
        namespace: str,
        removals: Sequence[tuple[int, RemovedArtifact | None]],
        ttl: int | None | UnsetType,
        by: By,
    ) -> UndoResult:
        """Restores artifacts by number and removal; looks up artifacts without a removal in `namespace`."""
        limiter = asyncio.Semaphore(_CONCURRENT_RESTORES)
        restored: list[str] = []
        there: list[str] = []
        failed: list[UndoFailure] = []

        async def one(number: int, removed: RemovedArtifact | None) -> None:
            name = ids.render(number)
            async with limiter:
                try:
                    is_restored = await (
                        self._expect_there(namespace, number) if removed is None else self._one(removed, ttl, by)
                    )
                except CoatcheckError as error:
                    failed.append(UndoFailure(name, error.code.value, error.detail))
                else:
                    (restored if is_restored else there).append(name)

        # A cancelled request does not cancel the restoring: the commit decides whether the copied blobs are kept.
        await asyncio.shield(asyncio.gather(*(one(number, removed) for number, removed in removals)))
        failed.sort(key=lambda failure: failure.id)
        return UndoResult(restored=tuple(sorted(restored)), there=tuple(sorted(there)), failed=tuple(failed), next=None)

    async def _expect_there(self, namespace: str, number: int) -> bool:
        """Returns False if an artifact without a known removal exists, as if it had been restored before.

        Raises:
            CoatcheckError: `artifact_gone` if the artifact does not exist.
        """
        entry = await self.deps.catalog.find(namespace, number, self.deps.clock.now())
        if isinstance(entry, FoundArtifact):
            return False
        raise self._too_late() if await self.retention.sample(namespace, number) is None else _not_removed_yet()

    async def _one(self, removed: RemovedArtifact, ttl: int | None | UnsetType, by: By) -> bool:
        """Restores an artifact; returns False if the artifact exists already."""
        artifact = removed.artifact
        if artifact is None:
            raise self._too_late()
        now = self.deps.clock.now()
        # An expired artifact needs a new expiry: otherwise maintenance would remove it again at once.
        is_expired = artifact.expires_at is not None and artifact.expires_at <= now
        if is_expired and ttl is UNSET:
            raise invalid_request(
                f'{artifact.id} has expired: set its new lifetime with ttl (seconds, or text like "7d" or "forever").',
                parameter="ttl",
            )
        policy = self.deps.rules().of_payload(removed.namespace, artifact.declared, artifact.facts.kind)
        async with AsyncExitStack() as stack:
            # All bytes are copied first, and then one transaction restores the row.
            payload = await self._copy(stack, removed.namespace, artifact.blob)
            blob, inline = payload.blob()
            copies = [payload]
            views: list[RestoredView] = []
            # The views are restored with the payload, because citations refer to ranges of the views.
            for each in removed.views:
                if each.blob is None:
                    views.append(RestoredView(each.view.name, None, None))
                    continue
                copies.append(await self._copy(stack, removed.namespace, each.blob))
                views.append(RestoredView(each.view.name, *copies[-1].blob()))
            change = RestoreArtifact(
                namespace=removed.namespace,
                number=removed.number,
                seq=removed.seq,
                now=now,
                ttl=resolve_terms(policy, ttl=ttl, idle_ttl=UNSET, otherwise=0).ttl if is_expired else UNSET,
                blob=blob,
                inline=inline,
                views=tuple(views),
                by=by,
                since=self._since(),
            )
            result = await self._commit(copies, change)
        # The artifact may have been posted again, and have expired since: its row is in the way, but nobody sees it.
        expires_at = result.artifact.expires_at
        if not result.created and expires_at is not None and expires_at <= now:
            raise _not_removed_yet()
        return result.created

    async def _commit(self, copies: list[UploadSession], change: RestoreArtifact) -> IngestResult:
        """Commits the change that restores an artifact, and tells every upload whether its copy is used."""

        async def commit_restore() -> IngestResult:
            answer = await self.retention.commit(change)
            if isinstance(answer, UploadFenced):
                raise fenced_error()
            if answer is None:
                raise self._too_late()
            # A copy that the restored artifact does not need is a dead blob now. Only the sweep removes dead blobs, so
            # the uploads are told that all copies are used.
            return IngestResult(answer.artifact, created=answer.created, blob_used=True)

        commit = commit_restore()
        # Each upload wraps the commit of the previous upload, so that all of them learn whether their bytes are used.
        for copy in copies:
            commit = copy.run_commit(commit)
        return await commit

    async def _copy(self, stack: AsyncExitStack, namespace: str, blob: Blob) -> UploadSession:
        """Stores the content of a blob as a new blob, durably; returns the upload.

        Raises:
            CoatcheckError: `integrity` if the content is not the content that was stored; the errors of storage.
        """
        content = await self.open_content.of_blob(namespace, blob)
        encoder = PayloadEncoder(self.deps.tokenizer)
        caller = Caller(namespace=namespace)
        upload = await stack.enter_async_context(UploadSession(self.deps, caller, encoder, limited=False))
        # The last block is passed to `end` instead of `take`; for an empty payload it is empty.
        last = max(0, (content.size - 1) // BLOCK * BLOCK)
        for at in range(0, last, BLOCK):
            await upload.take(await content.read(at, at + BLOCK))
        await upload.wait_until_digested()
        ended = await in_pool(self.deps.pool, encoder.end, await content.read(last, content.size))
        await upload.end(ended)
        await upload.durable()
        # Each frame has a checksum, but only the digest proves that these are the bytes of that artifact.
        if encoder.sha256 != blob.sha256:
            raise CoatcheckError(Code.INTEGRITY, "The remaining bytes are not the ones that were stored.")
        return upload

    def _too_late(self) -> CoatcheckError:
        seconds = f"{self.grace.total_seconds():,.0f} s"
        return CoatcheckError(
            Code.ARTIFACT_GONE,
            f"It cannot be restored: no artifact with this ID was removed within the last {seconds} "
            "(COATCHECK_GRACE_SECONDS), or its bytes have been swept already, or it was removed again later (undo that "
            "removal, by the artifact's ID).",
        )


def _not_removed_yet() -> CoatcheckError:
    return CoatcheckError(
        Code.ARTIFACT_GONE,
        "It has expired, but is not removed yet, so there is nothing to undo: retry in a moment. If a hold keeps it, "
        "change its ttl instead.",
    )
