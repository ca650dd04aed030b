"""Core statements compiled once and passed to the driver directly, for the two paths where each microsecond counts.

`Connection.execute` costs about 70 us of Python per statement, SQLite itself 5 to 20; an ingest is five statements.
Kept of SQLAlchemy are the statement, the dialect's SQL and the types' conversions; given up are named rows, and the
wrapping of driver errors. Only for statements with a fixed number of parameters.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from sqlalchemy import Connection, Dialect
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.types import TypeEngine

Convert = Callable[[Any], Any]
"""Converts one value between its column's type and what the driver uses."""


class _Compiled(NamedTuple):
    """A statement in one dialect's SQL."""

    sql: str
    binds: list[tuple[str, Convert | None]]
    """The parameters in order, each with its conversion."""
    constants: dict[str, Any]
    """Values from the statement itself, such as a limit."""
    columns: list[tuple[int, Convert]]
    """The columns of the result that need a conversion."""


class Prepared:
    """A statement that is compiled at its first use on a dialect. Thread-safe."""

    def __init__(self, statement: Executable, *, columns: list[str] | None = None) -> None:
        """Takes a statement.

        Args:
            statement: select, insert or delete; `returning` yields rows.
            columns: the columns of an insert that get values.
        """
        self._statement = statement
        self._columns = columns
        self._compiled: dict[str, _Compiled] = {}
        """By dialect. Two threads may both compile a statement at first, with the same result."""

    def rows(self, conn: Connection, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Executes it, and returns every row. A transaction must have begun, unless the driver needs none."""
        cursor, columns = self._run(conn, parameters)
        try:
            # All at once: an open cursor would keep its snapshot of the database.
            result_rows = cursor.fetchall()
        finally:
            cursor.close()
        return [_convert_row(row, columns) for row in result_rows] if columns else result_rows

    def run(self, conn: Connection, parameters: Mapping[str, Any]) -> int:
        """Executes it, and returns how many rows it changed."""
        cursor, _ = self._run(conn, parameters)
        changed: int = cursor.rowcount
        cursor.close()
        return changed

    def many(self, conn: Connection, parameters: Sequence[Mapping[str, Any]]) -> None:
        """Executes it for each set of parameters, in one call."""
        if not parameters:
            return
        compiled = self._compiled.get(conn.dialect.name) or self._compile(conn.dialect)
        cursor: Any = conn.connection.cursor()
        cursor.executemany(compiled.sql, [_values(compiled, each) for each in parameters])
        cursor.close()

    def _run(self, conn: Connection, parameters: Mapping[str, Any]) -> tuple[Any, list[tuple[int, Convert]]]:
        compiled = self._compiled.get(conn.dialect.name) or self._compile(conn.dialect)
        cursor: Any = conn.connection.cursor()
        cursor.execute(compiled.sql, _values(compiled, parameters))
        return cursor, compiled.columns

    def _compile(self, dialect: Dialect) -> _Compiled:
        clause = cast("ClauseElement", self._statement)
        compiler = clause.compile(dialect=dialect, column_keys=self._columns)
        if not isinstance(compiler, SQLCompiler) or compiler.positiontup is None:
            raise TypeError("this dialect does not number its parameters")
        binds = [(name, _into(compiler.binds[name].type, dialect)) for name in compiler.positiontup]
        constants = {name: compiler.binds[name].value for name, _ in binds if not compiler.binds[name].required}
        # A select lists its columns under one name, an insert or delete with `returning` under another; others have
        # none.
        answer: Any = getattr(clause, "selected_columns", None)
        if answer is None:
            answer = getattr(clause, "exported_columns", ())
        conversions = [(i, _out_of(column.type, dialect)) for i, column in enumerate(answer)]
        columns = [(i, convert) for i, convert in conversions if convert is not None]
        compiled = self._compiled[dialect.name] = _Compiled(compiler.string, binds, constants, columns)
        return compiled


def _values(compiled: _Compiled, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
    if compiled.constants:
        parameters = compiled.constants | dict(parameters)
    return tuple(parameters[name] if convert is None else convert(parameters[name]) for name, convert in compiled.binds)


def _into(kind: TypeEngine[Any], dialect: Dialect) -> Convert | None:
    return kind.dialect_impl(dialect).bind_processor(dialect)


def _out_of(kind: TypeEngine[Any], dialect: Dialect) -> Convert | None:
    return kind.dialect_impl(dialect).result_processor(dialect, None)


def _convert_row(row: tuple[Any, ...], columns: list[tuple[int, Convert]]) -> tuple[Any, ...]:
    values = list(row)
    for i, convert in columns:
        values[i] = convert(values[i])
    return tuple(values)
