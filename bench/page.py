"""The administrator's page over a million artifacts; and what people who look at it cost those who put."""

import asyncio
import sqlite3
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

from bench import page_beside
from bench.wire import Timings
from support.service import Service, serving

MANY = 1_000_000
DAYS = 90
PER_SESSION = 100
TIMES = 15


def run(count: int = MANY) -> None:
    """Print the times of pages, then what puts are like beside them."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with serving(data, page="true") as service:
            _samples(service)
        fill(data / "coatcheck.db", count)
        with serving(data, page="true") as service:
            rare = service.post("INFO the rare one\n", tool_name="rare", session="rare")["id"]
            _pages(service, count, rare)
            asyncio.run(page_beside.compare(service))


def _samples(service: Service) -> None:
    """One artifact of each sort, which `fill` repeats."""
    for n in range(20):
        tool = ("bash", "fetch", "read_file", "sql")[n % 4]
        label = ["nightly"] if n % 10 == 0 else []
        sample = "".join(f"{line} INFO request {n} took {line % 7} ms\n" for line in range(40))
        service.post(sample, tool_name=tool, session="sample", title=f"{tool} run {n}", labels=label)


def fill(path: Path, count: int) -> None:
    """Repeat the artifacts of a store until there are about `count`, over the last DAYS, with sums that agree."""
    database = sqlite3.connect(path)
    now = datetime.now(UTC)  # noqa: TID251 - a benchmark's own clock
    since = int((now - timedelta(days=DAYS)).timestamp() * 1e6)
    step = DAYS * 86_400 * 1_000_000 // count
    kept = database.execute("SELECT count(*) FROM artifacts").fetchone()[0]
    columns = {
        table: [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        for table in ("blobs", "inline_bytes", "artifacts")
    }
    made = {
        "blobs": {"seq": "n", "id": "printf('%032x', n)", "digest": "random()", "sha256": "randomblob(32)"},
        "inline_bytes": {"blob_seq": "n"},
        "artifacts": {
            "seq": "n",
            "blob_seq": "n",
            "number": "(n * 7919 * 104729) % 1000000000000000000",
            "identity": "randomblob(32)",
            "session": f"'s' || (n / {PER_SESSION})",
            "created_at": f"{since} + n * {step}",
            "read_at": f"{since} + n * {step}",
            "expires_at": f"{since} + n * {step} + {2 * DAYS * 86_400 * 1_000_000}",
            "ttl": str(2 * DAYS * 86_400),
        },
    }
    _numbers(database, kept, count)
    for table, values in made.items():
        key = "blob_seq" if table == "inline_bytes" else "seq"
        chosen = ", ".join(values.get(name, f"{table}.{name}") for name in columns[table])
        database.execute(f"INSERT INTO {table} SELECT {chosen} FROM n JOIN {table} ON {key} = 1 + n % {kept}")
    _sums(database)
    database.commit()
    database.execute("ANALYZE")
    database.close()


def _numbers(database: sqlite3.Connection, first: int, last: int) -> None:
    database.execute("CREATE TEMP TABLE n (n INTEGER PRIMARY KEY)")
    database.executemany("INSERT INTO n VALUES (?)", ((n,) for n in range(first + 1, last + 1)))


def _sums(database: sqlite3.Connection) -> None:
    """Usage, the accounts of sessions and the hours, as the artifacts have them."""
    tokens = "sum(json_extract(measure, '$.tokens.count'))"
    hour = "created_at - created_at % 3600000000"
    database.executescript(f"""
        DELETE FROM session_usage; DELETE FROM activity;
        UPDATE usage SET artifacts = (SELECT count(*) FROM artifacts), bytes = (SELECT sum(stored_size) FROM blobs);
        INSERT INTO session_usage (namespace, session, artifacts, raw_tokens, given_tokens, reads, read_tokens,
            compactions, unsent_tokens, since, at, batch) SELECT namespace, session, count(*), {tokens}, {tokens} / 8,
            0, 0, 0, 0, min(created_at), max(created_at), 0 FROM artifacts GROUP BY namespace, session;
        INSERT INTO activity (namespace, hour, artifacts, raw_tokens, given_tokens, reads, read_tokens, compactions,
            unsent_tokens, batch) SELECT namespace, {hour}, count(*), {tokens}, {tokens} / 8, 0, 0, 0, 0, 0
            FROM artifacts GROUP BY namespace, {hour};
        INSERT INTO activity (namespace, hour, artifacts, raw_tokens, given_tokens, reads, read_tokens, compactions,
            unsent_tokens, batch) SELECT '*', hour, artifacts, raw_tokens, given_tokens, 0, 0, 0, 0, 0 FROM activity;
    """)


def _pages(service: Service, count: int, rare: str) -> None:
    """Each page's first time, its median and its worst; and how many artifacts it lists."""
    middle = (datetime.now(UTC) - timedelta(days=DAYS / 2)).strftime("%Y-%m-%dT%H:%M")  # noqa: TID251 - as above
    pages = {
        "overview, 24 hours": "/",
        "overview, 90 days": "/?range=90d",
        "artifacts": "/ui/artifacts",
        "artifacts, of a tool": _list(tool_name="bash"),
        "artifacts, of a kind": _list(kind="code_or_file"),
        "artifacts, of a label (1 in 10)": _list(label="nightly"),
        "artifacts, of an old session": _list(session="s77"),
        "artifacts, of a tool that no artifact has": _list(tool_name="nobody"),
        "artifacts, stored before the middle": _list(created_before=middle),
        "artifacts, stored after the middle": _list(created_after=middle),
        "artifacts, by a word": _list(q="rare"),
        "sessions": "/ui/sessions",
        "a session": "/ui/session?name=s77",
        "an artifact": f"/ui/artifacts/{rare}",
        "usage": "/ui/usage",
    }
    print(f"of {count:,} artifacts, ms | {'first':>6} {'median':>6} {'worst':>6} | artifacts listed")
    for name, path in pages.items():
        times, listed = Timings(), 0
        for _ in range(TIMES):
            began = time.perf_counter()
            answer = service.client.get(path)
            times.each.append(time.perf_counter() - began)
            assert answer.status_code == 200, answer.text
            listed = answer.text.count('name="id"')
        first = 1000 * times.each[0]
        print(f"{name:<41} | {first:6.0f} {times.at(0.5):6.0f} {times.at(1.0):6.0f} | {listed}", flush=True)


def _list(**filters: str) -> str:
    return f"/ui/artifacts?{urlencode(filters)}"
