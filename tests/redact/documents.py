"""Documents of many kinds with a planted text somewhere in them, as tools hand them over."""

import base64
import html
import json
from collections.abc import Callable
from random import Random
from typing import NamedTuple

_WORDS = tuple(
    word
    for line in (
        "the build of module parser started and finished after a while without any trouble because nothing had changed",
        "since the last time when somebody looked at it and wrote down what was left to do for the next release of it",
    )
    for word in line.split()
)
FRAME = 128 * 1024
SAMPLE = 256 * 1024


class Document(NamedTuple):
    """A payload."""

    kind: str
    data: bytes
    media_type: str | None = None
    title: str | None = None
    search: bool = False
    """Handed over as a web search's response."""


def make(kind: str, planted: list[str], random: Random) -> Document:
    """A document of a kind that holds the planted texts."""
    return _KINDS[kind](planted, random)


def kinds() -> list[str]:
    return list(_KINDS)


def _prose(random: Random, words: int) -> str:
    return " ".join(random.choice(_WORDS) for _ in range(words))


def _lines(random: Random, count: int) -> list[str]:
    return [_prose(random, random.randint(3, 14)) for _ in range(count)]


def _between(planted: list[str], lines: list[str], random: Random, form: str = "{}") -> str:
    for text in planted:
        lines.insert(random.randint(0, len(lines)), form.replace("{}", text))
    return "\n".join(lines) + "\n"


def _log(planted: list[str], random: Random) -> Document:
    lines = [f"2026-11-22T07:{n // 60 % 60:02}:{n % 60:02}Z INFO worker {_prose(random, 5)}" for n in range(120)]
    return Document("log", _between(planted, lines, random, "2026-11-22T08:00:00Z WARN {}").encode())


def _output(planted: list[str], random: Random) -> Document:
    return Document("output", _between(planted, ["$ make all", *_lines(random, 200)], random).encode())


def _code(planted: list[str], random: Random) -> Document:
    lines = [f"def function_{n}():\n    # {_prose(random, 6)}\n    return {n}" for n in range(60)]
    return Document("code", _between(planted, lines, random).encode(), title="settings.py")


def _diff(planted: list[str], random: Random) -> Document:
    head = "diff --git a/config b/config\n--- a/config\n+++ b/config\n@@ -1,20 +1,22 @@\n"
    flat = [text.replace("\n", "\n+") for text in planted]
    return Document(
        "diff", (head + _between(flat, [f" {line}" for line in _lines(random, 40)], random, "+{}")).encode()
    )


def _table(planted: list[str], random: Random) -> Document:
    rows = [f"{n}\t{_prose(random, 3)}\t{random.random():.4f}" for n in range(150)]
    flat = [text.replace("\n", " ") for text in planted]
    return Document("table", ("id\tnote\tvalue\n" + _between(flat, rows, random, "7\t{}\t0.5")).encode())


def _records(planted: list[str], random: Random) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = [{"id": n, "text": _prose(random, 8), "ok": n % 3 == 0} for n in range(60)]
    for text in planted:
        rows[random.randrange(len(rows))]["note"] = text
    return rows


def _json(planted: list[str], random: Random) -> Document:
    indent = random.choice((None, 2))
    return Document(
        "json", json.dumps({"items": _records(planted, random)}, indent=indent).encode(), "application/json"
    )


def _nested(planted: list[str], random: Random) -> Document:
    inner = json.dumps({"log": _records(planted, random)[:30] + [{"note": text} for text in planted]})
    return Document("nested", json.dumps({"status": 200, "body": inner}).encode(), "application/json")


def _keys(planted: list[str], random: Random) -> Document:
    made = {text: n for n, text in enumerate(planted)} | {f"key{n}": _prose(random, 3) for n in range(20)}
    return Document("keys", json.dumps({"map": made}).encode(), "application/json")


def _page(planted: list[str], random: Random) -> Document:
    quoted = random.random() < 0.5
    escaped = [html.escape(text, quote=quoted) for text in planted]
    parts = [f"<h2>{_prose(random, 4)}</h2><p>{_prose(random, 60)}</p>" for _ in range(12)]
    parts += [f"<p>{text}</p>" if random.random() < 0.7 else f"<h2>{text}</h2>" for text in escaped]
    random.shuffle(parts)
    title = escaped[0] if random.random() < 0.3 else "A page"
    return Document(
        "page",
        f"<html><head><title>{title}</title></head><body><article>{''.join(parts)}</article></body></html>".encode(),
        "text/html",
    )


def _results(planted: list[str], random: Random) -> Document:
    results = [
        {"title": _prose(random, 5), "url": f"https://example.com/{n}", "content": _prose(random, 120), "score": 0.5}
        for n in range(6)
    ]
    for text in planted:
        where = random.choice(("content", "content", "title"))
        hit = random.choice(results)
        hit[where] = f"{hit[where]} {text} {_prose(random, 6)}"
    return Document(
        "results", json.dumps({"query": "what is left", "results": results}).encode(), "application/json", search=True
    )


def _parts(planted: list[str], random: Random) -> Document:
    made = [{"type": "text", "text": _between([text], _lines(random, 30), random)} for text in planted]
    return Document(
        "parts",
        json.dumps({"content": [*made, {"type": "text", "text": _prose(random, 50)}]}).encode(),
        "application/json",
    )


def _markdown(planted: list[str], random: Random) -> Document:
    lines = [f"{'#' * random.randint(1, 3)} {_prose(random, 4)}\n\n{_prose(random, 40)}" for _ in range(15)]
    form = random.choice(("{}", "# {}", "- item {}", "```\n{}\n```"))
    return Document("markdown", _between(planted, lines, random, form).encode(), title="notes.md")


def _one_line(planted: list[str], random: Random) -> Document:
    pieces = [_prose(random, 40) for _ in range(60)]
    for text in planted:
        pieces.insert(random.randint(0, len(pieces)), text.replace("\n", "\\n"))
    return Document("one_line", " ".join(pieces).encode())


def _encoded(planted: list[str], random: Random) -> Document:
    forms = [base64.b64encode(f"{_prose(random, 3)} {text} {_prose(random, 2)}".encode()).decode() for text in planted]
    return Document("encoded", _between(forms, _lines(random, 60), random, "payload: {}").encode())


def _large(planted: list[str], random: Random) -> Document:
    """Over the sample, with secrets across the ends of frames and of the sample's parts."""
    size = random.choice((3 * FRAME, 5 * FRAME, 7 * FRAME)) + random.randint(0, 5000)
    filler = ("\n".join(_lines(random, 400)) + "\n").encode()
    data = bytearray((filler * (size // len(filler) + 1))[:size])
    edges = [FRAME, SAMPLE, size - SAMPLE + 9_000, size // 2 + 20_000, size - 3_000]
    for text, edge in zip(planted, random.sample(edges, len(planted)), strict=True):
        piece = f"\n{text}\n".encode()
        at = max(0, min(size - len(piece), edge - random.randint(0, len(piece))))
        data[at : at + len(piece)] = piece
    return Document("large", bytes(data))


_KINDS: dict[str, Callable[[list[str], Random], Document]] = {
    "log": _log,
    "output": _output,
    "code": _code,
    "diff": _diff,
    "table": _table,
    "json": _json,
    "nested": _nested,
    "keys": _keys,
    "page": _page,
    "results": _results,
    "parts": _parts,
    "markdown": _markdown,
    "one_line": _one_line,
    "encoded": _encoded,
    "large": _large,
}


_PREFIX = "bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t"
_GRAM = 12
"""Characters of a secret that must not come out; of a shorter one, all."""


def leaked(secret: str, text: str) -> str | None:
    """A part of the secret that stands in the text."""
    plain = secret.strip("\"' ")
    if len(plain) <= _GRAM:
        return plain if len(plain) >= 8 and plain in text else None
    for at in range(0, len(plain) - _GRAM + 1, 3):
        gram = plain[at : at + _GRAM]
        if gram in text and not _common(gram):
            return gram
    return None


def _common(gram: str) -> bool:
    """What every secret of a kind has, and texts have besides."""
    return (
        gram.startswith(("-----", "https://", "http://", "api_org_", "bundle_"))
        or len(set(gram)) < 5
        or gram in _PREFIX
    )
