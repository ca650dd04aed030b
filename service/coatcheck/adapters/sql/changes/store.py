"""The one transaction of an ingest: fence, key, identity, blob, artifact, view.

The caller must have made the bytes durable before. Afterwards it must remove its bytes, unless `blob_used` says that
they are now referenced.
"""

import math
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes import holds, usage
from coatcheck.adapters.sql.changes.alter import redeclare
from coatcheck.adapters.sql.changes.dedupe import (
    ArtifactSlot,
    Numberer,
    add_dead_blob,
    find_slot,
    payload_of,
    repair,
    resolve_blob,
    take_intent,
    view_of,
    without_seq,
)
from coatcheck.adapters.sql.changes.tombstone import Removal, lock_row, note_removal, release, remove, tombstone_of
from coatcheck.adapters.sql.changes.uploads import no_room
from coatcheck.adapters.sql.changes.views import add_survey, add_view, wait_for_index
from coatcheck.adapters.sql.faults import TransactionConflict
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, blobs, idempotency_keys, tombstones
from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Blob, Gone
from coatcheck.core.policies.policy import expiry
from coatcheck.core.retention.audit import SCHEDULE
from coatcheck.ports.artifacts import (
    IdempotencyKey,
    IngestResult,
    KeyConflict,
    KeyRecord,
    StoreAnswer,
    StoreArtifact,
    UploadFenced,
)

_LOOKS = 8
"""For a slot that other replicas keep changing. Each attempt waits for one of them; then the transaction starts
again."""

_LIFE = ("ttl", "idle_ttl", "pinned", "read_at", "expires_at")
_KEY = select(
    idempotency_keys.c.fingerprint,
    idempotency_keys.c.expires_at,
    idempotency_keys.c.number,
    idempotency_keys.c.created,
).where(idempotency_keys.c.namespace == bindparam("namespace"), idempotency_keys.c.key == bindparam("key"))
_REMOVE_KEY = delete(idempotency_keys).where(
    idempotency_keys.c.namespace == bindparam("namespace"), idempotency_keys.c.key == bindparam("key")
)
_ADD_KEY = insert(idempotency_keys)
_BY_SEQ = Prepared(
    select(*rows.ARTIFACT_COLUMNS, *rows.BLOB_COLUMNS)
    .join_from(artifacts, blobs)
    .where(artifacts.c.seq == bindparam("seq"))
)
_BY_NUMBER = select(artifacts.c.seq, artifacts.c.expires_at, artifacts.c.tool_name, artifacts.c.session).where(
    artifacts.c.namespace == bindparam("namespace"), artifacts.c.number == bindparam("number")
)
_BURIED = (
    select(tombstones.c.at)
    .where(
        tombstones.c.namespace == bindparam("namespace"),
        tombstones.c.number == bindparam("number"),
        tombstones.c.identity == bindparam("identity"),
    )
    .with_for_update()
)
_REMOVE_TOMBSTONE = Prepared(
    delete(tombstones).where(
        tombstones.c.namespace == bindparam("namespace"), tombstones.c.number == bindparam("number")
    )
)
_BORN = select(artifacts.c.created_at).where(artifacts.c.seq == bindparam("seq"))
_REVIVE = (
    update(artifacts)
    .where(artifacts.c.seq == bindparam("row"))
    .values({name: bindparam(name, type_=artifacts.c[name].type) for name in _LIFE})
)
_SIZE = select(blobs.c.size).where(blobs.c.seq == bindparam("seq"))
_ADD_ARTIFACT = Prepared(insert(artifacts).returning(artifacts.c.seq), columns=without_seq(artifacts))


def apply_store(conn: Connection, change: StoreArtifact, number: Numberer = ids.number) -> StoreAnswer:
    """Stores an artifact, or returns the existing one."""
    full = no_room(conn, change, number)
    if full is not None:
        return full
    if not take_intent(conn, payload_of(change)):
        return UploadFenced()
    return apply_fenced_store(conn, change, number)


def apply_fenced_store(conn: Connection, change: StoreArtifact, number: Numberer) -> StoreAnswer:
    """Stores an artifact after the fence: the upload's intent has been taken in this transaction."""
    key_record = None if change.key is None else _find_key(conn, change, change.key)
    if key_record is not None and change.key is not None:
        same = key_record.fingerprint == change.key.fingerprint
        answer = _replay(conn, change, key_record) if same else KeyConflict()
    else:
        place, answer = _place_and_store(conn, change, number)
        if change.key is not None and isinstance(answer, IngestResult):
            _remember(conn, change, change.key, place.number, created=answer.created)
    if not (isinstance(answer, IngestResult) and answer.blob_used):
        add_dead_blob(conn, payload_of(change))
    return answer


def _place_and_store(
    conn: Connection, change: StoreArtifact, number: Numberer
) -> tuple[ArtifactSlot, IngestResult | Gone]:
    """Stores it, or returns what exists. Tries again if another replica has changed the slot since it was found."""
    for _ in range(_LOOKS):
        place = find_slot(conn, change, number)
        if place.seq is not None and _is_live(place.expires_at, change):
            answer = _repeat_post(conn, change, place.seq)
        else:
            answer = _outdone(change, place) or _create(conn, change, place)
        if answer is not None:
            return place, answer
    raise TransactionConflict


def _is_live(expires_at: datetime | None, change: StoreArtifact) -> bool:
    return expires_at is None or expires_at > change.now


def _there(conn: Connection, change: StoreArtifact, seq: int, *, created: bool) -> IngestResult | None:
    """Returns the existing artifact, after replacing lost bytes with ours. None: it was deleted meanwhile."""
    artifact_rows = _BY_SEQ.rows(conn, {"seq": seq})
    if not artifact_rows:
        return None
    artifact = rows.artifact(artifact_rows[0])
    view = view_of(change)
    if view is not None:
        repair(conn, view)
    if not artifact.blob.condemned or artifact.blob.sha256 != change.blob.sha256:
        return IngestResult(artifact, created=created, blob_used=False)
    if not lock_row(conn, seq):
        return None
    used = resolve_blob(conn, payload_of(change)).used
    return IngestResult(rows.artifact(_BY_SEQ.rows(conn, {"seq": seq})[0]), created=created, blob_used=used)


def _repeat_post(conn: Connection, change: StoreArtifact, seq: int) -> IngestResult | None:
    """Returns the existing artifact, declared as in this change. None: it was deleted meanwhile."""
    answer = _there(conn, change, seq, created=False)
    if answer is None or not redeclares(change, answer.artifact):
        return answer
    if not redeclare(conn, change, seq, answer.artifact):
        return None
    artifact = rows.artifact(_BY_SEQ.rows(conn, {"seq": seq})[0])
    return IngestResult(artifact, created=False, blob_used=answer.blob_used, redeclared=True)


def redeclares(change: StoreArtifact, there: Artifact) -> bool:
    """Returns whether a change declares an existing artifact differently, or finds the form of its text.

    A late change never does.
    """
    is_new = change.declared.merged_over(there.declared) is not there.declared or (
        there.lacks_form and change.facts.form is not None
    )
    return change.unless_buried_since is None and is_new


def _outdone(change: StoreArtifact, place: ArtifactSlot) -> Gone | None:
    """Returns the tombstone, or expiry, of a removal that prevails over this change."""
    since = change.unless_buried_since
    return place.buried if since is not None and place.buried is not None and place.buried.at > since else None


def _replay(conn: Connection, change: StoreArtifact, key_record: KeyRecord) -> IngestResult | Gone | None:
    """Returns the earlier answer to this request. It never revives what was removed since."""
    row = conn.execute(_BY_NUMBER, {"namespace": change.namespace, "number": key_record.number}).first()
    if row is None:
        return tombstone_of(conn, change.namespace, key_record.number, change.now)
    if not _is_live(row.expires_at, change):
        return rows.make_tombstone(key_record.number, "expired", row.expires_at, row.tool_name, row.session)
    answer = _there(conn, change, row.seq, created=key_record.created)
    if answer is None:
        raise TransactionConflict
    return answer


def _find_key(conn: Connection, change: StoreArtifact, key: IdempotencyKey) -> KeyRecord | None:
    """Returns what this key already stands for."""
    at = {"namespace": change.namespace, "key": key.key}
    row = conn.execute(_KEY, at).first()
    if row is None:
        return None
    if row.expires_at <= change.now:
        conn.execute(_REMOVE_KEY, at)
        return None
    return KeyRecord(row.fingerprint, row.number, row.created)


def _remember(conn: Connection, change: StoreArtifact, key: IdempotencyKey, number: int, *, created: bool) -> None:
    conn.execute(
        _ADD_KEY,
        {
            "namespace": change.namespace,
            "key": key.key,
            "fingerprint": key.fingerprint,
            "number": number,
            "created": created,
            "expires_at": key.expires_at,
        },
    )


def _create(conn: Connection, change: StoreArtifact, place: ArtifactSlot) -> IngestResult | None:
    """Creates the artifact in this slot. None: another replica was first, and nothing is changed."""
    # Removing what is in the way reserves the slot until the transaction ends.
    blob_seqs: list[int] = []
    if place.seq is not None:
        if not lock_row(conn, place.seq):
            return None
        if holds.holds_of(conn, place.seq, change.now) is not None:
            return _revive(conn, change, place.seq)
        blob_seqs = remove(conn, [place.seq], change.now)
        _note_expiry(conn, change, place)
    if place.buried is not None:
        _expect_unburied(conn, change, place.number)
        removed = _REMOVE_TOMBSTONE.run(conn, {"namespace": change.namespace, "number": place.number})
        if place.seq is None and not removed:
            return None
    blob_seq, blob, used = resolve_blob(conn, payload_of(change))
    artifact = artifact_of(change, place.number, blob)
    row = artifact_row(change, artifact, place.number, blob_seq)
    seq: int = _ADD_ARTIFACT.rows(conn, row)[0][0]
    usage.count(conn, change.namespace, artifacts=1)
    wait_for_index(conn, change.namespace, [seq])
    if change.text_view is not None:
        add_view(conn, change, change.text_view, seq)
    add_survey(conn, change, seq)
    if place.blob_seq is not None and place.blob_seq != blob_seq:
        blob_seqs.append(place.blob_seq)
    if blob_seqs:
        release(conn, blob_seqs, change.now)
    _expect_unburied(conn, change, place.number)
    return IngestResult(artifact, created=True, blob_used=used)


def _revive(conn: Connection, change: StoreArtifact, seq: int) -> IngestResult | None:
    """Revives the expired, held artifact here: a hold forbids replacing it."""
    created_at: datetime = conn.execute(_BORN, {"seq": seq}).scalar_one()
    age = math.ceil((change.now - created_at).total_seconds())
    ttl = None if change.ttl is None else age + change.ttl
    conn.execute(
        _REVIVE,
        {
            "row": seq,
            "ttl": ttl,
            "idle_ttl": change.idle_ttl,
            "pinned": change.pinned,
            "read_at": change.now,
            "expires_at": expiry(created_at, change.now, ttl=ttl, idle_ttl=change.idle_ttl, pinned=change.pinned),
        },
    )
    return _repeat_post(conn, change, seq)


def _note_expiry(conn: Connection, change: StoreArtifact, place: ArtifactSlot) -> None:
    """Records in the audit log that an expired artifact was removed before its sweep, because it is stored again."""
    size: int = conn.execute(_SIZE, {"seq": place.blob_seq}).scalar() or 0
    note_removal(conn, change.namespace, Removal("expired", change.now, change.now, SCHEDULE), place.number, size)


def _expect_unburied(conn: Connection, change: StoreArtifact, number: int) -> None:
    """Raises TransactionConflict if another replica stored and deleted the same between our look-up and our insert."""
    if change.unless_buried_since is None:
        return
    parameters = {"namespace": change.namespace, "number": number, "identity": change.identity}
    at = conn.execute(_BURIED, parameters).scalar()
    if at is not None and at > change.unless_buried_since:
        raise TransactionConflict


def artifact_of(change: StoreArtifact, number: int, blob: Blob) -> Artifact:
    """Returns the artifact that a change creates."""
    return Artifact(
        namespace=change.namespace,
        id=ids.render(number),
        declared=change.declared,
        measure=change.measure,
        facts=change.facts,
        blob=blob,
        created_at=change.now,
        expires_at=expiry(change.now, change.now, ttl=change.ttl, idle_ttl=change.idle_ttl, pinned=change.pinned),
        ttl=change.ttl,
        idle_ttl=change.idle_ttl,
        pinned=change.pinned,
        engine=change.engine,
    )


def artifact_row(change: StoreArtifact, artifact: Artifact, number: int, blob_seq: int) -> dict[str, Any]:
    """Returns its row, without its sequence number."""
    declared = change.declared
    return {
        "namespace": change.namespace,
        "number": number,
        "identity": change.identity,
        "blob_seq": blob_seq,
        "session": declared.session,
        "created_at": change.now,
        "read_at": change.now,
        "expires_at": artifact.expires_at,
        "ttl": change.ttl,
        "idle_ttl": change.idle_ttl,
        "pinned": change.pinned,
        "engine": change.engine,
        "labels": rows.encode_labels(declared.labels),
        "measure": rows.encode(change.measure),
        "declared_at": None,
        # The text names the ID that its request expected.
        "receipt": None
        if change.receipt is None or number != ids.number(change.identity)
        else rows.encode(change.receipt),
        **rows.columns_of_metadata(declared, change.facts),
    }
