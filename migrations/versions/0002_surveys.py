"""Surveys beside artifacts, and when an artifact was declared anew."""

import sqlalchemy as sa
from alembic import op

from coatcheck.adapters.sql.dialect import RowNumber, UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_TABLES = ("surveys", "removed_surveys")


def upgrade() -> None:
    # Columns without a value: neither database rewrites its rows.
    op.add_column("artifacts", sa.Column("declared_at", UtcDateTime()))
    op.add_column("removed", sa.Column("declared_at", UtcDateTime()))
    _make_table("surveys", "artifact_seq", "artifacts")
    _make_table("removed_surveys", "removed_seq", "removed")
    if op.get_bind().dialect.name == "postgresql":
        mine = "namespace = (SELECT current_setting('coatcheck.namespace', true))"
        upkeep = "(SELECT current_setting('coatcheck.upkeep', true)) = 'on'"
        for table in _TABLES:
            op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
            op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
            op.execute(f"CREATE POLICY namespace ON {table} USING ({mine} OR {upkeep})")


def _make_table(name: str, key: str, owner: str) -> None:
    op.create_table(
        name,
        sa.Column(key, RowNumber, autoincrement=False, nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint(key, name=f"pk_{name}"),
        sa.ForeignKeyConstraint([key], [f"{owner}.seq"], name=f"fk_{name}_{key}", ondelete="CASCADE"),
    )


def downgrade() -> None:
    for table in _TABLES:
        op.drop_table(table)
    op.drop_column("removed", "declared_at")
    op.drop_column("artifacts", "declared_at")
