"""The audit without its chain of hashes: lines that are numbered by the database, and can be pruned.

A downgrade numbers the lines that are left anew and chains them, so that the release before can go on from them. That
chain says nothing about what became of them until then.
"""

import hashlib
import json
from typing import Any

import sqlalchemy as sa
from alembic import op

from coatcheck.adapters.sql.dialect import RowNumber, UtcDateTime, microseconds

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_KEPT = "at, action, actor, key_id, namespace, reason, run_id, artifacts, size, details, numbers"
_PAGE = 500


def upgrade() -> None:
    _see_all_namespaces()
    op.create_table(
        "audit_log",
        sa.Column("seq", RowNumber, sa.Identity(), nullable=False),
        *_columns(),
        sa.Column("numbers", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_audit_log"),
    )
    # Without their numbers: an identity goes on from those that it gave itself.
    op.execute(f"INSERT INTO audit_log ({_KEPT}) SELECT {_KEPT} FROM audit ORDER BY seq")  # noqa: S608 - our own names
    op.drop_table("audit")
    op.drop_table("audit_head")
    op.create_index("ix_audit_log_at", "audit_log", ["at"])
    _index_and_wall_off("audit_log")


def downgrade() -> None:
    _see_all_namespaces()
    audit = op.create_table(
        "audit",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        *_columns(),
        sa.Column("previous", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("numbers", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_audit"),
    )
    head = op.create_table(
        "audit_head",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_head"),
    )
    seq, digest = _chain(audit)
    op.bulk_insert(head, [{"id": 1, "seq": seq, "digest": digest}])
    op.drop_table("audit_log")
    _index_and_wall_off("audit")


def _columns() -> list[sa.Column[object]]:
    return [
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text()),
        sa.Column("namespace", sa.Text()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text()),
        sa.Column("artifacts", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
    ]


def _index_and_wall_off(table: str) -> None:
    op.create_index(f"ix_{table}_namespace_seq", table, ["namespace", "seq"])
    named = sa.text("run_id IS NOT NULL")
    op.create_index(f"ix_{table}_run_id", table, ["run_id"], sqlite_where=named, postgresql_where=named)
    if op.get_bind().dialect.name == "postgresql":
        mine = "namespace = (SELECT current_setting('coatcheck.namespace', true))"
        upkeep = "(SELECT current_setting('coatcheck.upkeep', true)) = 'on'"
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY namespace ON {table} USING ({mine} OR {upkeep})")


def _see_all_namespaces() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("SELECT set_config('coatcheck.upkeep', 'on', true)")


def _chain(audit: sa.Table) -> tuple[int, bytes]:
    """Copy the lines, numbered from 1 on, each with the hash of the one before; returns the last number and hash."""
    log = sa.table("audit_log", *(sa.column(c.name, c.type) for c in audit.c if c.name not in {"previous", "digest"}))
    conn, after, seq, previous = op.get_bind(), 0, 0, bytes(32)
    while (
        page := conn.execute(sa.select(log).where(log.c.seq > after).order_by(log.c.seq).limit(_PAGE)).mappings().all()
    ):
        rows: list[dict[str, Any]] = []
        for line in page:
            seq += 1
            digest = _digest(seq, line, previous)
            rows.append({**line, "seq": seq, "previous": previous, "digest": digest})
            previous = digest
        op.bulk_insert(audit, rows)
        after = page[-1]["seq"]
    return seq, previous


def _digest(seq: int, line: sa.RowMapping, previous: bytes) -> bytes:
    """The hash of a line as the release before checks it: over a JSON array in ASCII without spaces."""
    fields = [
        "coatcheck audit 1",
        seq,
        microseconds(line["at"]),
        line["action"],
        line["actor"],
        line["key_id"],
        line["namespace"],
        line["reason"],
        line["run_id"],
        line["artifacts"],
        line["size"],
        line["numbers"].hex(),
        line["details"],
        previous.hex(),
    ]
    return hashlib.sha256(json.dumps(fields, separators=(",", ":")).encode()).digest()
