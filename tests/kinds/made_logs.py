"""Logs as programs write them, with made contents: the styles are those of the programs that they are named after."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from coatcheck.core.artifact import Kind
from kinds.corpus import Source

_WORDS: Final = [
    "connection",
    "request",
    "worker",
    "queue",
    "cache",
    "session",
    "user",
    "token",
    "file",
    "index",
    "batch",
    "job",
    "shard",
    "replica",
    "lock",
    "pool",
    "upstream",
    "client",
    "handler",
    "payload",
    "schema",
    "table",
    "snapshot",
    "checkpoint",
    "message",
    "topic",
    "offset",
    "node",
    "volume",
]
_VERBS: Final = [
    "opened",
    "closed",
    "started",
    "finished",
    "retried",
    "accepted",
    "rejected",
    "flushed",
    "loaded",
    "saved",
    "expired",
    "skipped",
]
_LEVELS: Final = ("INFO", "INFO", "INFO", "DEBUG", "WARN", "ERROR")
Line = Callable[[Random, datetime], str]


def _said(rng: Random) -> str:
    form = rng.randrange(4)
    word, verb = rng.choice(_WORDS), rng.choice(_VERBS)
    if form == 0:
        return f"{word} {verb}"
    if form == 1:
        return f"{word} {rng.randrange(9999)} {verb} in {rng.random() * 900:.2f}ms"
    if form == 2:
        return f"{verb} {word}: {word}_id={rng.randrange(10**6)} path=/srv/{word}/{rng.randrange(99)}"
    return f"{word.capitalize()} {verb} by {rng.choice(_WORDS)}-{rng.randrange(20)} (attempt {rng.randrange(5)})"


def _ip(rng: Random) -> str:
    return ".".join(str(rng.randrange(1, 255)) for _ in range(4))


def _access(rng: Random, at: datetime) -> str:
    path = f"/{rng.choice(_WORDS)}/{rng.randrange(999)}"
    agent = rng.choice(("Mozilla/5.0 (X11; Linux x86_64)", "curl/8.5.0", "python-requests/2.32"))
    return (
        f'{_ip(rng)} - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "{rng.choice(("GET", "POST"))} {path} HTTP/1.1" '
        f'{rng.choice((200, 200, 304, 404, 500))} {rng.randrange(9999)} "https://example.org{path}" "{agent}"'
    )


def _klog(rng: Random, at: datetime) -> str:
    return (
        f"{rng.choice('IIIWE')}{at:%m%d %H:%M:%S.%f}       1 {rng.choice(_WORDS)}.go:{rng.randrange(900)}] {_said(rng)}"
    )


def _java(rng: Random, at: datetime) -> str:
    if rng.random() < 0.04:
        frames = "".join(
            f"\n\tat com.example.{rng.choice(_WORDS)}.{rng.choice(_WORDS).capitalize()}.run(App.java:{n})"
            for n in range(rng.randrange(3, 12))
        )
        return f"{at:%Y-%m-%d %H:%M:%S,%f}"[:-3] + f" ERROR [main] c.e.App - java.io.IOException: {_said(rng)}{frames}"
    return f"{at:%Y-%m-%d %H:%M:%S,%f}"[:-3] + f" {rng.choice(_LEVELS):5} [pool-1-thread-3] c.e.App - {_said(rng)}"


def _iso(rng: Random, at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S.%fZ} {_said(rng)}"


def _compose(rng: Random, at: datetime) -> str:
    name = rng.choice(("web-1    ", "db-1     ", "worker-1 "))
    return f"{name} | {at:%Y-%m-%d %H:%M:%S} UTC [{rng.randrange(99)}] LOG:  {_said(rng)}"


def _compose_bare(rng: Random, at: datetime) -> str:
    del at
    name = rng.choice(("api_1     ", "postgres_1", "cache_1   "))
    return f"{name} | {rng.choice(_LEVELS)}: {_said(rng)}"


STYLES: Final[dict[str, Line]] = {
    "access log": _access,
    "klog": _klog,
    "log4j": _java,
    "container, ISO times": _iso,
    "compose": _compose,
    "compose without times": _compose_bare,
    "syslog": lambda r, t: (
        f"{t:%b %d %H:%M:%S} host-{r.randrange(3)} {r.choice(_WORDS)}[{r.randrange(9999)}]: {_said(r)}"
    ),
    "syslog, ISO times": lambda r, t: (
        f"{t:%Y-%m-%dT%H:%M:%S.%f+00:00} host {r.choice(_WORDS)}[{r.randrange(9999)}]: {_said(r)}"
    ),
    "python logging": lambda r, t: (
        f"{t:%Y-%m-%d %H:%M:%S},123 - app.{r.choice(_WORDS)} - {r.choice(_LEVELS)} - {_said(r)}"
    ),
    "python basicConfig": lambda r, _: f"{r.choice(_LEVELS)}:app.{r.choice(_WORDS)}:{_said(r)}",
    "logfmt": lambda r, t: (
        f'time={t:%Y-%m-%dT%H:%M:%SZ} level={r.choice(_LEVELS).lower()} msg="{_said(r)}" n={r.randrange(9)}'
    ),
    "uvicorn": lambda r, _: (
        f'INFO:     {_ip(r)}:{r.randrange(60000)} - "GET /{r.choice(_WORDS)} HTTP/1.1" {r.choice((200, 404))} OK'
    ),
    "nginx error": lambda r, t: (
        f"{t:%Y/%m/%d %H:%M:%S} [error] {r.randrange(99)}#{r.randrange(99)}: *1 {_said(r)}, from {_ip(r)}"
    ),
    "kernel": lambda r, t: f"[{t.second * 1000 + r.random():12.6f}] {r.choice(_WORDS)}: {_said(r)}",
    "go log": lambda r, t: f"{t:%Y/%m/%d %H:%M:%S} {_said(r)}",
    "postgres": lambda r, t: f"{t:%Y-%m-%d %H:%M:%S}.{r.randrange(999):03} UTC [{r.randrange(999)}] LOG:  {_said(r)}",
    "rust tracing": lambda r, t: f"{t:%Y-%m-%dT%H:%M:%S.%fZ}  INFO app::{r.choice(_WORDS)}: {_said(r)}",
    "coloured": lambda r, t: f"\x1b[2m{t:%H:%M:%S}\x1b[0m \x1b[32m{r.choice(_LEVELS)}\x1b[0m {_said(r)}",
    "bracketed time": lambda r, t: f"[{t:%H:%M:%S}] [Server thread/{r.choice(_LEVELS)}]: {_said(r)}",
    "maven": lambda r, _: f"[{r.choice(('INFO', 'INFO', 'WARNING', 'ERROR'))}] {_said(r)}",
    "glog, epoch": lambda r, t: f"{t.timestamp():.3f} {r.choice(_LEVELS)} {r.choice(_WORDS)} {_said(r)}",
    "taskcluster": lambda r, t: f"[task {t:%Y-%m-%dT%H:%M:%S.%fZ}] {t:%H:%M:%S}     INFO - {_said(r)}",
}


def logs(each: int = 6) -> Iterator[Source]:
    """A few of every style, of different lengths, with here and there a line that has no stamp."""
    for style, line in STYLES.items():
        for number in range(each):
            rng = Random(f"{style}/{number}")
            at = datetime(2026, 3, 1, 8, tzinfo=UTC) + timedelta(days=rng.randrange(200))
            lines: list[str] = []
            loose = rng.choice((0.0, 0.0, 0.1, 0.3))
            for _ in range(rng.choice((8, 40, 300, 1500))):
                at += timedelta(milliseconds=rng.randrange(5000))
                lines.append(line(rng, at))
                if rng.random() < loose:
                    lines.append(f"  {_said(rng)}")
            yield Source(Kind.LOG, f"log: {style}", f"{style}/{number}", ("\n".join(lines) + "\n").encode())


def json_lines(each: int = 6) -> Iterator[Source]:
    """Logs whose every line is a JSON document: JSON, because that is how they are read."""
    for number in range(each):
        rng = Random(f"ndjson/{number}")
        at = datetime(2026, 3, 1, tzinfo=UTC)
        rows = [
            json.dumps({"ts": at.isoformat(), "level": rng.choice(_LEVELS), "msg": _said(rng), "n": rng.random()})
            for _ in range(rng.choice((10, 300, 2000)))
        ]
        yield Source(Kind.JSON, "json log", f"json log/{number}", "\n".join(rows).encode())
