"""Renders SQLite databases as text: each table with its columns, its row count and its rows. Runs in a worker process.

A database may be hostile. It is opened in memory and read-only, and no code that it defines is run: views and virtual
tables are named but not read, triggers never fire, generated columns are not computed, and no function except `count`
is called.
"""

import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

from msgspec import Struct
from msgspec.json import encode

from coatcheck.adapters.extract.wire import ViewWriter, cell
from coatcheck.core.extract.blocks import one_line
from coatcheck.core.text.count import format_count
from coatcheck.core.views.view import ExtractedText

_EXTRACTOR: Final = "sqlite 3"
_CELL: Final = 200
"""Maximum characters that are shown of a value."""
_COLUMNS: Final = 40
"""Maximum columns of a table that the summary names."""
_SUMMARISED: Final = 100
"""Maximum tables that the summary describes, and maximum names in each of its other lists."""
_VALUES: Final = 6
"""Maximum different values that a column may have for its values to be counted."""
_EACH: Final = 4
"""Minimum average number of rows for each value of a column whose values are counted."""
_CHARS: Final = 40
"""Maximum characters of a value that is counted, written as JSON. A longer value excludes its column."""
_RECORDS: Final = 8
"""Minimum rows of a table whose values are counted."""
_COUNTED: Final = 100_000
"""Maximum rows of a table whose values are counted."""
_WIDE: Final = 16
"""Number of columns of a table, from the first, that are examined for values that recur."""
_MAX_NAMED: Final = 3
"""Maximum columns of a table whose counted values are shown. Columns with the rarest values are preferred."""
_TEXT_BYTES: Final = 4096
"""Maximum bytes that are decoded of a text value."""
_VALUE_BYTES: Final = 32 * 1024 * 1024
"""Maximum bytes of a value that SQLite reads. A small file can claim to contain a huge value."""
_STEPS: Final = 1_000
"""SQLite instructions between two checks of the time."""
_COUNTING: Final = 0.7
"""Share of the time that counting the rows may take."""
_FORMAT_VERSIONS: Final = slice(18, 20)
"""Position of the two format versions in the file's header. The version 2 means a write-ahead log, which a database in
memory cannot have."""
_PLAIN: Final = 0
"""Value in `table_xinfo` for a column that is neither hidden nor generated."""


class _Table(Struct):
    name: str
    columns: list[str]
    """All columns, each as its name and type."""
    stored_columns: list[str]
    """Names of all columns except generated ones, whose values are not read."""
    rows: int | None = None
    """Number of rows, if they could be counted."""
    counts: tuple[str, ...] = ()
    """Lines that say how often values occur, such as `state: "paid" 825, "open" 299`."""

    def render_columns(self, most: int) -> str:
        """Returns `id INTEGER, name TEXT`, with at most `most` columns."""
        more = f", … ({len(self.columns)} columns)" if len(self.columns) > most else ""
        return ", ".join(self.columns[:most]) + more


def extract_database(payload: bytes, until: float) -> ExtractedText | None:
    """Returns the text view of a SQLite database; None if its schema cannot be read.

    Args:
        payload: the whole database file.
        until: CPU time of this process, in seconds, at which to stop.
    """
    writer = ViewWriter(until)
    with closing(sqlite3.connect(":memory:", isolation_level=None, cached_statements=0)) as connection:
        try:
            _open(connection, payload)
            _stop_at(connection, until)
            objects = _objects(connection)
        except (sqlite3.Error, MemoryError):
            return None
        tables = [_table(connection, name) for name in objects["table"]]
        # Counting visits every row, and must leave time for rendering the first rows.
        _stop_at(connection, until - (1 - _COUNTING) * max(0.0, until - time.process_time()))
        for table in tables:
            table.rows = _count(connection, table.name)
        for table in tables:
            table.counts = _recurring(connection, table)
        _stop_at(connection, until)
        for line in _summary(objects, tables):
            writer.put(line)
        for tables_left, table in zip(range(len(tables), 0, -1), tables, strict=True):
            spent = time.process_time()
            stop_at = spent + (until - spent) / tables_left
            if not _put_table(connection, table, writer, writer.room // tables_left, stop_at):
                break
    return writer.finish(_EXTRACTOR)


def _open(connection: sqlite3.Connection, payload: bytes) -> None:
    """Loads a database into memory, with settings that allow no change and run no code of the database."""
    for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON", "temp_store=MEMORY"):
        connection.execute(f"PRAGMA {pragma}")
    second = payload[_FORMAT_VERSIONS] == b"\2\2"
    connection.deserialize(
        payload[: _FORMAT_VERSIONS.start] + b"\1\1" + payload[_FORMAT_VERSIONS.stop :] if second else payload
    )
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.text_factory = _text
    connection.set_authorizer(_authorize)


def _text(data: bytes) -> str:
    return data[:_TEXT_BYTES].decode("utf-8", "replace") + "…" * (len(data) > _TEXT_BYTES)


def _authorize(action: int, first: str | None, second: str | None, _: str | None, inside: str | None) -> int:
    """Allows statements to read tables and columns and to call `count`; denies everything inside views and triggers."""
    allowed = inside is None and (
        action in {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}
        or (action == sqlite3.SQLITE_PRAGMA and first == "table_xinfo")
        or (action == sqlite3.SQLITE_FUNCTION and second == "count")
    )
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _stop_at(connection: sqlite3.Connection, seconds: float) -> None:
    """Interrupts queries once this process has used `seconds` of CPU time."""
    connection.set_progress_handler(lambda: time.process_time() > seconds, _STEPS)


def _objects(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Returns by kind the names of tables, virtual tables, views, triggers and indexes, except SQLite's own."""
    objects: dict[str, list[str]] = {"table": [], "virtual table": [], "view": [], "trigger": [], "index": []}
    for kind, name, statement in connection.execute("SELECT type, name, sql FROM sqlite_master"):
        virtual = kind == "table" and str(statement).upper().startswith("CREATE VIRTUAL")
        if kind in objects and isinstance(name, str) and not name.lower().startswith("sqlite_"):
            objects["virtual table" if virtual else kind].append(name)
    return objects


def _table(connection: sqlite3.Connection, name: str) -> _Table:
    table = _Table(name, [], [])
    try:
        for _, column, kind, _, _, _, hidden in connection.execute(f"PRAGMA table_xinfo({_quote_name(name)})"):
            generated = " generated" if hidden != _PLAIN else ""
            table.columns.append(f"{one_line(column)} {one_line(kind)}".rstrip() + generated)
            if not generated:
                table.stored_columns.append(column)
    except sqlite3.Error:
        table.stored_columns.clear()
    return table


def _quote_name(name: str) -> str:
    """Returns a name quoted for SQL, in backticks: SQLite reads an unknown name in double quotes as a text value."""
    return f"`{name.replace('`', '``')}`"


def _count(connection: sqlite3.Connection, name: str) -> int | None:
    """Returns the number of a table's rows by visiting each row; None if that takes too long or fails."""
    try:  # `count(*)` would only add up the counts that pages state, and cannot be interrupted
        return int(connection.execute(f"SELECT count(1) FROM {_quote_name(name)} NOT INDEXED").fetchone()[0])  # noqa: S608
    except sqlite3.Error:
        return None


def _recurring(connection: sqlite3.Connection, table: _Table) -> tuple[str, ...]:
    """Returns a line for each column with few different values, all texts or whole numbers: how often each occurs."""
    ranked_lines: list[tuple[float, str]] = []
    rows = table.rows or 0
    for column in table.stored_columns[:_WIDE] if _RECORDS <= rows <= _COUNTED else ():
        name, most = f"{_quote_name(column)} COLLATE BINARY", _VALUES + 2  # with NULL, and one value too many
        query = f"SELECT {name}, count(1) FROM {_quote_name(table.name)} NOT INDEXED GROUP BY {name} LIMIT {most}"  # noqa: S608
        try:
            values = [(value, count) for value, count in connection.execute(query) if value is not None]
        except (sqlite3.Error, MemoryError):
            continue
        if all(isinstance(value, str | int) for value, _ in values):
            counts = Counter[str]()
            for value, count in values:
                counts[encode(one_line(value) if isinstance(value, str) else value).decode()] += count
            total = counts.total()
            recur = 1 < len(counts) <= _VALUES and len(counts) * _EACH <= total > rows / 4
            if recur and max(map(len, counts)) <= _CHARS:
                few = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
                value_counts = ", ".join(f"{value} {count}" for value, count in few)
                ranked_lines.append((few[-1][1] / rows, f"{one_line(column)}: {value_counts}"))
    return tuple(line for _, line in sorted(ranked_lines, key=lambda each: each[0])[:_MAX_NAMED])


def _summary(objects: dict[str, list[str]], tables: Sequence[_Table]) -> Iterator[str]:
    counts = [format_count(len(names), kind) for kind, names in objects.items() if names or kind == "table"]
    yield f"SQLite database: {', '.join(counts)}"
    for table in tables[:_SUMMARISED]:
        rows = "" if table.rows is None else f"; {format_count(table.rows, 'row')}"
        yield "; ".join([f"{one_line(table.name)}: {table.render_columns(_COLUMNS)}{rows}", *table.counts])
    if len(tables) > _SUMMARISED:
        yield f"… and {format_count(len(tables) - _SUMMARISED, 'table')} more"
    for kind in ("virtual table", "view", "trigger"):
        names = [one_line(name) for name in objects[kind][:_SUMMARISED]]
        if names:
            yield f"{kind.capitalize()}s: {', '.join(names)}{', …' if len(objects[kind]) > _SUMMARISED else ''}"


def _put_table(connection: sqlite3.Connection, table: _Table, writer: ViewWriter, room: int, until: float) -> bool:
    """Writes a table's section, in about `room` bytes and until the CPU time `until`.

    Returns False if the view has no more room or time. Each table gets its share of the remaining room and time, so
    that a long table does not leave the others without rows.
    """
    # Rows are read before the section begins, because its first lines say how many rows follow.
    rows: list[str] = []
    columns = ", ".join(map(_quote_name, table.stored_columns))
    stopped = broken = False
    try:
        if table.stored_columns:
            for row in connection.execute(f"SELECT {columns} FROM {_quote_name(table.name)} NOT INDEXED"):  # noqa: S608
                rows.append("\t".join(map(_render_value, row)))
                room -= len(rows[-1].encode("utf-8", "replace")) + 1
                if stopped := room < 0 or time.process_time() > until:
                    break
    except (sqlite3.Error, MemoryError):
        broken = writer.partial = True
    writer.put("")
    writer.begin(table.name)
    lines = [f"## {one_line(table.name)}", f"Columns: {table.render_columns(len(table.columns))}"]
    is_cut = stopped and table.rows != len(rows)
    writer.partial = writer.partial or is_cut
    row_notes = [] if table.rows is None else [format_count(table.rows, "row")]
    row_notes += [f"the first {len(rows)}"] if is_cut else []
    lines += [f"Rows: {', '.join(row_notes)}"] if row_notes else []
    lines += ["\t".join(map(one_line, table.stored_columns)), *rows]
    lines += ["[the rows after these cannot be read]"] if broken else []
    return all(writer.put(line) for line in lines)


def _render_value(value: object) -> str:
    """Returns a value on one line; for binary data, its size."""
    if isinstance(value, bytes):
        return f"[{format_count(len(value), 'byte')}]"
    return "NULL" if value is None else cell(str(value), _CELL)
