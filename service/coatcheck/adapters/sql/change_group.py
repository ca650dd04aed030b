"""Carries out a group of changes inside one transaction: by namespace, ingests together, the rest one by one."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

from sqlalchemy import Connection

from coatcheck.adapters.sql.change_handlers import HANDLERS
from coatcheck.adapters.sql.changes import audit, holds, usage
from coatcheck.adapters.sql.changes.artifact_slot import Numberer
from coatcheck.adapters.sql.changes.batch_store import apply_stores
from coatcheck.adapters.sql.changes.store import apply_store
from coatcheck.adapters.sql.changes.tombstone import lock_ahead
from coatcheck.ports.artifacts import StoreArtifact
from coatcheck.ports.change import ArtifactChange, CatalogChange

T = TypeVar("T")

CommitWatch: TypeAlias = Callable[[int, float, float], None]
"""Is called for a group after its commit, successful or not: number of changes, how long the first waited, duration."""


GATHER_SECONDS: Final = 0.003
"""How long a group waits for changes that are on their way: a transaction costs several times as much as one change."""
MOST_CHANGES: Final = 256
"""Maximum changes in a group."""
MOST_BYTES: Final = 8 * 1024 * 1024
"""Maximum weight of a group's changes."""


class FunctionChange(CatalogChange[T], frozen=True, kw_only=True):
    """A change that calls a function with the connection."""

    takes_room: ClassVar[bool] = True

    call: Callable[[Connection], T]


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
    audit.begin(conn)
    usage.begin(conn)
    holds.begin(conn)
    if any(change.deletes for change in group):
        holds.stand_by(conn)

    def place(at: int) -> tuple[bool, str]:
        namespace = group[at].only_namespace
        return namespace is None, namespace or ""

    answers: dict[int, object] = {}
    for (everywhere, namespace), members in groupby(sorted(range(len(group)), key=place), key=place):
        enter(conn, None if everywhere else namespace)
        answers |= _carry_out_in_one(conn, {at: group[at] for at in members}, number)
    usage.flush(conn, enter)
    audit.flush(conn, enter)
    return [answers[at] for at in range(len(group))]


def _carry_out_in_one(conn: Connection, changes: dict[int, CatalogChange[Any]], number: Numberer) -> dict[int, object]:
    """Carries out changes of one namespace, or of none, in their order; ingests first if there are several."""
    artifact_changes = [change for change in changes.values() if isinstance(change, ArtifactChange)]
    if artifact_changes and len(changes) > 1 and conn.dialect.name != "sqlite":
        lock_ahead(conn, artifact_changes[0].namespace, [change.number for change in artifact_changes])
    answers: dict[int, object] = {}
    stores = {at: change for at, change in changes.items() if isinstance(change, StoreArtifact)}
    if len(stores) > 1:
        answers.update(zip(stores, apply_stores(conn, list(stores.values()), number), strict=True))
    for at, change in changes.items():
        if isinstance(change, FunctionChange):
            answers[at] = change.call(conn)
        elif not isinstance(change, StoreArtifact):
            answers[at] = HANDLERS[type(change)](conn, change)
        elif at not in answers:
            answers[at] = apply_store(conn, change, number)
    return answers
