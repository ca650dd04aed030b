"""Carries out a group of changes inside one transaction: by namespace, ingests together, the rest one by one.

HANDLERS maps each change to its function. A change is documented at its type.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

from sqlalchemy import Connection

from coatcheck.adapters.sql.changes import (
    administration,
    alter,
    audit,
    evict,
    forget,
    holds,
    policies,
    restore,
    runs,
    session_usage,
    tombstone,
    uploads,
    usage,
    views,
)
from coatcheck.adapters.sql.changes.dedupe import Numberer
from coatcheck.adapters.sql.changes.store import apply_stores
from coatcheck.adapters.sql.changes.tombstone import lock_ahead
from coatcheck.ports.artifacts import DeleteArtifact, DeleteSession, PatchArtifact, StoreArtifact, StoreView, Touch
from coatcheck.ports.blobs import AbandonUpload, BeginUpload, RenewUpload, ReserveMore
from coatcheck.ports.decisions import (
    ArtifactChange,
    CatalogChange,
    DeleteNamespace,
    MarkNamespace,
    PlaceHold,
    ReleaseHold,
    SetPolicy,
)
from coatcheck.ports.keys import AddSessionUsage, MakeKey, MakeNamespace, RevokeKey, SwitchNamespace
from coatcheck.ports.maintenance import (
    EvictArtifacts,
    ExpireArtifacts,
    ForgetBlobs,
    MarkBlobCorrupt,
    PurgeRecords,
    ReapUploads,
    TakeLease,
)
from coatcheck.ports.retention import (
    BeginRun,
    ClaimRun,
    EndRun,
    ForgetRemoved,
    KeepPlan,
    MarkJob,
    NoteRound,
    RemoveBatch,
    RestoreArtifact,
    SetJob,
)
from coatcheck.ports.text_index import DropSegment, IndexDocuments, MergeSegments, Reindex

T = TypeVar("T")
Handler: TypeAlias = Callable[[Connection, Any], Any]
"""Takes the open transaction and a change, and returns the change's answer."""


def _by(
    kind: type[CatalogChange[T]], apply: Callable[[Connection, Any], T]
) -> tuple[type[CatalogChange[Any]], Handler]:
    """Returns an entry of the table; a type checker rejects a function that does not return the change's answer."""
    return kind, apply


# StoreArtifact is absent: `_carry_out_in_one` passes all ingests of a namespace to `apply_stores` together.
HANDLERS: Final[dict[type[CatalogChange[Any]], Handler]] = dict(
    (
        _by(BeginUpload, uploads.apply_begin),
        _by(ReserveMore, uploads.apply_reserve_more),
        _by(RenewUpload, uploads.apply_renew),
        _by(AbandonUpload, uploads.apply_abandon),
        _by(ReapUploads, uploads.apply_reap),
        _by(StoreView, views.apply_store_view),
        _by(PatchArtifact, alter.apply_patch),
        _by(Touch, alter.apply_touch),
        _by(DeleteArtifact, tombstone.apply_delete),
        _by(DeleteSession, tombstone.apply_delete_session),
        _by(DeleteNamespace, evict.apply_delete_namespace),
        _by(EvictArtifacts, evict.apply_evict),
        _by(ExpireArtifacts, runs.apply_expire),
        _by(MarkBlobCorrupt, forget.apply_mark_corrupt),
        _by(ForgetBlobs, forget.apply_forget),
        _by(PurgeRecords, forget.apply_purge),
        _by(IndexDocuments, views.apply_index),
        _by(MergeSegments, views.apply_merge),
        _by(DropSegment, views.apply_drop),
        _by(Reindex, views.apply_reindex),
        _by(KeepPlan, runs.apply_keep),
        _by(ForgetRemoved, runs.apply_forget_removed),
        _by(BeginRun, runs.apply_begin_run),
        _by(ClaimRun, runs.apply_claim),
        _by(RemoveBatch, runs.apply_batch),
        _by(EndRun, runs.apply_end),
        _by(NoteRound, runs.apply_note_round),
        _by(SetJob, runs.apply_set_job),
        _by(MarkJob, runs.apply_mark_job),
        _by(RestoreArtifact, restore.apply_restore),
        _by(TakeLease, uploads.apply_take),
        _by(SetPolicy, policies.apply_set),
        _by(PlaceHold, holds.apply_place),
        _by(ReleaseHold, holds.apply_release),
        _by(MarkNamespace, administration.apply_mark),
        _by(MakeKey, administration.apply_make_key),
        _by(RevokeKey, administration.apply_revoke_key),
        _by(MakeNamespace, administration.apply_make_namespace),
        _by(SwitchNamespace, administration.apply_switch_namespace),
        _by(AddSessionUsage, session_usage.apply_add),
    )
)


CommitWatch: TypeAlias = Callable[[int, float, float], None]
"""Is called for a group after its commit, successful or not: number of changes, how long the first waited, duration."""


GATHER_SECONDS: Final = 0.003
"""How long a group waits for changes that are on their way: a transaction costs several times as much as one change."""
MAX_GROUP_CHANGES: Final = 256
"""Maximum changes in a group."""
MAX_GROUP_BYTES: Final = 8 * 1024 * 1024
"""Maximum weight of a group's changes."""


class FunctionChange(CatalogChange[T], frozen=True, kw_only=True):
    """A change that calls a function with the connection."""

    takes_room: ClassVar[bool] = True
    """Nobody knows what its function writes, so the reserve of a full disk is not lent to it."""

    call: Callable[[Connection], T]
    """It may run again after a rollback, so it must have no effect but its writes."""


def carry_out(
    conn: Connection,
    group: Sequence[CatalogChange[Any]],
    enter: Callable[[Connection, str | None], None],
    number: Numberer,
) -> list[object]:
    """Carries out a group; returns an answer for each. Raises if one of them raises; then undo the transaction.

    All of them wait for the same commit, so any order is valid. Namespaces come in the same order in every replica,
    which prevents deadlocks between replicas.
    """
    # The connection may still carry what an undone transaction gathered; this one must not write it.
    audit.begin(conn)
    usage.begin(conn)
    holds.begin(conn)
    # Before any other lock: a new hold waits for deletes that have begun, and must never hold up one that has rows
    # locked.
    if any(change.deletes for change in group):
        holds.stand_by(conn)

    def position(at: int) -> tuple[bool, str]:
        namespace = group[at].only_namespace
        return namespace is None, namespace or ""  # changes of all namespaces come last

    answers: dict[int, object] = {}
    for (everywhere, namespace), members in groupby(sorted(range(len(group)), key=position), key=position):
        # Switches row-level security on PostgreSQL; does nothing on SQLite.
        enter(conn, None if everywhere else namespace)
        answers |= _carry_out_in_one(conn, {at: group[at] for at in members}, number)
    # The sums are written late, because their rows are locked until the commit by whoever changes them; the audit log
    # comes last, as it has one line for everything that was removed for the same reason.
    usage.flush(conn, enter)
    audit.flush(conn, enter)
    return [answers[at] for at in range(len(group))]


def _carry_out_in_one(conn: Connection, changes: dict[int, CatalogChange[Any]], number: Numberer) -> dict[int, object]:
    """Carries out changes of one namespace, or of none, in their order; ingests first if there are several."""
    artifact_changes = [change for change in changes.values() if isinstance(change, ArtifactChange)]
    # Several artifacts are locked in one order before the first change: replicas that lock them one by one may
    # deadlock.
    if artifact_changes and len(changes) > 1 and conn.dialect.name != "sqlite":
        lock_ahead(conn, artifact_changes[0].namespace, [change.number for change in artifact_changes])
    answers: dict[int, object] = {}
    # One statement serves all ingests of the namespace, so they come together, whatever their positions are.
    stores = {at: change for at, change in changes.items() if isinstance(change, StoreArtifact)}
    if stores:
        answers.update(zip(stores, apply_stores(conn, list(stores.values()), number), strict=True))
    for at, change in changes.items():
        if isinstance(change, FunctionChange):
            answers[at] = change.call(conn)
        elif not isinstance(change, StoreArtifact):
            answers[at] = HANDLERS[type(change)](conn, change)
    return answers
