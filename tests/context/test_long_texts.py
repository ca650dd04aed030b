"""Long texts that are not ASCII stay UTF-8: they are decoded, written, counted and replaced as if they were a `str`."""

import json
import random
from typing import Any

import msgspec
import pytest

from coatcheck.core.context.body.encoding import (
    CANONICAL,
    COMPACT,
    SPACED,
    JsonForm,
    MessageLines,
    decode,
    dump_value,
    plain,
)
from coatcheck.core.context.body.splice import parse_document, splice_inner
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.text.long_text import LongText, head_of, strings, text_of
from context.histories import FORMATS, compact, conversation

EMOJI = "\U0001f600"
FORMS = (SPACED, COMPACT, CANONICAL, JsonForm(ascii=True))
CHARACTERS = ("\\", '"', "\n", "\x1b", "a", " ", "é", "日", EMOJI, "\\u", "\\\\", "\u2028", "/")


def long_text(rng: random.Random, size: int) -> str:
    """Characters of one, two, three and four bytes, and every kind of escape, in runs and alone."""
    return "".join(rng.choice(CHARACTERS) * rng.choice((1, 1, 2, 7)) for _ in range(size))


def texts() -> list[str]:
    rng = random.Random(7)
    runs = [one * 300_000 for one in CHARACTERS] + [f"x{one}" * 200_000 for one in CHARACTERS]
    return [long_text(rng, 100_000) for _ in range(4)] + runs + [EMOJI * 64, EMOJI * 63, "é" * 128, ""]


@pytest.mark.parametrize("ascii_", [False, True], ids=["as it is", "escaped"])
def test_a_text_is_decoded_to_what_python_decodes(ascii_: bool) -> None:
    for text in texts():
        written = json.dumps(text, ensure_ascii=ascii_).encode()
        found = decode(written)
        assert str(found) == text
        assert len(found) == len(text)
        assert head_of(found, 600) == text[:600]
        assert isinstance(found, str) == (text.isascii() or len(text.encode()) < 256)


def test_pieces_split_no_escape_wherever_they_end() -> None:
    text = (EMOJI + "\\\\" + "\n" + "é") * 3_000
    escaped = json.dumps(text)[1:-1]
    for shift in range(30):
        written = f'"{"x" * (64 * 1024 - 15_000 - shift)}{escaped}"'.encode()
        assert str(decode(written)) == json.loads(written)


def test_values_around_a_long_text_are_as_they_were() -> None:
    deep: Any = {}
    value: Any = {
        "b": [1, 2.5, None, {"deep": EMOJI * 900, "a": "é"}],
        "a": EMOJI * 900,
        "z": ["x" * 5_000, True, deep],
    }
    found = decode(f" {json.dumps(value, ensure_ascii=False)}\n".encode())
    assert isinstance(found["a"], LongText)
    assert isinstance(found["b"][3]["deep"], LongText)
    assert plain(found) == value
    for form in FORMS:
        assert str(dump_value(found, form)) == str(dump_value(value, form)) == form.dumps(value)
    assert b"".join(MessageLines([found, value])) == b"\n".join([COMPACT.dumps(value).encode()] * 2)
    assert MessageLines([found]).sizes == [len(COMPACT.dumps(value).encode())]


@pytest.mark.parametrize("bad", [b'\\ud83d"', b'\\x"', b'\n"', b"", b'" x', b'\xff"'])
def test_what_is_no_json_is_refused(bad: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        _ = decode(b'{"a":["' + EMOJI.encode() * 900 + bad + b"]}")


def test_equal_texts_are_equal_and_pieces_make_the_whole() -> None:
    one, two = text_of((EMOJI * 200_000).encode()), text_of((EMOJI * 200_000).encode())
    assert one == two
    assert hash(one) == hash(two)
    assert one != text_of(("é" * 400_000).encode())
    assert "".join(strings(one)) == EMOJI * 200_000


def test_a_document_in_a_string_keeps_its_other_bytes() -> None:
    document = '{ "a": 1.0, "content": "' + EMOJI * 900 + '", "b":"\\u00e9", "n": 123456789012345678901234567890}'
    text = text_of(document.encode())
    assert isinstance(text, LongText)
    assert plain(parse_document(text)) == json.loads(document)
    assert str(splice_inner(text, {("content",): "[…]"})) == document.replace(EMOJI * 900, "[…]")
    assert (
        plain(parse_document(document.replace("1.0", "NaN").replace("}", ', "c": "\\u00e9"}')))["content"]
        == EMOJI * 900
    )


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_body_is_compacted_as_if_all_its_texts_were_strings(name: str) -> None:
    policy = CompactionPolicy(inline_tokens=100, card_tokens=100, argument_tokens=64, protect="none", max_tokens=2_000)
    for seed in range(6):
        body = FORMATS[name](conversation(seed))
        new, report = compact(body, policy)
        again, same = compact(decode(msgspec.json.encode(body)), policy)
        assert plain(again) == plain(new)
        assert same == report
