"""The tables, once, for SQLite and PostgreSQL. The migrations must arrive at exactly this; a test proves it.

On PostgreSQL every table with a namespace has row-level security, which the migration that makes it must add.

Rows lie in arrival order. Each index on a random key makes deletion on SQLite several times slower, so that there
are three of them: the artifact's number, its tombstone's, and eight bytes of the digest that fold duplicates. All
other indexes grow at their end.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

from coatcheck.adapters.sql.types import RowNumber, UtcDateTime

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

blobs = Table(
    "blobs",
    metadata,
    Column("seq", RowNumber, Identity(), primary_key=True),
    Column("id", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("placement", Text, nullable=False),
    Column("sha256", LargeBinary, nullable=False),  # empty for the remains of a reaped upload
    Column("digest", BigInteger, nullable=False),  # the first eight bytes of sha256, for a narrow index
    Column("size", BigInteger, nullable=False),
    Column("stored_size", BigInteger, nullable=False),
    Column("frames", LargeBinary, nullable=False),  # a packed FrameIndex
    Column("dead_at", UtcDateTime),  # set once, never cleared
    Column("condemned_at", UtcDateTime),  # set once: its bytes were found missing or damaged
)
Index("uq_blobs_id", blobs.c.id, unique=True)
Index(
    "ix_blobs_digest",
    blobs.c.digest,
    sqlite_where=blobs.c.dead_at.is_(None),
    postgresql_where=blobs.c.dead_at.is_(None),
)
Index(
    "ix_blobs_dead_at_id",
    blobs.c.dead_at,
    blobs.c.id,
    sqlite_where=blobs.c.dead_at.is_not(None),
    postgresql_where=blobs.c.dead_at.is_not(None),
)

inline_bytes = Table(
    "inline_bytes",
    metadata,
    Column("blob_seq", RowNumber, ForeignKey("blobs.seq", ondelete="CASCADE"), primary_key=True),
    Column("namespace", Text, nullable=False),  # its blob's: what row-level security looks at
    Column("stored", LargeBinary, nullable=False),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("seq", RowNumber, Identity(), primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("number", BigInteger, nullable=False),  # 18 digits: the artifact ID
    Column("identity", LargeBinary, nullable=False),
    Column("blob_seq", RowNumber, ForeignKey("blobs.seq"), nullable=False),
    Column("session", Text),
    Column("tool_name", Text),
    Column("kind", Text, nullable=False),
    Column("url", Text),
    Column("created_at", UtcDateTime, nullable=False),
    Column("read_at", UtcDateTime, nullable=False),  # from which the idle TTL counts
    Column("expires_at", UtcDateTime),
    Column("ttl", BigInteger),
    Column("idle_ttl", BigInteger),
    Column("pinned", Boolean, nullable=False),
    Column("engine", Integer, nullable=False),
    Column("said", Text, nullable=False),  # JSON, without the labels
    Column("labels", Text),  # a JSON array; NULL when there are none
    Column("measure", Text, nullable=False),  # JSON
    Column("facts", Text, nullable=False),  # JSON
    Column("declared_at", UtcDateTime),  # when `said` was replaced; NULL: it is what the first request declared
)
Index("uq_artifacts_namespace_number", artifacts.c.namespace, artifacts.c.number, unique=True)
Index("ix_artifacts_namespace_seq", artifacts.c.namespace, artifacts.c.seq)
Index(
    "ix_artifacts_namespace_session_seq",
    artifacts.c.namespace,
    artifacts.c.session,
    artifacts.c.seq,
    sqlite_where=artifacts.c.session.is_not(None),
    postgresql_where=artifacts.c.session.is_not(None),
)
Index("ix_artifacts_blob_seq", artifacts.c.blob_seq)
Index(
    "ix_artifacts_expires_at",
    artifacts.c.expires_at,
    sqlite_where=artifacts.c.expires_at.is_not(None),
    postgresql_where=artifacts.c.expires_at.is_not(None),
)
Index(  # what a full namespace lets go of, in order: rows that came together may have one moment
    "ix_artifacts_namespace_read_at_seq", artifacts.c.namespace, artifacts.c.read_at, artifacts.c.seq
)

views = Table(  # no cascade: whoever removes an artifact must release the bytes of its views, or is refused
    "views",
    metadata,
    Column("artifact_seq", RowNumber, ForeignKey("artifacts.seq"), primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("namespace", Text, nullable=False),  # its artifact's
    Column("blob_seq", RowNumber, ForeignKey("blobs.seq")),  # NULL: the view is the payload itself
    Column("extractor", Text, nullable=False),
    Column("partial", Boolean, nullable=False),
    Column("measure", Text, nullable=False),  # JSON
    Column("sections", LargeBinary, nullable=False),  # packed; the last, because it may be long
)
Index(
    "ix_views_blob_seq",
    views.c.blob_seq,
    sqlite_where=views.c.blob_seq.is_not(None),
    postgresql_where=views.c.blob_seq.is_not(None),
)

surveys = Table(  # apart, so that lists and counts read small rows
    "surveys",
    metadata,
    Column(
        "artifact_seq",
        RowNumber,
        ForeignKey("artifacts.seq", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("namespace", Text, nullable=False),  # its artifact's
    Column("data", LargeBinary, nullable=False),
)

uploads = Table(
    "uploads",
    metadata,
    Column("blob_id", Text, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("placement", Text, nullable=False),
    Column("lease_until", UtcDateTime, nullable=False),
    Column("reserved", BigInteger, nullable=False),  # bytes of its namespace's room; in `usage` too
)
Index("ix_uploads_lease_until", uploads.c.lease_until)

tombstones = Table(
    "tombstones",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("identity", LargeBinary, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("tool_name", Text),
    Column("session", Text),  # who may not see it is not told that it was there
    Column("until", UtcDateTime, nullable=False),
)
Index("ix_tombstones_until", tombstones.c.until)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("created", Boolean, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
)
Index("ix_idempotency_keys_expires_at", idempotency_keys.c.expires_at)

writers = Table(  # PostgreSQL's only: see `postgres_marks`. No index but the key, so that rewriting a row is cheap.
    "writers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("nonce", LargeBinary, nullable=False),
    Column("at", UtcDateTime, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("until", UtcDateTime, nullable=False),
)

# The full-text index, kept by our own code: see `core/fulltext`. An artifact's row may be in more than one segment, and
# in one that speaks of what stood in its place before: each answer is compared with the row itself.
unindexed = Table(  # no foreign key: what is not there any more is passed over when it is its turn
    "unindexed",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("artifact_seq", BigInteger, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

text_segments = Table(
    "text_segments",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),  # random: never used again
    Column("namespace", Text, nullable=False),
    Column("bits", Integer, nullable=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("documents", Integer, nullable=False),
    Column("postings", Integer, nullable=False),
    Column("listed", LargeBinary, nullable=False),
)
Index("ix_text_segments_namespace_last_seq", text_segments.c.namespace, text_segments.c.last_seq)

text_parts = Table(
    "text_parts",
    metadata,
    Column("segment_id", BigInteger, ForeignKey("text_segments.id", ondelete="CASCADE"), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("namespace", Text, nullable=False),  # its segment's
    Column("postings", LargeBinary, nullable=False),
)

# What administrators have decided. A policy's versions are never changed: the last one of a scope is what holds.
policies = Table(
    "policies",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),  # in the order of commits, over all scopes
    Column("namespace", Text, nullable=False),  # `*`: all of them
    Column("part", Text, nullable=False),  # session, kind, tool or label; empty: the whole
    Column("value", Text, nullable=False),
    Column("policy", Text),  # JSON; NULL: removed
    Column("at", UtcDateTime, nullable=False),
    Column("made_by", Text, nullable=False),
)
Index(
    "ix_policies_namespace_part_value_version",
    policies.c.namespace,
    policies.c.part,
    policies.c.value,
    policies.c.version,
)

holds = Table(
    "holds",
    metadata,
    Column("id", Text, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("session", Text),  # NULL, and no number either: the whole namespace
    Column("number", BigInteger),
    Column("reason", Text, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("until", UtcDateTime),
)
Index("ix_holds_namespace_number_session", holds.c.namespace, holds.c.number, holds.c.session)

usage = Table(  # changed in the transactions that change what it counts; the row is locked last
    "usage",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("bytes", BigInteger, nullable=False),  # stored bytes of its blobs that are not dead
    Column("artifacts", BigInteger, nullable=False),  # rows, also of those that have expired and are not buried yet
    Column("reserved", BigInteger, nullable=False),  # bytes of open uploads
    Column("deleting_at", UtcDateTime),  # since when everything in it is being deleted
)

# What was done: lines that are only added, and pruned by age.
audit_log = Table(
    "audit_log",
    metadata,
    Column("seq", RowNumber, Identity(), primary_key=True),
    Column("at", UtcDateTime, nullable=False),
    Column("action", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("key_id", Text),
    Column("namespace", Text),  # NULL: about the whole store
    Column("reason", Text, nullable=False),
    Column("run_id", Text),
    Column("artifacts", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),  # bytes of content
    Column("details", Text, nullable=False),  # JSON
    Column("numbers", LargeBinary, nullable=False),  # packed; the last, because it may be long
)
Index("ix_audit_log_at", audit_log.c.at)
Index("ix_audit_log_namespace_seq", audit_log.c.namespace, audit_log.c.seq)
Index(
    "ix_audit_log_run_id",
    audit_log.c.run_id,
    sqlite_where=audit_log.c.run_id.is_not(None),
    postgresql_where=audit_log.c.run_id.is_not(None),
)

# Who may ask. Rows of both are never removed, so that the audit's names keep their meaning.
namespaces = Table(
    "namespaces",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("disabled_at", UtcDateTime),
)

keys = Table(
    "keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("namespace", Text, nullable=False),  # `*`: none of its own
    Column("name", Text, nullable=False),
    Column("scopes", Text, nullable=False),  # in alphabetical order, with a blank between two
    Column("session_prefix", Text),
    Column("digest", LargeBinary, nullable=False),  # SHA-256 of the whole key
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),  # set once
    Column("requests_per_minute", BigInteger),  # NULL: as the settings say; 0: no limit
    Column("bytes_per_minute", BigInteger),
)
Index("ix_keys_created_at_id", keys.c.created_at, keys.c.id)

# What an undo needs of what was removed, until the sweep may have taken its bytes.
removed = Table(
    "removed",
    metadata,
    Column("seq", RowNumber, Identity(), primary_key=True),
    Column("removed_at", UtcDateTime, nullable=False),
    Column("reason", Text, nullable=False),
    Column("run_id", Text),
    Column("artifact_seq", BigInteger, nullable=False),  # its row then; may be another's by now
    *(
        Column(column.name, column.type, nullable=column.nullable)
        for column in artifacts.c
        if not column.primary_key  # no foreign key either: the bytes may be gone before
    ),
)
Index("ix_removed_namespace_number", removed.c.namespace, removed.c.number)
Index("ix_removed_removed_at", removed.c.removed_at)
Index(
    "ix_removed_run_id_seq",
    removed.c.run_id,
    removed.c.seq,
    sqlite_where=removed.c.run_id.is_not(None),
    postgresql_where=removed.c.run_id.is_not(None),
)

removed_views = Table(
    "removed_views",
    metadata,
    Column("removed_seq", RowNumber, ForeignKey("removed.seq", ondelete="CASCADE"), primary_key=True),
    Column("name", Text, primary_key=True),
    *(
        Column(column.name, column.type, nullable=column.nullable)
        for column in views.c
        if column.name not in {"artifact_seq", "name"}
    ),
)

removed_surveys = Table(
    "removed_surveys",
    metadata,
    Column("removed_seq", RowNumber, ForeignKey("removed.seq", ondelete="CASCADE"), primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

# Rehearsals, for an hour, and what came of them.
plans = Table(
    "plans",
    metadata,
    Column("id", Text, primary_key=True),
    Column("digest", LargeBinary, nullable=False),  # empty while it is being made
    Column("namespace", Text),  # NULL: of all
    Column("job", Text, nullable=False),
    Column("scope", Text, nullable=False),  # JSON
    Column("criteria", Text, nullable=False),  # JSON: what holds for each member
    Column("summary", Text, nullable=False),  # JSON
    Column("until", UtcDateTime, nullable=False),
)
Index("ix_plans_digest", plans.c.digest)

plan_parts = Table(  # what a plan covers: a part is one transaction of the run that applies it
    "plan_parts",
    metadata,
    Column("plan_id", Text, ForeignKey("plans.id", ondelete="CASCADE"), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("namespace", Text, nullable=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("numbers", LargeBinary, nullable=False),  # packed as in the audit log
)

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("job", Text, nullable=False),
    Column("namespace", Text),  # NULL: of all
    Column("scope", Text, nullable=False),  # JSON
    Column("actor", Text, nullable=False),
    Column("key_id", Text),
    Column("plan_id", Text),  # of which plan; NULL: the schedule's
    Column("plan_digest", LargeBinary),
    Column("parts", Integer, nullable=False),
    Column("next_part", Integer, nullable=False),  # where to go on
    Column("started_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("outcome", Text, nullable=False),  # running, finished, failed
    Column("planned", BigInteger, nullable=False),
    Column("artifacts", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("items", BigInteger, nullable=False),  # what is no artifact: dead blobs, records, findings
    Column("busy_ms", BigInteger, nullable=False),
    Column("oldest_overdue", BigInteger, nullable=False),  # milliseconds
    Column("detail", Text, nullable=False),
    Column("worker", Text),  # who is at it
    Column("lease_until", UtcDateTime),
)
Index("ix_runs_started_at", runs.c.started_at)
Index(
    "ix_runs_lease_until",
    runs.c.lease_until,
    sqlite_where=runs.c.outcome == "running",
    postgresql_where=runs.c.outcome == "running",
)

jobs = Table(  # the schedule as data: a row for each job that was changed or has run
    "jobs",
    metadata,
    Column("name", Text, primary_key=True),
    Column("paused", Boolean, nullable=False),
    Column("interval", Integer),  # seconds; NULL: as the settings say
    Column("changed_by", Text),
    Column("changed_at", UtcDateTime),
    Column("last_at", UtcDateTime),
    Column("last_outcome", Text),
    Column("last_detail", Text),
)

session_usage = Table(  # what a session's tokens came to; no foreign key: it is written beside what it counts
    "session_usage",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("session", Text, primary_key=True),
    Column("artifacts", BigInteger, nullable=False),
    Column("raw_tokens", BigInteger, nullable=False),
    Column("given_tokens", BigInteger, nullable=False),
    Column("reads", BigInteger, nullable=False),
    Column("read_tokens", BigInteger, nullable=False),
    Column("compactions", BigInteger, nullable=False),
    Column("unsent_tokens", BigInteger, nullable=False),
    Column("persisted_tokens", BigInteger),
    Column("transient_tokens", BigInteger),
    Column("since", UtcDateTime, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("batch", BigInteger, nullable=False),  # the change that was added last, so that it is not added again
)
Index("ix_session_usage_at", session_usage.c.at)
