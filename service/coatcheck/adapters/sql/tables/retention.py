"""Plans, runs and the schedule, and what an undo needs of removed artifacts."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Identity, Index, Integer, LargeBinary, Table, Text

from coatcheck.adapters.sql.tables.artifacts import artifacts, views
from coatcheck.adapters.sql.tables.metadata import metadata, partial_index
from coatcheck.adapters.sql.types import RowNumber, UtcDateTime

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
    Column("planned", BigInteger, nullable=False),
    Column("artifacts", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("items", BigInteger, nullable=False),  # items other than artifacts: dead blobs, records, findings
    Column("busy_ms", BigInteger, nullable=False),
    Column("oldest_overdue", BigInteger, nullable=False),  # milliseconds
    Column("detail", Text, nullable=False),
    Column("worker", Text),  # who carries it out
    Column("lease_until", UtcDateTime),
)
Index("ix_runs_started_at", runs.c.started_at)
partial_index("ix_runs_lease_until", runs.c.lease_until, where=runs.c.outcome == "running")

jobs = Table(  # the schedule as data: a row for each job that was changed or has run
    "jobs",
    metadata,
    Column("name", Text, primary_key=True),
    Column("paused", Boolean, nullable=False),
    Column("interval", Integer),  # seconds; NULL: as in the settings
    Column("changed_by", Text),
    Column("changed_at", UtcDateTime),
    Column("last_at", UtcDateTime),
    Column("last_outcome", Text),
    Column("last_detail", Text),
)
