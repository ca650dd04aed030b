"""What the databases spell differently: `insert_into`, `has_label`, `among`, `contains_text`, `by_now`."""

from typing import Any, Final, cast

from sqlalchemy import Boolean, ColumnElement, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction
from sqlalchemy.sql.operators import OperatorType
from typing_extensions import override

from coatcheck.adapters.sql.types import UtcDateTime

DIALECTS: Final = ("sqlite", "postgresql")


def insert_into(table: Table, dialect: str) -> sqlite.Insert:
    """Returns an insert that can handle conflicts, of the dialect's own type."""
    if dialect == "sqlite":
        return sqlite.insert(table)
    return cast("sqlite.Insert", postgresql.insert(table))  # two types of statement with the same methods


class has_label(GenericFunction[bool]):  # noqa: N801 - SQLAlchemy's functions are spelled as in SQL
    """True if the second argument is an element of the first, a JSON array as text."""

    type = Boolean()
    inherit_cache = True

    def __init__(self, labels: ColumnElement[Any], label: ColumnElement[Any]) -> None:
        super().__init__(labels, label)


class among(GenericFunction[bool]):  # noqa: N801 - as above
    """True if the first argument is one of the second, a parameter of type `Many`."""

    type = Boolean()
    inherit_cache = True

    def __init__(self, value: ColumnElement[Any], many: ColumnElement[Any]) -> None:
        super().__init__(value, many)

    @override
    def self_group(self, against: OperatorType | None = None) -> Any:
        # A condition by itself: `… = 1`, which SQLite would get otherwise, prevents the use of an index.
        return self


class contains_text(GenericFunction[bool]):  # noqa: N801 - as above
    """True if the second argument occurs in the first, case-sensitively, unlike SQLite's LIKE."""

    type = Boolean()
    inherit_cache = True

    def __init__(self, text: ColumnElement[Any], part: ColumnElement[Any]) -> None:
        super().__init__(text, part)


class by_now(GenericFunction[Any]):  # noqa: N801 - as above
    """Returns a moment, but none that the database's clock has not reached: a sweep must not trust a wrong clock.

    SQLite has no clock but the process's, which is the caller's.
    """

    type = UtcDateTime()
    inherit_cache = True

    def __init__(self, moment: ColumnElement[Any]) -> None:
        super().__init__(moment)


def _parts(element: GenericFunction[Any], compiler: SQLCompiler, options: dict[str, Any]) -> list[str]:
    # All are compiled clauses: columns and bound parameters.
    return [compiler.process(clause, **options) for clause in element.clauses]


@compiles(has_label, "sqlite")
def _sqlite_label(element: has_label, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - as SQLAlchemy
    labels, label = _parts(element, compiler, options)
    return f"EXISTS (SELECT 1 FROM json_each({labels}) AS each WHERE each.value = {label})"  # noqa: S608 - clauses


@compiles(has_label, "postgresql")
def _postgresql_label(element: has_label, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - as above
    labels, label = _parts(element, compiler, options)
    return f"jsonb_exists(CAST({labels} AS jsonb), {label})"


@compiles(among, "sqlite")
def _sqlite_among(element: among, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - as above
    value, many = _parts(element, compiler, options)
    return f"{value} IN (SELECT value FROM json_each({many}))"  # noqa: S608 - compiled clauses


@compiles(among, "postgresql")
def _postgresql_among(element: among, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - as above
    value, many = _parts(element, compiler, options)
    return f"{value} = ANY ({many})"


@compiles(contains_text, "sqlite")
def _sqlite_contains(element: contains_text, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - as above
    return f"(instr({', '.join(_parts(element, compiler, options))}) > 0)"


@compiles(contains_text, "postgresql")
def _postgresql_contains(element: contains_text, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - as above
    return f"(strpos({', '.join(_parts(element, compiler, options))}) > 0)"


@compiles(by_now, "sqlite")
def _sqlite_by_now(element: by_now, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - as above
    return _parts(element, compiler, options)[0]


@compiles(by_now, "postgresql")
def _postgresql_by_now(element: by_now, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - as above
    # A subquery is evaluated once, so an index serves the comparison although the function is volatile.
    return f"(SELECT LEAST({_parts(element, compiler, options)[0]}, clock_timestamp()))"
