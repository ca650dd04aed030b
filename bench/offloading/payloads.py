"""Outputs of real programs, each with a question, the word to look for, and an answer that was fixed beforehand.

Everything is made when it is asked for, by programs that are in the environment or that every Linux machine has; where
one is missing, its payload is left out and named. What the programs work on is chosen here, what they print is not.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from errno import ENOENT
from pathlib import Path
from typing import Final

import httpx

BIN: Final = Path(sys.executable).parent
PACKAGES: Final = Path(httpx.__file__).parents[1]
OPENAPI: Final = Path(__file__).parents[2] / "openapi" / "openapi.json"
STANDARD: Final = Path(subprocess.__file__).parent


@dataclass(frozen=True)
class Question:
    """A payload, and what somebody wants to know of it."""

    name: str
    """What printed the payload."""
    payload: str
    question: str
    word: str
    """What a reader looks for: it stands in the question, or is what every such output calls the thing."""
    answer: str
    """Literally in the payload."""


@dataclass(frozen=True)
class _Made:
    name: str
    question: str
    word: str
    answer: str
    make: Callable[[Path], str]


def questions(folder: Path) -> Iterator[Question]:
    """Runs every program in a folder of its own.

    Raises:
        ValueError: a program no longer prints the answer.
    """
    for number, made in enumerate(_ALL):
        place = folder / str(number)
        place.mkdir()
        try:
            payload = made.make(place)
        except FileNotFoundError as missing:
            print(f"{made.name}: left out, for {missing.filename} is not here")
            continue
        if made.answer not in payload:
            raise ValueError(f"{made.name} does not print {made.answer!r}: {payload[:300]}")
        yield Question(made.name, payload, made.question, made.word, made.answer)


def _printed(place: Path, *words: str | Path) -> str:
    """What a program prints, standard error in its place.

    Raises:
        FileNotFoundError: it is not here.
    """
    env = {"PATH": f"{BIN}:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(place), "COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=place,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
    )
    return done.stdout.decode(errors="replace")


_TESTS: Final = """
import pytest
@pytest.mark.parametrize("order", range(900))
def test_total(order):
    total = order * 3
    assert total == (order * 3 if order != 611 else 1834), f"order {order}"
"""


def _test_run(place: Path) -> str:
    (place / "test_orders.py").write_text(_TESTS)
    return _printed(place, "python", "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "no:xdist", "test_orders.py")


def _unit_tests(place: Path) -> str:
    cases = "".join(
        f"    def test_{n}(self): self.assertEqual({n} % 13, {n if n == 287 else n % 13})\n" for n in range(600)
    )
    head = "import unittest\nclass Wheel(unittest.TestCase):\n"
    (place / "wheel.py").write_text(f"{head}{cases}unittest.main(verbosity=2)\n")
    return _printed(place, "python", "wheel.py")


def _build(place: Path) -> str:
    """A C compiler over 80 files, of which one cannot be compiled; make goes on (`-k`)."""
    if shutil.which("cc") is None:
        raise FileNotFoundError(ENOENT, "no C compiler", "cc")
    for n in range(80):
        wrong = "    return missing_symbol(left);\n" if n == 53 else f"    return left + {n};\n"
        text = f"#include <stdio.h>\nint part_{n}(int left, int unused) {{\n    int spare = left;\n{wrong}}}\n"
        (place / f"part_{n}.c").write_text(text)
    objects = " ".join(f"part_{n}.o" for n in range(80))
    (place / "Makefile").write_text(f"CFLAGS = -Wall -Wextra -Werror=implicit-function-declaration\nall: {objects}\n")
    return _printed(place, "make", "-k")


_WORKER: Final = """
import logging, random
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
draw, log, routes = random.Random(4), logging.getLogger("worker"), {n: n * 7 for n in range(5000) if n != 3117}
def deliver(parcel):
    return routes[parcel]
for parcel in range(5000):
    try:
        log.info("parcel %d goes by route %d in %.1f ms", parcel, deliver(parcel), draw.random() * 40)
    except KeyError:
        log.exception("a parcel has no route")
"""


def _log(place: Path) -> str:
    (place / "worker.py").write_text(_WORKER)
    return _printed(place, "python", "worker.py")


def _access_log(place: Path) -> str:
    """The lines of Python's web server for 1,500 requests, one of them for a file that is not there."""
    (place / "pages").mkdir()
    for n in range(50):
        (place / "pages" / f"{n}.html").write_text(f"<p>{n}</p>")
    script = (
        "import functools, http.server, threading, urllib.error, urllib.request as u\n"
        "make = functools.partial(http.server.SimpleHTTPRequestHandler, directory='pages')\n"
        "server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), make)\n"
        "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "for n in range(1500):\n"
        "    name = 'invoice-77' if n == 903 else n % 50\n"
        "    try: u.urlopen(f'http://127.0.0.1:{server.server_port}/{name}.html').read()\n"
        "    except urllib.error.HTTPError: pass\n"
    )
    return _printed(place, "python", "-c", script)


def _diff(place: Path) -> str:
    """What a formatter would change in a package whose quotes and line lengths are others."""
    shutil.copytree(PACKAGES / "httpx", place / "httpx", ignore=shutil.ignore_patterns("__pycache__"))
    return _printed(place, "ruff", "format", "--isolated", "--diff", "--line-length", "60", "httpx")


def _page(place: Path) -> str:
    _printed(place, "python", "-m", "pydoc", "-w", "http.client")
    return (place / "http.client.html").read_text()


_UNICODE: Final = """
import csv, sys, unicodedata
table = csv.writer(sys.stdout)
table.writerow(["code point", "name", "category", "bidirectional", "mirrored"])
for n in range(0x20, 0x3000):
    name = unicodedata.name(chr(n), "")
    if name:
        row = unicodedata.category(chr(n)), unicodedata.bidirectional(chr(n)), unicodedata.mirrored(chr(n))
        table.writerow([f"U+{n:04X}", name, *row])
"""


def _schema(place: Path) -> str:
    """A database's tables and columns, as SQLite knows them."""
    script = (
        "import sqlite3, json, sys\n"
        "base = sqlite3.connect(':memory:')\n"
        "base.executescript(sys.argv[1])\n"
        "base.row_factory = sqlite3.Row\n"
        "rows = base.execute('select name, sql from sqlite_master').fetchall()\n"
        "columns = {n: [dict(c) for c in base.execute(f'pragma table_info({n})')] for n, _ in rows}\n"
        "print(json.dumps([{**dict(row), 'columns': columns[row['name']]} for row in rows]))\n"
    )
    tables = "".join(
        f"create table ledger_{n} (id integer primary key, opened text not null, amount numeric default {n * 3});"
        for n in range(200)
    )
    return _printed(place, "python", "-c", script, tables)


def _openapi(place: Path) -> str:
    """The document of a service's interface, as it answers it: one line of JSON."""
    script = "import json, sys; print(json.dumps(json.load(open(sys.argv[1]))))"
    return _printed(place, "python", "-c", script, OPENAPI)


def _ran(*words: str | Path) -> Callable[[Path], str]:
    """A payload that a program prints without anything made for it."""
    return lambda place: _printed(place, *words)


_ALL: Final = (
    _Made("pytest -v", "Which test failed?", "FAILED", "test_total[611] FAILED", _test_run),
    _Made("unittest -v", "With which values did a test fail?", "FAIL", "1 != 287", _unit_tests),
    _Made("make -k with gcc", "Where does a file not compile?", "error", "part_53.c:4:12: error", _build),
    _Made("a worker's log", "Which key was missing when it failed?", "Error", "KeyError: 3117", _log),
    _Made("a web server's log", "Which page was not found?", "404", '/invoice-77.html HTTP/1.1" 404', _access_log),
    _Made(
        "grep -rn",
        "To what is DEFAULT_MAX_REDIRECTS set?",
        "DEFAULT_MAX_REDIRECTS",
        "DEFAULT_MAX_REDIRECTS = 20",
        _ran("grep", "-rn", "--include=*.py", "max\\|MAX", PACKAGES / "httpx", STANDARD / "http"),
    ),
    _Made(
        "ruff rule, JSON",
        "Which code has the rule blind-except?",
        "blind-except",
        '"code": "BLE001"',
        _ran("ruff", "rule", "--all", "--output-format", "json"),
    ),
    _Made(
        "OpenAPI, one line", "Which operation is at /v1/events?", "/v1/events", '"operationId": "listEvents"', _openapi
    ),
    _Made("a schema, one line", "What is the default amount of ledger_137?", "ledger_137", "default 411", _schema),
    _Made("an HTML page", "What is raised for a status that is not understood?", "status", "BadStatusLine", _page),
    _Made("CSV", "Which code point is the SNOWMAN?", "SNOWMAN", "U+2603,SNOWMAN", _ran("python", "-c", _UNICODE)),
    _Made(
        "a diff",
        "How is the signature of _build_redirect_request written after it?",
        "_build_redirect_request",
        "+    def _build_redirect_request(",
        _diff,
    ),
    _Made("ls -lR", "How big is _multipart.py?", "_multipart.py", " _multipart.py", _ran("ls", "-lR", PACKAGES)),
    _Made(
        "a manual",
        "Which exception does a timeout raise?",
        "timeout",
        "TimeoutExpired",
        _ran("python", "-m", "pydoc", "subprocess"),
    ),
)
