"""Payloads of which a card looks at the ends and at a survey: facts say of what they are, or hold for all of it."""

import json
import random
from collections.abc import Iterator

from coatcheck.core.artifact import DeclaredMetadata, Kind
from facts.cases import Case
from facts.made_git import large_diff, numbered_commits
from facts.made_json import findings
from facts.made_source import source_case
from facts.says_json import JsonOracle
from facts.says_source import python_symbols
from facts.says_tables import TableOracle


def large(rng: random.Random, count: int) -> Iterator[Case]:
    """About 600 KB each."""
    makers = (_table, _records, _source, _lines, _report, large_diff, _findings, _array)
    for number in range(count):
        yield makers[number % len(makers)](rng)


def _table(rng: random.Random) -> Case:
    rows = "".join(f"{n},thing {n},{rng.randrange(900)}\n" for n in range(40_000))
    data = f"id,name,price\n{rows}".encode()
    return Case(data, (TableOracle(data, ","),), kinds=(Kind.TABLE,))


def _records(rng: random.Random) -> Case:
    value = {
        "status": "late",
        "items": [{"id": n, "tags": ["a", "b"], "x": rng.random()} for n in range(14_000)],
        "end": 1,
    }
    return Case(json.dumps(value).encode(), (JsonOracle(value, "large"),), kinds=(Kind.JSON,), document=value)


def _report(rng: random.Random) -> Case:
    files = {f"src/part_{n}.py": {"lines": n, "skipped": rng.randrange(9)} for n in range(9_000)}
    results = [{"rule": f"B{n % 40}", "text": "x" * rng.randrange(90)} for n in range(4_000)]
    value = {"version": "2.1", "runs": [{"tool": {"name": "lint"}, "files": files, "results": results}]}
    return Case(json.dumps(value, indent=1).encode(), (JsonOracle(value, "large"),), kinds=(Kind.JSON,), document=value)


def _lines(rng: random.Random) -> Case:
    values = [{"id": n, "by": {"name": "x" * rng.randrange(9)}} for n in range(20_000)]
    data = "\n".join(map(json.dumps, values)).encode()
    return Case(data, (JsonOracle(values, "lines", len(values)),), kinds=(Kind.JSON,), document=values)


def _findings(rng: random.Random) -> Case:
    return next(findings(rng, 1, least=6_000, most=7_000))


def _array(rng: random.Random) -> Case:
    values = [{"id": n, "state": rng.choice(["up", "up", "late"]), "x": {"y": n % 3 > 1}} for n in range(14_000)]
    return Case(json.dumps(values).encode(), (JsonOracle(values, "large"),), kinds=(Kind.JSON,), document=values)


def _source(rng: random.Random) -> Case:
    text = "".join(f"def work_{n}(a):\n    return a + {rng.randrange(99)}\n\n\n" for n in range(3_000))
    return source_case(text, python_symbols(text), DeclaredMetadata(title="shop.py"))


def long_log(rng: random.Random) -> Case:
    """More commits than an outline looks for."""
    return numbered_commits(rng, 6_000)
