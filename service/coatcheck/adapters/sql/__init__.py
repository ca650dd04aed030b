"""The SQL catalogue, for SQLite and PostgreSQL: the only place that knows SQLAlchemy."""
