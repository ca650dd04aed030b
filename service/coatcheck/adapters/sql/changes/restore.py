"""Restores a removed artifact: adds its former row again, with copies of its bytes.

Nothing may point at a dead blob again. A restored artifact therefore has a new blob with a copy of the bytes, or a live
blob with the same content. The copies are durable before the transaction begins, so the sweep may delete the former
bytes meanwhile.
"""

from datetime import datetime

from msgspec import UNSET
from msgspec.structs import replace
from sqlalchemy import Connection, delete, insert, literal, select

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes import audit, usage
from coatcheck.adapters.sql.changes.audit import COPIED, OF_VIEW
from coatcheck.adapters.sql.changes.dedupe import NewBytes, add_dead_blobs, resolve_blobs, take_intents
from coatcheck.adapters.sql.changes.views import wait_for_index
from coatcheck.adapters.sql.dialect import RowNumber
from coatcheck.adapters.sql.tables import (
    artifacts,
    removed,
    removed_surveys,
    removed_views,
    surveys,
    tombstones,
    views,
)
from coatcheck.core.retention.audit import AuditLine
from coatcheck.ports.artifacts import IngestResult, UploadFenced
from coatcheck.ports.retention import RestoreArtifact


def apply_restore(conn: Connection, change: RestoreArtifact) -> IngestResult | UploadFenced | None:
    """Carries out RestoreArtifact."""
    copies = _copies(change)
    if len(take_intents(conn, copies)) < len(copies):
        return UploadFenced()
    here = (artifacts.c.namespace == change.namespace, artifacts.c.number == change.number)
    # Somebody else may have restored the artifact; or it was posted and removed again, and only that later removal can
    # be undone; or the removal may be too old, since the sweep may have deleted the bytes. Then nothing points at the
    # copies, and they are swept. Because of the lock, two undos of one removal are carried out one after the other.
    mine = (removed.c.seq == change.seq, removed.c.namespace == change.namespace, removed.c.number == change.number)
    again = removed.alias("again").c
    same = (again.namespace == change.namespace, again.number == change.number)
    later = select(again.seq).where(*same, again.seq > change.seq).exists()
    undoable = select(removed).where(*mine, removed.c.removed_at > change.since, ~later).with_for_update()
    removed_row = conn.execute(undoable).mappings().first()
    there = conn.execute(rows.ARTIFACTS.where(*here)).first()
    if removed_row is None or there is not None:
        add_dead_blobs(conn, copies)
        return None if there is None else IngestResult(rows.artifact(there), created=False, blob_used=False)
    # If a live blob has the same content, it is used, and the copy becomes garbage.
    references = {item.blob.id: each for item, each in zip(copies, resolve_blobs(conn, copies), strict=True)}
    add_dead_blobs(conn, [item for item in copies if not references[item.blob.id].used])
    # The new row equals the former row, except that it points at the new blob, and has a new expiry if that was
    # requested.
    values = {name: removed_row[name] for name in COPIED} | {"blob_seq": references[change.blob.id].seq}
    if change.ttl is not UNSET:
        idle_ttl, pinned = removed_row["idle_ttl"], removed_row["pinned"]
        created_at: datetime = removed_row["created_at"]
        values |= rows.life_from_now(created_at, change.now, ttl=change.ttl, idle_ttl=idle_ttl, pinned=pinned)
    seq: int = conn.execute(insert(artifacts).returning(artifacts.c.seq), values).scalar_one()
    usage.count(conn, change.namespace, artifacts=1)
    # The views and the survey were copied when the artifact was removed. Its entry in the full-text index was not, so
    # the artifact is queued again below.
    _bring_views(conn, change, seq, {blob_id: each.seq for blob_id, each in references.items()})
    kept = removed_surveys.c
    survey = select(literal(seq, RowNumber), kept.namespace, kept.data).where(kept.removed_seq == change.seq)
    conn.execute(insert(surveys).from_select(["artifact_seq", "namespace", "data"], survey))
    # The ID names a live artifact again, so its tombstone and the record of its removal are deleted.
    number_is_mine = (tombstones.c.namespace == change.namespace, tombstones.c.number == change.number)
    conn.execute(delete(tombstones).where(*number_is_mine))
    conn.execute(delete(removed).where(removed.c.seq == change.seq))
    wait_for_index(conn, change.namespace, [seq])
    artifact = rows.artifact(conn.execute(rows.ARTIFACTS.where(*here)).one())
    line = AuditLine(
        at=change.now,
        action="artifact.restored",
        by=replace(change.by, run_id=removed_row["run_id"]),
        namespace=change.namespace,
        reason="undo",
        size=artifact.measure.size,
        numbers=(change.number,),
    )
    audit.append(conn, line)
    return IngestResult(artifact, created=True, blob_used=references[change.blob.id].used)


def _copies(change: RestoreArtifact) -> list[NewBytes]:
    mine = [(change.blob, change.inline), *((view.blob, view.inline) for view in change.views)]
    return [NewBytes(change.namespace, blob, inline, change.now) for blob, inline in mine if blob is not None]


def _bring_views(conn: Connection, change: RestoreArtifact, seq: int, blob_seqs: dict[str, int]) -> None:
    copied = {view.name: view for view in change.views}
    kept = select(removed_views).where(removed_views.c.removed_seq == change.seq)
    for row in conn.execute(kept).mappings().all():
        copy = copied.get(row["name"])
        if copy is None:
            continue  # the bytes of the view could not be copied; the next request for it extracts it again
        blob_seq = None if copy.blob is None else blob_seqs[copy.blob.id]
        conn.execute(insert(views), {name: row[name] for name in OF_VIEW} | {"artifact_seq": seq, "blob_seq": blob_seq})
