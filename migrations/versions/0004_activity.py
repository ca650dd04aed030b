"""What happened in each hour, for the administrator's page."""

import sqlalchemy as sa
from alembic import op

from coatcheck.adapters.sql.dialect import UtcDateTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_COUNTS = ("artifacts", "raw_tokens", "given_tokens", "reads", "read_tokens", "compactions", "unsent_tokens", "batch")


def upgrade() -> None:
    op.create_table(
        "activity",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("hour", UtcDateTime(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _COUNTS),
        sa.PrimaryKeyConstraint("namespace", "hour", name="pk_activity"),
    )
    if op.get_bind().dialect.name == "postgresql":
        mine = "namespace = (SELECT current_setting('coatcheck.namespace', true))"
        upkeep = "(SELECT current_setting('coatcheck.upkeep', true)) = 'on'"
        op.execute("ALTER TABLE activity ENABLE ROW LEVEL SECURITY")
        op.execute("ALTER TABLE activity FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY namespace ON activity USING ({mine} OR {upkeep})")


def downgrade() -> None:
    op.drop_table("activity")
