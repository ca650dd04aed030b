"""Derived views kept with their artifacts. The first view of a name and version stays for as long as its artifact.

Corrupt bytes of a view are replaced only by the same bytes: its ranges and sections are citations. A new extraction
that differs is not kept, and reads of the lost view still report that it is damaged. A view of an earlier version is
replaced.
"""

from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes.dedupe import BlobReference, bury_ours, settle, take_intent, view_of
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
_DROP = delete(views).where(views.c.artifact_seq == bindparam("row"), views.c.name == TEXT).returning(views.c.blob_seq)
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
        bury_ours(conn, ours)
    return answer


def _keep(conn: Connection, change: StoreView) -> StoredView | UploadFenced | None:
    there = _ARTIFACT.rows(conn, {"namespace": change.namespace, "number": change.number})
    if not there or (there[0][1] is not None and there[0][1] <= change.now):
        return None
    seq, _, *packed = there[0]
    said, facts = rows.unpack_metadata(*packed)
    facts = change.facts or facts
    if change.inputs is not None and change.inputs != view_inputs(said, facts):
        return UploadFenced()
    kept = _kept(conn, seq, change.new.view.name)
    if kept is not None and not kept.view.is_old:
        return _there(conn, change, seq, kept)
    if change.facts is not None:
        conn.execute(_DESCRIBE, {"row": seq, **rows.declared_columns(said, facts)})
    settled = replace_view(conn, change, change.new, seq)
    wait_for_index(conn, change.namespace, [seq])
    if settled is None:
        return StoredView(FoundView(change.new.view, None), blob_used=False)
    inline = change.new.inline if settled.used else None
    return StoredView(FoundView(change.new.view, settled.blob, inline), blob_used=settled.used)


def _there(conn: Connection, change: StoreView, seq: int, kept: FoundView) -> StoredView:
    """Returns the existing view, after replacing its bytes with ours if they are lost and the same."""
    ours, lost = view_of(change), kept.blob
    if ours is None or lost is None or not lost.condemned or lost.sha256 != ours.blob.sha256:
        return StoredView(kept, blob_used=False)
    used = settle(conn, ours).used
    healed = _kept(conn, seq, kept.view.name) or kept
    return StoredView(FoundView(kept.view, healed.blob, ours.inline if used else None), blob_used=used)


def _kept(conn: Connection, seq: int, name: str) -> FoundView | None:
    found = _KEPT.rows(conn, {"seq": seq, "name": name})
    return rows.found_view(found[0], None) if found else None


def add_view(conn: Connection, change: StoreArtifact | StoreView, new: NewView, seq: int) -> BlobReference | None:
    """Keeps the first view of an artifact whose row we have locked; returns None if it is the payload itself."""
    ours = view_of(change)
    settled = None if ours is None else settle(conn, ours)
    _ADD.run(conn, view_row(change.namespace, new, seq, None if settled is None else settled.seq))
    return settled


def replace_view(
    conn: Connection, change: StoreArtifact | StoreView, new: NewView | None, seq: int
) -> BlobReference | None:
    """Removes the text view of an artifact whose row we have locked, and keeps another, as add_view does."""
    left = [blob_seq for (blob_seq,) in conn.execute(_DROP, {"row": seq}) if blob_seq is not None]
    settled = None if new is None else add_view(conn, change, new, seq)
    release(conn, left, change.now)
    return settled


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
