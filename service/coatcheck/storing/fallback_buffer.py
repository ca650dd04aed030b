"""Payloads that storage refused: kept in memory for a while, readable here, stored when storage returns.

None of them counts as stored: a crash loses them, and so does a newer payload when there is no more room. Bounded in
bytes. Other replicas do not see it. Payloads that still wait when the process ends go to a file, if there is a place
for it, with the bytes that storage would have got: masked where the policy masks what is stored. The next process takes
them up as room permits; a record is settled when its payload is stored, deleted or beyond hope, and so never returns.
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
"""Approximate cost of an entry besides its bytes."""
_SECTION_BYTES = 400
"""Approximate cost of a section of its view."""

Key = tuple[str, int]


class _SavedPayload(NamedTuple):
    """A payload in a file: where its record is, and its session."""

    position: int
    """Of its record in the file that is open."""
    session: str | None
    """Lets a session's deletion reach payloads that are only in the file."""


class FallbackPayload(Struct, frozen=True):
    """A payload that waits for storage: the change to make, whose `inline` has the stored bytes."""

    change: StoreArtifact
    artifact: Artifact
    """What the change would create; readers get it until then."""

    @property
    def key(self) -> Key:
        """Namespace and number."""
        return self.artifact.namespace, ids.parse(self.artifact.id)

    @property
    def stored_bytes(self) -> bytes:
        """The stored bytes."""
        return self.change.inline or b""

    @property
    def cost(self) -> int:
        """Approximate bytes of memory used."""
        view = self.change.text_view
        text = "" if self.change.receipt is None else self.change.receipt.text or ""
        beside = len(self.change.blob.index) + len(self.change.survey or b"") + len(text)
        return len(self.stored_bytes) + beside + _ROW_BYTES + (0 if view is None else _cost(view))


class FallbackBuffer:
    """Waiting payloads, oldest first, and reserved memory for those that may have to wait."""

    def __init__(self, limit: int, files: WaitingFiles | None = None) -> None:
        """`limit` is in bytes; 0 keeps nothing. Without `files`, the end of the process loses what waits."""
        self._room = limit
        self._files = files
        self._saved: dict[Key, _SavedPayload] = {}
        """Records of the open file that are not settled, by key."""
        self._more = files is not None
        """Whether there may be another file: one that is written later is for the process that starts then."""
        # Two sums in bytes, each compared with the limit by itself: `_used` is of payloads that wait, `_held` of what
        # uploads have reserved until their commit.
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
        """Bytes of memory used by waiting payloads and reservations."""
        return self._used

    def hold(self, size: int) -> bool:
        """Reserves memory for `size` bytes of an upload until its commit; release it with `let_go`.

        Returns whether it could.
        """
        if self._held + size > self._room:
            return False
        self._held += size
        return True

    def let_go(self, size: int) -> None:
        """Releases memory that `hold` reserved."""
        self._held -= size

    def keep(self, artifact_id: str, change: StoreArtifact, stored_bytes: bytes) -> bool:
        """Takes a payload, dropping the oldest if room is needed. Returns False if it exceeds the whole buffer.

        Args:
            artifact_id: the ID that it will have.
            change: how to store it. Its idempotency key is not kept: the identity finds it again.
            stored_bytes: its bytes, compressed.
        """
        # The bytes may have been meant for a file, but the stream to it is gone: later they are stored from memory.
        blob = msgspec.structs.replace(change.blob, placement="inline")
        change = msgspec.structs.replace(change, blob=blob, inline=stored_bytes, key=None)
        entry = FallbackPayload(change, make_artifact(artifact_id, change))
        if entry.cost > self._room:
            return False
        # A second put of the same payload replaces the first instead of counting twice.
        self._drop(entry.key)
        while self._used + entry.cost > self._room:
            self._drop(next(iter(self._waiting)))
        self._add(entry)
        return True

    def save(self) -> int:
        """Writes to a file what is in none yet, at the end of the process; returns how many payloads are lost."""
        # Records that an earlier process wrote are still in their file; a second copy would return twice.
        unsaved = [entry for key, entry in self._waiting.items() if key not in self._saved]
        if self._files is None:
            return len(unsaved)
        saved = self._files.save([msgspec.msgpack.encode(entry) for entry in unsaved], self._room) if unsaved else 0
        self._files.close(is_complete=not self._saved)
        return len(unsaved) - saved

    def restore(self) -> None:
        """Takes up payloads of earlier processes, as many as there is room for; repeat it when some are settled.

        One that needs more than all the room is taken up alone.
        """
        if self._files is None:
            return
        # One file at a time: the next is opened when every record of this one is stored, deleted or unreadable.
        if not self._saved and self._more:
            self._files.close(is_complete=True)
            positions = self._files.open_next()
            self._more = bool(positions)
            for position in positions:
                entry = self._decode(self._files, position)
                if entry is not None:
                    self._saved[entry.key] = _SavedPayload(position, entry.change.declared.session)
        for key, saved in list(self._saved.items()):
            entry = None if key in self._waiting else self._decode(self._files, saved.position)
            if entry is not None:
                # An empty buffer takes even a payload that is too large, or its file would never end.
                if self._waiting and self._used + entry.cost > self._room:
                    break
                self._add(entry)

    def _decode(self, files: WaitingFiles, position: int) -> FallbackPayload | None:
        try:
            return msgspec.msgpack.decode(files.read(position), type=FallbackPayload)
        except (msgspec.MsgspecError, ValueError) as error:
            log.warning("a payload that waited for storage was written by another release: %s", type(error).__name__)
            # The record stays on disk for the release that wrote it, rather than being lost to a downgrade.
            files.set_aside()
            return None

    def _add(self, entry: FallbackPayload) -> None:
        self._waiting[entry.key] = entry
        self._used += entry.cost

    def _drop(self, key: Key) -> bool:
        """Takes a payload out of memory; if it is in a file as well, it returns when there is room."""
        entry = self._waiting.pop(key, None)
        if entry is not None:
            self._used -= entry.cost
        return entry is not None

    def find(self, namespace: str, number: int, now: datetime) -> FoundArtifact | None:
        """Returns a waiting payload that has not expired, with its text view if it has one."""
        entry = self._waiting.get((namespace, number))
        if entry is None or not _is_live(entry, now):
            return None
        view = entry.change.text_view
        text_view = None if view is None else FoundView(view.view, view.blob, view.inline)
        return FoundArtifact(entry.artifact, entry.change.inline, text_view, entry.change.survey, entry.change.receipt)

    def waits(self, entry: FallbackPayload) -> bool:
        """Returns whether this entry still waits."""
        return self._waiting.get(entry.key) is entry

    def forget(self, namespace: str, number: int, *, durably: bool = False) -> bool:
        """Drops an entry for good; returns whether there was one.

        `durably`: it was deleted, so not even a power loss may bring it back from a file. Blocks briefly then.
        """
        # The file first: were only the memory cleared, the next `restore` would bring the payload back.
        saved = self._saved.pop((namespace, number), None)
        if saved is not None and self._files is not None:
            self._files.finish(saved.position, durably=durably)
        return self._drop((namespace, number)) or saved is not None

    @asynccontextmanager
    async def alone_with(self, namespace: str, number: int) -> AsyncGenerator[None]:
        """Keeps others from storing or deleting this payload through the buffer meanwhile."""
        key = (namespace, number)
        lock = self._one_at_a_time.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            # The last one out removes the lock, so the table does not grow by one entry per payload ever buffered.
            if not lock.locked() and self._one_at_a_time.get(key) is lock:
                del self._one_at_a_time[key]

    def of_session(self, namespace: str, session: str) -> list[Key]:
        """Returns the keys of the waiting payloads of a session, also of those for which there is no memory."""
        sessions = {key: saved.session for key, saved in self._saved.items()}
        sessions |= {key: entry.change.declared.session for key, entry in self._waiting.items()}
        return [key for key, each in sessions.items() if key[0] == namespace and each == session]

    def waiting(self, now: datetime) -> Iterator[FallbackPayload]:
        """Yields the waiting payloads, oldest first, and drops expired ones."""
        # A copy: the caller stores payloads between two steps, which changes the dictionary.
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
