"""Where an identity's artifact is, was, or may be: the number that its artifact ID is derived from."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Connection, bindparam, null, select, type_coerce, union_all

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, tombstones
from coatcheck.adapters.sql.types import UtcDateTime
from coatcheck.core.artifact import Gone
from coatcheck.ports.artifacts import StoreArtifact

Numberer = Callable[[bytes, int], int]
"""Returns the number of an identity's n-th candidate ID."""

PROBES = 4
"""Candidates examined together. Among them an identity is found even after the artifact with its first number is gone;
a longer chain needs four colliding identities (about 10^-24 at 10^8 artifacts)."""

_NUMBERS = [bindparam(f"n{i}", type_=BigInteger()) for i in range(PROBES)]
_TAKEN = Prepared(
    union_all(
        select(
            artifacts.c.number,
            artifacts.c.identity,
            artifacts.c.seq,
            artifacts.c.expires_at,
            artifacts.c.blob_seq,
            artifacts.c.tool_name,
            null().label("reason"),
            type_coerce(null(), UtcDateTime).label("at"),  # the union takes its types from here
            artifacts.c.session,
        ).where(artifacts.c.namespace == bindparam("namespace"), artifacts.c.number.in_(_NUMBERS)),
        select(
            tombstones.c.number,
            tombstones.c.identity,
            null(),
            null(),
            null(),
            tombstones.c.tool_name,
            tombstones.c.reason,
            tombstones.c.at,
            tombstones.c.session,
        ).where(tombstones.c.namespace == bindparam("namespace"), tombstones.c.number.in_(_NUMBERS)),
    )
)


class ArtifactSlot(NamedTuple):
    """The place of an identity's artifact."""

    number: int
    seq: int | None
    """The existing row of this identity, live or expired."""
    expires_at: datetime | None
    blob_seq: int | None
    buried: Gone | None
    """How it was last removed: its tombstone, even if that has ended, or its expiry."""


def find_slot(conn: Connection, change: StoreArtifact, number: Numberer) -> ArtifactSlot:
    """Returns where this identity is, or its first free number."""
    first = 0
    free: int | None = None
    while free is None:
        candidates = [number(change.identity, probe) for probe in range(first, first + PROBES)]
        parameters: dict[str, Any] = {f"n{i}": candidate for i, candidate in enumerate(candidates)}
        holder_rows = _TAKEN.rows(conn, {"namespace": change.namespace, **parameters})
        # Prefer an artifact: two replicas may have left a tombstone after it.
        mine = sorted((row for row in holder_rows if row[1] == change.identity), key=_is_tombstone)
        if mine:
            at, _, seq, expires_at, blob_seq, *_ = mine[0]
            burials = [
                tombstone for row in mine if row[0] == at and (tombstone := _burial(row, change.now)) is not None
            ]
            return ArtifactSlot(at, seq, expires_at, blob_seq, max(burials, key=_moment, default=None))
        occupied = {row[0] for row in holder_rows}
        free = next((candidate for candidate in candidates if candidate not in occupied), None)
        first += PROBES
    return ArtifactSlot(free, None, None, None, None)


def _is_tombstone(row: tuple[Any, ...]) -> bool:
    return row[2] is None


def _burial(row: tuple[Any, ...], now: datetime) -> Gone | None:
    """Returns how the row of _TAKEN was removed; None: it is live."""
    number, _, seq, expires_at, _, tool_name, reason, at, session = row
    if seq is None:
        return rows.make_tombstone(number, reason, at, tool_name, session)
    return (
        rows.make_tombstone(number, "expired", expires_at, tool_name, session)
        if expires_at and expires_at <= now
        else None
    )


def _moment(tombstone: Gone) -> datetime:
    return tombstone.at
