"""What all tables share: the names of their constraints, and partial indexes."""

from typing import Any

from sqlalchemy import Column, ColumnElement, Index, MetaData

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
