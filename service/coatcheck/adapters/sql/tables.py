"""The tables of the catalogue, defined once for SQLite and PostgreSQL.

A test compares them with the schema that the migrations create: the two must be equal.

The tables of stored data come first: blobs, artifacts and views that point at blobs, uploads in progress, tombstones,
and the full-text index of `core/fulltext`. The tables of administration follow: policies, holds, keys, usage, token
accounts, events, the audit log, leases, plans, runs, the schedule, and the copies that an undo needs. On PostgreSQL
every table with a namespace has row-level security, which the migration that creates the table must add.

Rows are stored in the order of their arrival. Each index on a random key makes deletion on SQLite several times
slower, so there are few such indexes: on the artifact's number, on the numbers in tombstones and events, and on the
eight bytes of the digest by which duplicates are found. All other indexes grow at their end.
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

# Names of constraints follow a rule, so that a migration can name the constraint that it drops, on either database.
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def partial_index(name: str, *columns: Column[Any], where: ColumnElement[bool]) -> None:
    """Creates an index that contains only the rows that meet a condition, on either database."""
    Index(name, *columns, sqlite_where=where, postgresql_where=where)


# Bytes that a namespace keeps once, however many artifacts and views point at them. A blob that nothing points at is
# first marked dead, then the sweep deletes its bytes, and only then is its row deleted.
blobs = Table(
    "blobs",
    metadata,
    Column("seq", RowNumber, Identity(), primary_key=True),
    Column("id", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    # Where the bytes are: `inline` is the table `inline_bytes`, any other value names the kind of blob store.
    Column("placement", Text, nullable=False),
    Column("sha256", LargeBinary, nullable=False),  # empty for the remains of a reaped upload
    Column("digest", BigInteger, nullable=False),  # the first eight bytes of sha256, for a narrow index
    # Size of the content, then size of the stored and perhaps compressed form, both in bytes.
    Column("size", BigInteger, nullable=False),
    Column("stored_size", BigInteger, nullable=False),
    Column("frames", LargeBinary, nullable=False),  # a packed FrameIndex
    Column("dead_at", UtcDateTime),  # since when nothing points at the blob: set once, never cleared; NULL: live
    Column("condemned_at", UtcDateTime),  # when its bytes were found missing or damaged: set once; NULL: never
)
Index("uq_blobs_id", blobs.c.id, unique=True)
# The index leaves out dead blobs, since nothing points at a dead blob again, even if the same bytes come back.
partial_index("ix_blobs_digest", blobs.c.digest, where=blobs.c.dead_at.is_(None))
# The sweep deletes dead blobs in this order. Live blobs are not in this index.
partial_index("ix_blobs_dead_at_id", blobs.c.dead_at, blobs.c.id, where=blobs.c.dead_at.is_not(None))

# The bytes have a table of their own, so that queries on many blobs do not read them.
inline_bytes = Table(
    "inline_bytes",
    metadata,
    Column("blob_seq", RowNumber, ForeignKey("blobs.seq", ondelete="CASCADE"), primary_key=True),
    Column("namespace", Text, nullable=False),  # the blob's namespace, repeated for row-level security
    Column("stored", LargeBinary, nullable=False),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("seq", RowNumber, Identity(), primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("number", BigInteger, nullable=False),  # 18 digits: the artifact ID
    # The number is derived from the identity. Two artifacts may have the same first number, never the same identity.
    Column("identity", LargeBinary, nullable=False),
    Column("blob_seq", RowNumber, ForeignKey("blobs.seq"), nullable=False),
    Column("session", Text),
    Column("tool_name", Text),
    Column("kind", Text, nullable=False),
    Column("url", Text),
    Column("created_at", UtcDateTime, nullable=False),
    Column("read_at", UtcDateTime, nullable=False),  # the last read, from which the idle TTL counts
    # Computed from the two moments above and the three columns below; NULL: the artifact never expires.
    Column("expires_at", UtcDateTime),
    # `ttl` is in seconds after `created_at`, `idle_ttl` in seconds after `read_at`; NULL: no such limit.
    Column("ttl", BigInteger),
    Column("idle_ttl", BigInteger),
    Column("pinned", Boolean, nullable=False),
    # The version of the engine that detected the metadata in `facts`.
    Column("engine", Integer, nullable=False),
    Column("said", Text, nullable=False),  # the declared metadata without the labels, as JSON
    Column("labels", Text),  # a JSON array; NULL if there are none
    Column("measure", Text, nullable=False),  # JSON
    Column("facts", Text, nullable=False),  # the detected metadata, as JSON
    Column("declared_at", UtcDateTime),  # when `said` was last replaced; NULL: `said` is the first declaration
    # JSON: the text that a model got in place of the payload; NULL: there was none, or it is unknown. The column is
    # the last one because it may be long.
    Column("receipt", Text),
)
Index("uq_artifacts_namespace_number", artifacts.c.namespace, artifacts.c.number, unique=True)
Index(  # for lists, newest first; with the most used filters, so that the rows of other artifacts are not read
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
# Every removal has to find out whether anything still points at a blob.
Index("ix_artifacts_blob_seq", artifacts.c.blob_seq)
# Artifacts that never expire are not in this index, which the removal of expired artifacts reads.
partial_index("ix_artifacts_expires_at", artifacts.c.expires_at, where=artifacts.c.expires_at.is_not(None))
Index(  # the order of eviction; `seq` decides between artifacts with the same `read_at`
    "ix_artifacts_namespace_read_at_seq", artifacts.c.namespace, artifacts.c.read_at, artifacts.c.seq
)

views = Table(  # no cascade, because the blobs of an artifact's views must be released before the artifact is removed
    "views",
    metadata,
    Column("artifact_seq", RowNumber, ForeignKey("artifacts.seq"), primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("namespace", Text, nullable=False),  # the artifact's namespace
    Column("blob_seq", RowNumber, ForeignKey("blobs.seq")),  # NULL: the view is the payload itself
    Column("extractor", Text, nullable=False),
    Column("partial", Boolean, nullable=False),
    Column("measure", Text, nullable=False),  # JSON
    Column("sections", LargeBinary, nullable=False),  # packed; the last column, because it may be long
)
partial_index("ix_views_blob_seq", views.c.blob_seq, where=views.c.blob_seq.is_not(None))

surveys = Table(  # surveys have a table of their own, so that lists and counts of artifacts read small rows
    "surveys",
    metadata,
    Column(
        "artifact_seq",
        RowNumber,
        ForeignKey("artifacts.seq", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("namespace", Text, nullable=False),  # the artifact's namespace
    Column("data", LargeBinary, nullable=False),
)

# Intents. A row is added before the first byte of an upload is written. The transaction that stores the payload
# deletes the row.
uploads = Table(
    "uploads",
    metadata,
    Column("blob_id", Text, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("placement", Text, nullable=False),
    # After this moment the upload counts as abandoned, and its row may become a dead blob.
    Column("lease_until", UtcDateTime, nullable=False),
    Column("reserved", BigInteger, nullable=False),  # bytes reserved in the namespace; `usage.reserved` includes them
)
Index("ix_uploads_lease_until", uploads.c.lease_until)

# A removed artifact leaves a tombstone, so that a read of its ID says why and when the artifact was removed.
tombstones = Table(
    "tombstones",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("identity", LargeBinary, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("tool_name", Text),
    Column("session", Text),  # a caller who may not see this session does not learn that the artifact existed
    # After this moment the row may be deleted, and a read of the ID answers that it is unknown.
    Column("until", UtcDateTime, nullable=False),
)
Index("ix_tombstones_until", tombstones.c.until)

# The first request with each idempotency key, and the answer to it. A request with the same key but another
# fingerprint is a different request, and is refused as a conflict.
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("number", BigInteger, nullable=False),
    # Whether the first request created the artifact; the answer to a repeated request has to say the same.
    Column("created", Boolean, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
)
Index("ix_idempotency_keys_expires_at", idempotency_keys.c.expires_at)


unindexed = Table(  # the queue of the full-text index; no foreign key, because the indexer skips removed artifacts
    "unindexed",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("artifact_seq", BigInteger, primary_key=True, autoincrement=False),
    # Both columns form the key. Without a row ID, SQLite keeps one tree for the table instead of two.
    sqlite_with_rowid=False,
)

# The row number of an artifact may be in more than one segment. A segment may also contain the row number of a removed
# artifact, which another artifact has now. Each result is therefore compared with the artifact's row.
text_segments = Table(
    "text_segments",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),  # random: never reused
    Column("namespace", Text, nullable=False),
    # How many of the first bits of a term's key select the part in which its postings are.
    Column("bits", Integer, nullable=False),
    # Row numbers of the oldest and the newest artifact in the segment. A list skips segments that lie beyond its page.
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    # The size of the segment: the segments to merge are chosen by their sizes.
    Column("documents", Integer, nullable=False),
    Column("postings", Integer, nullable=False),
    # The row number and the fingerprint of each document in the segment, packed.
    Column("listed", LargeBinary, nullable=False),
)
Index("ix_text_segments_namespace_last_seq", text_segments.c.namespace, text_segments.c.last_seq)

text_parts = Table(
    "text_parts",
    metadata,
    Column("segment_id", BigInteger, ForeignKey("text_segments.id", ondelete="CASCADE"), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("namespace", Text, nullable=False),  # the segment's namespace
    Column("postings", LargeBinary, nullable=False),
)

# Policies that administrators have set. A version of a policy is never changed: the latest version of each scope is
# in force.
policies = Table(
    "policies",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),  # in the order of commits, over all scopes
    Column("namespace", Text, nullable=False),  # `*`: all namespaces
    Column("part", Text, nullable=False),  # `session`, `kind`, `tool` or `label`; empty: the whole namespace
    Column("value", Text, nullable=False),
    Column("policy", Text),  # JSON; NULL: this version removes the policy
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
    Column("session", Text),  # if `session` and `number` are both NULL, the hold is on the whole namespace
    Column("number", BigInteger),
    Column("reason", Text, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    # The end of the hold; NULL: the hold lasts until somebody releases it.
    Column("until", UtcDateTime),
)
# For `holds.is_not_held`: each of its three conditions is one look-up in this index.
Index("ix_holds_namespace_number_session", holds.c.namespace, holds.c.number, holds.c.session)

# Each transaction that adds or removes bytes or artifacts changes the counts too. It locks this row last.
usage = Table(
    "usage",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("bytes", BigInteger, nullable=False),  # stored bytes of the namespace's blobs that are not dead
    Column("artifacts", BigInteger, nullable=False),  # artifacts, including expired ones that have no tombstone yet
    Column("reserved", BigInteger, nullable=False),  # bytes reserved by open uploads
    Column("deleting_at", UtcDateTime),  # when the deletion of the namespace began; NULL: it is not being deleted
)

SUMS: Final = ("artifacts", "raw_tokens", "given_tokens", "reads", "read_tokens", "compactions", "unsent_tokens")
"""Columns that are sums. `UsageDelta` says what each of them counts, and what each gauge shows."""
session_usage = Table(  # the token accounts of sessions; no foreign key, as they are written independently of artifacts
    "session_usage",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("session", Text, primary_key=True),
    *(Column(name, BigInteger, nullable=False) for name in SUMS),
    # Gauges: the tokens in the context that was measured last; NULL: no context was measured.
    Column("persisted_tokens", BigInteger),
    Column("transient_tokens", BigInteger),
    Column("since", UtcDateTime, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("batch", BigInteger, nullable=False),  # number of the last change that was added, so that it is added once
    # More gauges. They stand at the end because migrations append columns.
    Column("window_tokens", BigInteger),
    Column("search_tokens", BigInteger),
    Column("search_cap", BigInteger),
)
# For deletion by age, and for the latest sessions in the overview.
Index("ix_session_usage_at", session_usage.c.at)

activity = Table(  # activity per hour; the namespace `*` stands for all namespaces together
    "activity",
    metadata,
    Column("namespace", Text, primary_key=True),
    # The first moment of the hour, in UTC.
    Column("hour", UtcDateTime, primary_key=True),
    *(Column(name, BigInteger, nullable=False) for name in SUMS),
    Column("batch", BigInteger, nullable=False),  # as in `session_usage`
)

events = Table(  # what callers did with artifacts and in sessions, as a history for people to read
    "events",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # increases with time
    Column("namespace", Text, nullable=False),
    Column("session", Text),
    Column("artifact", BigInteger),  # number of the artifact; NULL: the event is about the session
    Column("action", Text, nullable=False),
    Column("key_id", Text),
    Column("tokens", BigInteger, nullable=False),
    Column("tokens_before", BigInteger),
    Column("details", Text, nullable=False),  # JSON
)
# The first index serves lists and deletions by artifact, the second by session. Both lists are newest first.
Index("ix_events_namespace_artifact_number", events.c.namespace, events.c.artifact, events.c.number)
Index("ix_events_namespace_session_number", events.c.namespace, events.c.session, events.c.number)

# The audit log. Lines are only added, never changed, and are pruned by age.
audit_log = Table(
    "audit_log",
    metadata,
    Column("seq", RowNumber, Identity(), primary_key=True),
    Column("at", UtcDateTime, nullable=False),
    Column("action", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("key_id", Text),
    Column("namespace", Text),  # NULL: the line is about the whole store
    Column("reason", Text, nullable=False),
    Column("run_id", Text),
    # How many artifacts the line is about; their numbers are in `numbers`.
    Column("artifacts", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),  # bytes of content
    Column("details", Text, nullable=False),  # JSON
    Column("numbers", LargeBinary, nullable=False),  # packed; the last column, because it may be long
)
Index("ix_audit_log_at", audit_log.c.at)
Index("ix_audit_log_namespace_seq", audit_log.c.namespace, audit_log.c.seq)
partial_index("ix_audit_log_run_id", audit_log.c.run_id, where=audit_log.c.run_id.is_not(None))

# Namespaces and keys. Rows of either table are never removed, so that names in the audit log keep their meaning.
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
    Column("namespace", Text, nullable=False),  # `*`: all namespaces
    Column("name", Text, nullable=False),
    Column("scopes", Text, nullable=False),  # in alphabetical order, separated by spaces
    Column("session_prefix", Text),
    Column("digest", LargeBinary, nullable=False),  # SHA-256 of the whole key
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),  # set once
    # The rate limits of the key; NULL: as in the settings; 0: unlimited.
    Column("requests_per_minute", BigInteger),
    Column("bytes_per_minute", BigInteger),
)
Index("ix_keys_created_at_id", keys.c.created_at, keys.c.id)

# Which process does which maintenance, so that replicas do not do the same work. No data is at risk if two processes
# believe that they hold the same lease.
leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("until", UtcDateTime, nullable=False),
)

# Commit tokens, which only PostgreSQL uses: see `postgres_writer.CommitToken`. The primary key is the only index, so
# that rewriting a row is cheap.
writers = Table(
    "writers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("nonce", LargeBinary, nullable=False),
    Column("at", UtcDateTime, nullable=False),
)


def _copies(table: Table, *without: str) -> list[Column[Any]]:
    """Returns copies of a table's columns for another table, without foreign keys: the blob may be deleted earlier."""
    return [Column(c.name, c.type, nullable=c.nullable) for c in table.c if c.name not in without]


# Copies of the rows of removed artifacts, from which an undo restores them. They are kept until the sweep may have
# deleted the artifacts' bytes.
removed = Table(
    "removed",
    metadata,
    Column("seq", RowNumber, Identity(), primary_key=True),
    Column("removed_at", UtcDateTime, nullable=False),
    Column("reason", Text, nullable=False),
    Column("run_id", Text),
    Column("artifact_seq", BigInteger, nullable=False),  # its former row number, which another artifact may have now
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

# Retention plans, which can be applied for an hour, and the runs that apply them.
plans = Table(
    "plans",
    metadata,
    Column("id", Text, primary_key=True),
    Column("digest", LargeBinary, nullable=False),  # empty while the plan is being made
    Column("namespace", Text),  # NULL: all namespaces
    Column("job", Text, nullable=False),
    Column("scope", Text, nullable=False),  # JSON
    Column("criteria", Text, nullable=False),  # JSON: the conditions that all artifacts of the plan meet
    Column("summary", Text, nullable=False),  # JSON
    Column("until", UtcDateTime, nullable=False),
)
Index("ix_plans_digest", plans.c.digest)

plan_parts = Table(  # the artifacts of a plan, in parts: the run that applies the plan removes one part per transaction
    "plan_parts",
    metadata,
    Column("plan_id", Text, ForeignKey("plans.id", ondelete="CASCADE"), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("namespace", Text, nullable=False),
    # The two row numbers bound the rows that a statement has to read. Only `numbers` decides which artifacts are in the
    # part, since SQLite reuses row numbers.
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("numbers", LargeBinary, nullable=False),  # packed as in the audit log
)

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("job", Text, nullable=False),
    Column("namespace", Text),  # NULL: all namespaces
    Column("scope", Text, nullable=False),  # JSON
    Column("actor", Text, nullable=False),
    Column("key_id", Text),
    Column("plan_id", Text),  # the plan that the run applies; NULL: the run is scheduled and has no plan
    Column("plan_digest", LargeBinary),
    Column("parts", Integer, nullable=False),
    Column("next_part", Integer, nullable=False),  # the part of the plan with which to continue
    Column("started_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("outcome", Text, nullable=False),  # running, finished, failed
    # How many artifacts are in the plan, how many were removed so far, and the bytes of content of the removed ones.
    Column("planned", BigInteger, nullable=False),
    Column("artifacts", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("items", BigInteger, nullable=False),  # items other than artifacts: dead blobs, records, findings
    Column("busy_ms", BigInteger, nullable=False),
    Column("oldest_overdue", BigInteger, nullable=False),  # in milliseconds: see `RetentionRun.oldest_overdue_seconds`
    Column("detail", Text, nullable=False),
    Column("worker", Text),  # the process that carries the run out
    # After this moment, another process may continue the run.
    Column("lease_until", UtcDateTime),
)
Index("ix_runs_started_at", runs.c.started_at)
# For the query with which another process finds an unfinished run whose lease has ended.
partial_index("ix_runs_lease_until", runs.c.lease_until, where=runs.c.outcome == "running")

jobs = Table(  # the job schedule: a row for each job that an administrator has changed or that has run
    "jobs",
    metadata,
    Column("name", Text, primary_key=True),
    Column("paused", Boolean, nullable=False),
    Column("interval", Integer),  # seconds; NULL: as in the settings
    Column("changed_by", Text),
    Column("changed_at", UtcDateTime),
    # When the job last ran, with its outcome; NULL: it has not run yet.
    Column("last_at", UtcDateTime),
    Column("last_outcome", Text),
    Column("last_detail", Text),
)
