"""Stores the data that is derived from artifacts: views, surveys, and the segments of the full-text index.

The first view of a name and version stays as long as its artifact, because callers cite its ranges and sections. It is
replaced only if the artifact is declared again and the extractor's inputs differ. The bytes of a corrupt view are
replaced only by equal bytes: if a new extraction differs, it is not stored, and reads of the lost view still report
that it is damaged. A view of an earlier version is replaced.

The transaction that adds a segment to the index also removes the segment's artifacts from the queue. An artifact that
has changed since the indexer read it stays in the queue. A crash or a race may therefore cost work, but never loses a
document. This module does not know what the segments contain.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes.dedupe import BlobReference, add_dead_blobs, resolve_blobs, take_intents, view_of
from coatcheck.adapters.sql.changes.tombstone import of_text_view, release
from coatcheck.adapters.sql.dialect import NAMESPACE, among, bind_seqs, equal, upsert
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, blobs, surveys, text_parts, text_segments, unindexed, views
from coatcheck.core.fulltext import PackedSegment, fingerprint
from coatcheck.core.read_answer import view_inputs
from coatcheck.core.views.view import TEXT, pack_sections
from coatcheck.ports.artifacts import FoundView, NewView, StoreArtifact, StoredView, StoreView, UploadFenced
from coatcheck.ports.text_index import DropSegment, IndexDocuments, MergeSegments, Reindex

_SEQS, _IDS = bind_seqs(), bind_seqs("ids")
# One statement queues all artifacts of a group, at a fifth of the cost of a statement for each. Only artifacts that
# exist are queued.
_WAIT = Prepared(
    upsert(unindexed)
    .from_select(
        ["namespace", "artifact_seq"],
        select(NAMESPACE, artifacts.c.seq).where(artifacts.c.namespace == NAMESPACE, among(artifacts.c.seq, _SEQS)),
    )
    .on_conflict_do_nothing()
)
STATE = (
    artifacts.c.number,
    artifacts.c.created_at,
    artifacts.c.labels,
    artifacts.c.declared_at,
    of_text_view(views.c.extractor).label("extractor"),
)
"""The columns from which an artifact's fingerprint is computed."""
_ROWS = (artifacts.c.namespace == NAMESPACE) & among(artifacts.c.seq, _SEQS)
STATES = Prepared(select(artifacts.c.seq, *STATE).where(_ROWS))
_HOLD = Prepared(select(artifacts.c.seq).where(_ROWS).order_by(artifacts.c.seq).with_for_update(read=True))
# Returns the artifacts that were in the queue. Those that another replica has indexed meanwhile are not in it any more.
_DONE = Prepared(
    delete(unindexed)
    .where(unindexed.c.namespace == NAMESPACE, among(unindexed.c.artifact_seq, _SEQS))
    .returning(unindexed.c.artifact_seq)
)
_ADD_SEGMENT = Prepared(insert(text_segments), columns=text_segments.c.keys())
_ADD_PART = Prepared(insert(text_parts), columns=text_parts.c.keys())
_HERE = (text_segments.c.namespace == NAMESPACE) & among(text_segments.c.id, _IDS)
# If another merge has replaced one of the segments, this statement returns fewer rows, and the merge does nothing.
_LOCK = Prepared(select(text_segments.c.id).where(_HERE).order_by(text_segments.c.id).with_for_update())
_DROP_SEGMENTS = Prepared(delete(text_segments).where(_HERE))
_SEQS_PER_STATEMENT = 5_000
"""Maximum rows that one statement queues, so that no statement takes long. Chosen, not measured."""


def wait_for_index(conn: Connection, namespace: str, seqs: Sequence[int]) -> None:
    """Queues artifacts for the full-text index, in the transaction that has created or changed them."""
    _WAIT.run(conn, {"namespace": namespace, "seqs": list(seqs)})


def print_of(
    number: int, created_at: datetime, labels: str | None, declared_at: datetime | None, extractor: str | None
) -> int:
    """Returns the fingerprint of an artifact from the columns in STATE."""
    return fingerprint(number, created_at, labels, extractor, declared_at)


def apply_index(conn: Connection, change: IndexDocuments) -> int:
    """Adds a segment and removes its artifacts from the queue; returns how many were removed."""
    was = dict(change.documents)
    parameters = {"namespace": change.namespace, "seqs": sorted(was)}
    if conn.dialect.name != "sqlite":
        # A statement of its own takes the locks. It waits for transactions that change one of the artifacts or store a
        # view of it, so that the next statement sees their changes.
        _HOLD.rows(conn, parameters)
    now: dict[int, int] = {row[0]: print_of(*row[1:]) for row in STATES.rows(conn, parameters)}
    # An artifact that has changed since the indexer read it has another fingerprint, and stays in the queue.
    same = [seq for seq, mark in was.items() if now.get(seq) == mark]
    indexed_seqs = {row[0] for row in _DONE.rows(conn, {"namespace": change.namespace, "seqs": sorted(same)})}
    # If another replica has already indexed all of these artifacts, the segment is not needed.
    if change.segment is not None and any(was[seq] is not None for seq in indexed_seqs):
        _add(conn, change.namespace, change.segment_id, change.segment)
    return len(indexed_seqs)


def apply_merge(conn: Connection, change: MergeSegments) -> bool:
    """Replaces several segments by one; returns false, and changes nothing, if one of them does not exist any more."""
    parameters = {"namespace": change.namespace, "ids": sorted(change.old)}
    if len(_LOCK.rows(conn, parameters)) != len(change.old):
        return False
    _DROP_SEGMENTS.run(conn, parameters)
    if change.segment is not None:
        _add(conn, change.namespace, change.segment_id, change.segment)
    return True


def apply_drop(conn: Connection, change: DropSegment) -> None:
    """Deletes a segment. Its list of documents is lost, so all artifacts in its range of rows are queued again."""
    mine = (text_segments.c.namespace == change.namespace, text_segments.c.id == change.segment_id)
    bounds = conn.execute(
        select(text_segments.c.first_seq, text_segments.c.last_seq).where(*mine).with_for_update()
    ).first()
    if bounds is None:
        return
    conn.execute(delete(text_segments).where(*mine))
    between = (artifacts.c.namespace == change.namespace, artifacts.c.seq.between(*bounds))
    queued = conn.scalars(select(artifacts.c.seq).where(*between)).all()
    for start in range(0, len(queued), _SEQS_PER_STATEMENT):
        wait_for_index(conn, change.namespace, queued[start : start + _SEQS_PER_STATEMENT])


def apply_reindex(conn: Connection, change: Reindex) -> None:
    """Queues artifacts again for the full-text index."""
    wait_for_index(conn, change.namespace, change.rows)


def _add(conn: Connection, namespace: str, segment_id: int, segment: PackedSegment) -> None:
    row: dict[str, Any] = {
        "id": segment_id,
        "namespace": namespace,
        "bits": segment.bits,
        "first_seq": segment.first,
        "last_seq": segment.last,
        "documents": segment.documents,
        "postings": segment.postings,
        "listed": segment.packed_documents,
    }
    _ADD_SEGMENT.run(conn, row)
    parts = [
        {"segment_id": segment_id, "part": at, "namespace": namespace, "postings": part}
        for at, part in enumerate(segment.parts)
    ]
    _ADD_PART.many(conn, parts)


# Locks the artifact, so that its views are stored one after the other, even by different replicas, and no view is
# stored while the artifact is being deleted.
_ARTIFACT = Prepared(
    select(artifacts.c.seq, artifacts.c.expires_at, artifacts.c.said, artifacts.c.facts)
    .where(equal(artifacts.c.namespace, artifacts.c.number))
    .with_for_update(key_share=True)
)
# The join is an outer join, because a view that is the payload itself has no blob.
_KEPT = Prepared(
    select(*rows.view_columns(views, blobs))
    .join_from(views, blobs, blobs.c.seq == views.c.blob_seq, isouter=True)
    .where(equal(views.c.artifact_seq, views.c.name))
)
ADD_VIEW = Prepared(insert(views), columns=views.c.keys())


def apply_store_view(conn: Connection, change: StoreView) -> StoredView | UploadFenced | None:
    """Carries out StoreView."""
    new_bytes = view_of(change)
    if new_bytes is not None and not take_intents(conn, [new_bytes]):
        return UploadFenced()
    answer = _keep(conn, change)
    # Nothing points at the file that the caller has written, so the sweep deletes it.
    if new_bytes is not None and not (isinstance(answer, StoredView) and answer.blob_used):
        add_dead_blobs(conn, [new_bytes])
    return answer


def _keep(conn: Connection, change: StoreView) -> StoredView | UploadFenced | None:
    there = _ARTIFACT.rows(conn, {"namespace": change.namespace, "number": change.number})
    if not there or (there[0][1] is not None and there[0][1] <= change.now):
        return None
    seq, _, *metadata_columns = there[0]
    declared, facts = rows.unpack_metadata(*metadata_columns)
    facts = change.facts or facts
    # The artifact was declared again while its text was extracted. With the new metadata, the extraction may have
    # another result.
    if change.inputs is not None and change.inputs != view_inputs(declared, facts):
        return UploadFenced()
    # The first view of a version stays, because callers cite its ranges and sections.
    found_view = _find_view(conn, seq, change.new.view.name)
    if found_view is not None and not found_view.view.is_old:
        return _repair_view(conn, change, seq, found_view)
    if change.facts is not None:
        columns = rows.columns_of_metadata(declared, facts)
        conn.execute(update(artifacts).where(artifacts.c.seq == seq).values(columns))
    reference = replace_view(conn, change, change.new, seq)
    wait_for_index(conn, change.namespace, [seq])
    if reference is None:
        return StoredView(FoundView(change.new.view, None), blob_used=False)
    inline = change.new.inline if reference.used else None
    return StoredView(FoundView(change.new.view, reference.blob, inline), blob_used=reference.used)


def _repair_view(conn: Connection, change: StoreView, seq: int, found_view: FoundView) -> StoredView:
    """Returns the existing view. If its bytes are lost and the change has equal bytes, they are replaced first."""
    new_bytes, blob = view_of(change), found_view.blob
    if new_bytes is None or blob is None or not blob.condemned or blob.sha256 != new_bytes.blob.sha256:
        return StoredView(found_view, blob_used=False)
    used = resolve_blobs(conn, [new_bytes])[0].used
    healed = _find_view(conn, seq, found_view.view.name) or found_view
    return StoredView(FoundView(found_view.view, healed.blob, new_bytes.inline if used else None), blob_used=used)


def _find_view(conn: Connection, seq: int, name: str) -> FoundView | None:
    view_rows = _KEPT.rows(conn, {"artifact_seq": seq, "name": name})
    return rows.view_of_row(view_rows[0], None) if view_rows else None


def replace_view(
    conn: Connection, change: StoreArtifact | StoreView, new: NewView | None, seq: int
) -> BlobReference | None:
    """Removes the text view of an artifact, and stores a new one. The caller must have locked the artifact's row.

    Returns the blob of the new view; None if there is no new view, or the new view is the payload itself.
    """
    drop = delete(views).where(views.c.artifact_seq == seq, views.c.name == TEXT).returning(views.c.blob_seq)
    blob_seqs = [blob_seq for blob_seq in conn.scalars(drop) if blob_seq is not None]
    new_bytes = None if new is None else view_of(change)
    reference = None if new_bytes is None else resolve_blobs(conn, [new_bytes])[0]
    if new is not None:
        ADD_VIEW.run(conn, view_row(change.namespace, new, seq, None if reference is None else reference.seq))
    # The former blob is released after the new view is stored, because the new view may have the same bytes.
    release(conn, blob_seqs, change.now)
    return reference


def view_row(namespace: str, new: NewView, seq: int, blob_seq: int | None) -> dict[str, Any]:
    """Returns the row of a view.

    `seq` is the artifact's row number, `blob_seq` the row number of the view's blob; None: the view is the payload
    itself.
    """
    view = new.view
    return {
        "artifact_seq": seq,
        "name": view.name,
        "namespace": namespace,
        "blob_seq": blob_seq,
        "extractor": rows.extractor_label(view),
        "partial": view.partial,
        "measure": rows.encode(view.measure),
        "sections": pack_sections(view.sections),
    }


ADD_SURVEY = Prepared(insert(surveys), columns=surveys.c.keys())


def replace_survey(conn: Connection, change: StoreArtifact, seq: int) -> None:
    """Deletes an artifact's survey, if there is one, and stores the survey of a change, if there is one."""
    conn.execute(delete(surveys).where(surveys.c.artifact_seq == seq))
    if change.survey is not None:
        ADD_SURVEY.run(conn, survey_row(change.namespace, seq, change.survey))


def survey_row(namespace: str, seq: int, survey: bytes) -> dict[str, Any]:
    """Returns the row of a survey; `seq` is the artifact's row number."""
    return {"artifact_seq": seq, "namespace": namespace, "data": survey}
