"""Changes in a body's bytes: the values are those of an edited body, and every other byte stays."""

import json
import random
from typing import Any

import pytest

from coatcheck.core.context.body.splice import Pointer, Splice, apply_edits, splice_body

Json = Any
KEYS = ("a", "b", 'q"', "back\\slash", "é", "日本", "", "messages")
SCALARS: tuple[Json, ...] = ("x", 'a"b\\', "é{}[],:", "\\u0041", 1, 1.0, None, True, "", 10**30, -1e-9)


def value(rng: random.Random, depth: int = 0) -> Json:
    kind = rng.random()
    if depth > 4 or kind < 0.3:
        return rng.choice(SCALARS)
    if kind < 0.65:
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    return {rng.choice(KEYS) + rng.choice(("", "1")): value(rng, depth + 1) for _ in range(rng.randint(0, 4))}


def pointers(body: Json, at: Pointer = ()) -> list[Pointer]:
    found = [at]
    if isinstance(body, dict):
        for key, below in body.items():  # pyright: ignore[reportUnknownVariableType] - any JSON
            found += pointers(below, (*at, str(key)))  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(body, list):
        for number, below in enumerate(body):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            found += pointers(below, (*at, number))
    return found


def apart(rng: random.Random, body: Json) -> dict[Pointer, Json]:
    """New values at places of which none is inside another."""
    places = pointers(body)
    rng.shuffle(places)
    chosen: list[Pointer] = []
    for at in places[: rng.randint(0, 5)]:
        if not any(at[: len(other)] == other or other[: len(at)] == at for other in chosen):
            chosen.append(at)
    return {at: value(rng, 3) for at in chosen}


def written(rng: random.Random, body: Json) -> bytes:
    blanks: tuple[str, str] = rng.choice(((",", ":"), (" , ", "\t:\n"), (", ", ": ")))
    text = json.dumps(body, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 1, 3)), separators=blanks)
    return rng.choice((b"", b" \n")) + text.encode() + rng.choice((b"", b"\r\n "))


def test_any_values_are_set_in_any_body() -> None:
    rng = random.Random(33)
    changed = 0
    for _ in range(3_000):
        body = value(rng)
        edits = apart(rng, body)
        data = written(rng, body)
        new = splice_body(data, edits)
        assert json.loads(new) == apply_edits(body, edits)
        changed += new != data
    assert changed > 1_000


def test_what_is_not_set_keeps_its_bytes() -> None:
    data = (
        b' {"n": [1.0, 1e5 ,-0.0, 12345678901234567890123,1E+2],\n"s":"\\u0041\\/\xc3\xa9" , "k\\u0065y":"old",'
        b'"o" :{ "z":1,"a":2 } }\n'
    )
    assert splice_body(data, {("key",): "new", ("o", "z"): {"b": [1]}}) == data.replace(b'"old"', b'"new"').replace(
        b'"z":1', b'"z":{"b":[1]}'
    )
    assert splice_body(data, {}) is data


@pytest.mark.parametrize(
    ("data", "new"),
    [
        (b'{"a":"one","b":0,"a":"two"}', b'{"a":"one","b":0,"a":"NEW"}'),
        (b'{"a":12,"a":1}', b'{"a":12,"a":"NEW"}'),
        (b'{"a":[1,{"a":"]"}],"a":"x","b":{"a":3}}', b'{"a":[1,{"a":"]"}],"a":"NEW","b":{"a":3}}'),
    ],
)
def test_of_a_key_that_is_there_twice_the_last_counts(data: bytes, new: bytes) -> None:
    assert splice_body(data, {("a",): "NEW"}) == new
    assert json.loads(new)["a"] == "NEW"


def test_elements_are_left_out_with_one_separator_each() -> None:
    data = b'{"m": [ {"n":0} , {"n":1},{"n":2},\n{"n":3} ,{"n":4} ], "x":1.0}'
    for gone in ((0,), (1, 2), (0, 4), (3, 4), (0, 1, 2, 3, 4)):
        edits: dict[Pointer, Json] = {("x",): 2}
        if 3 not in gone:
            edits["m", 3, "n"] = "k"
        new = splice_body(data, edits, Splice(("m",), gone, "note"))
        kept: list[Json] = [{"n": "k" if n == 3 else n} for n in range(5) if n not in gone]
        kept.insert(gone[0], "note")
        assert json.loads(new) == {"m": kept, "x": 2}
    assert (
        splice_body(data, {}, Splice(("m",), (1, 2), "note"))
        == b'{"m": [ {"n":0} , "note",\n{"n":3} ,{"n":4} ], "x":1.0}'
    )
    assert splice_body(b"[1,2]", {}, Splice((), (1,), 3)) == b"[1,3]"


def test_halves_of_surrogate_pairs_stay_where_nothing_is_set() -> None:
    data = b'{"a":"\\ud83d cut","b":["\\udc00",{"c":"\\ud83d\\ude00 old"}]}'
    decodable = data.replace(b"\\ud83d cut", b"\\ufffd cut").replace(b"\\udc00", b"\\ufffd")
    new = splice_body(data, {("b", 1, "c"): "é"}, decodable=decodable)
    assert new == data.replace(b'"\\ud83d\\ude00 old"', '"é"'.encode())


def test_millions_of_escapes_are_passed_over() -> None:
    long = 'said "no"\\\n' * 300_000
    data = json.dumps({"a": [long, {"b": "old", "c": long}], "d": 1}).encode()
    assert splice_body(data, {("a", 1, "b"): "new"}) == data.replace(b'"old"', b'"new"')
