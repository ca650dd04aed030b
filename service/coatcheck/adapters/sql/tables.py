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

uploads = Table(
    "uploads",
    metadata,
    Column("blob_id", Text, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("placement", Text, nullable=False),
    Column("lease_until", UtcDateTime, nullable=False),
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
