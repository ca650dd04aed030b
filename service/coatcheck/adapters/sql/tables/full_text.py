"""The full-text index, maintained by our own code: see `core/fulltext`.

An artifact's row may be in more than one segment, or in one about a former artifact in its place: each result is
compared with the row itself.
"""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, Table, Text

from coatcheck.adapters.sql.tables.metadata import metadata

unindexed = Table(  # no foreign key: what no longer exists is skipped when its turn comes
    "unindexed",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("artifact_seq", BigInteger, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

text_segments = Table(
    "text_segments",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),  # random: never reused
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
    Column("namespace", Text, nullable=False),  # that of its segment
    Column("postings", LargeBinary, nullable=False),
)
