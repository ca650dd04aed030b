"""Tables of administration: policies, holds, keys, usage, accounts, events, the audit log, leases.

Plans, runs and the schedule, and what an undo needs of removed artifacts.
"""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Identity, Index, Integer, LargeBinary, Table, Text

from coatcheck.adapters.sql.dialect import RowNumber, UtcDateTime
from coatcheck.adapters.sql.tables.artifacts import artifacts, metadata, partial_index, views

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

session_usage = Table(  # sessions' token accounts; no foreign key, as they are written independently of artifacts
    "session_usage",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("session", Text, primary_key=True),
    # What each sum counts, and each gauge below, is at `UsageDelta`.
    Column("artifacts", BigInteger, nullable=False),
    Column("raw_tokens", BigInteger, nullable=False),
    Column("given_tokens", BigInteger, nullable=False),
    Column("reads", BigInteger, nullable=False),
    Column("read_tokens", BigInteger, nullable=False),
    Column("compactions", BigInteger, nullable=False),
    Column("unsent_tokens", BigInteger, nullable=False),
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
    Column("artifacts", BigInteger, nullable=False),
    Column("raw_tokens", BigInteger, nullable=False),
    Column("given_tokens", BigInteger, nullable=False),
    Column("reads", BigInteger, nullable=False),
    Column("read_tokens", BigInteger, nullable=False),
    Column("compactions", BigInteger, nullable=False),
    Column("unsent_tokens", BigInteger, nullable=False),
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


# What an undo needs of removed artifacts, until the sweep may have removed their bytes.
removed = Table(
    "removed",
    metadata,
    Column("seq", RowNumber, Identity(), primary_key=True),
    Column("removed_at", UtcDateTime, nullable=False),
    Column("reason", Text, nullable=False),
    Column("run_id", Text),
    Column("artifact_seq", BigInteger, nullable=False),  # its former row; it may be another artifact's by now
    *(
        Column(column.name, column.type, nullable=column.nullable)
        for column in artifacts.c
        if not column.primary_key  # no foreign key here either: the bytes may be gone before
    ),
)
Index("ix_removed_namespace_number", removed.c.namespace, removed.c.number)
Index("ix_removed_removed_at", removed.c.removed_at)
partial_index("ix_removed_run_id_seq", removed.c.run_id, removed.c.seq, where=removed.c.run_id.is_not(None))

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
