"""Keeps payloads that storage refused in memory, where they can be read, until storage returns and takes them.

A payload in the buffer does not count as stored: a crash loses it, and a newer payload displaces it when the buffer's
limit in bytes is reached. Other replicas do not see the buffer. Payloads that still wait at the end of the process are
saved to a file, if there is a directory for it. The file contains the bytes that storage would have got, so secrets are
masked in it if the policy masks them before storing. The next process reads the payloads as far as it has room. Once a
payload is stored, deleted or refused for good, its record in the file is finished, so that it never comes back.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec import Struct

from coatcheck.core import ids
from coatcheck.core.artifact import Artifact
from coatcheck.core.policies.policy import expiry
from coatcheck.ports.artifacts import FoundView, NewView, StoreArtifact
from coatcheck.ports.blobs import WaitingFiles
from coatcheck.ports.catalog import FoundArtifact

log = logging.getLogger(__name__)

_ROW_BYTES = 4096
"""Approximate bytes of memory that a waiting payload takes besides its stored bytes."""
_SECTION_BYTES = 400
"""Approximate bytes of memory that each section of a waiting payload's text view takes."""

Key = tuple[str, int]


class _SavedPayload(NamedTuple):
    """A payload whose record is in the open file."""

    position: int
    """Position of the record in the file."""
    session: str | None
    """The payload's session. With it, the deletion of a session also finds payloads that are only in the file."""


class FallbackPayload(Struct, frozen=True):
    """A payload that waits for storage."""

    change: StoreArtifact
    """The change that stores the payload; its `inline` has the stored bytes."""
    artifact: Artifact
    """The artifact that the change would create. Readers get it until the change is committed."""

    @property
    def key(self) -> Key:
        """Namespace and number of the artifact."""
        return self.artifact.namespace, ids.parse(self.artifact.id)

    @property
    def stored_bytes(self) -> bytes:
        """The bytes to store, compressed."""
        return self.change.inline or b""

    @property
    def cost(self) -> int:
        """Approximate bytes of memory that the payload takes."""
        view = self.change.text_view
        text = "" if self.change.receipt is None else self.change.receipt.text or ""
        beside = len(self.change.blob.index) + len(self.change.survey or b"") + len(text)
        return len(self.stored_bytes) + beside + _ROW_BYTES + (0 if view is None else _cost(view))


class FallbackBuffer:
    """The waiting payloads, oldest first, and memory reserved for uploads whose payloads may have to wait."""

    def __init__(self, limit: int, files: WaitingFiles | None = None) -> None:
        """`limit` is in bytes; 0 keeps nothing. Without `files`, payloads that wait are lost when the process ends."""
        self._room = limit
        self._files = files
        self._saved: dict[Key, _SavedPayload] = {}
        """Records of the open file that are not finished, by key."""
        self._more = files is not None
        """Whether there may be another file to read. Once there is none, this process looks for no more: a file that is
        written later is for a process that starts later."""
        self._has_unread = False
        """Whether a record of the open file could not be read. The file then stays, and is opened again."""
        # Two sums in bytes, each of which is compared with the limit by itself: `_used` counts payloads that wait,
        # `_held` counts the memory that uploads have reserved until their commit.
        self._used = 0
        self._held = 0
        self._waiting: dict[Key, FallbackPayload] = {}
        self._one_at_a_time: dict[Key, asyncio.Lock] = {}

    @property
    def count(self) -> int:
        """Number of waiting payloads."""
        return len(self._waiting)

    @property
    def used_bytes(self) -> int:
        """Bytes of memory that waiting payloads take, without the reservations of uploads."""
        return self._used

    def hold(self, size: int) -> bool:
        """Reserves memory for `size` bytes of an upload until its commit. Returns false if there is no room for them.

        The caller releases the reservation with `let_go`.
        """
        if self._held + size > self._room:
            return False
        self._held += size
        return True

    def let_go(self, size: int) -> None:
        """Releases `size` bytes of memory that `hold` reserved."""
        self._held -= size

    def keep(self, artifact_id: str, change: StoreArtifact, stored_bytes: bytes) -> bool:
        """Adds a payload, and drops the oldest payloads if room is needed.

        Returns False if the payload needs more memory than the whole buffer may take.

        Args:
            artifact_id: the ID that the artifact will have.
            change: the change that stores the payload. Its idempotency key is dropped, because a repeated request finds
                the artifact by its identity.
            stored_bytes: the payload's bytes, compressed.
        """
        # The bytes may have been meant for a file, but the upload to it has ended. They will be stored from memory.
        blob = msgspec.structs.replace(change.blob, placement="inline")
        change = msgspec.structs.replace(change, blob=blob, inline=stored_bytes, key=None)
        entry = FallbackPayload(change, make_artifact(artifact_id, change))
        if entry.cost > self._room:
            return False
        # A payload that is posted again replaces the waiting one, and is not counted twice.
        self._drop(entry.key)
        while self._used + entry.cost > self._room:
            self._drop(next(iter(self._waiting)))
        self._add(entry)
        return True

    def save(self) -> int:
        """Saves the waiting payloads to a file at the end of the process; returns how many payloads are lost."""
        # Records that an earlier process wrote are still in their file. With a second copy, such a payload would come
        # back twice.
        unsaved = [entry for key, entry in self._waiting.items() if key not in self._saved]
        if self._files is None:
            return len(unsaved)
        saved = self._files.save([msgspec.msgpack.encode(entry) for entry in unsaved], self._room) if unsaved else 0
        self._files.close(is_complete=not self._saved and not self._has_unread)
        return len(unsaved) - saved

    def restore(self) -> None:
        """Reads payloads that earlier processes saved, as many as there is room for. Call it again when there is room.

        A payload that needs more room than the whole buffer has is read when the buffer is empty. A payload that cannot
        be read now stays in its file for a later call.
        """
        if self._files is None:
            return
        # Only one file is open at a time. The next one is opened when every record of this one is stored, deleted or
        # unreadable.
        if not self._saved and self._more:
            self._files.close(is_complete=not self._has_unread)
            self._has_unread = False
            positions = self._files.open_next()
            self._more = bool(positions)
            for position in positions:
                entry = self._decode(self._files, position)
                if entry is not None:
                    self._saved[entry.key] = _SavedPayload(position, entry.change.declared.session)
        for key, saved in list(self._saved.items()):
            entry = None if key in self._waiting else self._decode(self._files, saved.position)
            if entry is not None:
                # An empty buffer takes even a payload that exceeds its limit. Otherwise the file would stay forever.
                if self._waiting and self._used + entry.cost > self._room:
                    break
                self._add(entry)

    def _decode(self, files: WaitingFiles, position: int) -> FallbackPayload | None:
        try:
            return msgspec.msgpack.decode(files.read(position), type=FallbackPayload)
        except (msgspec.MsgspecError, ValueError) as error:
            log.warning("a payload that waited for storage was written by another release: %s", type(error).__name__)
            # The record stays on disk for the release that wrote it, so that a downgrade does not lose it.
            files.set_aside()
            return None
        except OSError as error:
            # The disk may give the record at the next attempt, so neither it nor its file may be removed.
            log.warning("a payload that waited for storage cannot be read: %s", error.strerror)
            self._has_unread = True
            return None

    def _add(self, entry: FallbackPayload) -> None:
        self._waiting[entry.key] = entry
        self._used += entry.cost

    def _drop(self, key: Key) -> bool:
        """Removes a payload from memory. If it is also in the file, `restore` reads it again when there is room.

        Returns whether the payload was in memory.
        """
        entry = self._waiting.pop(key, None)
        if entry is not None:
            self._used -= entry.cost
        return entry is not None

    def find(self, namespace: str, number: int, now: datetime) -> FoundArtifact | None:
        """Returns a payload that waits in memory, as an artifact; None if there is none, or it has expired."""
        entry = self._waiting.get((namespace, number))
        if entry is None or not _is_live(entry, now):
            return None
        view = entry.change.text_view
        text_view = None if view is None else FoundView(view.view, view.blob, view.inline)
        return FoundArtifact(entry.artifact, entry.change.inline, text_view, entry.change.survey, entry.change.receipt)

    def waits(self, entry: FallbackPayload) -> bool:
        """Returns whether this very entry still waits: it was neither stored nor replaced."""
        return self._waiting.get(entry.key) is entry

    def forget(self, namespace: str, number: int, *, durably: bool = False) -> bool:
        """Drops a payload for good, from memory and from the file; returns whether it was in either.

        With `durably`, which is for deleted payloads, not even a power loss brings it back from the file. This call
        then blocks briefly.
        """
        # The record in the file must be finished, too, or the next `restore` would bring the payload back.
        saved = self._saved.pop((namespace, number), None)
        if saved is not None and self._files is not None:
            self._files.finish(saved.position, durably=durably)
        return self._drop((namespace, number)) or saved is not None

    @asynccontextmanager
    async def alone_with(self, namespace: str, number: int) -> AsyncGenerator[None]:
        """Locks a payload until exit, so that no other task stores or deletes it through the buffer."""
        key = (namespace, number)
        lock = self._one_at_a_time.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            # The last task that leaves removes the lock, so that locks of former payloads do not fill the table.
            if not lock.locked() and self._one_at_a_time.get(key) is lock:
                del self._one_at_a_time[key]

    def of_session(self, namespace: str, session: str) -> list[Key]:
        """Returns the keys of the waiting payloads of a session, including those that are only in the file."""
        return [key for key, each in self.sessions().items() if key[0] == namespace and each == session]

    def sessions(self) -> dict[Key, str | None]:
        """Returns the sessions of the waiting payloads, by key, including those that are only in the file."""
        sessions = {key: saved.session for key, saved in self._saved.items()}
        return sessions | {key: entry.change.declared.session for key, entry in self._waiting.items()}

    def waiting(self, now: datetime) -> Iterator[FallbackPayload]:
        """Yields the waiting payloads, oldest first, and drops expired ones."""
        # The loop uses a copy, because the caller stores payloads between two steps, which changes the dictionary.
        for entry in list(self._waiting.values()):
            if not self.waits(entry):
                continue
            if _is_live(entry, now):
                yield entry
            else:
                self.forget(*entry.key)


def _cost(new: NewView) -> int:
    index = 0 if new.blob is None else len(new.blob.index)
    return len(new.inline or b"") + index + len(new.view.sections) * _SECTION_BYTES


def _is_live(entry: FallbackPayload, now: datetime) -> bool:
    at = entry.artifact.expires_at
    return at is None or at > now


def make_artifact(artifact_id: str, change: StoreArtifact) -> Artifact:
    """Returns the artifact that this change would create."""
    c = change
    return Artifact(
        namespace=c.namespace,
        id=artifact_id,
        declared=c.declared,
        measure=c.measure,
        facts=c.facts,
        blob=c.blob,
        created_at=c.now,
        expires_at=expiry(c.now, c.now, ttl=c.ttl, idle_ttl=c.idle_ttl, pinned=c.pinned),
        ttl=c.ttl,
        idle_ttl=c.idle_ttl,
        pinned=c.pinned,
        engine=c.engine,
    )
