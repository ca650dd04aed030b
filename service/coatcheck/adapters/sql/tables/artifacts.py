"""Tables of what is stored: blobs, artifacts and views that point at them, uploads in progress, tombstones.

What all tables share: the names of their constraints, and partial indexes.

The full-text index, maintained by our own code: see `core/fulltext`.

An artifact's row may be in more than one segment, or in one about a former artifact in its place: each result is
compared with the row itself.
"""

from typing import Any

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
    Column(
        "receipt", Text
    ),  # JSON: what a model got in its place; NULL: nothing, or not known. Last, as it may be long
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
