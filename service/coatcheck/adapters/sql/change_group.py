"""A group of changes inside one transaction: entered by namespace, ingests together, the rest one by one."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from coatcheck.adapters.sql.changes import audit, holds, usage
from coatcheck.adapters.sql.changes.artifact_slot import Numberer
from coatcheck.adapters.sql.changes.batch_store import apply_stores
from coatcheck.adapters.sql.changes.store import apply_store
from coatcheck.adapters.sql.changes.tombstone import lock_ahead
from coatcheck.core.retention.changes import RemoveBatch, RestoreArtifact
from coatcheck.ports.artifacts import DeleteArtifact, DeleteSession, PatchArtifact, StoreArtifact, StoreView
from coatcheck.ports.decisions import DeleteNamespace
from coatcheck.ports.maintenance import EvictArtifacts, ExpireArtifacts
from coatcheck.ports.text_index import DropSegment, IndexDocuments, MergeSegments

CommitWatch = Callable[[int, float, float], None]
"""Is told of a group that was committed, or was not: its changes, how long the first waited, how long all took."""


GATHER_SECONDS: Final = 0.003
"""How long a group waits for changes that are on their way: a transaction costs several times what one change does."""


class Work(NamedTuple):
    """One change on its way to the database."""

    apply: Callable[[Connection, Any], Any]
    change: Any
    namespace: str | None
    """Whose rows it touches; None: those of any, for upkeep."""
    weight: int = 0
    """Bytes that it adds, roughly."""

    @property
    def solitary(self) -> bool:
        """Whether it locks rows that nobody can name before: replicas could wait in a circle if it shared a group."""
        return self.namespace is None or isinstance(
            self.change,
            DeleteSession
            | DeleteNamespace
            | EvictArtifacts
            | IndexDocuments
            | MergeSegments
            | DropSegment
            | RestoreArtifact,
        )

    @property
    def deletes(self) -> bool:
        """Whether it removes artifacts, and so meets holds."""
        return isinstance(
            self.change,
            DeleteArtifact | DeleteSession | DeleteNamespace | ExpireArtifacts | EvictArtifacts | RemoveBatch,
        )


def just(call: Callable[[Connection], object], namespace: str | None = None) -> Work:
    """A change that is nothing but a function."""

    def apply(conn: Connection, _: object) -> object:
        return call(conn)

    return Work(apply, None, namespace)


def carry_out(
    conn: Connection, group: Sequence[Work], enter: Callable[[Connection, str | None], None], number: Numberer
) -> list[object]:
    """Carry out a group; an answer for each. Raises what one of them raises: then the transaction is to be undone.

    All of them wait for the same commit, so that any order is a true one. Namespaces come in the same order in every
    replica, which spares them waiting for each other in a circle.
    """
    audit.begin(conn)
    usage.begin(conn)
    holds.begin(conn)
    if any(work.deletes for work in group):
        holds.stand_by(conn)
    answers: dict[int, object] = {}
    order = sorted(range(len(group)), key=lambda at: (group[at].namespace is None, group[at].namespace or ""))
    start = 0
    while start < len(order):
        namespace = group[order[start]].namespace
        end = start
        while end < len(order) and group[order[end]].namespace == namespace:
            end += 1
        enter(conn, namespace)
        _carry_out_in_one(conn, group, order[start:end], number, answers)
        start = end
    usage.flush(conn, enter)
    audit.flush(conn, enter)
    return [answers[at] for at in range(len(group))]


def _carry_out_in_one(
    conn: Connection, group: Sequence[Work], members: Sequence[int], number: Numberer, answers: dict[int, object]
) -> None:
    numbers = [
        change.number
        for at in members
        if isinstance(change := group[at].change, DeleteArtifact | PatchArtifact | StoreView)
    ]
    if numbers and len(members) > 1 and conn.dialect.name != "sqlite":
        lock_ahead(conn, group[members[0]].namespace or "", numbers)
    stores = [at for at in members if isinstance(group[at].change, StoreArtifact)]
    if len(stores) > 1:
        together = apply_stores(conn, [group[at].change for at in stores], number)
        answers.update(zip(stores, together, strict=True))
    for at in members:
        if at in answers:
            continue
        work = group[at]
        if isinstance(work.change, StoreArtifact):
            answers[at] = apply_store(conn, work.change, number)
        else:
            answers[at] = work.apply(conn, work.change)
