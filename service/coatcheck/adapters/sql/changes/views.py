"""Derived views kept with their artifacts. The first view of a name and version stays for as long as its artifact.

Corrupt bytes of a view are replaced only by the same bytes: its ranges and sections are citations. A new extraction
that differs is not kept, and reads of the lost view still report that it is damaged. A view of an earlier version is
replaced.
"""

from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes.dedupe import BlobReference, add_dead_blob, resolve_blob, take_intent, view_of
from coatcheck.adapters.sql.changes.texts import wait_for_index
from coatcheck.adapters.sql.changes.tombstone import release
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, blobs, views
from coatcheck.core.reads.view_inputs import view_inputs
from coatcheck.core.views.view import TEXT, pack_sections
from coatcheck.ports.artifacts import FoundView, NewView, StoreArtifact, StoredView, StoreView, UploadFenced

# Views of one artifact are kept one after the other, even by different replicas; and none while it is being deleted.
_ARTIFACT = Prepared(
    select(artifacts.c.seq, artifacts.c.expires_at, artifacts.c.said, artifacts.c.facts)
    .where(artifacts.c.namespace == bindparam("namespace"), artifacts.c.number == bindparam("number"))
    .with_for_update(key_share=True)
)
_KEPT = Prepared(
    select(*rows.VIEW_COLUMNS, *rows.BLOB_COLUMNS)
    .join_from(views, blobs, blobs.c.seq == views.c.blob_seq, isouter=True)
    .where(views.c.artifact_seq == bindparam("seq"), views.c.name == bindparam("name"))
)
_DROP_TEXT_VIEW = (
    delete(views).where(views.c.artifact_seq == bindparam("row"), views.c.name == TEXT).returning(views.c.blob_seq)
)
_DESCRIBED = ("said", "facts", "tool_name", "kind", "url")
_DESCRIBE = (
    update(artifacts)
    .where(artifacts.c.seq == bindparam("row"))
    .values({name: bindparam(name, type_=artifacts.c[name].type) for name in _DESCRIBED})
)
_ADD = Prepared(insert(views), columns=views.c.keys())


def apply_store_view(conn: Connection, change: StoreView) -> StoredView | UploadFenced | None:
    """Carries out StoreView."""
    ours = view_of(change)
    if ours is not None and not take_intent(conn, ours):
        return UploadFenced()
    answer = _keep(conn, change)
    if ours is not None and not (isinstance(answer, StoredView) and answer.blob_used):
        add_dead_blob(conn, ours)
    return answer


def _keep(conn: Connection, change: StoreView) -> StoredView | UploadFenced | None:
    there = _ARTIFACT.rows(conn, {"namespace": change.namespace, "number": change.number})
    if not there or (there[0][1] is not None and there[0][1] <= change.now):
        return None
    seq, _, *metadata_columns = there[0]
    declared, facts = rows.unpack_metadata(*metadata_columns)
    facts = change.facts or facts
    if change.inputs is not None and change.inputs != view_inputs(declared, facts):
        return UploadFenced()
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
    _ADD.run(conn, view_row(change.namespace, new, seq, None if reference is None else reference.seq))
    return reference


def replace_view(
    conn: Connection, change: StoreArtifact | StoreView, new: NewView | None, seq: int
) -> BlobReference | None:
    """Removes the text view of an artifact whose row we have locked, and keeps another, as add_view does."""
    blob_seqs = [blob_seq for (blob_seq,) in conn.execute(_DROP_TEXT_VIEW, {"row": seq}) if blob_seq is not None]
    reference = None if new is None else add_view(conn, change, new, seq)
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
