"""The first tables."""

import sqlalchemy as sa
from alembic import op

from coatcheck.adapters.sql.dialect import RowNumber, UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _make_blobs()
    _make_artifacts()
    _make_records()
    _make_text_index()
    _make_keys()
    _make_decisions()
    _make_audit()
    _make_retention()
    _make_session_usage()
    if op.get_bind().dialect.name == "postgresql":
        _wall_namespaces_off()
        # The bytes are compressed already, and ranges of them are read: the server must not compress them again.
        op.execute("ALTER TABLE inline_bytes ALTER COLUMN stored SET STORAGE EXTERNAL")
        op.execute("ALTER TABLE blobs ALTER COLUMN frames SET STORAGE EXTERNAL")
        op.execute("ALTER TABLE text_segments ALTER COLUMN listed SET STORAGE EXTERNAL")
        op.execute("ALTER TABLE text_parts ALTER COLUMN postings SET STORAGE EXTERNAL")


def _make_blobs() -> None:
    op.create_table(
        "blobs",
        sa.Column("seq", RowNumber, sa.Identity(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("placement", sa.Text(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("stored_size", sa.BigInteger(), nullable=False),
        sa.Column("frames", sa.LargeBinary(), nullable=False),
        sa.Column("dead_at", UtcDateTime()),
        sa.Column("condemned_at", UtcDateTime()),
        sa.PrimaryKeyConstraint("seq", name="pk_blobs"),
    )
    op.create_index("uq_blobs_id", "blobs", ["id"], unique=True)
    _partial_index("ix_blobs_digest", "blobs", ["digest"], "dead_at IS NULL")
    _partial_index("ix_blobs_dead_at_id", "blobs", ["dead_at", "id"], "dead_at IS NOT NULL")
    op.create_table(
        "inline_bytes",
        sa.Column("blob_seq", RowNumber, nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("stored", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("blob_seq", name="pk_inline_bytes"),
        sa.ForeignKeyConstraint(["blob_seq"], ["blobs.seq"], name="fk_inline_bytes_blob_seq", ondelete="CASCADE"),
    )


def _make_artifacts() -> None:
    op.create_table(
        "artifacts",
        sa.Column("seq", RowNumber, sa.Identity(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("identity", sa.LargeBinary(), nullable=False),
        sa.Column("blob_seq", RowNumber, nullable=False),
        sa.Column("session", sa.Text()),
        sa.Column("tool_name", sa.Text()),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("url", sa.Text()),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("read_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime()),
        sa.Column("ttl", sa.BigInteger()),
        sa.Column("idle_ttl", sa.BigInteger()),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.Column("engine", sa.Integer(), nullable=False),
        sa.Column("said", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text()),
        sa.Column("measure", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_artifacts"),
        sa.ForeignKeyConstraint(["blob_seq"], ["blobs.seq"], name="fk_artifacts_blob_seq"),
    )
    op.create_index("uq_artifacts_namespace_number", "artifacts", ["namespace", "number"], unique=True)
    op.create_index("ix_artifacts_namespace_seq", "artifacts", ["namespace", "seq"])
    _partial_index(
        "ix_artifacts_namespace_session_seq",
        "artifacts",
        ["namespace", "session", "seq"],
        "session IS NOT NULL",
    )
    op.create_index("ix_artifacts_blob_seq", "artifacts", ["blob_seq"])
    _partial_index("ix_artifacts_expires_at", "artifacts", ["expires_at"], "expires_at IS NOT NULL")
    op.create_index("ix_artifacts_namespace_read_at_seq", "artifacts", ["namespace", "read_at", "seq"])
    op.create_table(
        "views",
        sa.Column("artifact_seq", RowNumber, autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("blob_seq", RowNumber),
        sa.Column("extractor", sa.Text(), nullable=False),
        sa.Column("partial", sa.Boolean(), nullable=False),
        sa.Column("measure", sa.Text(), nullable=False),
        sa.Column("sections", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("artifact_seq", "name", name="pk_views"),
        sa.ForeignKeyConstraint(["artifact_seq"], ["artifacts.seq"], name="fk_views_artifact_seq"),
        sa.ForeignKeyConstraint(["blob_seq"], ["blobs.seq"], name="fk_views_blob_seq"),
    )
    _partial_index("ix_views_blob_seq", "views", ["blob_seq"], "blob_seq IS NOT NULL")


def _make_records() -> None:
    op.create_table(
        "uploads",
        sa.Column("blob_id", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("placement", sa.Text(), nullable=False),
        sa.Column("lease_until", UtcDateTime(), nullable=False),
        sa.Column("reserved", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("blob_id", name="pk_uploads"),
    )
    op.create_index("ix_uploads_lease_until", "uploads", ["lease_until"])
    op.create_table(
        "tombstones",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("identity", sa.LargeBinary(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("tool_name", sa.Text()),
        sa.Column("session", sa.Text()),
        sa.Column("until", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "number", name="pk_tombstones"),
    )
    op.create_index("ix_tombstones_until", "tombstones", ["until"])
    op.create_table(
        "idempotency_keys",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("created", sa.Boolean(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "key", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_expires_at", "idempotency_keys", ["expires_at"])
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )
    op.create_table(
        "writers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_writers"),
    )


def _make_text_index() -> None:
    op.create_table(
        "unindexed",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("artifact_seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("namespace", "artifact_seq", name="pk_unindexed"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "text_segments",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("bits", sa.Integer(), nullable=False),
        sa.Column("first_seq", sa.BigInteger(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("documents", sa.Integer(), nullable=False),
        sa.Column("postings", sa.Integer(), nullable=False),
        sa.Column("listed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_text_segments"),
    )
    op.create_index("ix_text_segments_namespace_last_seq", "text_segments", ["namespace", "last_seq"])
    op.create_table(
        "text_parts",
        sa.Column("segment_id", sa.BigInteger(), nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("postings", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("segment_id", "part", name="pk_text_parts"),
        sa.ForeignKeyConstraint(
            ["segment_id"], ["text_segments.id"], name="fk_text_parts_segment_id", ondelete="CASCADE"
        ),
    )


def _make_decisions() -> None:
    op.create_table(
        "policies",
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text()),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("made_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("version", name="pk_policies"),
    )
    op.create_index("ix_policies_namespace_part_value_version", "policies", ["namespace", "part", "value", "version"])
    op.create_table(
        "holds",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("session", sa.Text()),
        sa.Column("number", sa.BigInteger()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("made_by", sa.Text(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("until", UtcDateTime()),
        sa.PrimaryKeyConstraint("id", name="pk_holds"),
    )
    op.create_index("ix_holds_namespace_number_session", "holds", ["namespace", "number", "session"])
    op.create_table(
        "usage",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("artifacts", sa.BigInteger(), nullable=False),
        sa.Column("reserved", sa.BigInteger(), nullable=False),
        sa.Column("deleting_at", UtcDateTime()),
        sa.PrimaryKeyConstraint("namespace", name="pk_usage"),
    )


def _make_audit() -> None:
    op.create_table(
        "audit",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
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
        sa.Column("previous", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("numbers", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_audit"),
    )
    op.create_index("ix_audit_namespace_seq", "audit", ["namespace", "seq"])
    _partial_index("ix_audit_run_id", "audit", ["run_id"], "run_id IS NOT NULL")
    head = op.create_table(
        "audit_head",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_head"),
    )
    op.bulk_insert(head, [{"id": 1, "seq": 0, "digest": bytes(32)}])


def _make_keys() -> None:
    op.create_table(
        "namespaces",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("disabled_at", UtcDateTime()),
        sa.PrimaryKeyConstraint("namespace", name="pk_namespaces"),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("session_prefix", sa.Text()),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime()),
        sa.Column("revoked_at", UtcDateTime()),
        sa.Column("requests_per_minute", sa.BigInteger()),
        sa.Column("bytes_per_minute", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_keys"),
    )
    op.create_index("ix_keys_created_at_id", "keys", ["created_at", "id"])


def _make_retention() -> None:
    op.create_table(
        "removed",
        sa.Column("seq", RowNumber, sa.Identity(), nullable=False),
        sa.Column("removed_at", UtcDateTime(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text()),
        sa.Column("artifact_seq", sa.BigInteger(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("identity", sa.LargeBinary(), nullable=False),
        sa.Column("blob_seq", RowNumber, nullable=False),
        sa.Column("session", sa.Text()),
        sa.Column("tool_name", sa.Text()),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("url", sa.Text()),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("read_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime()),
        sa.Column("ttl", sa.BigInteger()),
        sa.Column("idle_ttl", sa.BigInteger()),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.Column("engine", sa.Integer(), nullable=False),
        sa.Column("said", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text()),
        sa.Column("measure", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_removed"),
    )
    op.create_index("ix_removed_namespace_number", "removed", ["namespace", "number"])
    op.create_index("ix_removed_removed_at", "removed", ["removed_at"])
    _partial_index("ix_removed_run_id_seq", "removed", ["run_id", "seq"], "run_id IS NOT NULL")
    op.create_table(
        "removed_views",
        sa.Column("removed_seq", RowNumber, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("blob_seq", RowNumber),
        sa.Column("extractor", sa.Text(), nullable=False),
        sa.Column("partial", sa.Boolean(), nullable=False),
        sa.Column("measure", sa.Text(), nullable=False),
        sa.Column("sections", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("removed_seq", "name", name="pk_removed_views"),
        sa.ForeignKeyConstraint(
            ["removed_seq"], ["removed.seq"], name="fk_removed_views_removed_seq", ondelete="CASCADE"
        ),
    )
    _make_plans_and_runs()


def _make_plans_and_runs() -> None:
    op.create_table(
        "plans",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("namespace", sa.Text()),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("criteria", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("until", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_plans"),
    )
    op.create_index("ix_plans_digest", "plans", ["digest"])
    op.create_table(
        "plan_parts",
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("first_seq", sa.BigInteger(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("numbers", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("plan_id", "part", name="pk_plan_parts"),
        sa.ForeignKeyConstraint(["plan_id"], ["plans.id"], name="fk_plan_parts_plan_id", ondelete="CASCADE"),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text()),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text()),
        sa.Column("plan_id", sa.Text()),
        sa.Column("plan_digest", sa.LargeBinary()),
        sa.Column("parts", sa.Integer(), nullable=False),
        sa.Column("next_part", sa.Integer(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("finished_at", UtcDateTime()),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("planned", sa.BigInteger(), nullable=False),
        sa.Column("artifacts", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("items", sa.BigInteger(), nullable=False),
        sa.Column("busy_ms", sa.BigInteger(), nullable=False),
        sa.Column("oldest_overdue", sa.BigInteger(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("worker", sa.Text()),
        sa.Column("lease_until", UtcDateTime()),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_started_at", "runs", ["started_at"])
    _partial_index("ix_runs_lease_until", "runs", ["lease_until"], "outcome = 'running'")
    op.create_table(
        "jobs",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("interval", sa.Integer()),
        sa.Column("changed_by", sa.Text()),
        sa.Column("changed_at", UtcDateTime()),
        sa.Column("last_at", UtcDateTime()),
        sa.Column("last_outcome", sa.Text()),
        sa.Column("last_detail", sa.Text()),
        sa.PrimaryKeyConstraint("name", name="pk_jobs"),
    )


def _make_session_usage() -> None:
    op.create_table(
        "session_usage",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("artifacts", sa.BigInteger(), nullable=False),
        sa.Column("raw_tokens", sa.BigInteger(), nullable=False),
        sa.Column("given_tokens", sa.BigInteger(), nullable=False),
        sa.Column("reads", sa.BigInteger(), nullable=False),
        sa.Column("read_tokens", sa.BigInteger(), nullable=False),
        sa.Column("compactions", sa.BigInteger(), nullable=False),
        sa.Column("unsent_tokens", sa.BigInteger(), nullable=False),
        sa.Column("persisted_tokens", sa.BigInteger()),
        sa.Column("transient_tokens", sa.BigInteger()),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("batch", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "session", name="pk_session_usage"),
    )
    op.create_index("ix_session_usage_at", "session_usage", ["at"])


def _wall_namespaces_off() -> None:
    # A second wall behind the WHERE of every statement: a session sees the namespace it has entered, and no other.
    # FORCE holds the tables' owner to it, who is who serves. The sub-selects are evaluated once a statement.
    mine = "namespace = (SELECT current_setting('coatcheck.namespace', true))"
    upkeep = "(SELECT current_setting('coatcheck.upkeep', true)) = 'on'"
    held = ("blobs", "inline_bytes", "artifacts", "views", "uploads", "tombstones", "idempotency_keys")
    for table in (
        *held,
        "policies",
        "holds",
        "usage",
        "unindexed",
        "text_segments",
        "text_parts",
        "audit",
        "removed",
        "removed_views",
        "plans",
        "plan_parts",
        "runs",
        "keys",
        "namespaces",
        "session_usage",
    ):
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY namespace ON {table} USING ({mine} OR {upkeep})")


def _partial_index(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def downgrade() -> None:
    records = ("writers", "leases", "idempotency_keys", "tombstones", "uploads")
    index = ("text_parts", "text_segments", "unindexed")
    audit = ("jobs", "runs", "plan_parts", "plans", "removed_views", "removed", "audit_head", "audit")
    decisions = ("usage", "holds", "policies")
    for table in (
        "session_usage",
        *decisions,
        "keys",
        "namespaces",
        *audit,
        *index,
        *records,
        "views",
        "artifacts",
        "inline_bytes",
        "blobs",
    ):
        op.drop_table(table)
