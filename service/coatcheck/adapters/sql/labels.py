"""`has_label(labels, label)`: whether a JSON array of strings holds one, in each database's own words."""

from typing import Any

from sqlalchemy import Boolean, ColumnElement
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction


class has_label(GenericFunction[bool]):  # noqa: N801 - SQLAlchemy's functions are spelled as in SQL
    """True when the second argument is an element of the first, a JSON array as text."""

    type = Boolean()
    inherit_cache = True

    def __init__(self, labels: ColumnElement[Any], label: ColumnElement[Any]) -> None:
        super().__init__(labels, label)


@compiles(has_label, "sqlite")
def _sqlite(element: has_label, compiler: SQLCompiler, **options: object) -> str:
    labels, label = (compiler.process(clause, **options) for clause in element.clauses)
    # Both are compiled clauses: a column and a bound parameter.
    return f"EXISTS (SELECT 1 FROM json_each({labels}) AS each WHERE each.value = {label})"  # noqa: S608


@compiles(has_label, "postgresql")
def _postgresql(element: has_label, compiler: SQLCompiler, **options: object) -> str:
    labels, label = (compiler.process(clause, **options) for clause in element.clauses)
    return f"jsonb_exists(CAST({labels} AS jsonb), {label})"
