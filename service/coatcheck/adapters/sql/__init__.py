"""The SQL catalogue, for SQLite and PostgreSQL: the only package that knows SQLAlchemy."""
