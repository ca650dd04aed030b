"""Carries out a group of changes in one transaction, namespace by namespace.

The ingests of a namespace are carried out together, other changes one by one. HANDLERS maps the type of each change to
the function that carries it out. The types document the changes.
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
"""Carries out a change: takes the open transaction and the change, and returns the change's answer."""


def _by(
    kind: type[CatalogChange[T]], apply: Callable[[Connection, Any], T]
) -> tuple[type[CatalogChange[Any]], Handler]:
    """Returns an entry of HANDLERS. A type checker rejects a function that does not return the type of the answer."""
    return kind, apply


# StoreArtifact is not in the table, because `_carry_out_in_one` passes all ingests of a namespace to `apply_stores`.
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
"""Is called after the attempt to commit a group, successful or not. The arguments are the number of changes, the
seconds that the first change has waited, and the seconds that the commit took."""


GATHER_SECONDS: Final = 0.003
"""Seconds that a group waits for changes that are on their way. The wait pays because a transaction costs several times
as much as a change in it."""
MAX_GROUP_CHANGES: Final = 256
"""Maximum changes in a group."""
MAX_GROUP_BYTES: Final = 8 * 1024 * 1024
"""Maximum weight of a group: the sum of the weights of its changes, in bytes."""


class FunctionChange(CatalogChange[T], frozen=True, kw_only=True):
    """A change that calls a function with the connection of the transaction."""

    takes_room: ClassVar[bool] = True
    """Whether the change may take room. As nobody knows what the function writes, it may not use the disk reserve."""

    call: Callable[[Connection], T]
    """The function. It may be called again after a rollback, so it must have no effect except its writes."""


class ChangeFailure(NamedTuple):
    """The answer to a change that has failed: the error that its caller gets."""

    error: BaseException


def resolve(waiter: "asyncio.Future[Any]", answer: object) -> None:
    """Gives a caller the answer to its change; does nothing if its future is already done or cancelled."""
    if waiter.done():
        return
    if isinstance(answer, ChangeFailure):
        waiter.set_exception(answer.error)
    else:
        waiter.set_result(answer)


class ChangeWriter(ABC):
    """The only writer of a process to a database. It commits changes in groups."""

    def __init__(self) -> None:
        self.fault: CoatcheckError | None = None
        """The error with which storage refused the last transaction; None if storage accepted it. Any thread may read
        this."""
        self.watch: CommitWatch | None = None
        """Is called after each commit; None: nobody watches."""
        self.approaching: Callable[[], int] = lambda: 0
        """Returns how many changes are on their way. A group waits briefly for them."""

    @abstractmethod
    async def carry_out(self, change: CatalogChange[Any]) -> object:
        """Carries out a change, perhaps in one transaction with others, and returns its answer once it is durable."""

    async def run(self, call: Callable[[Connection], T]) -> T:
        """Calls a function inside a transaction, and returns its result once the transaction is durable.

        After a rollback the function may be called again.
        """
        return cast("T", await self.carry_out(FunctionChange(call=call)))


def carry_out(
    conn: Connection,
    group: Sequence[CatalogChange[Any]],
    enter: Callable[[Connection, str | None], None],
    number: Numberer,
) -> list[object]:
    """Carries out a group of changes in the open transaction; returns the answers in the order of the changes.

    If one of the changes raises an error, it is raised here, and the caller must roll back the transaction. All changes
    wait for the same commit, so they may be carried out in any order. Every replica takes the namespaces in the same
    order, which prevents deadlocks between replicas.

    Args:
        conn: the open transaction.
        group: the changes.
        enter: restricts the transaction to a namespace by row-level security; None: it sees all namespaces.
        number: returns the number of an identity's n-th candidate ID.
    """
    # A transaction that was rolled back may have left its sums and lines at the connection. They must not be written.
    audit.begin(conn)
    usage.begin(conn)
    holds.begin(conn)
    # This lock comes before any other. A new hold waits for the deletions that have begun, so a deletion must not wait
    # for the new hold while it has rows locked.
    if any(change.deletes for change in group):
        holds.stand_by(conn)

    def position(at: int) -> tuple[bool, str]:
        namespace = group[at].only_namespace
        return namespace is None, namespace or ""  # changes of all namespaces come last

    answers: dict[int, object] = {}
    for (everywhere, namespace), members in groupby(sorted(range(len(group)), key=position), key=position):
        # On PostgreSQL this sets the namespace of row-level security; on SQLite it does nothing.
        enter(conn, None if everywhere else namespace)
        answers |= _carry_out_in_one(conn, {at: group[at] for at in members}, number)
    # The sums are written late, because their rows stay locked until the commit. The audit log comes last, because a
    # single line lists all artifacts that were removed for the same reason.
    usage.flush(conn, enter)
    audit.flush(conn, enter)
    return [answers[at] for at in range(len(group))]


def _carry_out_in_one(conn: Connection, changes: dict[int, CatalogChange[Any]], number: Numberer) -> dict[int, object]:
    """Carries out changes of one namespace, or of no single namespace: first the ingests, then the others in order."""
    artifact_changes = [change for change in changes.values() if isinstance(change, ArtifactChange)]
    # If several artifacts are changed, all are locked in a fixed order before the first change. Replicas that lock them
    # one by one may deadlock.
    if artifact_changes and len(changes) > 1 and conn.dialect.name != "sqlite":
        tombstone.lock_ahead(conn, artifact_changes[0].namespace, [change.number for change in artifact_changes])
    answers: dict[int, object] = {}
    # The ingests come together, whatever their positions are, because one statement serves all of them.
    stores = {at: change for at, change in changes.items() if isinstance(change, StoreArtifact)}
    if stores:
        answers.update(zip(stores, apply_stores(conn, list(stores.values()), number), strict=True))
    for at, change in changes.items():
        if isinstance(change, FunctionChange):
            answers[at] = change.call(conn)
        elif not isinstance(change, StoreArtifact):
            answers[at] = HANDLERS[type(change)](conn, change)
    return answers
