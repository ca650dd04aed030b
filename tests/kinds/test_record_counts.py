"""What the fields of records have: exact counts and ranges, in memory and streamed, against an independent count."""

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest

from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.kinds import recognise
from coatcheck.core.records.statistics import examine
from coatcheck.core.records.stream import JsonRecords
from coatcheck.core.survey import Surveyor
from core.sample_payloads import sample_of, survey_of

RULES = [f"E{number:03d}" for number in range(40) for _ in range(1 + 400 // (number + 1))]
RECORDS = [{"rule": rule, "row": n, "text": f"about {n}", "fix": {"safe": n % 3 == 0}} for n, rule in enumerate(RULES)]
LINES = "\n".join(map(json.dumps, RECORDS)).encode()
RULE_COUNTS = (
    "rule E000 401, E001 201, E002 134, E003 101, E004 81, E005 67, E006 58, E007 51, E008 45, E009 41, E010 37,"
    " E011 34, … 28 more values"
)
SAFE_COUNTS = "fix.safe false 1158, true 580"


def _facts(data: bytes) -> list[str]:
    facts = recognise(sample_of(data), DeclaredMetadata(), survey_of(data))
    return [line for line in facts.shape if line[0].isdigit()]


def _streamed(data: bytes, size: int, *, array: bool = False) -> list[str]:
    records = JsonRecords(array=array)
    for start in range(0, len(data), size):
        records.feed(data[start : start + size])
    return records.facts()


def test_values_are_counted_in_lines_and_in_arrays() -> None:
    for data in (LINES, json.dumps(RECORDS).encode(), json.dumps(RECORDS, indent=1).encode()):
        assert _facts(data) == [f"1738 $[*]: {RULE_COUNTS}; {SAFE_COUNTS}"]


def test_values_are_counted_in_a_list_inside_a_document() -> None:
    report = json.dumps({"tool": "lint", "results": RECORDS}).encode()
    assert _facts(report) == [f"1738 $.results[*]: {RULE_COUNTS}; {SAFE_COUNTS}"]


def test_of_two_members_that_tell_the_same_the_one_with_words_is_counted() -> None:
    rows = [
        {"row": n, "status": "Not Found" if n % 9 == 0 else "OK", "code": 404 if n % 9 == 0 else 200} for n in range(90)
    ]
    assert _facts(json.dumps(rows).encode()) == ['90 $[*]: status OK 80, "Not Found" 10']
    for n, each in enumerate(rows):  # as often, but not together
        each["code"] = 404 if n < 10 else 200
    assert _facts(json.dumps(rows).encode()) == ['90 $[*]: status OK 80, "Not Found" 10; code 200 80, 404 10']


def test_a_streamed_payload_is_counted_whole() -> None:
    many = RECORDS * 12
    for data in ("\n".join(map(json.dumps, many)).encode(), json.dumps(many).encode()):
        assert len(data) > 600_000
        (told,) = _facts(data)
        assert told.startswith(f"{len(many)} $[*]: rule E000 4812, E001 2412,")
        assert "fix.safe false 13896, true 6960" in told


def test_the_counts_are_the_same_however_the_text_is_split() -> None:
    for data in (
        LINES,
        json.dumps(RECORDS).encode(),
        b"rule,row\n" + b"".join(b"%s,1\n" % each.encode() for each in RULES),
    ):
        told: set[tuple[str, ...]] = set()
        for size in (len(data), 70_001, 4_096, 777):
            surveyor = Surveyor()
            for start in range(0, len(data), size):
                surveyor.feed(data[start : start + size])
            told.add(surveyor.finish().facts)
        ((fact,),) = told
        assert RULE_COUNTS in fact


def test_a_line_that_is_no_record_is_told_and_many_are_not_counted() -> None:
    assert _streamed(LINES + b"\n{cut", 1 << 20)[0].endswith("; 1 other line")
    assert _streamed(LINES + b"\nsome words" * 200, 1 << 20) == []


def test_what_breaks_off_or_goes_on_has_no_counts() -> None:
    whole = json.dumps(RECORDS).encode()
    assert _streamed(whole, 70_001, array=True)
    assert _streamed(whole[:-1], 70_001, array=True) == []
    assert _streamed(whole + b" and more", 70_001, array=True) == []
    assert _streamed(whole.replace(b"E003", b"E003\xff", 1), 70_001, array=True) == []


def test_sentences_and_different_texts_are_not_counted() -> None:
    records = [{"size": n % 90, "id": f"k{n}", "text": f"a sentence of words {n}"} for n in range(900)]
    assert _facts(json.dumps(records).encode()) == ["900 $[*]: size 0 to 89"]


def test_a_member_with_truth_values_among_others_is_not_counted() -> None:
    records = [*RECORDS, {"rule": True}]
    assert "rule" not in " ".join(_facts("\n".join(map(json.dumps, records)).encode()))


MAKERS: Final[dict[str, Callable[[random.Random], object]]] = {
    "words": lambda rng: rng.choice(["a", "b", "c", None, ""]),
    "numbers": lambda rng: rng.choice([1, 2.5, -7, None]),
    "numbers as text": lambda rng: rng.choice(["7", "1,204", " 8 ", "-0.5"]),
    "days": lambda rng: f"2026-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}",
    "many numbers": lambda rng: rng.randrange(100),
}


@pytest.mark.parametrize("name", MAKERS)
def test_statistics_of_a_field_are_those_of_plain_counting(name: str) -> None:
    rng = random.Random(name)
    for _ in range(20):
        values = [MAKERS[name](rng) for _ in range(rng.randint(1, 300))]
        held = [value for value in values if value not in {None, ""}]
        statistic = examine(values)
        assert statistic.present == len(held)
        assert statistic.counts == (Counter(held) if len({*held}) <= 64 else None)
        if name == "words" or not held:
            assert statistic.least is None
            continue
        keys = [str(each) if name == "days" else float(str(each).replace(",", "")) for each in held]
        order = sorted(range(len(held)), key=keys.__getitem__)
        assert statistic.least is not None
        assert statistic.greatest is not None
        for end, at in ((statistic.least, order[0]), (statistic.greatest, order[-1])):
            assert end.value == held[at]
            assert end.record == values.index(held[at])
            assert end.alone == (keys.count(keys[at]) == 1)
