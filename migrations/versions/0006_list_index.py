"""Lists pass rows over without reading them: the index that they walk along holds what they filter by most."""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_artifacts_namespace_seq_filters",
        "artifacts",
        ["namespace", "seq", "created_at", "kind", "tool_name"],
    )
    op.drop_index("ix_artifacts_namespace_seq", "artifacts")


def downgrade() -> None:
    op.create_index("ix_artifacts_namespace_seq", "artifacts", ["namespace", "seq"])
    op.drop_index("ix_artifacts_namespace_seq_filters", "artifacts")
