"""Carries out a group of changes inside one transaction: by namespace, ingests together, the rest one by one.

HANDLERS maps each change to its function. A change is documented at its type.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, TypeVar, cast

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
from coatcheck.core.errors import CoatcheckError
from coatcheck.ports import artifacts, blobs, decisions, keys, maintenance, retention, text_index
from coatcheck.ports.artifacts import StoreArtifact
from coatcheck.ports.decisions import ArtifactChange, CatalogChange

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
        _by(blobs.BeginUpload, uploads.apply_begin),
        _by(blobs.ReserveMore, uploads.apply_reserve_more),
        _by(blobs.RenewUpload, uploads.apply_renew),
        _by(blobs.AbandonUpload, uploads.apply_abandon),
        _by(maintenance.ReapUploads, uploads.apply_reap),
        _by(artifacts.StoreView, views.apply_store_view),
        _by(artifacts.PatchArtifact, alter.apply_patch),
        _by(artifacts.Touch, alter.apply_touch),
        _by(artifacts.DeleteArtifact, tombstone.apply_delete),
        _by(artifacts.DeleteSession, tombstone.apply_delete_session),
        _by(decisions.DeleteNamespace, evict.apply_delete_namespace),
        _by(maintenance.EvictArtifacts, evict.apply_evict),
        _by(maintenance.ExpireArtifacts, runs.apply_expire),
        _by(maintenance.MarkBlobCorrupt, forget.apply_mark_corrupt),
        _by(maintenance.ForgetBlobs, forget.apply_forget),
        _by(maintenance.PurgeRecords, forget.apply_purge),
        _by(text_index.IndexDocuments, views.apply_index),
        _by(text_index.MergeSegments, views.apply_merge),
        _by(text_index.DropSegment, views.apply_drop),
        _by(text_index.Reindex, views.apply_reindex),
        _by(retention.KeepPlan, runs.apply_keep),
        _by(retention.ForgetRemoved, forget.apply_forget_removed),
        _by(retention.BeginRun, runs.apply_begin_run),
        _by(retention.ClaimRun, runs.apply_claim),
        _by(retention.RemoveBatch, runs.apply_batch),
        _by(retention.EndRun, runs.apply_end),
        _by(retention.NoteRound, runs.apply_note_round),
        _by(retention.SetJob, runs.apply_set_job),
        _by(retention.MarkJob, runs.apply_mark_job),
        _by(retention.RestoreArtifact, restore.apply_restore),
        _by(maintenance.TakeLease, uploads.apply_take),
        _by(decisions.SetPolicy, policies.apply_set),
        _by(decisions.PlaceHold, policies.apply_place),
        _by(decisions.ReleaseHold, policies.apply_release),
        _by(decisions.MarkNamespace, administration.apply_mark),
        _by(keys.MakeKey, administration.apply_make_key),
        _by(keys.RevokeKey, administration.apply_revoke_key),
        _by(keys.MakeNamespace, administration.apply_make_namespace),
        _by(keys.SwitchNamespace, administration.apply_switch_namespace),
        _by(keys.AddSessionUsage, session_usage.apply_add),
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


class ChangeFailure(NamedTuple):
    """An answer that is an error."""

    error: BaseException


def resolve(waiter: "asyncio.Future[Any]", answer: object) -> None:
    """Gives a caller its answer, unless it was cancelled; its change is unaffected by that."""
    if waiter.done():
        return
    if isinstance(answer, ChangeFailure):
        waiter.set_exception(answer.error)
    else:
        waiter.set_result(answer)


class ChangeWriter(ABC):
    """The only writer of a process to a database: it commits changes in groups."""

    def __init__(self) -> None:
        self.fault: CoatcheckError | None = None
        """Why storage refused the last transaction; None if it accepted it. Any thread may read it."""
        self.watch: CommitWatch | None = None
        self.approaching: Callable[[], int] = lambda: 0
        """Returns how many changes are on their way, for which a group waits briefly."""

    @abstractmethod
    async def carry_out(self, change: CatalogChange[Any]) -> object:
        """Carries out a change, in a transaction that it may share, and returns its answer once durable."""

    async def run(self, call: Callable[[Connection], T]) -> T:
        """Calls a function inside a transaction and returns its result once durable.

        It may be called again after a rollback.
        """
        return cast("T", await self.carry_out(FunctionChange(call=call)))


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
        tombstone.lock_ahead(conn, artifact_changes[0].namespace, [change.number for change in artifact_changes])
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
