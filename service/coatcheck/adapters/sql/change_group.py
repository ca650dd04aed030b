"""A group of changes inside one transaction: entered by namespace, ingests together, the rest one by one."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final, TypeAlias, TypeVar

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
"""Is told of a group that was committed, or was not: its changes, how long the first waited, how long all took."""


GATHER_SECONDS: Final = 0.003
"""How long a group waits for changes that are on their way: a transaction costs several times what one change does."""
MOST_CHANGES: Final = 256
"""Of a group."""
MOST_BYTES: Final = 8 * 1024 * 1024
"""A group whose changes weigh as much takes no further one."""


class FunctionChange(CatalogChange[T], frozen=True, kw_only=True):
    """A function over the connection as a change."""

    call: Callable[[Connection], T]


def carry_out(
    conn: Connection,
    group: Sequence[CatalogChange[Any]],
    enter: Callable[[Connection, str | None], None],
    number: Numberer,
) -> list[object]:
    """Carry out a group; an answer for each. Raises what one of them raises: then the transaction is to be undone.

    All of them wait for the same commit, so that any order is a true one. Namespaces come in the same order in every
    replica, which spares them waiting for each other in a circle.
    """
    audit.begin(conn)
    usage.begin(conn)
    holds.begin(conn)
    if any(change.deletes for change in group):
        holds.stand_by(conn)

    def place(at: int) -> tuple[bool, str]:
        namespace = group[at].entered
        return namespace is None, namespace or ""

    answers: dict[int, object] = {}
    for (everywhere, namespace), members in groupby(sorted(range(len(group)), key=place), key=place):
        enter(conn, None if everywhere else namespace)
        answers |= _carry_out_in_one(conn, {at: group[at] for at in members}, number)
    usage.flush(conn, enter)
    audit.flush(conn, enter)
    return [answers[at] for at in range(len(group))]


def _carry_out_in_one(conn: Connection, changes: dict[int, CatalogChange[Any]], number: Numberer) -> dict[int, object]:
    """Carry out changes of one namespace, or of none, in their order; ingests first where there are several."""
    known = [change for change in changes.values() if isinstance(change, ArtifactChange)]
    if known and len(changes) > 1 and conn.dialect.name != "sqlite":
        lock_ahead(conn, known[0].namespace, [change.number for change in known])
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
