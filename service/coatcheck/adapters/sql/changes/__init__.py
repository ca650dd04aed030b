"""One function per change: `apply_x(conn, change)` inside a transaction that the caller began and will commit.

They never commit, never ask a clock and know no database by name. Row locks are written where PostgreSQL needs
them; SQLite, which has one writer, leaves them out.
"""
