"""Restores what was removed: the artifact's former row, with copies of its bytes.

A dead blob is never pointed at again: a restored artifact has bytes of its own, or live ones with the same content. The
copy is durable before this begins, so it does not matter what the sweep does meanwhile.
"""

import math
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, bindparam, delete, insert, select

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes import audit, usage
from coatcheck.adapters.sql.changes.audit import COPIED, OF_VIEW
from coatcheck.adapters.sql.changes.dedupe import NewBytes, add_dead_blobs, resolve_blob, take_intent
from coatcheck.adapters.sql.changes.views import wait_for_index
from coatcheck.adapters.sql.dialect import RowNumber, UtcDateTime
from coatcheck.adapters.sql.tables import (
    artifacts,
    blobs,
    removed,
    removed_surveys,
    removed_views,
    surveys,
    tombstones,
    views,
)
from coatcheck.core.artifact import Artifact
from coatcheck.core.policies.policy import expiry
from coatcheck.core.retention.audit import AuditLine
from coatcheck.ports.artifacts import IngestResult, UploadFenced
from coatcheck.ports.retention import RestoreArtifact

# The lock makes two undos of one removal follow each other; `since` leaves out what the sweep may have reached.
_REMOVED = (
    select(removed)
    .where(
        removed.c.seq == bindparam("row"),
        removed.c.namespace == bindparam("space"),
        removed.c.number == bindparam("at"),
        removed.c.removed_at > bindparam("since", type_=UtcDateTime),
    )
    .with_for_update()
)
_VIEWS = select(removed_views).where(removed_views.c.removed_seq == bindparam("row"))
_BRING_SURVEY = insert(surveys).from_select(
    ["artifact_seq", "namespace", "data"],
    select(bindparam("seq", type_=RowNumber), removed_surveys.c.namespace, removed_surveys.c.data).where(
        removed_surveys.c.removed_seq == bindparam("row")
    ),
)
_HERE = (artifacts.c.namespace == bindparam("space")) & (artifacts.c.number == bindparam("at"))
_THERE = select(*rows.ARTIFACT_COLUMNS, *rows.BLOB_COLUMNS).join_from(artifacts, blobs).where(_HERE)
_ADD = insert(artifacts).returning(artifacts.c.seq)
_UNBURY = delete(tombstones).where(tombstones.c.namespace == bindparam("space"), tombstones.c.number == bindparam("at"))
_DONE = delete(removed).where(removed.c.seq == bindparam("row"))


def apply_restore(conn: Connection, change: RestoreArtifact) -> IngestResult | UploadFenced | None:
    """Carries out RestoreArtifact."""
    copies = _copies(change)
    intents = [take_intent(conn, ours) for ours in copies]  # all of them, even after one that is gone
    if not all(intents):
        return UploadFenced()
    here = {"space": change.namespace, "at": change.number}
    # It may have been restored by another, or be beyond the reach of an undo: then the copies have no user, and the
    # sweep removes them.
    removed_row = conn.execute(_REMOVED, here | {"row": change.seq, "since": change.since}).mappings().first()
    there = conn.execute(_THERE, here).first()
    if removed_row is None or there is not None:
        for ours in copies:
            add_dead_blobs(conn, [ours])
        return None if there is None else IngestResult(rows.artifact(there), created=False, blob_used=False)
    # A copy that is not used, because live bytes are the same, becomes garbage like a deduplicated blob.
    references = {ours.blob.id: resolve_blob(conn, ours) for ours in copies}
    for ours in copies:
        if not references[ours.blob.id].used:
            add_dead_blobs(conn, [ours])
    # The row as it was, but pointing at the copy, and with a new expiry if one was requested.
    values = {name: removed_row[name] for name in COPIED} | _life(change, removed_row)
    values["blob_seq"] = references[change.blob.id].seq
    seq: int = conn.execute(_ADD, values).scalar_one()
    usage.count(conn, change.namespace, artifacts=1)
    # Views and survey were kept aside with the removed row; the index is not: the artifact queues again for it.
    _bring_views(conn, change, seq, {blob_id: each.seq for blob_id, each in references.items()})
    conn.execute(_BRING_SURVEY, {"seq": seq, "row": change.seq})
    # The ID names a live artifact again, which neither a tombstone nor a removal may contradict.
    conn.execute(_UNBURY, here)
    conn.execute(_DONE, {"row": change.seq})
    wait_for_index(conn, change.namespace, [seq])
    artifact = rows.artifact(conn.execute(_THERE, here).one())
    _tell(conn, change, artifact, removed_row["run_id"])
    return IngestResult(artifact, created=True, blob_used=references[change.blob.id].used)


def _copies(change: RestoreArtifact) -> list[NewBytes]:
    mine = [(change.blob, change.inline), *((view.blob, view.inline) for view in change.views)]
    return [NewBytes(change.namespace, blob, inline, change.now) for blob, inline in mine if blob is not None]


def _life(change: RestoreArtifact, removed_row: Any) -> dict[str, Any]:  # noqa: ANN401 - a row of `removed`
    """Returns its new expiry: the former one, unless a TTL was given."""
    if change.ttl is None:
        return {}
    created_at: datetime = removed_row["created_at"]
    # A TTL counts from `created_at`, which stays, so the age is added: rounded up, or the artifact would end too early.
    ttl = math.ceil((change.now - created_at).total_seconds()) + change.ttl
    idle_ttl, pinned = removed_row["idle_ttl"], removed_row["pinned"]
    return {
        "ttl": ttl,
        "read_at": change.now,
        "expires_at": expiry(created_at, change.now, ttl=ttl, idle_ttl=idle_ttl, pinned=pinned),
    }


def _bring_views(conn: Connection, change: RestoreArtifact, seq: int, blob_seqs: dict[str, int]) -> None:
    copied = {view.name: view for view in change.views}
    for row in conn.execute(_VIEWS, {"row": change.seq}).mappings().all():
        copy = copied.get(row["name"])
        if copy is None:
            continue  # its bytes could not be copied; the view is made again when requested
        blob_seq = None if copy.blob is None else blob_seqs[copy.blob.id]
        conn.execute(insert(views), {name: row[name] for name in OF_VIEW} | {"artifact_seq": seq, "blob_seq": blob_seq})


def _tell(conn: Connection, change: RestoreArtifact, artifact: Artifact, run_id: str | None) -> None:
    line = AuditLine(
        at=change.now,
        action="artifact.restored",
        by=msgspec.structs.replace(change.by, run_id=run_id),
        namespace=change.namespace,
        reason="undo",
        size=artifact.measure.size,
        numbers=(change.number,),
    )
    audit.append(conn, line)
