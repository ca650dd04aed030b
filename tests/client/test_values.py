"""Whatever a tool returns can be put: nothing is raised, and nothing of it is lost, with a service and without."""

import base64
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import io
import json
import pathlib
import random
import re
import types
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pydantic
import pytest
from langchain_core.messages import HumanMessage
from typing_extensions import override

from client.transports import Scripted, answers, refuses
from coatcheck_client import AsyncClient, Client, Retries, ServiceError
from support.service import Service

VALUES = 2_000
AWAY = "http://127.0.0.1:1"


class AgentText(str):
    """As agent frameworks have it: text that is more than text."""

    __slots__ = ("extra",)

    @override
    def __str__(self) -> str:
        return "not what it holds"


class Whole(int):
    """An int that is another type."""


@dataclasses.dataclass
class Fields:
    name: str
    value: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Slots:
    name: str
    value: Any


class Structured(msgspec.Struct):
    name: str
    value: Any


class Modelled(pydantic.BaseModel):
    name: str
    value: Any


class Named(NamedTuple):
    name: str
    value: Any


class Colour(enum.Enum):
    RED = "the colour red"


class Mute:
    """Fails whenever it is asked for anything."""

    @override
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class Liar:
    """Fails when it is asked what it is."""

    @property
    @override
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError("no")


class Given(NamedTuple):
    """A value, and the texts that must not be lost of it."""

    value: Any
    texts: tuple[str, ...]


def text_of(chance: random.Random) -> str:
    letters = 'abc xyz\n\t"\\{}[]é漢😀\u2028\x00\x1b\ud83d'
    return "".join(chance.choices(letters, k=chance.choice([0, 1, 7, 60])))


def leaf(chance: random.Random) -> Given:
    text, number = text_of(chance), chance.randrange(-(10**20), 10**20)
    data = chance.randbytes(chance.choice([0, 3, 40]))
    return chance.choice(
        [
            Given(text, (text,)),
            Given(AgentText(text), (text,)),
            Given(HumanMessage(text.replace("\ud83d", "")).text, (text.replace("\ud83d", ""),)),
            Given(number, (str(number),)),
            Given(Whole(number), (str(number),)),
            Given(10**5_000, (hex(10**5_000),)),
            Given(chance.choice([True, False, None]), ()),
            Given(chance.random(), ()),
            Given(chance.choice([float("nan"), float("inf"), -float("inf"), 1e300]), ()),
            Given(np.int64(number % 2**62), (str(number % 2**62),)),
            Given(np.arange(3), ("[0 1 2]",)),
            Given(data, (data.decode("latin-1"),)),
            Given(bytearray(b"words " + data), ("words " + data.decode("latin-1"),)),
            Given(memoryview(b"words"), ("words",)),
            Given(dt.datetime(2026, 1, 2, tzinfo=dt.UTC), ("2026-01-02",)),
            Given(decimal.Decimal("1.50"), ("1.50",)),
            Given(fractions.Fraction(1, 3), ("1/3",)),
            Given(uuid.UUID(int=7), ("00000007",)),
            Given(pathlib.PurePosixPath("/a/b"), ("/a/b",)),
            Given(Colour.RED, ("RED",)),
            Given(ValueError("went wrong"), ("went wrong",)),
            Given(KeyError(), ("KeyError",)),
            Given(3 + 4j, ("3+4j",)),
            Given(range(3), ("range(0, 3)",)),
            Given(re.compile("a+"), ("a+",)),
            Given(collections.UserString(text), (text,)),
            Given(io.BytesIO(b"x"), ("BytesIO",)),
            Given((n for n in range(3)), ("generator",)),
            Given(types, ("types",)),
            Given(Fields, ("Fields",)),
            Given(Modelled, ("Modelled",)),
            Given(len, ("len",)),
            Given(Mute(), ("Mute",)),
            Given(Liar(), ("Liar",)),
            Given(object(), ("object",)),
        ]
    )


def given(chance: random.Random, depth: int) -> Given:
    if depth == 0 or chance.random() < 0.3:
        return leaf(chance)
    inner = [given(chance, depth - 1) for _ in range(chance.choice([0, 1, 1, 2, 4]))]
    values, texts = [one.value for one in inner], tuple(text for one in inner for text in one.texts)
    name = f"n{chance.randrange(1_000)}"
    first = inner[0] if inner else Given(None, ())
    named = (name, *first.texts)
    keys: dict[Any, Any] = {(name, at): value for at, value in enumerate(values)}
    ring: list[Any] = [*values]
    ring.append(ring)
    ways: list[Callable[[], Given]] = [
        lambda: Given(values, texts),
        lambda: Given(tuple(values), texts),
        lambda: Given(ring, texts),
        lambda: Given({f"{name}_{at}": value for at, value in enumerate(values)}, texts),
        lambda: Given(dict(enumerate(values)), texts),
        lambda: Given(keys, texts),
        lambda: Given(collections.OrderedDict({AgentText(name): first.value}), named),
        lambda: Given(types.MappingProxyType({name: first.value}), named),
        lambda: Given(collections.UserDict({name: first.value}), named),
        lambda: Given(Fields(name, first.value), named),
        lambda: Given(Slots(name, first.value), named),
        lambda: Given(Structured(name, first.value), named),
        lambda: Given(Modelled.model_construct(name=name, value=first.value), named),
        lambda: Given(Named(name, first.value), named),
        lambda: Given({name, len(values)}, (name, str(len(values)))),
        lambda: Given(frozenset({name}), (name,)),
    ]
    return chance.choice(ways)()


def kept(text: str, stored: bytes) -> bool:
    """Whether a text is in what was stored: as it is, as JSON writes it, or in base64 where it stands for bytes."""
    mended = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    raw = text.encode("latin-1", "replace")
    forms = [
        mended.encode(),
        text.encode("utf-8", "surrogatepass"),
        raw,
        base64.b64encode(raw),
        json.dumps(text)[1:-1].encode(),
    ]
    forms += [json.dumps(one, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass") for one in (text, mended)]
    return any(form in stored for form in forms)


def every() -> Iterator[Given]:
    chance = random.Random(21)
    for _ in range(VALUES):
        yield given(chance, depth=3)


def lost(value: Given, stored: bytes) -> list[str]:
    return [text for text in value.texts if not kept(text, stored)]


def test_two_thousand_values_are_stored_whole(service: Service) -> None:
    with Client(service.url, session="values") as client:
        for value in every():
            receipt = client.put(value.value)
            assert receipt.stored, (type(value.value), receipt.warnings)
            assert lost(value, client.content(receipt.id)) == [], type(value.value)


def test_without_a_service_they_are_passed_through_whole() -> None:
    opened = Client(AWAY, transport=Scripted(refuses), retries=Retries(attempts=1), on_unreachable="original")
    for value in every():
        receipt = opened.put(value.value)
        assert (receipt.stored, receipt.id) == (False, "")
        if receipt.inline:
            assert lost(value, receipt.text.encode("utf-8", "surrogatepass")) == [], type(value.value)
        else:  # bytes that are no text
            assert isinstance(value.value, bytes | bytearray)


def test_nor_do_their_ends_raise() -> None:
    opened = Client(AWAY, transport=Scripted(refuses), retries=Retries(attempts=1))
    for value in every():
        text = opened.put(value.value, card_tokens=64, inline_tokens=0).text
        assert not text or text.startswith("[NOT STORED (unreachable)")


@pytest.mark.parametrize("status", [200, 201, 400, 422, 500])
def test_nor_does_any_answer_raise(status: int) -> None:
    chance = random.Random(22)
    for _ in range(200):
        body = chance.choice([b"", b"null", b"[]", b'{"id":1}', chance.randbytes(50), b'{"code":"x","detail":"y"}'])
        opened = Client(AWAY, transport=Scripted(answers(status, body)), retries=Retries(attempts=1))
        assert not opened.put(leaf(chance).value).stored


def test_nor_does_anything_that_is_said_of_a_payload(service: Service) -> None:
    said: list[Mapping[str, Any]] = [
        {"card_tokens": "many"},
        {"inline_tokens": object()},
        {"labels": 7},
        {"ttl": float("nan")},
        {"no_such_field": 1},
        {"tool_name": Mute()},
        {"title": 3},
        {"idempotency_key": "\ud800"},
        {"media_type": b"text/html"},
    ]
    with Client(service.url) as client:
        for one in said:
            for content in ("text", b"bytes", ["parts"]):
                receipt = client.put(content, on_unreachable="original", **one)
                assert receipt.stored or receipt.warnings, one


ALIKE: tuple[tuple[object, bytes], ...] = (
    ({1: "first", "1": "second"}, b'{"1":"first","1":"second"}'),
    ([{"rows": [{None: "first", "null": "second"}]}], b'[{"rows":[{"None":"first","null":"second"}]}]'),
    ({0.5: 1, "0.5": Fields("inner", {True: 2, "true": 3})}, b'"value":{"True":2,"true":3}'),
    (dict(zip(("\ud83d", "\ud83e"), ("first", "second"), strict=True)), b'{"\\ud83d":"first","\\ud83e":"second"}'),
)
"""Values with keys that JSON, or the service that mends it, writes alike; and what is stored of them."""


@pytest.mark.parametrize(("value", "stored"), ALIKE)
def test_no_member_is_lost_because_json_writes_two_keys_alike(service: Service, value: object, stored: bytes) -> None:
    with Client(service.url) as client:
        assert stored in client.content(client.put(value).id)
        with pytest.raises(ServiceError, match="same name in JSON"):
            client.search_results(value)


async def test_text_of_frameworks_is_text_and_an_event_loop_takes_the_same(service: Service) -> None:
    text = AgentText("a log line\n" * 900)
    with Client(service.url, session="same") as here:
        ways: list[object] = [text, str.__str__(text), [{"type": "text", "text": text}]]
        receipts = [here.put(way) for way in ways]
    async with AsyncClient(service.url, session="same") as there:
        receipts.append(await there.put(text))
    assert len({receipt.id for receipt in receipts}) == 1
