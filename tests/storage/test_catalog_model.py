"""The catalogue against a dict that obeys the same docstrings: any order of changes gives the same answers."""

import asyncio
import contextlib
import math
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from coatcheck.adapters.sql.rows import Reason
from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Blob, DeclaredMetadata, Gone, Kind
from coatcheck.ports.artifacts import (
    DeleteArtifact,
    DeleteSession,
    FoundView,
    IngestResult,
    NewView,
    PatchArtifact,
    StoreArtifact,
    StoredView,
    StoreView,
    Touch,
    UploadFenced,
)
from coatcheck.ports.blobs import BeginUpload
from coatcheck.ports.catalog import ArtifactFilter, FoundArtifact
from coatcheck.ports.maintenance import ExpireArtifacts, ForgetBlobs, PurgeRecords, ReapUploads
from contract.sample_changes import START, Everything, store, view
from support.catalogs import Number, open_postgresql, open_sqlite

T = TypeVar("T")
TOMBSTONE = timedelta(seconds=300)
NAMESPACES = st.sampled_from(["acme", "other"])
CONTENTS = st.sampled_from([b"a\n", b"b\n", b"c\n"])
SESSIONS = st.sampled_from(["s", "t", None])
CALLS = st.sampled_from(["1", "2"])
TTLS = st.sampled_from([None, 20, 60])
VIEWS = st.sampled_from([b"a\n", b"x\n", b"y\n", None])
Key = tuple[str, int]


def number_of(identity: bytes, probe: int = 0) -> int:
    """Numbers that collide often: three first choices for all, then one of their own each."""
    first = identity[0] % 3
    return ids.check_digits(first if probe == 0 else 3 + int.from_bytes(identity[:5]) * 100 + probe)


@dataclass
class Row:
    """A live or expired artifact of the model."""

    artifact: Artifact
    identity: bytes
    read_at: datetime
    view: FoundView | None = None
    survey: bytes | None = None

    def live(self, now: datetime) -> bool:
        return self.artifact.expires_at is None or self.artifact.expires_at > now


@dataclass
class Grave:
    """A tombstone of the model."""

    gone: Gone
    identity: bytes
    until: datetime


@dataclass
class Model:
    """What the catalogue must be equal to."""

    rows: dict[Key, Row] = field(default_factory=dict[Key, Row])
    graves: dict[Key, Grave] = field(default_factory=dict[Key, Grave])
    blobs: dict[str, tuple[str, Blob]] = field(default_factory=dict[str, tuple[str, Blob]])
    dead: dict[str, datetime] = field(default_factory=dict[str, datetime])
    uploads: dict[str, datetime] = field(default_factory=dict[str, datetime])

    def find(self, key: Key, now: datetime) -> Artifact | Gone | None:
        if (row := self.rows.get(key)) is not None:
            return row.artifact if row.live(now) else self.expired(row)
        grave = self.graves.get(key)
        return grave.gone if grave is not None and grave.until > now else None

    @staticmethod
    def expired(row: Row) -> Gone:
        at = row.artifact.expires_at
        assert at is not None
        return Gone(
            id=row.artifact.id,
            reason="expired",
            at=at,
            tool_name=row.artifact.declared.tool_name,
            session=row.artifact.declared.session,
        )

    def bury(self, key: Key, reason: Reason, now: datetime) -> None:
        row = self.rows.pop(key)
        gone = Gone(
            id=row.artifact.id,
            reason=reason,
            at=now,
            tool_name=row.artifact.declared.tool_name,
            session=row.artifact.declared.session,
        )
        gone = self.expired(row) if reason == "expired" else gone
        self.graves[key] = Grave(gone, row.identity, now + TOMBSTONE)
        self.release(row, now)

    def release(self, row: Row, now: datetime) -> None:
        """Bury the blobs of a row that is gone if no other row uses them."""
        for blob_id in self.used(row) - {blob_id for other in self.rows.values() for blob_id in self.used(other)}:
            self.dead.setdefault(blob_id, now)

    @staticmethod
    def used(row: Row) -> set[str]:
        view = row.view.blob if row.view is not None else None
        return {row.artifact.blob.id} | ({view.id} if view is not None else set())

    def place(self, change: StoreArtifact) -> Key:
        free: Key | None = None
        for probe in range(4):
            key = (change.namespace, number_of(change.identity, probe))
            holder = self.rows.get(key) or self.graves.get(key)
            if holder is not None and holder.identity == change.identity:
                return key
            free = free or (key if holder is None else None)
        assert free is not None
        return free

    def store(self, change: StoreArtifact) -> IngestResult | UploadFenced:
        if change.blob.placement != "inline" and self.uploads.pop(change.blob.id, None) is None:
            return UploadFenced()
        key = self.place(change)
        old = self.rows.get(key)
        if old is not None and old.live(change.now):
            self.bury_ours(change.namespace, change.blob, change.now)
            redeclared = self.redeclare(change, old)
            return IngestResult(old.artifact, created=False, blob_used=False, redeclared=redeclared)
        blob = self.settle(change.namespace, change.blob)
        if blob is not change.blob:
            self.bury_ours(change.namespace, change.blob, change.now)
        ends = [s for s in (change.ttl, change.idle_ttl) if s is not None and not change.pinned]
        artifact = Artifact(
            namespace=change.namespace,
            id=ids.render(key[1]),
            declared=change.declared,
            measure=change.measure,
            facts=change.facts,
            blob=blob,
            created_at=change.now,
            expires_at=change.now + timedelta(seconds=min(ends)) if ends else None,
            ttl=change.ttl,
            idle_ttl=change.idle_ttl,
            pinned=change.pinned,
            engine=change.engine,
        )
        self.rows.pop(key, None)
        row = self.rows[key] = Row(artifact, change.identity, change.now, survey=change.survey)
        if change.text_view is not None:
            row.view = self.kept(change.namespace, change.text_view)
        if old is not None:
            self.release(old, change.now)
        self.graves.pop(key, None)
        return IngestResult(artifact, created=True, blob_used=blob is change.blob)

    def redeclare(self, change: StoreArtifact, row: Row) -> bool:
        """Declare a live artifact anew; whether that changes it."""
        before = row.artifact
        said = replace(change.declared, labels=before.declared.labels)
        if said == before.declared:
            return False
        row.artifact = replace(before, declared=said, facts=change.facts)
        row.survey = change.survey
        if change.facts.kind is not before.facts.kind:
            old = Row(before, row.identity, row.read_at, row.view)
            row.view = None if change.text_view is None else self.kept(change.namespace, change.text_view)
            self.release(old, change.now)
        return True

    def settle(self, namespace: str, ours: Blob) -> Blob:
        same = (namespace, ours.sha256)
        live = (
            blob for space, blob in self.blobs.values() if (space, blob.sha256) == same and blob.id not in self.dead
        )
        blob = next(live, ours)
        self.blobs[blob.id] = (namespace, blob)
        return blob

    def kept(self, namespace: str, new: NewView) -> FoundView:
        if new.blob is None:
            return FoundView(new.view, None)
        return FoundView(new.view, self.settle(namespace, new.blob))

    def keep_view(self, change: StoreView) -> StoredView | UploadFenced | None:
        ours, row = change.new.blob, self.rows.get((change.namespace, change.number))
        if ours is not None and ours.placement != "inline" and self.uploads.pop(ours.id, None) is None:
            return UploadFenced()
        first = row is not None and row.live(change.now) and row.view is None
        if row is not None and first:
            row.view = self.kept(change.namespace, change.new)
        kept = row.view if row is not None and row.live(change.now) else None
        used = first and ours is not None and kept is not None and kept.blob is ours
        if ours is not None and not used:
            self.bury_ours(change.namespace, ours, change.now)
        if kept is None:
            return None
        return StoredView(replace(kept, inline=change.new.inline if used else None), blob_used=used)

    def bury_ours(self, namespace: str, ours: Blob, now: datetime) -> None:
        if ours.placement != "inline":
            self.blobs[ours.id] = (namespace, ours)
            self.dead[ours.id] = now

    def ends(self, row: Row, a: Artifact) -> datetime | None:
        if a.pinned:
            return None
        ends = [a.created_at + timedelta(seconds=a.ttl)] if a.ttl is not None else []
        ends += [row.read_at + timedelta(seconds=a.idle_ttl)] if a.idle_ttl is not None else []
        return min(ends, default=None)


class CatalogMachine(RuleBasedStateMachine):
    """Drives both and compares every answer."""

    opening: Callable[[Path, Number], AbstractAsyncContextManager[Everything]]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = contextlib.AsyncExitStack()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.catalog = self.do(self.stack.enter_async_context(self.opening(folder, number_of)))
        self.model = Model()
        self.now = START
        self.keys: set[Key] = set()

    def teardown(self) -> None:
        self.do(self.stack.aclose())
        self.runner.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @rule(seconds=st.sampled_from([1, 15, 20, 60, 301]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(
        namespace=NAMESPACES,
        content=CONTENTS,
        session=SESSIONS,
        call=CALLS,
        ttl=TTLS,
        idle_ttl=TTLS,
        pinned=st.booleans(),
        upload=st.sampled_from(["inline", "open", "missing"]),
        text=st.one_of(st.just(UNSET), VIEWS),
        kind=st.sampled_from([None, Kind.LOG]),
    )
    def stores(
        self,
        namespace: str,
        content: bytes,
        session: str | None,
        call: str,
        ttl: int | None,
        idle_ttl: int | None,
        pinned: bool,
        upload: str,
        text: bytes | None | UnsetType,
        kind: Kind | None,
    ) -> None:
        said = DeclaredMetadata(tool_name="bash", tool_call_id=call, session=session, title=str(self.now), kind=kind)
        change = store(
            content,
            namespace=namespace,
            said=said,
            placement="inline" if upload == "inline" else "file",
            now=self.now,
            ttl=ttl,
            idle_ttl=idle_ttl,
            pinned=pinned,
            text_view=None if text is UNSET else view(text, extractor=str(self.now)),
            survey=str(self.now).encode() if pinned else None,
        )
        if upload == "open":
            self.begins(namespace, change.blob.id)
        expected = self.model.store(change)
        assert self.do(self.catalog.commit(change)) == expected
        if isinstance(expected, IngestResult):
            self.keys.add((namespace, ids.parse(expected.artifact.id)))

    def begins(self, namespace: str, blob_id: str) -> None:
        lease = self.now + timedelta(seconds=30)
        self.do(
            self.catalog.commit(BeginUpload(namespace=namespace, blob_id=blob_id, placement="file", lease_until=lease))
        )
        self.model.uploads[blob_id] = lease

    @rule(namespace=NAMESPACES, content=CONTENTS)
    def uploads_and_dies(self, namespace: str, content: bytes) -> None:
        self.begins(namespace, store(content).blob.id)

    def key(self, data: st.DataObject) -> Key:
        return data.draw(st.sampled_from(sorted(self.keys) or [("acme", 97)]))

    @rule(data=st.data(), text=VIEWS, upload=st.sampled_from(["inline", "open", "missing"]))
    def keeps_a_view(self, data: st.DataObject, text: bytes | None, upload: str) -> None:
        key = self.key(data)
        new = view(text, placement="inline" if upload == "inline" else "file", extractor=str(self.now))
        if upload == "open" and new.blob is not None:
            self.begins(key[0], new.blob.id)
        change = StoreView(namespace=key[0], number=key[1], now=self.now, new=new)
        expected = self.model.keep_view(change)
        assert self.do(self.catalog.commit(change)) == expected

    @rule(data=st.data())
    def deletes(self, data: st.DataObject) -> None:
        key = self.key(data)
        expected = self.model.find(key, self.now)
        change = DeleteArtifact(namespace=key[0], number=key[1], now=self.now, tombstone_until=self.now + TOMBSTONE)
        answer = self.do(self.catalog.commit(change))
        assert answer == (True if isinstance(expected, Artifact) else expected)
        if isinstance(expected, Artifact):
            self.model.bury(key, "deleted", self.now)

    @rule(namespace=NAMESPACES, session=st.sampled_from(["s", "t"]), limit=st.integers(1, 3))
    def deletes_a_session(self, namespace: str, session: str, limit: int) -> None:
        doomed = [
            key
            for key, row in self.model.rows.items()
            if (key[0], row.artifact.declared.session) == (namespace, session) and row.live(self.now)
        ][:limit]
        change = DeleteSession(
            namespace=namespace,
            session=session,
            now=self.now,
            tombstone_until=self.now + TOMBSTONE,
            limit=limit,
        )
        assert self.do(self.catalog.commit(change)) == len(doomed)
        for key in doomed:
            self.model.bury(key, "session_deleted", self.now)

    @rule(
        data=st.data(),
        ttl=st.one_of(st.just(UNSET), TTLS),
        idle_ttl=st.one_of(st.just(UNSET), TTLS),
        pinned=st.sampled_from([UNSET, True, False]),
        labels=st.sampled_from([UNSET, (), ("x",)]),
    )
    def patches(
        self,
        data: st.DataObject,
        ttl: int | None | UnsetType,
        idle_ttl: int | None | UnsetType,
        pinned: bool | UnsetType,
        labels: tuple[str, ...] | UnsetType,
    ) -> None:
        key = self.key(data)
        change = PatchArtifact(
            namespace=key[0],
            number=key[1],
            now=self.now,
            ttl=ttl,
            idle_ttl=idle_ttl,
            pinned=pinned,
            labels=labels,
        )
        expected = self.model.find(key, self.now)
        if isinstance(expected, Artifact):
            row = self.model.rows[key]
            was_pinned = expected.pinned
            expected = replace(
                expected,
                declared=expected.declared if labels is UNSET else replace(expected.declared, labels=labels),
                ttl=expected.ttl if ttl is UNSET else ttl,
                idle_ttl=expected.idle_ttl if idle_ttl is UNSET else idle_ttl,
                pinned=was_pinned if pinned is UNSET else pinned,
            )
            if idle_ttl is not UNSET:
                row.read_at = self.now
            ends = self.model.ends(row, expected)
            if was_pinned and ends is not None and ends <= self.now:
                row.read_at = self.now
                ends = self.model.ends(row, expected)
                if ends is not None and expected.ttl is not None and ends <= self.now:
                    age = math.ceil((self.now - expected.created_at).total_seconds())
                    expected = replace(expected, ttl=age + expected.ttl)
                    ends = self.model.ends(row, expected)
            expected = row.artifact = replace(expected, expires_at=ends)
        assert self.do(self.catalog.commit(change)) == expected

    @rule(data=st.data(), ago=st.sampled_from([0, 5, 30]))
    def reads(self, data: st.DataObject, ago: int) -> None:
        key, moment = self.key(data), self.now - timedelta(seconds=ago)
        self.do(self.catalog.commit(Touch(reads=((*key, moment),))))
        row = self.model.rows.get(key)
        if row is None or row.artifact.pinned:
            return
        if row.live(moment) and row.read_at < moment:
            row.read_at = moment
            before = row.artifact.expires_at
            if row.artifact.idle_ttl is not None and before is not None:
                moved = self.model.ends(row, row.artifact)
                row.artifact = replace(row.artifact, expires_at=before if moved is None else max(moved, before))

    @rule(limit=st.integers(1, 4))
    def expires(self, limit: int) -> None:
        overdue = [key for key, row in self.model.rows.items() if not row.live(self.now)]
        overdue.sort(key=lambda key: cast("datetime", self.model.rows[key].artifact.expires_at))
        moments = [self.model.rows[key].artifact.expires_at for key in overdue]
        if limit < len(overdue) and moments[limit - 1] == moments[limit]:
            limit = len(overdue)  # which of those that expired together goes first is nobody's promise
        change = ExpireArtifacts(now=self.now, tombstone_until=self.now + TOMBSTONE, limit=limit)
        assert self.do(self.catalog.commit(change)) == len(overdue[:limit])
        for key in overdue[:limit]:
            self.model.bury(key, "expired", self.now)

    @rule()
    def reaps(self) -> None:
        late = [blob_id for blob_id, lease in self.model.uploads.items() if lease < self.now]
        assert self.do(self.catalog.commit(ReapUploads(now=self.now, limit=100))) == len(late)
        for blob_id in late:
            del self.model.uploads[blob_id]
            self.model.dead[blob_id] = self.now

    @rule()
    def sweeps(self) -> None:
        dead = self.do(self.catalog.dead_blobs(self.now, 100))
        expected = {blob_id for blob_id, at in self.model.dead.items() if at < self.now}
        assert {blob.id for blob in dead} == expected
        self.do(self.catalog.commit(ForgetBlobs(blobs=tuple((blob.namespace, blob.id) for blob in dead))))
        for blob in dead:
            del self.model.dead[blob.id]
            self.model.blobs.pop(blob.id, None)

    @rule()
    def purges(self) -> None:
        over = [key for key, grave in self.model.graves.items() if grave.until <= self.now]
        assert self.do(self.catalog.commit(PurgeRecords(now=self.now, limit=100))) == len(over)
        for key in over:
            del self.model.graves[key]

    @invariant()
    def every_answer_is_the_models(self) -> None:
        async def answers() -> list[Any]:
            ask = partial(self.catalog.find, with_bytes=True, with_view=True, with_survey=True)
            return [await ask(*key, self.now) for key in sorted(self.keys)]

        for key, answer in zip(sorted(self.keys), self.do(answers()), strict=True):
            expected = self.model.find(key, self.now)
            assert (answer.artifact if isinstance(answer, FoundArtifact) else answer) == expected
            if isinstance(answer, FoundArtifact):
                assert (answer.inline is None) == (answer.artifact.blob.placement != "inline")
                text = answer.text_view
                assert (text and replace(text, inline=None)) == self.model.rows[key].view
                assert answer.survey == self.model.rows[key].survey
                assert text is None or (text.inline is None) == (text.blob is None or text.blob.placement != "inline")

    @invariant()
    def lists_and_walks_agree_with_the_model(self) -> None:
        async def walk() -> list[tuple[str, Blob]]:
            return [pair async for pair in self.catalog.all_blobs()]

        live = [pair for blob_id, pair in self.model.blobs.items() if blob_id not in self.model.dead]
        assert self.do(walk()) == live
        for namespace in ("acme", "other"):
            page = self.do(self.catalog.list_artifacts(namespace, ArtifactFilter(), self.now, before=None, limit=200))
            rows = [row for key, row in self.model.rows.items() if key[0] == namespace]
            assert page.artifacts == [row.artifact for row in reversed(rows) if row.live(self.now)]


class OnSqlite(CatalogMachine):
    """The embedded catalogue."""

    opening = staticmethod(open_sqlite)


class OnPostgresql(CatalogMachine):
    """The catalogue of many replicas."""

    opening = staticmethod(open_postgresql)


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


TestSqliteAgainstADict = OnSqlite.TestCase
TestSqliteAgainstADict.settings = _settings(15)
TestPostgresqlAgainstADict = OnPostgresql.TestCase
TestPostgresqlAgainstADict.settings = _settings(6)
