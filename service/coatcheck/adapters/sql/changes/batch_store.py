"""Carries out many ingests of one namespace in one transaction, by statements that each serve all of them.

The answers and effects equal those of `apply_store` for one change after the other: the changes of a group wait for the
same commit, so any order is valid. Complicated ones (an idempotency key, a tombstone or an expired row in the way,
corrupt bytes, a duplicate in the group, a change that a deletion may prevail over, another declaration of an existing
artifact) are carried out one by one, after the others.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Connection, Text, bindparam, delete, func, insert, literal_column, null, select

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes import dedupe, store, usage, views
from coatcheck.adapters.sql.changes import views as surveys
from coatcheck.adapters.sql.changes.dedupe import PROBES, Numberer
from coatcheck.adapters.sql.changes.uploads import no_room
from coatcheck.adapters.sql.changes.views import wait_for_index
from coatcheck.adapters.sql.dialect import Many, among
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, blobs, inline_bytes, tombstones, uploads
from coatcheck.adapters.sql.tables import views as view_table
from coatcheck.core.artifact import Blob
from coatcheck.ports.artifacts import IngestResult, StoreAnswer, StoreArtifact, UploadFenced

_NAMESPACE = bindparam("namespace", type_=Text())
_NUMBERS = bindparam("numbers", type_=Many(BigInteger()))
_TAKE_INTENTS = Prepared(
    delete(uploads)
    .where(uploads.c.namespace == _NAMESPACE, among(uploads.c.blob_id, bindparam("ids", type_=Many(Text()))))
    .returning(uploads.c.blob_id, uploads.c.reserved)
)
_TAKEN = Prepared(
    select(artifacts.c.number, artifacts.c.identity, artifacts.c.seq, artifacts.c.expires_at)
    .where(artifacts.c.namespace == _NAMESPACE, among(artifacts.c.number, _NUMBERS))
    .union_all(
        select(tombstones.c.number, tombstones.c.identity, null(), null()).where(
            tombstones.c.namespace == _NAMESPACE, among(tombstones.c.number, _NUMBERS)
        )
    )
)
_THERE = Prepared(
    select(artifacts.c.seq, *rows.ARTIFACT_COLUMNS, *rows.BLOB_COLUMNS)
    .join_from(artifacts, blobs)
    .where(artifacts.c.namespace == _NAMESPACE, among(artifacts.c.seq, bindparam("seqs", type_=Many(BigInteger()))))
)
_SAME_BYTES = Prepared(
    select(blobs.c.seq, *rows.BLOB_COLUMNS)
    .where(
        among(blobs.c.digest, bindparam("digests", type_=Many(BigInteger()))),
        blobs.c.dead_at.is_(None),
        blobs.c.namespace == _NAMESPACE,
    )
    .order_by(blobs.c.seq)
    .with_for_update(read=True)
)
_COUNT = bindparam("count", type_=BigInteger())
_NUMBERED = func.generate_series(literal_column("1"), _COUNT).table_valued("n")
_NEXT_SEQS = {
    # The only writer: the next number is what SQLite itself would choose.
    "sqlite": Prepared(
        select(
            select(func.coalesce(func.max(blobs.c.seq), 0)).scalar_subquery(),
            select(func.coalesce(func.max(artifacts.c.seq), 0)).scalar_subquery(),
        )
    ),
    "postgresql": Prepared(
        select(func.nextval("blobs_seq_seq"), func.nextval("artifacts_seq_seq")).select_from(_NUMBERED)
    ),
}
_ADD_BLOB = Prepared(insert(blobs), columns=blobs.c.keys())
_ADD_INLINE = Prepared(insert(inline_bytes), columns=inline_bytes.c.keys())
_ADD_ARTIFACT = Prepared(insert(artifacts), columns=artifacts.c.keys())
_ADD_VIEW = Prepared(insert(view_table), columns=view_table.c.keys())

_Content = tuple[bytes, int]
"""A digest and a size, which identify bytes."""


class _New(NamedTuple):
    """A change that creates an artifact, and its number."""

    at: int
    """Its index in the group."""
    change: StoreArtifact
    number: int


class _Known(NamedTuple):
    """Blobs with the same bytes as some of the group."""

    trusted: dict[_Content, tuple[int, Blob]]
    condemned: set[_Content]


def apply_stores(conn: Connection, changes: Sequence[StoreArtifact], number: Numberer) -> list[StoreAnswer]:
    """Stores artifacts of one namespace; returns an answer for each."""
    answers: dict[int, StoreAnswer] = {}
    for at, change in enumerate(changes):
        full = no_room(conn, change, number)
        if full is not None:
            answers[at] = full
    _take_intents(conn, changes, answers)
    new, there = _assign_numbers(conn, changes, number, answers)
    _answer_those_there(conn, changes, there, answers)
    _create(conn, new, answers)
    unused = [
        changes[at]
        for at, answer in answers.items()
        if isinstance(answer, IngestResult) and not answer.blob_used and changes[at].blob.placement != "inline"
    ]
    if unused:
        seqs = _next_seqs(conn, len(unused))
        dead = [
            dedupe.blob_row(dedupe.payload_of(change)) | {"seq": seq, "dead_at": change.now}
            for change, (seq, _) in zip(unused, seqs, strict=True)
        ]
        _ADD_BLOB.many(conn, dead)
    for at, change in enumerate(changes):
        if at not in answers:
            answers[at] = store.apply_fenced_store(conn, change, number)
    return [answers[at] for at in range(len(changes))]


def _take_intents(conn: Connection, changes: Sequence[StoreArtifact], answers: dict[int, StoreAnswer]) -> None:
    files = [
        (at, change) for at, change in enumerate(changes) if at not in answers and change.blob.placement != "inline"
    ]
    if not files:
        return
    ids = [change.blob.id for _, change in files]
    intents = _TAKE_INTENTS.rows(conn, {"namespace": changes[0].namespace, "ids": ids})
    usage.count(conn, changes[0].namespace, reserved=-sum(reserved for _, reserved in intents))
    ours = {blob_id for blob_id, _ in intents}
    for at, change in files:
        if change.blob.id in ours:
            ours.discard(change.blob.id)  # an intent can be used only once
        else:
            answers[at] = UploadFenced()


def _assign_numbers(
    conn: Connection, changes: Sequence[StoreArtifact], number: Numberer, answers: dict[int, StoreAnswer]
) -> tuple[list[_New], dict[int, int]]:
    """Returns the changes that create an artifact, each with a free number, and the rows of live existing ones."""
    probes = {
        at: [number(change.identity, probe) for probe in range(PROBES)]
        for at, change in enumerate(changes)
        if at not in answers
    }
    numbers = [n for candidates in probes.values() for n in candidates]
    holders: dict[int, tuple[bytes, int | None, datetime | None]] = {
        row[0]: (row[1], row[2], row[3])
        for row in _TAKEN.rows(conn, {"namespace": changes[0].namespace, "numbers": numbers})
    }
    new: list[_New] = []
    there: dict[int, int] = {}
    twins: set[bytes | _Content] = set()
    used_numbers = set(holders)
    deferred_numbers: set[int] = set()
    """Numbers that changes carried out one by one may choose: a change that wants one of them comes after."""
    for at, candidates in probes.items():
        change = changes[at]
        mine = next((holders[n] for n in candidates if n in holders and holders[n][0] == change.identity), None)
        free = next((n for n in candidates if n not in used_numbers), None)
        contents = [_content(ours) for ours in _brought(change)]
        twin = not twins.isdisjoint([change.identity, *contents]) or len(set(contents)) < len(contents)
        late = change.unless_buried_since is not None
        if change.key is not None or late or twin or not deferred_numbers.isdisjoint(candidates):
            deferred_numbers.update(candidates)
        elif mine is None and free is not None:
            used_numbers.add(free)
            new.append(_New(at, change, free))
        elif mine is not None and mine[1] is not None and (mine[2] is None or mine[2] > change.now):
            there[at] = mine[1]
        else:
            deferred_numbers.update(candidates)
        twins |= {change.identity, *contents}
    return new, there


def _answer_those_there(
    conn: Connection,
    changes: Sequence[StoreArtifact],
    there: dict[int, int],
    answers: dict[int, StoreAnswer],
) -> None:
    if not there:
        return
    parameters = {"namespace": changes[0].namespace, "seqs": list(there.values())}
    artifacts_by_seq = {row[0]: rows.artifact(row[1:]) for row in _THERE.rows(conn, parameters)}
    lost_views = _find_corrupt_views(conn, [changes[at] for at in there])
    for at, seq in there.items():
        artifact = artifacts_by_seq.get(seq)
        view = dedupe.view_of(changes[at])
        heals = view is not None and _content(view) in lost_views
        plain = artifact is not None and not artifact.blob.condemned and not store.redeclares(changes[at], artifact)
        if artifact is not None and plain and not heals:
            answers[at] = IngestResult(artifact, created=False, blob_used=False)


def _find_corrupt_views(conn: Connection, changes: Sequence[StoreArtifact]) -> set[_Content]:
    """Returns the contents of those views of these changes that are kept but corrupt."""
    brought = [view for change in changes if (view := dedupe.view_of(change)) is not None]
    return _same_bytes(conn, brought).condemned if brought else set()


def _create(conn: Connection, new: list[_New], answers: dict[int, StoreAnswer]) -> None:
    if not new:
        return
    brought = {each.at: _brought(each.change) for each in new}
    existing_blobs = _same_bytes(conn, [ours for each in new for ours in brought[each.at]])
    new = [each for each in new if existing_blobs.condemned.isdisjoint(map(_content, brought[each.at]))]
    # Numbers come in pairs of blob and artifact; the artifact's number beside a view's blob stays unused.
    seqs = _next_seqs(conn, sum(len(brought[each.at]) for each in new))
    resolver = _Kept(existing_blobs, iter([blob_seq for blob_seq, _ in seqs]))
    artifact_rows: list[dict[str, Any]] = []
    view_rows: list[dict[str, Any]] = []
    survey_rows: list[dict[str, Any]] = []
    for each, (_, seq) in zip(new, seqs, strict=False):
        change = each.change
        payload_seq, blob, used = resolver.resolve_blob(dedupe.payload_of(change))
        artifact = store.artifact_of(change, each.number, blob)
        artifact_rows.append(store.artifact_row(change, artifact, each.number, payload_seq) | {"seq": seq})
        if change.text_view is not None:
            view = dedupe.view_of(change)
            view_seq = None if view is None else resolver.resolve_blob(view).seq
            view_rows.append(views.view_row(change.namespace, change.text_view, seq, view_seq))
        if change.survey is not None:
            survey_rows.append(surveys.survey_row(change.namespace, seq, change.survey))
        answers[each.at] = IngestResult(artifact, created=True, blob_used=used)
    _ADD_BLOB.many(conn, resolver.blob_rows)
    _ADD_INLINE.many(conn, resolver.inline_rows)
    # Two replicas that store the same artifacts meet at the same row first, which prevents deadlocks.
    artifact_rows.sort(key=_by_number)
    _ADD_ARTIFACT.many(conn, artifact_rows)
    _ADD_VIEW.many(conn, view_rows)
    surveys.ADD.many(conn, survey_rows)
    if new:
        added = sum(row["stored_size"] for row in resolver.blob_rows)
        usage.count(conn, new[0].change.namespace, bytes_=added, artifacts=len(artifact_rows))
        wait_for_index(conn, new[0].change.namespace, [row["seq"] for row in artifact_rows])


class _Kept:
    """Where the bytes of a group are kept: in existing rows, or in these."""

    def __init__(self, existing_blobs: _Known, seqs: Iterator[int]) -> None:
        self._known = existing_blobs
        self._seqs = seqs
        self.blob_rows: list[dict[str, Any]] = []
        self.inline_rows: list[dict[str, Any]] = []

    def resolve_blob(self, ours: dedupe.NewBytes) -> dedupe.BlobReference:
        """Returns the row of some bytes; no two of a group are the same."""
        same = self._known.trusted.get(_content(ours))
        if same is not None:
            return dedupe.BlobReference(*same, used=False)
        seq = next(self._seqs)
        self.blob_rows.append(dedupe.blob_row(ours) | {"seq": seq})
        if ours.blob.placement == "inline":
            self.inline_rows.append({"blob_seq": seq, "namespace": ours.namespace, "stored": ours.inline})
        return dedupe.BlobReference(seq, ours.blob, used=True)


def _same_bytes(conn: Connection, brought: Sequence[dedupe.NewBytes]) -> _Known:
    parameters = {"namespace": brought[0].namespace, "digests": [rows.digest(ours.blob.sha256) for ours in brought]}
    existing_blobs = _Known({}, set())
    for row in _SAME_BYTES.rows(conn, parameters):
        blob = rows.blob(row[1:])
        content = (blob.sha256, blob.size)
        if blob.condemned:
            existing_blobs.condemned.add(content)
        else:
            existing_blobs.trusted.setdefault(content, (row[0], blob))
    return existing_blobs


def _next_seqs(conn: Connection, count: int) -> list[tuple[int, int]]:
    """Returns numbers for new blobs and artifacts."""
    seq_rows = _NEXT_SEQS[conn.dialect.name].rows(conn, {"count": count})
    if conn.dialect.name != "sqlite":
        return [(row[0], row[1]) for row in seq_rows]
    blob, artifact = seq_rows[0]
    return [(blob + i, artifact + i) for i in range(1, count + 1)]


def _brought(change: StoreArtifact) -> list[dedupe.NewBytes]:
    """Returns the bytes of a change: its payload's, and its view's if that has its own."""
    view = dedupe.view_of(change)
    return [dedupe.payload_of(change)] if view is None else [dedupe.payload_of(change), view]


def _content(ours: dedupe.NewBytes) -> _Content:
    return ours.blob.sha256, ours.blob.size


def _by_number(row: dict[str, Any]) -> int:
    number: int = row["number"]
    return number
