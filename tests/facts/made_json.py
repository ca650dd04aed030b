"""JSON of random shapes: documents, arrays, lines, notebooks, and what is cut off or broken."""

import json
import random
from collections.abc import Iterator
from typing import cast

from coatcheck.core.artifact import DeclaredMetadata, Kind
from facts.cases import Case
from facts.says_json import JsonOracle

_KEYS = (
    "id",
    "name",
    "status",
    "a b",
    "x.y",
    "größe",
    "",
    "k=v",
    "p, q",
    'say "hi"',
    "z" * 90,
    "items",
    "error",
    "[0]",
)


def documents(rng: random.Random, count: int) -> Iterator[Case]:
    """Objects and arrays, compact or indented."""
    for number in range(count):
        value = _document(rng, number)
        indent = rng.choice([None, None, 1, 2])
        data = json.dumps(value, indent=indent, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
        if rng.random() < 0.1:
            data = b"\xef\xbb\xbf" + data
        said = rng.choice(
            [DeclaredMetadata(), DeclaredMetadata(media_type="application/json"), DeclaredMetadata(tool_name="run")]
        )
        if data.decode("utf-8-sig").lstrip()[:2] in {"{}", "[]"} or len(data) < 40:
            said = DeclaredMetadata(media_type="application/json")
        yield Case(data, (JsonOracle(value),), said, document=value)


def _document(rng: random.Random, number: int) -> object:
    form = number % 7
    if form == 0:
        return {rng.choice(_KEYS) + rng.choice(["", str(n)]): _value(rng, 3) for n in range(rng.randint(1, 9))}
    if form == 1:
        return [_record(rng, n) for n in range(rng.randint(1, 40))]
    if form == 2:
        return {"request": f"r-{number}", "items": [_record(rng, n) for n in range(rng.randint(1, 90))], "status": "ok"}
    if form == 3:  # a map: its keys are data
        return {"users": {f"user{n}": {"age": n, "name": "x"} for n in range(rng.randint(30, 90))}, "total": 7}
    if form == 4:
        return {"data": {"nodes": [{"edges": [_value(rng, 1)] * rng.randrange(4)} for _ in range(rng.randint(1, 9))]}}
    return _states(rng) if form == 5 else [_value(rng, 2) for _ in range(rng.randint(1, 30))]


def _states(rng: random.Random) -> object:
    states, messages = (
        ["up", "up", "late", *["failed"] * rng.randrange(2)],
        ["refused", 'a "b", 3', "größe " * 40, 7, None],
    )
    records = [{"state": rng.choice(states), **_record(rng, n)} for n in range(rng.randint(8, 60))]
    for record in records:
        if rng.random() < 0.7:
            record[rng.choice(["message", "message", "Reason", "title"])] = rng.choice(messages)
    records[rng.randrange(len(records))]["state"] = rng.choice(["down", "failed", True, 7])
    return {"runs": records} if rng.random() < 0.5 else records


def _record(rng: random.Random, number: int) -> dict[str, object]:
    record: dict[str, object] = {
        "id": number,
        "name": f"thing {number}",
        "owner": {"login": "ann", "tags": ["a"] * rng.randrange(3)},
    }
    if rng.random() < 0.2:
        record[rng.choice(_KEYS)] = _value(rng, 1)
    return record


def _value(rng: random.Random, depth: int) -> object:
    if depth and rng.random() < 0.5:
        if rng.random() < 0.5:
            return [_value(rng, depth - 1) for _ in range(rng.randrange(5))]
        return {rng.choice(_KEYS) + str(rng.randrange(4)): _value(rng, depth - 1) for _ in range(rng.randrange(5))}
    return rng.choice(
        [
            None,
            True,
            False,
            0,
            7,
            -1.5,
            1e300,
            2**53 + 1,
            10**17,
            0.1,
            "failed",
            "größe",
            "",
            "a, b; c=d",
            "x" * 90,
            'q"\\u',
            "l\n2",
        ]
    )


def large_arrays(rng: random.Random, count: int) -> Iterator[Case]:
    """Hundreds of records that are all alike but for one, somewhere."""
    for number in range(count):
        records = [
            {"id": n, "tags": ["a", "b"], "by": {f"k{m}": m for m in range(3)}} for n in range(rng.randint(300, 900))
        ]
        odd = rng.randrange(len(records))
        if number % 2:
            records[odd]["tags"] = ["a"] * 5
        else:
            cast("dict[str, object]", records[odd]["by"]).update({f"new{m}": m for m in range(50)})
        value = {"total": len(records), "records": records}
        yield Case(json.dumps(value).encode(), (JsonOracle(value),), kinds=(Kind.JSON,), document=value)


def lines(rng: random.Random, count: int) -> Iterator[Case]:
    """A document in every line."""
    for _ in range(count):
        values = [_record(rng, n) for n in range(rng.randint(3, 80))]
        text = "\n".join(json.dumps(value) for value in values) + rng.choice(["", "\n"])
        yield Case(text.encode(), (JsonOracle(values, "lines", len(values)),), kinds=(Kind.JSON,), document=values)


def findings(rng: random.Random, count: int, *, least: int = 8, most: int = 700) -> Iterator[Case]:
    """Records of which some rules and files lead, as lines or an array; some lines may be no record."""
    rules, files = [f"R{n}" for n in range(rng.randint(3, 90))], [f"src/ä {n}/b.py" for n in range(rng.randint(2, 40))]
    for number in range(count):
        values: list[object] = [_finding(rng, n, rules, files) for n in range(rng.randint(least, most))]
        if number % 2:
            text = json.dumps(values, indent=rng.choice([None, 2]), separators=rng.choice([None, (",", ":")]))
            yield Case(text.encode(), (JsonOracle(values, "document"),), kinds=(Kind.JSON,), document=values)
            continue
        lines = [json.dumps(value, ensure_ascii=rng.random() < 0.5) for value in values]
        if number % 4 == 0 and len(lines) > 50:
            lines.insert(rng.randint(40, len(lines)), rng.choice(['{"rule": "R1"', "--", '{"rule": NaN}']))
        oracle = JsonOracle(values, "lines", len(lines))
        yield Case("\n".join(lines).encode(), (oracle,), kinds=(Kind.JSON,), document=values)


def _finding(rng: random.Random, number: int, rules: list[str], files: list[str]) -> dict[str, object]:
    rule = rules[min(int(rng.expovariate(0.2)), len(rules) - 1)]
    return {
        "file": rng.choice(files[: 1 + number % len(files)]),
        "rule": rng.choice([rule, rule, rule, None]) if number % 97 else rng.choice(["", 'say "hi", 3', "R 1, … 2"]),
        "at": {"row": number, "column": rng.randrange(5)} if rng.random() < 0.9 else None,
        "text": f"{rule} breaks {number}",
        "fixable": rng.random() < 0.3,
        **({"level": rng.choice(["low", "high", 3])} if rule == "R2" else {}),
        **({"rule": rng.choice([True, 7])} if number == 660 else {}),
    }


def broken(rng: random.Random, count: int) -> Iterator[Case]:
    """What was cut off, or is not quite JSON."""
    for number in range(count):
        value = {
            "meta": {"page": 1, "size": 50},
            "items": [_record(rng, n) for n in range(rng.randint(5, 60))],
            "end": 1,
        }
        text = json.dumps(value, indent=rng.choice([None, 2]))
        text = (
            text[: rng.randint(len(text) // 3, len(text) - 1)] if number % 2 else text.replace('"end": 1', '"end": NaN')
        )
        yield Case(text.encode(), (JsonOracle(value, "broken"),), document=value)


def notebooks(rng: random.Random, count: int) -> Iterator[Case]:
    """Notebooks of some cells, in which some have failed."""
    for _ in range(count):
        cells: list[dict[str, object]] = []
        for n in range(rng.randint(1, 60)):
            source = rng.choice(
                [
                    f"x = {n}\nprint(x)",
                    ["import os\n", "os.getcwd()"],
                    "",
                    f"# Part {n}; and more",
                    "\n\nlate()",
                    "y" * 200,
                ]
            )
            outputs: list[dict[str, str]] = []
            if rng.random() < 0.1:
                outputs = [
                    {"output_type": "stream"},
                    {"output_type": "error", "ename": "KeyError", "evalue": f"'k{n}'"},
                ]
            cells.append({"cell_type": rng.choice(["code", "markdown"]), "source": source, "outputs": outputs})
        value: dict[str, object] = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        yield Case(json.dumps(value, indent=1).encode(), (JsonOracle(value),), kinds=(Kind.JSON,), document=value)


def packed(value: object) -> bytes:
    """A document without blanks."""
    return json.dumps(value, separators=(",", ":")).encode()
