"""SQLite databases: odd names and types, no rows and many, views, triggers, indexes."""

# ruff: noqa: S608 - names of tables that are made here

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing

from facts.says_views import database

_NAMES = ("users", "order items", 'say "x"', "größe", "select", "a; b", "UPPER", "t,1", "back`tick")
_COLUMNS = (
    "id INTEGER PRIMARY KEY",
    '"full name" TEXT',
    "price REAL",
    '"order" INT',
    "made DATE",
    "note",
    '"a; b" BLOB',
    "big BIGINT UNSIGNED",
    "v VARCHAR(10)",
    "state TEXT",
    '"is paid" INT',
)
_RECURRING = {"state TEXT": ("open", "paid", 'say "x", 1', "größe"), '"is paid" INT': (0, 1, 1, 1, None)}
_VALUES = (None, 7, -1, "word", "two\nlines", "tab\there", "ü", "x" * 300, b"\x00\x01\x02", "", 2**40)


def databases(rng: random.Random, count: int) -> Iterator[tuple[bytes, sqlite3.Connection]]:
    """Files of databases, each with a connection to the same. The connection is closed with the next."""
    for _ in range(count):
        names = rng.sample(_NAMES, rng.randint(1, 5))
        columns = {name: [_COLUMNS[0], *rng.sample(_COLUMNS[1:], rng.randint(1, 5))] for name in names}
        with closing(database(columns)) as connection:
            for name in names:
                quoted = '"' + name.replace('"', '""') + '"'
                rows = [
                    (None, *(rng.choice(_RECURRING.get(column, _VALUES)) for column in columns[name][1:]))
                    for _ in range(rng.choice([0, 1, 2, 49, 50, 51, 400]))
                ]
                connection.executemany(f"INSERT INTO {quoted} VALUES ({', '.join('?' * len(columns[name]))})", rows)
                if rng.random() < 0.3:
                    connection.execute(f"DELETE FROM {quoted} WHERE id % 3 = 0")
            if names and rng.random() < 0.5:
                quoted = '"' + names[0].replace('"', '""') + '"'
                connection.execute(f"CREATE VIEW seen AS SELECT * FROM {quoted}")
                connection.execute(f"CREATE INDEX by_id ON {quoted} (id)")
                connection.execute(f"CREATE TRIGGER told AFTER INSERT ON {quoted} BEGIN SELECT 1; END")
            connection.commit()
            yield connection.serialize(), connection
