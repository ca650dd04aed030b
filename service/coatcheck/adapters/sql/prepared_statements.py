"""Compiles SQLAlchemy statements once and passes them directly to the driver, for ingests and reads that must be fast.

`Connection.execute` takes about 70 us of Python for each statement, while SQLite itself takes 5 to 20 us; an ingest has
five statements. A prepared statement still has the SQL of its dialect and the conversions of its columns' types. Unlike
SQLAlchemy, it returns plain tuples and does not wrap the driver's errors. The number of its parameters must be fixed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from sqlalchemy import Connection, Dialect
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.types import TypeEngine

Convert = Callable[[Any], Any]
"""Converts a value of a column's type to the driver's form, or back."""


class _Compiled(NamedTuple):
    """A statement compiled for one dialect."""

    sql: str
    binds: list[tuple[str, Convert | None]]
    """The names of the parameters in their order, each with its conversion; None: no conversion is needed."""
    constants: dict[str, Any]
    """Values of parameters that the statement itself contains, such as a limit."""
    columns: list[tuple[int, Convert]]
    """The columns of the result that need a conversion, by index."""


class Prepared:
    """A statement that is compiled at its first use on a dialect. Any thread may use it."""

    def __init__(self, statement: Executable, *, columns: list[str] | None = None) -> None:
        """Compiles nothing yet.

        Args:
            statement: a select, or an insert or delete, which may have `returning`.
            columns: the columns of an insert that get values from parameters; None for any other statement.
        """
        self._statement = statement
        self._columns = columns
        self._compiled: dict[str, _Compiled] = {}
        """The compiled statement by dialect. Two threads may both compile it at first, with the same result."""

    def rows(self, conn: Connection, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Executes the statement and returns all rows. A transaction must be open, unless the driver needs none."""
        cursor, columns = self._run(conn, parameters)
        try:
            # All rows are read at once, because an open cursor would keep its snapshot of the database.
            result_rows = cursor.fetchall()
        finally:
            cursor.close()
        return [_convert_row(row, columns) for row in result_rows] if columns else result_rows

    def run(self, conn: Connection, parameters: Mapping[str, Any]) -> int:
        """Executes the statement and returns the number of changed rows."""
        cursor, _ = self._run(conn, parameters)
        changed: int = cursor.rowcount
        cursor.close()
        return changed

    def many(self, conn: Connection, parameters: Sequence[Mapping[str, Any]]) -> None:
        """Executes the statement for each set of parameters, in one call of the driver."""
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
        # A select has its columns in `selected_columns`, an insert or delete with `returning` in `exported_columns`.
        # Other statements return no columns.
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
