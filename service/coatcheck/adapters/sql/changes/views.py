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

from sqlalchemy import BigInteger, Connection, Text, bindparam, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes.dedupe import BlobReference, add_dead_blobs, resolve_blob, take_intent, view_of
from coatcheck.adapters.sql.changes.tombstone import release
from coatcheck.adapters.sql.dialect import Many, among
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, blobs, surveys, text_parts, text_segments, unindexed, views
from coatcheck.core.fulltext import PackedSegment, fingerprint
from coatcheck.core.read_answer import view_inputs
from coatcheck.core.views.view import TEXT, pack_sections
from coatcheck.ports.artifacts import FoundView, NewView, StoreArtifact, StoredView, StoreView, UploadFenced
from coatcheck.ports.text_index import DropSegment, IndexDocuments, MergeSegments, Reindex

_NAMESPACE = bindparam("namespace", type_=Text())
_SEQS = bindparam("seqs", type_=Many(BigInteger()))
_IDS = bindparam("ids", type_=Many(BigInteger()))
_COLUMNS = ["namespace", "artifact_seq"]
_LISTED = func.json_each(_SEQS).table_valued("value")
# A single statement for the whole group, at a fifth of the cost of one each.
_WAIT = {
    "sqlite": Prepared(
        insert(unindexed).prefix_with("OR IGNORE").from_select(_COLUMNS, select(_NAMESPACE, _LISTED.c.value))
    ),
    "postgresql": Prepared(
        postgresql.insert(unindexed)
        .from_select(_COLUMNS, select(_NAMESPACE, func.unnest(_SEQS)))
        .on_conflict_do_nothing()
    ),
}
_OF_VIEW = (
    select(views.c.extractor)
    .where(views.c.artifact_seq == artifacts.c.seq, views.c.name == TEXT)
    .correlate(artifacts)
    .scalar_subquery()
)
STATE = (
    artifacts.c.number,
    artifacts.c.created_at,
    artifacts.c.labels,
    artifacts.c.declared_at,
    _OF_VIEW.label("extractor"),
)
"""What a fingerprint consists of."""
_ROWS = (artifacts.c.namespace == _NAMESPACE) & among(artifacts.c.seq, _SEQS)
STATES = Prepared(select(artifacts.c.seq, *STATE).where(_ROWS))
_HOLD = Prepared(select(artifacts.c.seq).where(_ROWS).order_by(artifacts.c.seq).with_for_update(read=True))
# Rows that another replica has indexed meanwhile are not in the queue any more, and so not in the answer.
_DONE = Prepared(
    delete(unindexed)
    .where(unindexed.c.namespace == _NAMESPACE, among(unindexed.c.artifact_seq, _SEQS))
    .returning(unindexed.c.artifact_seq)
)
_ADD_SEGMENT = Prepared(insert(text_segments), columns=text_segments.c.keys())
_ADD_PART = Prepared(insert(text_parts), columns=text_parts.c.keys())
_HERE = (text_segments.c.namespace == _NAMESPACE) & among(text_segments.c.id, _IDS)
# A segment that another merge has replaced is missing: then this one does nothing.
_LOCK = Prepared(select(text_segments.c.id).where(_HERE).order_by(text_segments.c.id).with_for_update())
_DROP_SEGMENTS = Prepared(delete(text_segments).where(_HERE))
_BOUNDS = (
    select(text_segments.c.first_seq, text_segments.c.last_seq)
    .where(text_segments.c.namespace == _NAMESPACE, text_segments.c.id == bindparam("id", type_=BigInteger()))
    .with_for_update()
)
_BETWEEN = select(artifacts.c.seq).where(
    artifacts.c.namespace == _NAMESPACE,
    artifacts.c.seq >= bindparam("first", type_=BigInteger()),
    artifacts.c.seq <= bindparam("last", type_=BigInteger()),
)
_SEQS_PER_STATEMENT = 5_000
"""Rows that one statement queues, so that none of them takes long. Chosen, not measured."""


def wait_for_index(conn: Connection, namespace: str, seqs: Sequence[int]) -> None:
    """Queues artifacts, in the transaction that created or changed them."""
    _WAIT[conn.dialect.name].run(conn, {"namespace": namespace, "seqs": list(seqs)})


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
    parameters = {"namespace": change.namespace, "id": change.segment_id}
    bounds = conn.execute(_BOUNDS, parameters).first()
    if bounds is None:
        return
    _DROP_SEGMENTS.run(conn, {"namespace": change.namespace, "ids": [change.segment_id]})
    between = {"namespace": change.namespace, "first": bounds.first_seq, "last": bounds.last_seq}
    seqs = conn.execute(_BETWEEN, between).scalars().all()
    for start in range(0, len(seqs), _SEQS_PER_STATEMENT):
        wait_for_index(conn, change.namespace, seqs[start : start + _SEQS_PER_STATEMENT])


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
    .where(artifacts.c.namespace == bindparam("namespace"), artifacts.c.number == bindparam("number"))
    .with_for_update(key_share=True)
)
# An outer join: a view that is the payload itself has no blob.
_KEPT = Prepared(
    select(*rows.VIEW_COLUMNS, *rows.BLOB_COLUMNS)
    .join_from(views, blobs, blobs.c.seq == views.c.blob_seq, isouter=True)
    .where(views.c.artifact_seq == bindparam("seq"), views.c.name == bindparam("name"))
)
_DROP_TEXT_VIEW = (
    delete(views).where(views.c.artifact_seq == bindparam("row"), views.c.name == TEXT).returning(views.c.blob_seq)
)
_DESCRIBED = ("said", "facts", "tool_name", "kind", "url")
"""The columns of `rows.columns_of_metadata`."""
_DESCRIBE = (
    update(artifacts)
    .where(artifacts.c.seq == bindparam("row"))
    .values({name: bindparam(name, type_=artifacts.c[name].type) for name in _DESCRIBED})
)
ADD_VIEW = Prepared(insert(views), columns=views.c.keys())


def apply_store_view(conn: Connection, change: StoreView) -> StoredView | UploadFenced | None:
    """Carries out StoreView."""
    ours = view_of(change)
    if ours is not None and not take_intent(conn, ours):
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
        conn.execute(_DESCRIBE, {"row": seq, **rows.columns_of_metadata(declared, facts)})
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
    used = resolve_blob(conn, ours).used
    healed = _find_view(conn, seq, found_view.view.name) or found_view
    return StoredView(FoundView(found_view.view, healed.blob, ours.inline if used else None), blob_used=used)


def _find_view(conn: Connection, seq: int, name: str) -> FoundView | None:
    view_rows = _KEPT.rows(conn, {"seq": seq, "name": name})
    return rows.view_of_row(view_rows[0], None) if view_rows else None


def add_view(conn: Connection, change: StoreArtifact | StoreView, new: NewView, seq: int) -> BlobReference | None:
    """Keeps the first view of an artifact whose row we have locked; returns None if it is the payload itself."""
    ours = view_of(change)
    reference = None if ours is None else resolve_blob(conn, ours)
    ADD_VIEW.run(conn, view_row(change.namespace, new, seq, None if reference is None else reference.seq))
    return reference


def replace_view(
    conn: Connection, change: StoreArtifact | StoreView, new: NewView | None, seq: int
) -> BlobReference | None:
    """Removes the text view of an artifact whose row we have locked, and keeps another, as add_view does."""
    blob_seqs = [blob_seq for (blob_seq,) in conn.execute(_DROP_TEXT_VIEW, {"row": seq}) if blob_seq is not None]
    reference = None if new is None else add_view(conn, change, new, seq)
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
_DROP_SURVEY = Prepared(delete(surveys).where(surveys.c.artifact_seq == bindparam("seq")))


def add_survey(conn: Connection, change: StoreArtifact, seq: int) -> None:
    """Keeps the survey of a change, if it has one, for the artifact of a row."""
    if change.survey is not None:
        ADD_SURVEY.run(conn, survey_row(change.namespace, seq, change.survey))


def drop_survey(conn: Connection, seq: int) -> None:
    """Deletes the survey of the artifact of a row, if it has one."""
    _DROP_SURVEY.run(conn, {"seq": seq})


def survey_row(namespace: str, seq: int, survey: bytes) -> dict[str, Any]:
    """Returns the row of a survey."""
    return {"artifact_seq": seq, "namespace": namespace, "data": survey}
