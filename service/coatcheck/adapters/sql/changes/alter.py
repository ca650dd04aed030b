"""Changes a live artifact: its expiry, its pin, its labels, its last read, or its declared metadata.

A repeated request that declares other metadata also replaces the detected metadata and the survey. It replaces the text
view if the inputs of the extractor differ. Labels, expiry and the comparison with an earlier artifact stay.
`DeclaredMetadata.merged_over` decides whether the metadata differ.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import UNSET
from sqlalchemy import ColumnElement, Connection, Text, bindparam, func, select, update

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes.holds import holds_of
from coatcheck.adapters.sql.changes.tombstone import lock_row, tombstone_of
from coatcheck.adapters.sql.changes.views import replace_survey, replace_view, wait_for_index
from coatcheck.adapters.sql.dialect import Many, among, bind_seqs, equal
from coatcheck.adapters.sql.tables import artifacts
from coatcheck.core.artifact import Artifact, Gone
from coatcheck.core.policies.policy import expiry
from coatcheck.core.read_answer import view_inputs
from coatcheck.ports.artifacts import PatchArtifact, StoreArtifact, Touch


class _State(NamedTuple):
    """The columns of an artifact's row on which a change depends."""

    seq: int
    created_at: datetime
    read_at: datetime
    expires_at: datetime | None
    """When the artifact expires; None: never."""
    ttl: int | None
    """Seconds after `created_at`; None: no such limit."""
    idle_ttl: int | None
    """Seconds after `read_at`; None: no such limit."""
    pinned: bool
    tool_name: str | None
    session: str | None
    """Session of the artifact. `session` and `tool_name` are only used in the answer about an expired artifact."""


_COLUMNS: list[ColumnElement[Any]] = [artifacts.c[name] for name in _State._fields]
_HERE = equal(artifacts.c.namespace, artifacts.c.number)
# Because of the lock, changes of one artifact are carried out one after the other, and each sees the result of the one
# before.
_STATE = select(*_COLUMNS).where(_HERE).with_for_update()
_ARTIFACT = rows.ARTIFACTS.where(_HERE)
_MOVABLE = artifacts.c.pinned.is_(False)
"""The condition that an artifact's expiry depends on reads: a pinned artifact does not expire, so its reads are not
recorded."""
_NUMBERS = bind_seqs("numbers")
# Two arrays of equal length become pairs, so that one statement serves reads in several namespaces.
_WANTED = func.unnest(bindparam("spaces", type_=Many(Text())), _NUMBERS).table_valued("space", "at").render_derived()
# Locks the artifacts in row order, as every transaction does, which prevents deadlocks between replicas.
_READ_OF_ALL = (
    select(artifacts.c.namespace, artifacts.c.number, *_COLUMNS)
    .join_from(artifacts, _WANTED, (artifacts.c.namespace == _WANTED.c.space) & (artifacts.c.number == _WANTED.c.at))
    .where(_MOVABLE)
    .order_by(artifacts.c.seq)
    .with_for_update(of=artifacts)
)
_READ_OF_ONE = select(artifacts.c.namespace, artifacts.c.number, *_COLUMNS).where(
    artifacts.c.namespace == bindparam("space"), among(artifacts.c.number, _NUMBERS), _MOVABLE
)
_TOUCH = update(artifacts).where(artifacts.c.seq == bindparam("row"))


def apply_patch(conn: Connection, change: PatchArtifact) -> Artifact | Gone | None:
    """Carries out PatchArtifact."""
    mine = {"namespace": change.namespace, "number": change.number}
    state_row = conn.execute(_STATE, mine).first()
    if state_row is None:
        return tombstone_of(conn, change.namespace, change.number, change.now)
    row = _State._make(state_row)
    values = _patch_columns(change, row)
    # Expiry is exact: an expired artifact counts as removed, even while its row still exists.
    if row.expires_at is not None and row.expires_at <= change.now and not _revives(conn, change, row, values):
        return rows.make_tombstone(change.number, "expired", row.expires_at, row.tool_name, row.session)
    if values:
        conn.execute(update(artifacts).where(artifacts.c.seq == row.seq).values(values))
        # Labels are part of the fingerprint, so the artifact's entry in the full-text index is outdated.
        if "labels" in values:
            wait_for_index(conn, change.namespace, [row.seq])
    return rows.artifact(conn.execute(_ARTIFACT, mine).one())


def _revives(conn: Connection, change: PatchArtifact, row: _State, values: dict[str, Any]) -> bool:
    """Returns whether a change revives an expired artifact.

    It does if the caller wants that, a hold covers the artifact, and the new expiry is in the future.
    """
    if not change.revive or "expires_at" not in values or holds_of(conn, row.seq, change.now) is None:
        return False
    expires_at: datetime | None = values["expires_at"]
    return expires_at is None or expires_at > change.now


def _patch_columns(change: PatchArtifact, row: _State) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if change.labels is not UNSET:
        values["labels"] = rows.encode_labels(change.labels)
    if change.ttl is UNSET and change.idle_ttl is UNSET and change.pinned is UNSET:
        return values
    ttl = row.ttl if change.ttl is UNSET else _within(change.max_ttl, change.ttl, row.ttl)
    pinned = row.pinned if change.pinned is UNSET else change.pinned
    idle_ttl, read_at = row.idle_ttl, row.read_at
    if change.idle_ttl is not UNSET:
        # Without an idle TTL, not every read is recorded, so `read_at` may be outdated. A new idle TTL counts from now.
        idle_ttl, read_at = change.idle_ttl, change.now
    expires_at = expiry(row.created_at, read_at, ttl=ttl, idle_ttl=idle_ttl, pinned=pinned)
    # An artifact that is unpinned must not expire at once. Reads of a pinned artifact are not recorded, so an idle TTL
    # that has ended begins again, and so does a TTL that has ended. The row then gets the TTL that leads to the new
    # expiry: by the former one, the next change or read would find the artifact expired.
    if row.pinned and expires_at is not None and expires_at <= change.now:
        read_at = change.now
        expires_at = expiry(row.created_at, read_at, ttl=ttl, idle_ttl=idle_ttl, pinned=False)
        if expires_at is not None and expires_at <= change.now:
            life = rows.life_from_now(row.created_at, change.now, ttl=ttl, idle_ttl=idle_ttl, pinned=False)
            return values | life
    life = {"ttl": ttl, "idle_ttl": idle_ttl, "pinned": pinned, "read_at": read_at, "expires_at": expires_at}
    return values | life


def _within(longest: int | None, ttl: int | None, present: int | None) -> int | None:
    """Returns a new TTL, reduced to the longest that is allowed. None means forever, and for `longest` no limit."""
    if longest is None or (ttl is not None and ttl <= longest):
        return ttl
    # The limit may be younger than the artifact. It must not end a life that the caller only wants to prolong: what the
    # artifact has already, it keeps.
    kept = min((each for each in (ttl, present) if each is not None), default=None)
    return None if kept is None else max(longest, kept)


def apply_touch(conn: Connection, change: Touch) -> None:
    """Carries out Touch. A read counts if the artifact was live when it was read."""
    reads: dict[tuple[str, int], list[datetime]] = {}
    # Reads are in order of time, since each read may extend the life within which the next one counts.
    for namespace, number, moment in sorted(change.reads):
        reads.setdefault((namespace, number), []).append(moment)
    moved: list[dict[str, object]] = []
    for namespace, number, *columns in _movable(conn, reads):
        row = _State._make(columns)
        read_at, expires_at = row.read_at, row.expires_at
        for moment in reads[namespace, number]:
            # A read only counts if the artifact was live at that time: a read that is recorded late revives nothing.
            if read_at < moment and (expires_at is None or expires_at > moment):
                read_at = moment
                expires_at = _later(row, moment)
        if read_at != row.read_at:
            moved.append({"row": row.seq, "read_at": read_at, "expires_at": expires_at})
    if moved:
        conn.execute(_TOUCH, moved)


def _later(row: _State, read_at: datetime) -> datetime | None:
    """Returns the expiry of an artifact after a read at `read_at`. The expiry is never earlier than before the read."""
    if row.idle_ttl is None or row.expires_at is None:
        return row.expires_at
    moved = expiry(row.created_at, read_at, ttl=row.ttl, idle_ttl=row.idle_ttl, pinned=False)
    return row.expires_at if moved is None else max(moved, row.expires_at)


def _movable(conn: Connection, artifact_keys: Collection[tuple[str, int]]) -> Sequence[Any]:
    """Returns the namespace, the number and the columns of _State of those artifacts that are not pinned."""
    if conn.dialect.name != "sqlite":
        spaces, numbers = zip(*artifact_keys, strict=True) if artifact_keys else ((), ())
        return conn.execute(_READ_OF_ALL, {"spaces": spaces, "numbers": numbers}).all()
    by_namespace: dict[str, list[int]] = {}
    for namespace, number in artifact_keys:
        by_namespace.setdefault(namespace, []).append(number)
    return [
        row
        for namespace, numbers in by_namespace.items()
        for row in conn.execute(_READ_OF_ONE, {"space": namespace, "numbers": numbers})
    ]


def redeclare(conn: Connection, change: StoreArtifact, seq: int, there: Artifact) -> bool:
    """Replaces the metadata of an existing artifact, `there`, by the metadata of a repeated request.

    Returns False if the artifact's row was deleted meanwhile; then nothing is changed.
    """
    if not lock_row(conn, seq):
        return False
    declared = change.declared.merged_over(there.declared)
    facts = change.facts.keeping_first_time_fields(there.facts)
    columns = rows.columns_of_metadata(declared, facts)
    columns |= {"engine": change.engine, "declared_at": change.now}  # labels and session stay
    conn.execute(update(artifacts).where(artifacts.c.seq == seq).values(columns))
    replace_survey(conn, change, seq)
    # With equal inputs the extractor would return the same text. Then the view stays, because callers cite its ranges.
    if view_inputs(declared, facts) != view_inputs(there.declared, there.facts):
        replace_view(conn, change, change.text_view, seq)
    wait_for_index(conn, change.namespace, [seq])
    return True
