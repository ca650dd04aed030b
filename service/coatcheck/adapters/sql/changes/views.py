"""What is derived from an artifact and kept beside it: views, surveys, and documents of the full-text index.

The first view of a name and version stays for as long as its artifact, because its ranges and sections are citations.
Corrupt bytes of a view are replaced only by the same bytes; a new extraction that differs is not kept, and reads of the
lost view still report that it is damaged. A view of an earlier version is replaced.

A segment of the index is added in the transaction that removes its rows from the queue; what changed since it was read
stays queued, so a crash or a race costs work, but never a document. Nothing here knows about words.
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
# A single statement for the whole group, at a fifth of the cost of one each. Only artifacts that exist are queued.
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
"""What a fingerprint consists of."""
_ROWS = (artifacts.c.namespace == NAMESPACE) & among(artifacts.c.seq, _SEQS)
STATES = Prepared(select(artifacts.c.seq, *STATE).where(_ROWS))
_HOLD = Prepared(select(artifacts.c.seq).where(_ROWS).order_by(artifacts.c.seq).with_for_update(read=True))
# Rows that another replica has indexed meanwhile are not in the queue any more, and so not in the answer.
_DONE = Prepared(
    delete(unindexed)
    .where(unindexed.c.namespace == NAMESPACE, among(unindexed.c.artifact_seq, _SEQS))
    .returning(unindexed.c.artifact_seq)
)
_ADD_SEGMENT = Prepared(insert(text_segments), columns=text_segments.c.keys())
_ADD_PART = Prepared(insert(text_parts), columns=text_parts.c.keys())
_HERE = (text_segments.c.namespace == NAMESPACE) & among(text_segments.c.id, _IDS)
# A segment that another merge has replaced is missing: then this one does nothing.
_LOCK = Prepared(select(text_segments.c.id).where(_HERE).order_by(text_segments.c.id).with_for_update())
_DROP_SEGMENTS = Prepared(delete(text_segments).where(_HERE))
_SEQS_PER_STATEMENT = 5_000
"""Rows that one statement queues, so that none of them takes long. Chosen, not measured."""


def wait_for_index(conn: Connection, namespace: str, seqs: Sequence[int]) -> None:
    """Queues artifacts, in the transaction that created or changed them."""
    _WAIT.run(conn, {"namespace": namespace, "seqs": list(seqs)})


def print_of(
    number: int, created_at: datetime, labels: str | None, declared_at: datetime | None, extractor: str | None
) -> int:
    """Returns the fingerprint of STATE."""
    return fingerprint(number, created_at, labels, extractor, declared_at)


def apply_index(conn: Connection, change: IndexDocuments) -> int:
    """Adds a segment and removes its rows from the queue."""
    was = dict(change.documents)
    parameters = {"namespace": change.namespace, "seqs": sorted(was)}
    if conn.dialect.name != "sqlite":
        # In a statement of its own: a transaction that changes one of them, or keeps a view of it, is waited for and
        # then seen.
        _HOLD.rows(conn, parameters)
    now: dict[int, int] = {row[0]: print_of(*row[1:]) for row in STATES.rows(conn, parameters)}
    # An artifact that has changed since it was read has another fingerprint, and stays queued.
    same = [seq for seq, mark in was.items() if now.get(seq) == mark]
    indexed_seqs = {row[0] for row in _DONE.rows(conn, {"namespace": change.namespace, "seqs": sorted(same)})}
    # Another replica may have indexed the whole queue already: then the segment would only repeat its work.
    if change.segment is not None and any(was[seq] is not None for seq in indexed_seqs):
        _add(conn, change.namespace, change.segment_id, change.segment)
    return len(indexed_seqs)


def apply_merge(conn: Connection, change: MergeSegments) -> bool:
    """Replaces several segments by one."""
    parameters = {"namespace": change.namespace, "ids": sorted(change.old)}
    if len(_LOCK.rows(conn, parameters)) != len(change.old):
        return False
    _DROP_SEGMENTS.run(conn, parameters)
    if change.segment is not None:
        _add(conn, change.namespace, change.segment_id, change.segment)
    return True


def apply_drop(conn: Connection, change: DropSegment) -> None:
    """Deletes a segment. Its documents are no longer known, so all rows in its range are queued again."""
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
    """Queues artifacts again."""
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


# Views of one artifact are kept one after the other, even by different replicas; and none while it is being deleted.
_ARTIFACT = Prepared(
    select(artifacts.c.seq, artifacts.c.expires_at, artifacts.c.said, artifacts.c.facts)
    .where(equal(artifacts.c.namespace, artifacts.c.number))
    .with_for_update(key_share=True)
)
# An outer join: a view that is the payload itself has no blob.
_KEPT = Prepared(
    select(*rows.view_columns(views, blobs))
    .join_from(views, blobs, blobs.c.seq == views.c.blob_seq, isouter=True)
    .where(equal(views.c.artifact_seq, views.c.name))
)
ADD_VIEW = Prepared(insert(views), columns=views.c.keys())


def apply_store_view(conn: Connection, change: StoreView) -> StoredView | UploadFenced | None:
    """Carries out StoreView."""
    ours = view_of(change)
    if ours is not None and not take_intents(conn, [ours]):
        return UploadFenced()
    answer = _keep(conn, change)
    # Nothing points at our file, so it is left to the sweep.
    if ours is not None and not (isinstance(answer, StoredView) and answer.blob_used):
        add_dead_blobs(conn, [ours])
    return answer


def _keep(conn: Connection, change: StoreView) -> StoredView | UploadFenced | None:
    there = _ARTIFACT.rows(conn, {"namespace": change.namespace, "number": change.number})
    if not there or (there[0][1] is not None and there[0][1] <= change.now):
        return None
    seq, _, *metadata_columns = there[0]
    declared, facts = rows.unpack_metadata(*metadata_columns)
    facts = change.facts or facts
    # The artifact was declared anew while its text was extracted, which may have changed how that is done.
    if change.inputs is not None and change.inputs != view_inputs(declared, facts):
        return UploadFenced()
    # The first view of a version stays, because its ranges and sections are citations.
    found_view = _find_view(conn, seq, change.new.view.name)
    if found_view is not None and not found_view.view.is_old:
        return _there(conn, change, seq, found_view)
    if change.facts is not None:
        columns = rows.columns_of_metadata(declared, facts)
        conn.execute(update(artifacts).where(artifacts.c.seq == seq).values(columns))
    reference = replace_view(conn, change, change.new, seq)
    wait_for_index(conn, change.namespace, [seq])
    if reference is None:
        return StoredView(FoundView(change.new.view, None), blob_used=False)
    inline = change.new.inline if reference.used else None
    return StoredView(FoundView(change.new.view, reference.blob, inline), blob_used=reference.used)


def _there(conn: Connection, change: StoreView, seq: int, found_view: FoundView) -> StoredView:
    """Returns the existing view, after replacing its bytes with ours if they are lost and the same."""
    ours, blob = view_of(change), found_view.blob
    if ours is None or blob is None or not blob.condemned or blob.sha256 != ours.blob.sha256:
        return StoredView(found_view, blob_used=False)
    used = resolve_blobs(conn, [ours])[0].used
    healed = _find_view(conn, seq, found_view.view.name) or found_view
    return StoredView(FoundView(found_view.view, healed.blob, ours.inline if used else None), blob_used=used)


def _find_view(conn: Connection, seq: int, name: str) -> FoundView | None:
    view_rows = _KEPT.rows(conn, {"artifact_seq": seq, "name": name})
    return rows.view_of_row(view_rows[0], None) if view_rows else None


def replace_view(
    conn: Connection, change: StoreArtifact | StoreView, new: NewView | None, seq: int
) -> BlobReference | None:
    """Removes the text view of an artifact whose row we have locked, and keeps another.

    Returns the blob of the new one; None if there is no new one, or it is the payload itself.
    """
    drop = delete(views).where(views.c.artifact_seq == seq, views.c.name == TEXT).returning(views.c.blob_seq)
    blob_seqs = [blob_seq for blob_seq in conn.scalars(drop) if blob_seq is not None]
    ours = None if new is None else view_of(change)
    reference = None if ours is None else resolve_blobs(conn, [ours])[0]
    if new is not None:
        ADD_VIEW.run(conn, view_row(change.namespace, new, seq, None if reference is None else reference.seq))
    # After the new view is there, which may have the same bytes as the former one.
    release(conn, blob_seqs, change.now)
    return reference


def view_row(namespace: str, new: NewView, seq: int, blob_seq: int | None) -> dict[str, Any]:
    """Returns the row of a view of the artifact with this row."""
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
    """Deletes the survey of the artifact of a row, if it has one, and keeps that of a change, if it has one."""
    conn.execute(delete(surveys).where(surveys.c.artifact_seq == seq))
    if change.survey is not None:
        ADD_SURVEY.run(conn, survey_row(change.namespace, seq, change.survey))


def survey_row(namespace: str, seq: int, survey: bytes) -> dict[str, Any]:
    """Returns the row of a survey."""
    return {"artifact_seq": seq, "namespace": namespace, "data": survey}
