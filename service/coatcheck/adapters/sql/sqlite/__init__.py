"""The embedded catalogue: SQLite behind one writer."""
