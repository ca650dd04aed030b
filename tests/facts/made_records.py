"""Lists of records in every format: reports of tests, lists of resources, tables in columns, blocks of pairs, SARIF."""

import csv
import io
import json
import random
from collections.abc import Iterator
from xml.sax.saxutils import quoteattr

import yaml

from coatcheck.core.artifact import DeclaredMetadata
from facts.cases import Case
from facts.found_records import xml_lists, yaml_lists
from facts.says_json import JsonOracle
from facts.says_records import Records, RecordsOracle
from facts.says_tables import TableOracle, rows_of

_SAID = (DeclaredMetadata(), DeclaredMetadata(tool_name="bash"), DeclaredMetadata(tool_name="read_file"))
_MESSAGES = (
    "expected 7, but was 8",
    'key "total" is missing',
    "connection refused by größe.example:5432 after three attempts",
    "assertion failed: " + "the order of the rows is not the one that was wanted, " * 4,
)


def _failing(rng: random.Random, count: int) -> frozenset[int]:
    share = rng.choice([0, 0, 0.02, 0.1, 0.4])
    return frozenset(n for n in range(count) if rng.random() < share)


def reports(rng: random.Random, count: int) -> Iterator[Case]:
    """Reports of tests in XML: of one suite or of suites in suites, or with a result at each test."""
    for number in range(count):
        lines = ['<?xml version="1.0" encoding="utf-8"?>'] if rng.random() < 0.7 else []
        size = rng.randint(3, 150)
        bad = _failing(rng, size)
        if number % 3 == 2:
            lines += _results(rng, size, bad)
            name = "test-case"
        else:
            lines += _suites(rng, size, bad, nested=number % 3 == 1)
            name = "testcase"
        text = "\n".join(lines).encode()
        oracle = RecordsOracle(*xml_lists(text, {name: bad}))
        yield Case(text, (oracle, _element_outline), rng.choice(_SAID))


def _element_outline(line: str) -> bool:
    return line.startswith(("Outline", "Sections"))


def _suites(rng: random.Random, size: int, bad: frozenset[int], *, nested: bool) -> list[str]:
    lines, inner = ["<testsuites>"], 0
    number = 0
    while number < size:
        if nested and not inner:
            lines.append(f'<testsuite name="outer {number}">')
        inner = (inner + 1) % 3
        cases = range(number, min(size, number + rng.randint(1, 40)))
        failures = len(bad.intersection(cases))
        lines.append(f'<testsuite name="suite {number}" tests="{len(cases)}" failures="{failures}">')
        for each in cases:
            start = f'<testcase classname="shop.part{each % 4}" name="test_{each}" time="{rng.random() * 9:.3f}"'
            if each not in bad:
                lines.append(f"{start}/>")
                continue
            message = rng.choice(_MESSAGES)
            tag = rng.choice(["failure", "failure", "error"])
            lines += [f"{start}>", f"<{tag} message={quoteattr(message)}>Traceback", f"x == y</{tag}>", "</testcase>"]
        lines.append("</testsuite>")
        number = cases.stop
        if nested and (not inner or number >= size):
            lines.append("</testsuite>")
            inner = 0
    return [*lines, "</testsuites>"]


def _results(rng: random.Random, size: int, bad: frozenset[int]) -> list[str]:
    lines = [f'<test-run id="2" total="{size}"><test-suite name="all" type="Assembly">']
    for each in range(size):
        result = "Failed" if each in bad else rng.choice(["Passed", "Passed", "Skipped"])
        lines.append(f'<test-case fullname="Shop.T{each}" result="{result}" duration="{each * 7 % 90 / 8}">')
        if each in bad:
            lines.append(f"<failure><message>{rng.choice(_MESSAGES[::2])}</message></failure>")
        lines.append("</test-case>")
    return [*lines, "</test-suite></test-run>"]


def manifests(rng: random.Random, count: int) -> Iterator[Case]:
    """A list of resources as YAML, some of which are not well."""
    for _ in range(count):
        items: list[dict[str, object]] = []
        for n in range(rng.randint(3, 80)):
            bad = rng.random() < 0.04
            state: dict[str, object] = {"phase": "Failed" if bad else "Running", "restarts": rng.randrange(3)}
            if bad:
                state |= {"reason": rng.choice(["CrashLoopBackOff", "OOMKilled"]), "restarts": 57}
            metadata: dict[str, object] = {"name": f"web-{n}", "labels": {"app": rng.choice(["shop", "desk", "a: b"])}}
            items.append({"kind": "Pod", "metadata": metadata, "status": state})
        text = yaml.safe_dump(
            {"apiVersion": "v1", "items": items, "kind": "List"}, sort_keys=False, allow_unicode=True, width=1000
        )
        yield Case(text.encode(), (RecordsOracle(*yaml_lists(text)), _element_outline), rng.choice(_SAID))


def columns(rng: random.Random, count: int) -> Iterator[Case]:
    """Tables in columns of fixed width, as `kubectl get` prints them."""
    for _ in range(count):
        names = ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
        size = rng.randint(4, 200)
        bad = _failing(rng, size)
        rows = [
            [
                f"web-{n}-{rng.randrange(16**4):04x}",
                "0/1" if n in bad else "1/1",
                "Error" if n in bad else "Running",
                str(rng.choice([0, 0, 1, 9]) if n not in bad else 57),
                f"{rng.randint(1, 90)}d",
            ]
            for n in range(size)
        ]
        widths = [max(len(row[at]) for row in [names, *rows]) + 3 for at in range(len(names))]
        lines = [
            "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in [names, *rows]
        ]
        oracle = RecordsOracle(rows_of(names, rows, range(2, len(lines) + 1), bad))
        yield Case("\n".join([*lines, ""]).encode(), (oracle,), rng.choice(_SAID[:2]))


def pairs(rng: random.Random, count: int) -> Iterator[Case]:
    """Blocks of `Key: value` lines with a blank line between them."""
    for _ in range(count):
        lines: list[str] = []
        where: list[str] = []
        held: dict[str, list[object]] = {"Name": [], "State": [], "Size": [], "Note": []}
        for n in range(rng.randint(3, 90)):
            where.append(f"line {len(lines) + 1}")
            values = [f"disk {n}", rng.choice(["active", "active", "idle", "failed"]), str(n * 37 % 1_000), ""]
            for (name, column), value in zip(held.items(), values, strict=True):
                column.append(value or None)
                lines.append(f"{name}: {value}".rstrip())
            lines.append("")
        yield Case(
            "\n".join(lines).encode(),
            (RecordsOracle(Records("item", held, where)), _element_outline),
            rng.choice(_SAID[:2]),
        )


def sarif(rng: random.Random, count: int) -> Iterator[Case]:
    """Findings of one run or of several."""
    for _ in range(count):
        rules = [f"S{n}" for n in range(rng.randint(1, 30))]
        runs: list[dict[str, object]] = []
        for n in range(rng.choice([1, 1, 2, 5])):
            results = [
                {
                    "ruleId": rng.choice(rules),
                    "level": rng.choice(["error", "warning", "note"]),
                    "message": {"text": rng.choice(_MESSAGES)},
                    "locations": [
                        {
                            "physicalLocation": {
                                "artifactLocation": {"uri": f"src/{k % 7}.py"},
                                "region": {"startLine": k},
                            }
                        }
                    ],
                }
                for k in range(rng.randint(0, 60))
            ]
            runs.append(
                {
                    "tool": {"driver": {"name": f"lint {n}", "rules": [{"id": each} for each in rules]}},
                    "results": results,
                }
            )
        value: dict[str, object] = {"version": "2.1.0", "runs": runs}
        data = json.dumps(value, indent=rng.choice([None, 2]), ensure_ascii=False).encode()
        yield Case(data, (JsonOracle(value),), rng.choice(_SAID), document=value)


def keyed(rng: random.Random, count: int) -> Iterator[Case]:
    """Objects whose keys are the names of alike objects."""
    for number in range(count):
        entries: dict[str, object] = {
            rng.choice(["user_{}", "a/b.{}", "größe {}"]).format(n): {
                "state": rng.choice(["ok", "ok", "ok", "failed"]),
                "took": n * 7 % 50 / 4,
                "roles": [{"name": f"role {k}", "scope": rng.choice("ab")} for k in range(rng.randrange(3))],
            }
            for n in range(rng.randint(3, 120))
        }
        value: object = {"total": len(entries), "users": entries} if number % 2 else entries
        yield Case(
            json.dumps(value, ensure_ascii=False).encode(), (JsonOracle(value),), rng.choice(_SAID), document=value
        )


def streamed(rng: random.Random, count: int) -> Iterator[Case]:
    """More than is held in memory: JSON lines, an array, a table, a document, XML."""
    for number in range(count):
        records: list[dict[str, object]] = [
            {
                "id": n,
                "state": rng.choice(["up", "up", "up", "late", None]),
                "took": n * 7 % 1_000 / 8,
                "at": f"2026-03-{1 + n % 28:02d}T10:00:{n % 60:02d}Z",
                "by": {"team": rng.choice(["desk", "shop"])},
                "text": "x" * rng.randrange(60),
            }
            for n in range(6_000)
        ]
        if number % 5 == 0:
            lines = [*map(json.dumps, records)]
            lines.insert(rng.randrange(3_000), "-- cut --")
            yield Case("\n".join(lines).encode(), (JsonOracle(records, "lines", len(lines)),), document=records)
        elif number % 5 == 1:
            yield Case(json.dumps(records).encode(), (JsonOracle(records, "large"),), document=records)
        elif number % 5 == 2:
            out = io.StringIO()
            rows = [[each["id"], each["state"], each["took"], each["at"], each["text"]] for each in records]
            csv.writer(out, lineterminator="\n").writerows([["id", "state", "took", "at", "text"], *rows])
            data = out.getvalue() + "".join(out.getvalue().splitlines(keepends=True)[1:])
            yield Case(data.encode(), (TableOracle(data.encode(), ","),))
        elif number % 5 == 3:
            value: dict[str, object] = {"status": "late", "items": records}
            yield Case(json.dumps(value).encode(), (JsonOracle(value, "large"),), document=value)
        else:
            text = "\n".join(_results(rng, 8_000, frozenset([17, 4_000]))).encode()
            oracle = RecordsOracle(*xml_lists(text, {"test-case": frozenset([17, 4_000])}))
            yield Case(text, (oracle, _element_outline), DeclaredMetadata())
