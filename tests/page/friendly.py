"""A service with made-up work of a few days in it, for pictures: a team that releases, supports, and tests at night."""

import contextlib
import math
import random
import sqlite3
from collections import Counter
from collections.abc import Generator
from pathlib import Path

from coatcheck.core.event import event_number
from page.conversations import conversation
from support.service import Service, serving

LOG = (Path(__file__).parents[2] / "examples" / "test-run.log").read_text()
RELEASE, SUPPORT, NIGHT = "release-1.4", "support-2291", "nightly-0311"
_MINUTES = {RELEASE: 4, SUPPORT: 190, NIGHT: 700}
"""How many minutes ago each session's last act was."""
_STRETCH = 3_000
"""How much slower a session was than the requests that made it."""
_HOUR = 3_600_000_000
_MOVE = """UPDATE artifacts SET created_at = created_at - ?1, read_at = read_at - ?1, expires_at = expires_at - ?1
    WHERE seq = ?2"""
_TERMS = {
    "": {"ttl": "30d", "max_ttl": "90d", "max_bytes": 10 * 1024**3, "evict": "least_recently_read"},
    "log": {"ttl": "7d", "card_tokens": 500},
}


@contextlib.contextmanager
def friendly(folder: Path) -> Generator[tuple[Service, dict[str, str], str]]:
    """The service, the IDs of some artifacts by name, and an administrator's key."""
    data = folder / "data"
    with serving(data, page="true") as service:
        _decide(service)
        _night(service)
        _support(service)
        kept = _release(service)
        body = {"name": "Ada", "scopes": ["admin", "delete", "ingest", "read"]}
        key = service.client.post("/v1/admin/keys", json=body).raise_for_status().json()["key"]
        for name, scopes in (("CI agents", ["ingest", "read"]), ("dashboard", ["read"])):
            more = {
                "name": name,
                "scopes": scopes,
                "ttl": "90d",
                "session_prefix": "nightly-" if "CI" in name else None,
            }
            given = {name: value for name, value in more.items() if value is not None}
            headers = {"authorization": f"Bearer {key}"}
            service.client.post("/v1/admin/keys", json=given, headers=headers).raise_for_status()
    _age(data / "coatcheck.db")
    with serving(data, page="true") as service:
        yield service, kept, key


def _release(service: Service) -> dict[str, str]:
    page = "<!doctype html><title>Rounding money</title><main><h1>Rounding money</h1>" + "".join(
        f"<h2>Rule {n}</h2><p>{text * 6}</p>"
        for n, text in enumerate(("Round half to even. ", "Convert once, at the end. ", "Never store a float. "), 1)
    )
    rounding = service.post(
        page + "</main>", session=RELEASE, tool_name="fetch", url="https://docs.example/money", media_type="text/html"
    )["id"]
    service.client.post(
        "/v1/search-results",
        json={
            "session": RELEASE,
            "query": "currency conversion rounding half even",
            "response": {
                "results": [
                    {
                        "title": title,
                        "url": f"https://{host}/rounding",
                        "content": f"{title}. " + "Half to even keeps sums unbiased, and is what banks expect. " * 8,
                    }
                    for title, host in (
                        ("Rounding half to even, explained", "numbers.example"),
                        ("How ledgers convert currencies", "ledger.example"),
                        ("Decimal arithmetic in practice", "docs.example"),
                    )
                ]
            },
        },
    ).raise_for_status()
    tests = service.post(LOG, session=RELEASE, tool_name="bash", title="pytest of the ledger", labels=["ci"])["id"]
    for path, asked in (("search", {"pattern": "AssertionError"}), ("read", {"offset": 330, "limit": 20})):
        service.client.get(f"/v1/artifacts/{tests}/{path}", params=asked).raise_for_status()
    linked = "".join(f"[{line}/4000] linked ledger/object_{line * 7}.o\n" for line in range(4_000))
    body = {
        "body": conversation("Build the release.", linked, "Now run the tests."),
        "session": RELEASE,
        "window": {"model": 20_000},
    }
    service.client.post("/v1/context/compact", json=body).raise_for_status()
    return {"tests": tests, "rounding": rounding}


def _support(service: Service) -> None:
    rows = "".join(
        f"{n},customer-{n % 40},{(n * 37) % 900}.{n % 100:02},{'open' if n % 9 else 'overdue'}\n" for n in range(800)
    )
    table = service.post(
        f"invoice,customer,amount,state\n{rows}",
        session=SUPPORT,
        tool_name="sql",
        title="Invoices of March",
        labels=["ticket"],
    )["id"]
    log = "".join(f"2026-03-11T09:{n // 60:02}:{n % 60:02}Z {_served(n)} id={n}\n" for n in range(1_500))
    service.post(log, session=SUPPORT, tool_name="kubectl", title="Log of the payment service")
    service.client.get(f"/v1/artifacts/{table}/search", params={"pattern": "overdue"}).raise_for_status()


def _served(number: int) -> str:
    return "ERROR payment gateway timed out" if number % 400 == 399 else "INFO request served"


def _night(service: Service) -> None:
    for number in range(60):
        jobs = ",".join(f'{{"id": {n}, "state": "{"failed" if n == 40 + number else "passed"}"}}' for n in range(300))
        service.post(
            f'{{"jobs": [{jobs}]}}',
            session=NIGHT,
            tool_name="ci_jobs",
            title=f"Jobs of pipeline {8756 + number}",
            labels=["nightly"],
            media_type="application/json",
        )


def _decide(service: Service) -> None:
    """Policies and a hold."""
    for kind, terms in _TERMS.items():
        scope = {"namespace": "default"} | ({"kind": kind} if kind else {})
        service.client.put("/v1/admin/policies", json=scope | {"policy": terms}).raise_for_status()
    service.client.post(
        "/v1/admin/holds", json={"session": SUPPORT, "reason": "Ticket 2291, until the customer has answered"}
    ).raise_for_status()


def _age(path: Path) -> None:
    """Moves what happened into the hours before now, and adds busy hours to the activity."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        (now,) = database.execute("SELECT strftime('%s', 'now') * 1000000").fetchone()
        for session, minutes in _MINUTES.items():
            stored = "SELECT seq, created_at FROM artifacts WHERE session = ?"
            rows = [(seq, at) for seq, at in database.execute(stored, (session,))]
            done = [number for (number,) in database.execute("SELECT number FROM events WHERE session = ?", (session,))]
            bits = event_number(1, 0).bit_length() - 1
            last = max([at for _, at in rows] + [number >> bits for number in done])
            end = now - minutes * 60_000_000
            for seq, at in rows:
                moved = at - (end - (last - at) * _STRETCH)
                database.execute(_MOVE, (moved, seq))
            for number in done:
                at = end - (last - (number >> bits)) * _STRETCH
                moved = (at << bits) | (number & ((1 << bits) - 1))
                database.execute("UPDATE events SET number = ? WHERE number = ?", (moved, number))
            database.execute("UPDATE session_usage SET at = ? WHERE session = ?", (end, session))
        _busy(database, now)


def _busy(database: sqlite3.Connection, now: int) -> None:
    """The day before, busiest in the afternoon: when, is made up; how many artifacts, is not."""
    rng = random.Random(14)
    (count,) = database.execute("SELECT count(*) FROM artifacts").fetchone()
    busy = [1.2 + math.sin(back / 24 * 2 * math.pi) for back in range(24)]
    came = Counter(rng.choices(range(24), busy, k=count))
    database.execute("DELETE FROM activity")
    for back, artifacts in came.items():
        raw, reads = artifacts * rng.randint(6_000, 14_000), artifacts * rng.randint(1, 3)
        counts = (artifacts, raw, artifacts * 420, reads, reads * 600, back % 3, back % 3 * 20_000, 0)
        hour = (now // _HOUR - back) * _HOUR
        for namespace in ("default", "*"):
            row = (namespace, hour, *counts)
            database.execute("INSERT INTO activity VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
