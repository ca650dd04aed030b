"""Facts on cards, held against what other programs say of the same payload: json, csv, and plain counting."""

import csv
import io
import json
import random
import re
from collections import Counter
from typing import cast

import pytest

from coatcheck.core.artifact import Kind, Said
from coatcheck.core.kinds import recognise
from core.matter import sample_of

MANY = 300


def facts_of(data: bytes, kind: Kind | None = None) -> tuple[str, ...]:
    return recognise(sample_of(data), Said(kind=kind)).shape


def value(rng: random.Random, depth: int) -> object:
    if depth and rng.random() < 0.5:
        if rng.random() < 0.5:
            return [value(rng, depth - 1) for _ in range(rng.randrange(5))]
        return {f"k{rng.randrange(9)}": value(rng, depth - 1) for _ in range(rng.randrange(5))}
    return rng.choice([None, True, 7, -1.5, "failed", "größe", "", "a, b; c=d", "x" * 90])


@pytest.mark.parametrize("batch", range(4))
def test_values_and_keys_of_json_are_those_of_the_document(batch: int) -> None:
    rng = random.Random(batch)
    for _ in range(MANY):
        document = {f"top{n}": value(rng, 3) for n in range(rng.randint(1, 6))}
        facts = facts_of(json.dumps(document).encode(), Kind.JSON)
        named: set[str] = set()
        for line in facts:
            for name, shown in re.findall(r'(top\d(?:\.k\d)?)=("(?:[^"\\]|\\.)*"|[^,]+)', line):
                place: object = document
                for key in name.split("."):
                    place = dict(members(place))[key]
                assert json.loads(shown) == place
            for key, length in re.findall(r"\b(top\d|k\d)\[(\d+)\]", line if line.startswith("$") else ""):
                assert int(length) in lengths(document, key)
            named.update(re.findall(r"\b(?:top|k)\d\b", line))
        assert named <= keys(document)


def members(document: object) -> list[tuple[str, object]]:
    """The members of an object by name, the items of a list without one; nothing of anything else."""
    if isinstance(document, dict):
        return list(cast("dict[str, object]", document).items())
    return [("", item) for item in cast("list[object]", document)] if isinstance(document, list) else []


def keys(document: object) -> set[str]:
    return {name for name, _ in members(document) if name}.union(*(keys(member) for _, member in members(document)))


def lengths(document: object, key: str) -> set[int]:
    named = [member for name, member in members(document) if name == key]
    own = {len(members(cast("object", member))) for member in named if isinstance(member, list)}
    return own.union(*(lengths(member, key) for _, member in members(document)))


@pytest.mark.parametrize("batch", range(4))
def test_rows_and_columns_of_tables_are_those_that_csv_reads(batch: int) -> None:
    rng = random.Random(100 + batch)
    for _ in range(MANY // 3):
        width, height = rng.randint(2, 8), rng.randint(3, 60)
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([f"column_{n}" for n in range(width)])
        for row in range(height):
            writer.writerow(
                [rng.choice([row, row / 2, f"word{row}", 'a "quoted"\nword', "x, y"]) for _ in range(width)]
            )
        data = out.getvalue()
        facts = facts_of(data.encode(), Kind.TABLE)
        counted = re.match(r"(\d+) rows? below a header, (\d+) columns", facts[0]) if facts else None
        if counted:
            rows = list(csv.reader(io.StringIO(data)))
            assert (int(counted[1]), int(counted[2])) == (len(rows) - 1, width)


@pytest.mark.parametrize("batch", range(4))
def test_tallies_are_those_of_plain_counting(batch: int) -> None:
    rng = random.Random(200 + batch)
    for _ in range(MANY // 3):
        levels = rng.choices(["INFO", "DEBUG", "WARN", "ERROR"], [9, 3, 2, 1], k=rng.randint(20, 400))
        mark = rng.choice(["{} ", "[{}] ", " {}: "])
        rows = [f"2026-03-0{n % 9 + 1} 10:00:{n % 60:02d}{mark.format(each)}said {n}" for n, each in enumerate(levels)]
        told = [fact for fact in facts_of("\n".join(rows).encode()) if fact.startswith("Levels: ")]
        for fact in told:
            assert dict(re.findall(r"([A-Z]+) (\d+)", fact)) == {k: str(v) for k, v in Counter(levels).items()}
    files = [f"src/{rng.choice('abc')}{rng.randrange(4)}.py" for _ in range(80)]
    matches = "\n".join(f"{name}:{n + 1}: value = {n}" for n, name in enumerate(files))
    (fact,) = [fact for fact in facts_of(matches.encode()) if fact.startswith("Lines by file: ")]
    assert dict(re.findall(r"(src/\S+) (\d+)", fact)) == {k: str(v) for k, v in Counter(files).items()}
