"""What was done with what a session holds: reads, searches, compactions."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("number", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("session", sa.Text()),
        sa.Column("artifact", sa.BigInteger()),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text()),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("tokens_before", sa.BigInteger()),
        sa.Column("details", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_events"),
    )
    op.create_index("ix_events_namespace_artifact_number", "events", ["namespace", "artifact", "number"])
    op.create_index("ix_events_namespace_session_number", "events", ["namespace", "session", "number"])
    if op.get_bind().dialect.name == "postgresql":
        mine = "namespace = (SELECT current_setting('coatcheck.namespace', true))"
        upkeep = "(SELECT current_setting('coatcheck.upkeep', true)) = 'on'"
        op.execute("ALTER TABLE events ENABLE ROW LEVEL SECURITY")
        op.execute("ALTER TABLE events FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY namespace ON events USING ({mine} OR {upkeep})")


def downgrade() -> None:
    op.drop_table("events")
