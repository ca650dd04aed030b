"""What a model got in an artifact's place when it was stored: engine, digest and, by policy, the text."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Columns without a value: neither database rewrites its rows.
    op.add_column("artifacts", sa.Column("receipt", sa.Text()))
    op.add_column("removed", sa.Column("receipt", sa.Text()))


def downgrade() -> None:
    op.drop_column("removed", "receipt")
    op.drop_column("artifacts", "receipt")
