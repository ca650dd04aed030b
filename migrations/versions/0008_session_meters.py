"""What a session's meters need besides the two gauges: the usable window, and the payload of web searches."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_COLUMNS = ("window_tokens", "search_tokens", "search_cap")


def upgrade() -> None:
    # Columns without a value: neither database rewrites its rows.
    for column in _COLUMNS:
        op.add_column("session_usage", sa.Column(column, sa.BigInteger()))


def downgrade() -> None:
    for column in reversed(_COLUMNS):
        op.drop_column("session_usage", column)
