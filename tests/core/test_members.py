"""The members of a large JSON object are found wherever they stand, however it was split, and are never guessed."""

import json
import random
from typing import cast

import pytest

from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.survey.members import Members, ObjectMember
from core.sample_payloads import card_of

KEYS = 'abcdefgh"\\ü,'


def members_of(data: bytes, size: int) -> tuple[ObjectMember, ...]:
    members = Members()
    for at in range(0, len(data), size):
        members.feed(data[at : at + size])
    return members.found()


def value(rng: random.Random, depth: int = 0) -> object:
    choice = rng.random()
    if depth < 3 and choice < 0.25:
        return [value(rng, depth + 1) for _ in range(rng.randrange(5))]
    if depth < 3 and choice < 0.5:
        return {rng.choice(KEYS) * rng.randrange(1, 4): value(rng, depth + 1) for _ in range(rng.randrange(5))}
    return rng.choice([1, 2.5, None, True, "x", 'a,b]}"\\', "ü{[", "", " " * 500])


@pytest.mark.parametrize("size", [1, 3, 7, 50, 100_000])
def test_members_are_those_that_a_parser_finds(size: int) -> None:
    rng = random.Random(size)
    for _ in range(400):
        whole = {rng.choice(KEYS) * rng.randrange(5): value(rng) for _ in range(rng.randrange(1, 6))}
        indent, ascii_only = rng.choice([None, 1]), rng.random() < 0.5
        data = json.dumps(whole, indent=indent, ensure_ascii=ascii_only).encode() + rng.choice([b"", b"\n"])
        found = members_of(data, size)
        assert [member.name for member in found] == list(whole)
        for member in found:
            expected = whole[member.name]
            assert member.elements == (len(cast("list[object]", expected)) if isinstance(expected, list) else None)
            if member.value is not None:
                assert json.loads(member.value) == expected
            else:
                assert isinstance(expected, list | dict) or len(json.dumps(expected)) > 300
            if member.members:
                (only,) = cast("list[dict[str, object]]", expected if isinstance(expected, list) else [expected])
                assert [each.name for each in member.members] == list(only)


@pytest.mark.parametrize(
    "data", [b'{"a":1}{"b":2}', b'{"a":1}\n{"b":2}', b'{"a":1', b"[1]", b"{a:1}", b'{"a":1}}', b'{"a":tru}', b"", b"{}"]
)
def test_what_is_no_single_whole_object_has_no_members(data: bytes) -> None:
    assert members_of(data, 3) == ()


def test_of_a_map_of_very_many_nothing_is_said() -> None:
    assert members_of(json.dumps({f"k{n}": n for n in range(20_000)}).encode(), 65_536) == ()
    many = members_of(json.dumps({f"k{n}": n for n in range(199)}).encode(), 65_536)
    assert [member.value for member in many] == [str(n) for n in range(199)]


def test_a_card_of_a_large_document_names_what_stands_behind_its_longest_list() -> None:
    records = [{"id": n, "state": "ok"} for n in range(40_000)]
    data = json.dumps({"run": 77, "items": records, "status": "failed", "more": records}).encode()
    text = card_of(data, DeclaredMetadata(), 600)[1]
    assert 'run=77, status="failed"' in text
    assert "$: run, items[40000], status, more[40000]" in text
    assert "$.items[*]: id, state" in text


def test_the_members_of_what_is_most_of_a_document_are_found_however_deep_it_stands() -> None:
    results = [{"rule": n} for n in range(70_000)]
    run = {"tool": {"name": "lint"}, "files": {f"f{n}": n for n in range(60_000)}, "results": results, "ok": False}
    data = json.dumps({"version": 2, "runs": [run]}).encode()
    (_, runs) = members_of(data, 524_288)
    assert [(each.name, each.elements) for each in runs.members] == [
        ("tool", None),
        ("files", None),
        ("results", 70_000),
        ("ok", None),
    ]
    card, text, _ = card_of(data, DeclaredMetadata(), 600)
    assert "$.runs[0]: tool, files, results[70000], ok" in text
    assert card.next is not None
    assert card.next.arguments["path"] == "$.runs[0].results[0:20]"
    assert members_of(json.dumps({"version": 2, "runs": [run, run]}).encode(), 524_288)[1].members == ()
