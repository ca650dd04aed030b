"""What `zipfile`, `tarfile` and `sqlite3` say of the text that the service makes of an archive or a database."""

# ruff: noqa: E501, S608 - statements with names of tables that tests made

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence

from facts.cases import Oracle


def hold_archive(view: str, oracle: Oracle, files: Sequence[tuple[str, int]], *, whole: bool = True) -> None:
    """Its summary and its list: every file once, in order, with its size."""
    summary, _, rest = view.partition("\n\n")
    for line in summary.splitlines():
        assert oracle(line), f"not understood: {line[:200]!r}"
    table = rest.partition("Bytes\tName\n")[2].partition("\n\n")[0].rstrip("\n")
    rows = [tuple(row.split("\t")[:2]) for row in table.split("\n")] if table else []
    told = [(name, int(size)) for size, name in rows]
    known = [(" ".join(name.split()), size) for name, size in files]
    for (shown, size), (name, actual) in zip(told, known, strict=False):
        assert shown == name or (shown.endswith("…") and name.startswith(shown[:-1])), (shown, name)
        assert size == actual
    assert len(told) == len(known) if whole else len(told) <= len(known)


def hold_database(view: str, connection: sqlite3.Connection) -> None:
    """Its summary, its tables with columns and counts of rows, and the rows that are shown."""
    names = [
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND upper(sql) NOT LIKE 'CREATE VIRTUAL%'"
        )
    ]
    others = {
        kind: [
            name
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type=? AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'", (kind,)
            )
        ]
        for kind in ("view", "trigger", "index")
    }
    lines = view.split("\n")
    counts = [_counted(len(names), "table"), *(_counted(len(each), kind) for kind, each in others.items() if each)]
    assert lines.pop(0) == f"SQLite database: {', '.join(counts)}"
    columns = {name: _columns(connection, name) for name in names}
    rows = {name: int(connection.execute(f"SELECT count(*) FROM {_quoted(name)}").fetchone()[0]) for name in names}
    for name in names:
        said = f"{' '.join(name.split())}: {', '.join(columns[name])}; {_counted(rows[name], 'row')}"
        assert lines[0].startswith(said), (lines[0], said)
        _hold_counts(connection, name, lines.pop(0)[len(said) :])
    for kind in ("view", "trigger"):
        if others[kind]:
            assert lines.pop(0) == f"{kind.capitalize()}s: {', '.join(others[kind])}"
    for name in names:
        assert lines[:3] == ["", f"## {' '.join(name.split())}", f"Columns: {', '.join(columns[name])}"], lines[:3]
        assert lines[3] == f"Rows: {_counted(rows[name], 'row')}"
        shown = [_row(row) for row in connection.execute(f"SELECT * FROM {_quoted(name)}")]
        header = "\t".join(
            " ".join(str(info[1]).split()) for info in connection.execute(f"PRAGMA table_info({_quoted(name)})")
        )
        assert lines[4 : 5 + len(shown)] == [header, *shown], (lines[4 : 5 + len(shown)], shown)
        del lines[: 5 + len(shown)]
    assert lines == [""], lines


def _hold_counts(connection: sqlite3.Connection, table: str, told: str) -> None:
    """The values that recur: each column with all that it has but NULL."""
    known = [str(name) for _, name, *_ in connection.execute(f"PRAGMA table_info({_quoted(table)})")]
    while told:
        column = next(name for name in known if told.startswith(f"; {' '.join(name.split())}: "))
        found = re.match(r'; .*?: ((?:(?:"(?:[^"\\]|\\.)*"|-?\d+) \d+(?:, )?)+)', told)
        assert found is not None, told
        values = connection.execute(f"SELECT {_quoted(column)}, count(*) FROM {_quoted(table)} GROUP BY 1")
        counts = {json.dumps(value, ensure_ascii=False): count for value, count in values if value is not None}
        pairs = re.findall(r'("(?:[^"\\]|\\.)*"|-?\d+) (\d+)', found[1])
        assert {value: int(count) for value, count in pairs} == counts, (told, counts)
        told = told[found.end() :]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('x') else 's'}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    rows = connection.execute(f"PRAGMA table_info({_quoted(table)})")
    return [f"{' '.join(str(name).split())} {kind}".rstrip() for _, name, kind, *_ in rows]


def _row(values: Sequence[object]) -> str:
    return "\t".join(map(_value, values)).rstrip()


def _value(value: object) -> str:
    if isinstance(value, bytes):
        return f"[{_counted(len(value), 'byte')}]"
    text = "NULL" if value is None else " ".join(str(value).split())
    return text if len(text) <= 200 else text[:199] + "…"


def database(tables: Mapping[str, Sequence[str]]) -> sqlite3.Connection:
    """A database in memory with these tables, each with its columns as SQL has them."""
    connection = sqlite3.connect(":memory:")
    for name, columns in tables.items():
        connection.execute(f"CREATE TABLE {_quoted(name)} ({', '.join(columns)})")
    return connection
