"""Text views of SQLite databases: against the library that wrote them, and against databases that lie."""

# ruff: noqa: S608 - the statements are made of names that are made here

import random
import sqlite3
import struct
import time
from contextlib import closing

import pytest

from coatcheck.adapters.extract.documents import extract_document
from coatcheck.adapters.extract.wire import check
from coatcheck.core.extract.blocks import one_line
from coatcheck.core.views.view import MAX_SECTIONS
from facts.cases import Case, shown
from media.formats import sqlite
from media.views import bodies, summary, text_of, view_of

_USERS = (
    "CREATE TABLE users (id); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 600) "
    "INSERT INTO users SELECT i FROM n"
)
TYPES = ("INTEGER", "TEXT", "BLOB", "REAL", "", "VARCHAR(20)", "DECIMAL(10, 2)")


def random_database(rng: random.Random) -> sqlite3.Connection:
    """Tables with names, columns and rows of many sorts."""
    database = sqlite3.connect(":memory:")
    database.execute(f"PRAGMA page_size = {rng.choice((512, 1024, 4096, 65_536))}")
    database.execute(f"PRAGMA encoding = '{rng.choice(('UTF-8', 'UTF-16le', 'UTF-16be'))}'")
    for n in range(rng.randrange(1, 9)):
        name = rng.choice(("prod_usage", "auto users", "größe", 'a"b', "accounts", "x`y", "select")) + str(n)
        quoted = '"' + name.replace('"', '""') + '"'
        columns = [f'"c {m}" {rng.choice(TYPES)}' for m in range(rng.randrange(1, 7))]
        database.execute(f"CREATE TABLE {quoted} ({', '.join(columns)})")
        for _ in range(rng.choice((0, 1, 49, 50, 51, 700))):
            row = [
                rng.choice((None, rng.randrange(-9, 9), "tide", "größe\tund", b"\0\1", 2.5, "x" * 900)) for _ in columns
            ]
            database.execute(f"INSERT INTO {quoted} VALUES ({', '.join('?' * len(columns))})", row)
        if rng.random() < 0.3:
            database.execute(f'CREATE INDEX "i{n}" ON {quoted} ("c 0")')
        if rng.random() < 0.3:
            database.execute(f"DELETE FROM {quoted} WHERE rowid % 3 = 0")
    database.commit()
    return database


def cell(value: object) -> str:
    """A value as a view shows it."""
    if isinstance(value, bytes):
        return f"[{len(value)} byte{'s' * (len(value) != 1)}]"
    if isinstance(value, str):
        flat = " ".join(value.split())
        return flat if len(flat) <= 200 else f"{flat[:199]}…"
    return "NULL" if value is None else str(value)


@pytest.mark.parametrize("seed", range(60))
def test_every_table_has_its_columns_its_count_and_its_rows(seed: int) -> None:
    with closing(random_database(random.Random(seed))) as database:
        found = view_of(database.serialize())
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        lines = summary(found)
        sections = bodies(found)
        assert list(sections) == tables
        assert not found.partial
        assert lines[0].split(", ")[0] == f"SQLite database: {len(tables)} table{'s' * (len(tables) != 1)}"
        for name, line in zip(tables, lines[1:], strict=False):
            quoted = '"' + name.replace('"', '""') + '"'
            columns = [(row[1], row[2]) for row in database.execute(f"PRAGMA table_info({quoted})")]
            rows = list(database.execute(f"SELECT * FROM {quoted}"))
            declared = ", ".join(f"{column} {kind}".rstrip() for column, kind in columns)
            count = f"{len(rows)} row{'s' * (len(rows) != 1)}"
            assert line == f"{name}: {declared}; {count}"
            wanted = [
                f"Columns: {declared}",
                f"Rows: {count}",
                "\t".join(column for column, _ in columns),
                *("\t".join(map(cell, row)) for row in rows),
            ]
            assert sections[name].splitlines() == [line.rstrip() for line in wanted]


def test_other_objects_are_named_and_never_run() -> None:
    found = view_of(
        sqlite(
            """CREATE TABLE t (a INTEGER, b AS (abs(a) / 0), c AS (zeroblob(9)) STORED);
            INSERT INTO t VALUES (7);
            CREATE TABLE pairs (k TEXT PRIMARY KEY, v) WITHOUT ROWID;
            INSERT INTO pairs VALUES ('x', 1), ('y', 2);
            CREATE VIEW bomb AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT * FROM n;
            CREATE TRIGGER fire BEFORE INSERT ON t BEGIN SELECT load_extension('/tmp/x'); END;
            CREATE VIRTUAL TABLE words USING fts5(body); INSERT INTO words VALUES ('low tide')"""
        )
    )
    lines = summary(found)
    assert lines[0] == "SQLite database: 7 tables, 1 virtual table, 1 view, 1 trigger"
    assert lines[1] == "t: a INTEGER, b generated, c generated; 1 row"
    assert lines[2] == "pairs: k TEXT, v; 2 rows"
    assert lines[-3:] == ["Virtual tables: words", "Views: bomb", "Triggers: fire"]
    assert bodies(found)["t"].splitlines()[2:] == ["a", "7"]
    assert "bomb" not in bodies(found)
    assert "words" not in bodies(found)


def test_a_database_whose_changes_go_to_a_second_file_is_read_as_far_as_it_is_here(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("db") / "a.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("PRAGMA journal_mode=WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    payload = path.read_bytes()
    assert payload[18:20] == b"\2\2"
    assert summary(view_of(payload))[1] == "t: a; 2 rows"


def test_long_values_are_cut_and_long_rows_read() -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE t (a, b)")
        database.execute("INSERT INTO t VALUES (?, ?)", ("word " * 2_000_000, bytes(12_000_000)))
        database.commit()
        rows = bodies(view_of(database.serialize()))["t"].splitlines()
    assert rows[-1] == f"{('word ' * 40)[:199]}…\t[12000000 bytes]"


def test_very_many_tables_are_counted_and_have_sections_as_far_as_there_are() -> None:
    found = view_of(sqlite("".join(f"CREATE TABLE t{n} (a);" for n in range(MAX_SECTIONS + 20))))
    assert summary(found)[0] == f"SQLite database: {MAX_SECTIONS + 20} tables"
    assert summary(found)[-1] == f"… and {MAX_SECTIONS - 80} tables more"
    assert len(found.sections) == MAX_SECTIONS
    assert found.partial


def test_the_rows_of_large_tables_are_counted() -> None:
    script = "CREATE TABLE t (a); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000003) "
    found = view_of(sqlite(f"{script} INSERT INTO t SELECT i FROM n"))
    assert summary(found)[1] == "t: a; 1000003 rows"


def test_a_long_table_leaves_room_for_the_others_and_says_how_many_of_its_rows_are_here() -> None:
    script = "CREATE TABLE logs (a); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 120000) "
    found = view_of(sqlite(f"{script} INSERT INTO logs SELECT hex(zeroblob(50)) || i FROM n; {_USERS}"))
    logs, users = bodies(found).values()
    rows = logs.splitlines()[3:]
    assert 50_000 < len(rows) < 120_000
    assert logs.splitlines()[1] == f"Rows: 120000 rows, the first {len(rows)}"
    assert rows[-1] == f"{'00' * 50}{len(rows)}"
    assert users.splitlines()[-1] == "600"
    assert found.partial


def test_without_time_nothing_is_counted_and_nothing_is_false() -> None:
    found = extract_document(sqlite(), 0.0)
    assert found is None or "row" not in text_of(found)


# ------------------------------------------------------------------------------------------------ databases that lie


def test_any_bytes_in_a_database_give_a_sound_view_or_none_in_time() -> None:
    for seed in range(40):
        rng = random.Random(seed)
        with closing(random_database(rng)) as database:
            whole = database.serialize()
        for _ in range(10):
            data = bytearray(whole[: rng.choice((len(whole), rng.randrange(100, len(whole))))])
            for _ in range(rng.choice((1, 8, 60))):
                data[rng.choice((rng.randrange(len(data)), rng.randrange(16, 100)))] = rng.randrange(256)
            began = time.process_time()
            found = extract_document(bytes(data), 2.0)
            assert time.process_time() - began < 3.0
            if found is not None:
                check(found, bytes(data))


def schema_of(script: str, change: str) -> bytes:
    """A database whose schema says something else than what made it."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(f"PRAGMA page_size = 1024; {script}; PRAGMA writable_schema = ON; {change}")
        return database.serialize()


def test_a_schema_that_calls_a_table_what_it_is_not_runs_nothing() -> None:
    lies = (
        "UPDATE sqlite_master SET sql = 'CREATE TABLE t (a DEFAULT (load_extension(1)), b AS (load_extension(a)))'",
        "UPDATE sqlite_master SET sql = 'CREATE VIRTUAL TABLE t USING fts5(a)'",
        "UPDATE sqlite_master SET sql = 'CREATE VIEW t AS SELECT load_extension(1)', type = 'view', rootpage = 0",
        "UPDATE sqlite_master SET rootpage = 1",
        "UPDATE sqlite_master SET rootpage = 900",
        "UPDATE sqlite_master SET type = x'00', name = x'01'",
        "UPDATE sqlite_master SET sql = 'no statement'",
    )
    for lie in lies:
        payload = schema_of("CREATE TABLE t (a); INSERT INTO t VALUES ('x')", lie)
        found = extract_document(payload, 5.0)
        if found is not None:
            check(found, payload)
            assert "row" not in summary(found)[0]


def test_a_tree_of_pages_that_goes_round_in_a_circle_has_no_count() -> None:
    script = "CREATE TABLE t (a); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000) "
    payload = bytearray(schema_of(f"{script} INSERT INTO t SELECT hex(randomblob(30)) FROM n", "SELECT 1"))
    page = 1024
    root = next(n for n in range(1, len(payload) // page) if payload[n * page] == 5)
    count = struct.unpack_from(">H", payload, root * page + 3)[0]
    inner = next(n for n in range(root + 1, len(payload) // page) if payload[n * page] == 5)
    for target in (root + 1, inner + 1):
        changed = bytearray(payload)
        for cell_at in struct.unpack_from(f">{count}H", changed, root * page + 12):
            struct.pack_into(">I", changed, root * page + cell_at, target)
        began = time.process_time()
        found = extract_document(bytes(changed), 2.0)
        assert time.process_time() - began < 3.0
        if found is not None:
            check(found, bytes(changed))


def test_names_are_one_line_and_match_what_sections_are_called() -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        for name in ("two\nlines", " blank ", "## head", "p1", "x" * 6000):
            database.execute(f'CREATE TABLE "{name}" (a)')
        database.commit()
        found = view_of(database.serialize())
    titles = [each.title for each in found.sections]
    assert titles[:4] == [one_line(name) for name in ("two\nlines", " blank ", "## head", "p1")]
    assert titles[4].endswith("…")


def test_a_card_shows_the_whole_summary_before_rows() -> None:
    states = ", ".join(f"({n}, '{'disputed' if n == 871 else ('paid', 'open')[n % 2]}')" for n in range(1_400))
    tables = "".join(
        f"CREATE TABLE t{n} (a INTEGER, b TEXT, c REAL); INSERT INTO t{n} VALUES (1, 'x', 2);" for n in range(9)
    )
    data = sqlite(
        f"{tables}CREATE TABLE booking (id INTEGER, state TEXT COLLATE NOCASE); INSERT INTO booking VALUES {states};"
    )
    text = shown(Case(data), 600).text
    lines = bytes(view_of(data).text or b"").decode().split("\n")[:11]
    assert lines[10] == 'booking: id INTEGER, state TEXT; 1400 rows; state: "paid" 700, "open" 699, "disputed" 1'
    assert "\n".join(lines) in text
    assert "\n".join(lines) not in shown(Case(data), 200).text  # it would leave no room
