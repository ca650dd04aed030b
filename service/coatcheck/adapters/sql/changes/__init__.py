"""One function per change: `apply_x(conn, change)`, inside a transaction that the caller began and will commit.

They never commit, never read a clock, and do not depend on the database. Row locks are written where PostgreSQL needs
them; SQLite, which has one writer, ignores them.
"""
