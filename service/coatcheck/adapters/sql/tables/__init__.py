"""The tables, once, for SQLite and PostgreSQL. The migrations must arrive at exactly this; a test proves it.

On PostgreSQL every table with a namespace has row-level security, which the migration that makes it must add.

Rows lie in arrival order. Each index on a random key makes deletion on SQLite several times slower, so that there
are few of them: the artifact's number, its tombstone's, its events', and eight bytes of the digest that fold
duplicates. All other indexes grow at their end.
"""

from coatcheck.adapters.sql.tables.administration import (
    activity,
    audit_log,
    events,
    holds,
    jobs,
    keys,
    leases,
    namespaces,
    plan_parts,
    plans,
    policies,
    removed,
    removed_surveys,
    removed_views,
    runs,
    session_usage,
    usage,
    writers,
)
from coatcheck.adapters.sql.tables.artifacts import (
    artifacts,
    blobs,
    idempotency_keys,
    inline_bytes,
    metadata,
    surveys,
    text_parts,
    text_segments,
    tombstones,
    unindexed,
    uploads,
    views,
)

__all__ = [
    "activity",
    "artifacts",
    "audit_log",
    "blobs",
    "events",
    "holds",
    "idempotency_keys",
    "inline_bytes",
    "jobs",
    "keys",
    "leases",
    "metadata",
    "namespaces",
    "plan_parts",
    "plans",
    "policies",
    "removed",
    "removed_surveys",
    "removed_views",
    "runs",
    "session_usage",
    "surveys",
    "text_parts",
    "text_segments",
    "tombstones",
    "unindexed",
    "uploads",
    "usage",
    "views",
    "writers",
]
