"""The tables, once, for SQLite and PostgreSQL. The migrations must arrive at exactly this; a test proves it.

First what is stored (blobs, artifacts and views that point at them, uploads in progress, tombstones, the full-text
index of `core/fulltext`), then administration: policies, holds, keys, usage, accounts, events, the audit log, leases,
plans, runs, the schedule, and what an undo needs. On PostgreSQL every table with a namespace has row-level security,
which the migration that makes it must add.

Rows lie in arrival order. Each index on a random key makes deletion on SQLite several times slower, so that there
are few of them: the artifact's number, its tombstone's, its events', and eight bytes of the digest that fold
duplicates. All other indexes grow at their end.
"""

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

from coatcheck.adapters.sql.dialect import RowNumber, UtcDateTime

# Names by rule, so that a migration can name the constraint that it drops, on either database.
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def partial_index(name: str, *columns: Column[Any], where: ColumnElement[bool]) -> None:
    """Creates an index of only the rows that meet a condition, on either database."""
    Index(name, *columns, sqlite_where=where, postgresql_where=where)


# Bytes that a namespace keeps once, whoever points at them. A row goes only after its bytes: dead, swept, forgotten.
blobs = Table(
    "blobs",
    metadata,
    Column("seq", RowNumber, Identity(), primary_key=True),
    Column("id", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    # `inline`: in this database; otherwise, which blob store has the bytes.
    Column("placement", Text, nullable=False),
    Column("sha256", LargeBinary, nullable=False),  # empty for the remains of a reaped upload
    Column("digest", BigInteger, nullable=False),  # the first eight bytes of sha256, for a narrow index
    # Bytes of content, then bytes as they are stored, which may be compressed.
    Column("size", BigInteger, nullable=False),
    Column("stored_size", BigInteger, nullable=False),
    Column("frames", LargeBinary, nullable=False),  # a packed FrameIndex
    Column("dead_at", UtcDateTime),  # set once, never cleared
    Column("condemned_at", UtcDateTime),  # set once: its bytes were found missing or damaged
)
Index("uq_blobs_id", blobs.c.id, unique=True)
# Without dead blobs: nothing points at one again, even if the same bytes come back.
partial_index("ix_blobs_digest", blobs.c.digest, where=blobs.c.dead_at.is_(None))
# The order of the sweep. Live blobs cost this index nothing.
partial_index("ix_blobs_dead_at_id", blobs.c.dead_at, blobs.c.id, where=blobs.c.dead_at.is_not(None))

# A table of its own, so that queries on many blobs do not read their bytes.
inline_bytes = Table(
    "inline_bytes",
    metadata,
    Column("blob_seq", RowNumber, ForeignKey("blobs.seq", ondelete="CASCADE"), primary_key=True),
    Column("namespace", Text, nullable=False),  # that of its blob, for row-level security
    Column("stored", LargeBinary, nullable=False),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("seq", RowNumber, Identity(), primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("number", BigInteger, nullable=False),  # 18 digits: the artifact ID
    # What the number is derived from: two payloads may want the same number, but never have the same identity.
    Column("identity", LargeBinary, nullable=False),
    Column("blob_seq", RowNumber, ForeignKey("blobs.seq"), nullable=False),
    Column("session", Text),
    Column("tool_name", Text),
    Column("kind", Text, nullable=False),
    Column("url", Text),
    Column("created_at", UtcDateTime, nullable=False),
    Column("read_at", UtcDateTime, nullable=False),  # the start of the idle TTL
    # Follows from the moments above and the three columns below; NULL: never.
    Column("expires_at", UtcDateTime),
    # Seconds after `created_at`, then seconds after `read_at`; NULL: no such limit.
    Column("ttl", BigInteger),
    Column("idle_ttl", BigInteger),
    Column("pinned", Boolean, nullable=False),
    # The engine that recognised `facts`.
    Column("engine", Integer, nullable=False),
    Column("said", Text, nullable=False),  # JSON, without the labels
    Column("labels", Text),  # a JSON array; NULL if there are none
    Column("measure", Text, nullable=False),  # JSON
    Column("facts", Text, nullable=False),  # JSON
    Column("declared_at", UtcDateTime),  # when `said` was replaced; NULL: it is the first request's declaration
    Column("receipt", Text),  # JSON: what a model got in its place; NULL: nothing, or not known. Last: it may be long
)
Index("uq_artifacts_namespace_number", artifacts.c.namespace, artifacts.c.number, unique=True)
Index(  # lists, newest first: the index contains the most used filters, so that rows that do not match are not read
    "ix_artifacts_namespace_seq_filters",
    artifacts.c.namespace,
    artifacts.c.seq,
    artifacts.c.created_at,
    artifacts.c.kind,
    artifacts.c.tool_name,
)
partial_index(
    "ix_artifacts_namespace_session_seq",
    artifacts.c.namespace,
    artifacts.c.session,
    artifacts.c.seq,
    where=artifacts.c.session.is_not(None),
)
# For the question whether anything still points at a blob, which every removal has to answer.
Index("ix_artifacts_blob_seq", artifacts.c.blob_seq)
# Artifacts that never expire cost the sweep's query nothing.
partial_index("ix_artifacts_expires_at", artifacts.c.expires_at, where=artifacts.c.expires_at.is_not(None))
Index(  # the order of eviction: rows that arrived together may have the same moment
    "ix_artifacts_namespace_read_at_seq", artifacts.c.namespace, artifacts.c.read_at, artifacts.c.seq
)

views = Table(  # no cascade: removing an artifact requires releasing its views' bytes first
    "views",
    metadata,
    Column("artifact_seq", RowNumber, ForeignKey("artifacts.seq"), primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("namespace", Text, nullable=False),  # that of its artifact
    Column("blob_seq", RowNumber, ForeignKey("blobs.seq")),  # NULL: the view is the payload itself
    Column("extractor", Text, nullable=False),
    Column("partial", Boolean, nullable=False),
    Column("measure", Text, nullable=False),  # JSON
    Column("sections", LargeBinary, nullable=False),  # packed; the last column, because it may be long
)
partial_index("ix_views_blob_seq", views.c.blob_seq, where=views.c.blob_seq.is_not(None))

surveys = Table(  # a table of its own, so that lists and counts read small rows
    "surveys",
    metadata,
    Column(
        "artifact_seq",
        RowNumber,
        ForeignKey("artifacts.seq", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("namespace", Text, nullable=False),  # that of its artifact
    Column("data", LargeBinary, nullable=False),
)

# Intents: a row exists from before an upload's first byte until the transaction that stores the payload deletes it.
uploads = Table(
    "uploads",
    metadata,
    Column("blob_id", Text, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("placement", Text, nullable=False),
    # After this moment the upload counts as abandoned, and its row may become a dead blob.
    Column("lease_until", UtcDateTime, nullable=False),
    Column("reserved", BigInteger, nullable=False),  # bytes reserved in its namespace, which `usage` includes
)
Index("ix_uploads_lease_until", uploads.c.lease_until)

# What an artifact leaves behind, so that a read of its ID says what became of it.
tombstones = Table(
    "tombstones",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("identity", LargeBinary, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("tool_name", Text),
    Column("session", Text),  # a caller who may not see it does not learn that it existed
    # After this moment the row may be deleted, and nothing is known of the artifact.
    Column("until", UtcDateTime, nullable=False),
)
Index("ix_tombstones_until", tombstones.c.until)

# The first request of each key, and its answer. Another fingerprint under the same key is another request: a conflict.
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("number", BigInteger, nullable=False),
    # Whether the first request created the artifact, which its replay has to repeat.
    Column("created", Boolean, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
)
Index("ix_idempotency_keys_expires_at", idempotency_keys.c.expires_at)


unindexed = Table(  # no foreign key: what no longer exists is skipped when its turn comes
    "unindexed",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("artifact_seq", BigInteger, primary_key=True, autoincrement=False),
    # Both columns are the key: without a row ID, SQLite keeps one tree instead of two.
    sqlite_with_rowid=False,
)

# An artifact's row may be in more than one segment, or in one about a former artifact in its place: each result is
# compared with the row itself.
text_segments = Table(
    "text_segments",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),  # random: never reused
    Column("namespace", Text, nullable=False),
    # How many of a key's first bits select its part.
    Column("bits", Integer, nullable=False),
    # The oldest and the newest artifact's row in it: a list skips segments that lie beyond its page.
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    # Its size, by which segments are chosen for a merge.
    Column("documents", Integer, nullable=False),
    Column("postings", Integer, nullable=False),
    # Its documents, packed: the row and the fingerprint of each.
    Column("listed", LargeBinary, nullable=False),
)
Index("ix_text_segments_namespace_last_seq", text_segments.c.namespace, text_segments.c.last_seq)

text_parts = Table(
    "text_parts",
    metadata,
    Column("segment_id", BigInteger, ForeignKey("text_segments.id", ondelete="CASCADE"), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("namespace", Text, nullable=False),  # that of its segment
    Column("postings", LargeBinary, nullable=False),
)

# Administrators' decisions. A policy's versions are never changed: the latest one of a scope is in force.
policies = Table(
    "policies",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),  # in the order of commits, over all scopes
    Column("namespace", Text, nullable=False),  # `*`: all of them
    Column("part", Text, nullable=False),  # session, kind, tool or label; empty: the whole namespace
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
    Column("session", Text),  # if NULL, and `number` too: the whole namespace
    Column("number", BigInteger),
    Column("reason", Text, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    # NULL: until somebody releases it.
    Column("until", UtcDateTime),
)
# For the three conditions of `holds.is_not_held`, each of which is one look-up.
Index("ix_holds_namespace_number_session", holds.c.namespace, holds.c.number, holds.c.session)

usage = Table(  # changed in the transactions that change what it counts; the row is locked last
    "usage",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("bytes", BigInteger, nullable=False),  # stored bytes of its blobs that are not dead
    Column("artifacts", BigInteger, nullable=False),  # rows, including expired ones that have no tombstone yet
    Column("reserved", BigInteger, nullable=False),  # bytes of open uploads
    Column("deleting_at", UtcDateTime),  # when its deletion began
)

SUMS: Final = ("artifacts", "raw_tokens", "given_tokens", "reads", "read_tokens", "compactions", "unsent_tokens")
"""Columns that are added up; what each of them counts, and each gauge, is at `UsageDelta`."""
session_usage = Table(  # sessions' token accounts; no foreign key, as they are written independently of artifacts
    "session_usage",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("session", Text, primary_key=True),
    *(Column(name, BigInteger, nullable=False) for name in SUMS),
    # NULL: no context was measured.
    Column("persisted_tokens", BigInteger),
    Column("transient_tokens", BigInteger),
    Column("since", UtcDateTime, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("batch", BigInteger, nullable=False),  # the last change that was added, so that it is not added again
    # Gauges too. They stand here because migrations append columns.
    Column("window_tokens", BigInteger),
    Column("search_tokens", BigInteger),
    Column("search_cap", BigInteger),
)
# For deletion by age, and for the latest sessions in the overview.
Index("ix_session_usage_at", session_usage.c.at)

activity = Table(  # activity per hour; `*` is all namespaces together
    "activity",
    metadata,
    Column("namespace", Text, primary_key=True),
    # The hour's first moment, in UTC.
    Column("hour", UtcDateTime, primary_key=True),
    *(Column(name, BigInteger, nullable=False) for name in SUMS),
    Column("batch", BigInteger, nullable=False),  # as in session_usage
)

events = Table(  # what was done with artifacts and in sessions: for people to read
    "events",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # increases with time
    Column("namespace", Text, nullable=False),
    Column("session", Text),
    Column("artifact", BigInteger),  # its number; NULL: about the session
    Column("action", Text, nullable=False),
    Column("key_id", Text),
    Column("tokens", BigInteger, nullable=False),
    Column("tokens_before", BigInteger),
    Column("details", Text, nullable=False),  # JSON
)
# Each serves a list, newest first, and the deletion of an artifact's events, or of a session's.
Index("ix_events_namespace_artifact_number", events.c.namespace, events.c.artifact, events.c.number)
Index("ix_events_namespace_session_number", events.c.namespace, events.c.session, events.c.number)

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
    # How many artifacts it is about; `numbers` has which.
    Column("artifacts", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),  # bytes of content
    Column("details", Text, nullable=False),  # JSON
    Column("numbers", LargeBinary, nullable=False),  # packed; the last column, because it may be long
)
Index("ix_audit_log_at", audit_log.c.at)
Index("ix_audit_log_namespace_seq", audit_log.c.namespace, audit_log.c.seq)
partial_index("ix_audit_log_run_id", audit_log.c.run_id, where=audit_log.c.run_id.is_not(None))

# Keys and namespaces. Rows of both are never removed, so that names in the audit log keep their meaning.
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
    Column("namespace", Text, nullable=False),  # `*`: all of them
    Column("name", Text, nullable=False),
    Column("scopes", Text, nullable=False),  # in alphabetical order, separated by spaces
    Column("session_prefix", Text),
    Column("digest", LargeBinary, nullable=False),  # SHA-256 of the whole key
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),  # set once
    Column("requests_per_minute", BigInteger),  # NULL: as in the settings; 0: unlimited
    Column("bytes_per_minute", BigInteger),
)
Index("ix_keys_created_at_id", keys.c.created_at, keys.c.id)

# Which process does a piece of upkeep, so that replicas do not repeat it. No safety depends on a lease.
leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("until", UtcDateTime, nullable=False),
)

writers = Table(  # Only on PostgreSQL: see `commit_tokens`. Only a primary key, so that rewriting a row is cheap.
    "writers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("nonce", LargeBinary, nullable=False),
    Column("at", UtcDateTime, nullable=False),
)


def _copies(table: Table, *without: str) -> list[Column[Any]]:
    """Returns a table's columns for another one. No foreign keys: the bytes may be gone before."""
    return [Column(c.name, c.type, nullable=c.nullable) for c in table.c if c.name not in without]


# What an undo needs of removed artifacts, until the sweep may have removed their bytes.
removed = Table(
    "removed",
    metadata,
    Column("seq", RowNumber, Identity(), primary_key=True),
    Column("removed_at", UtcDateTime, nullable=False),
    Column("reason", Text, nullable=False),
    Column("run_id", Text),
    Column("artifact_seq", BigInteger, nullable=False),  # its former row; it may be another artifact's by now
    *_copies(artifacts, "seq"),
)
Index("ix_removed_namespace_number", removed.c.namespace, removed.c.number)
Index("ix_removed_removed_at", removed.c.removed_at)
partial_index("ix_removed_run_id_seq", removed.c.run_id, removed.c.seq, where=removed.c.run_id.is_not(None))

removed_views = Table(
    "removed_views",
    metadata,
    Column("removed_seq", RowNumber, ForeignKey("removed.seq", ondelete="CASCADE"), primary_key=True),
    Column("name", Text, primary_key=True),
    *_copies(views, "artifact_seq", "name"),
)

removed_surveys = Table(
    "removed_surveys",
    metadata,
    Column("removed_seq", RowNumber, ForeignKey("removed.seq", ondelete="CASCADE"), primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

# Plans, for an hour, and their results.
plans = Table(
    "plans",
    metadata,
    Column("id", Text, primary_key=True),
    Column("digest", LargeBinary, nullable=False),  # empty while it is being made
    Column("namespace", Text),  # NULL: all
    Column("job", Text, nullable=False),
    Column("scope", Text, nullable=False),  # JSON
    Column("criteria", Text, nullable=False),  # JSON: the conditions that all members meet
    Column("summary", Text, nullable=False),  # JSON
    Column("until", UtcDateTime, nullable=False),
)
Index("ix_plans_digest", plans.c.digest)

plan_parts = Table(  # the contents of a plan: a part is one transaction of the run that applies it
    "plan_parts",
    metadata,
    Column("plan_id", Text, ForeignKey("plans.id", ondelete="CASCADE"), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("namespace", Text, nullable=False),
    # The rows bound what a statement has to read; `numbers` decides, since SQLite gives row numbers out again.
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("numbers", LargeBinary, nullable=False),  # packed as in the audit log
)

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("job", Text, nullable=False),
    Column("namespace", Text),  # NULL: all
    Column("scope", Text, nullable=False),  # JSON
    Column("actor", Text, nullable=False),
    Column("key_id", Text),
    Column("plan_id", Text),  # its plan; NULL: a scheduled run
    Column("plan_digest", LargeBinary),
    Column("parts", Integer, nullable=False),
    Column("next_part", Integer, nullable=False),  # where to continue
    Column("started_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("outcome", Text, nullable=False),  # running, finished, failed
    # Artifacts in the plan, then those that were removed so far, and their bytes of content.
    Column("planned", BigInteger, nullable=False),
    Column("artifacts", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("items", BigInteger, nullable=False),  # items other than artifacts: dead blobs, records, findings
    Column("busy_ms", BigInteger, nullable=False),
    Column("oldest_overdue", BigInteger, nullable=False),  # milliseconds
    Column("detail", Text, nullable=False),
    Column("worker", Text),  # who carries it out
    # After this moment, another process may carry the run on.
    Column("lease_until", UtcDateTime),
)
Index("ix_runs_started_at", runs.c.started_at)
# For that process's query, which only sees unfinished runs.
partial_index("ix_runs_lease_until", runs.c.lease_until, where=runs.c.outcome == "running")

jobs = Table(  # the schedule as data: a row for each job that was changed or has run
    "jobs",
    metadata,
    Column("name", Text, primary_key=True),
    Column("paused", Boolean, nullable=False),
    Column("interval", Integer),  # seconds; NULL: as in the settings
    Column("changed_by", Text),
    Column("changed_at", UtcDateTime),
    # The latest round; NULL: there was none yet.
    Column("last_at", UtcDateTime),
    Column("last_outcome", Text),
    Column("last_detail", Text),
)
