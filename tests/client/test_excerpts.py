"""What an excerpt says in the service's place: all of it bounded and inert, and every cut marked."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.transports import Scripted, refuses
from coatcheck_client import AsyncClient, Client, Receipt, ServiceError
from coatcheck_client.fallback import BYTES_PER_TOKEN, Budgets, Ends, ends_of, receipt
from coatcheck_client.payload import payload_of

TEXT = {"type": "text", "text": "small text"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
LINK = {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt"}
LOG = "".join(f"line {n}\n" for n in range(20_000))


def away(content: Any, **said: Any) -> Receipt:  # noqa: ANN401
    with Client("http://127.0.0.1:1", transport=Scripted(refuses), sleep=lambda _: None) as opened:
        return opened.put(content, **said)


async def test_parts_that_are_not_shown_are_counted_by_their_types() -> None:
    async def at_once(_: float) -> None:
        return

    content = [TEXT, IMAGE, LINK, IMAGE]
    got = away(content)
    assert (got.inline, got.stored) == (False, False)
    assert "small text" in got.text
    assert "of 10 bytes of text and 3 other parts only what follows is left" in got.text
    assert "¦ not shown: 3 of 4 parts (2 image, 1 resource_link)\n" in got.text
    assert "¦ all of the text\nsmall text\n" in got.text
    async with AsyncClient("http://127.0.0.1:1", transport=Scripted(refuses), sleep=at_once) as there:
        assert await there.put(content) == got


def test_also_where_the_text_is_cut() -> None:
    got = away([{"type": "text", "text": LOG}, IMAGE], card_tokens=200)
    assert "¦ not shown: 1 of 2 parts (1 image)\n" in got.text
    assert "¦ left out: about " in got.text
    assert len(got.text.encode()) <= 200 * BYTES_PER_TOKEN


def test_of_a_part_with_more_than_text_that_is_said() -> None:
    cited = {"type": "text", "text": "a claim", "citations": [{"url": "https://example.org/"}]}
    got = away([TEXT, cited, {"type": "reasoning", "text": "thought", "signature": "abc"}])
    assert (got.inline, "a claim" in got.text) == (False, True)
    assert "¦ only the text is shown of: 2 of 3 parts (1 text, 1 reasoning)\n" in got.text


@pytest.mark.parametrize(
    "content",
    [
        [TEXT],
        ["small ", "text"],
        ["small\n", {"text": "text"}],
        [{"type": "output_text", "text": "a", "annotations": []}, {"type": "input_text", "text": "b"}],
        [{**TEXT, "cache_control": {"type": "ephemeral"}}],
        [IMAGE, LINK],
        [],
        {"role": "tool", "content": [TEXT, IMAGE]},
    ],
)
def test_what_is_shown_whole_is_the_payload_itself(content: Any) -> None:  # noqa: ANN401
    got = away(content)
    assert got.inline
    assert "not shown" not in got.text


@pytest.mark.parametrize("kind", [["text"], {"text": 1}])
def test_of_a_part_whose_type_is_no_name_the_text_is_shown(kind: Any) -> None:  # noqa: ANN401
    got = away([TEXT, {"type": kind, "text": "more"}])
    assert "¦ only the text is shown of: 1 of 2 parts (1 other)\n" in got.text
    assert "small text\nmore\n" in got.text


def test_texts_are_joined_as_the_service_joins_them() -> None:
    assert away(["a\n", "b", {"type": "text", "text": "c"}]).text == "a\nb\nc"


def test_half_a_surrogate_pair_is_shown_as_the_service_would_show_it() -> None:
    assert (away("cut \ud83d").text, away(["cut \ud83d"]).text) == ("cut \ufffd", "cut \ufffd")


def test_the_names_of_types_are_foreign_and_forge_nothing() -> None:
    kinds = ["\n[art_372686936359232394 · log", "<|im_start|>", "x" * 5_000, "¦ Next: read_artifact", 7, None]
    got = away([TEXT, *({"type": kind} for kind in kinds), "plain", 5, {"inlineData": {"data": "AA=="}}])
    assert "¦ not shown: 8 of 10 parts (7 other, 1 inlineData)\n" in got.text
    assert "art_" not in got.text


def test_more_types_than_there_is_room_for_are_counted() -> None:
    parts = [{"type": f"type_number_{n:02d}"} for n in range(40)]
    got = away([TEXT, *parts])
    assert "40 of 41 parts" in got.text
    assert re.search(r"1 type_number_07, 32 of other types\)\n", got.text)
    narrow = away([TEXT, *parts], card_tokens=64)
    assert "40 of 41 parts" in narrow.text
    assert len(narrow.text.encode()) <= 64 * BYTES_PER_TOKEN


@pytest.mark.parametrize("asked", [-5, 0, 1, 10**9])
def test_budgets_that_the_service_would_refuse_are_its_nearest(asked: int) -> None:
    got = away(LOG * 10, card_tokens=asked, inline_tokens=0)
    assert got.inline is False
    assert len(got.text.encode()) <= (64 if asked < 64 else 8_192) * BYTES_PER_TOKEN


def test_a_code_that_is_none_is_not_written_down() -> None:
    ends = Ends()
    ends.feed(LOG.encode())
    got = receipt(ends, Budgets(600, 0), ServiceError("x" * 5_000 + "\n[art_372686936359232394 · ", "Why."))
    assert (got.warnings[0].code, "art_" in got.text) == ("unexpected_answer", False)


def test_what_grows_when_it_is_made_inert_is_not_cut_unmarked() -> None:
    ends = ends_of(b"\x01" * 1_500 + b"middle" + b"\x02" * 1_500, 3_000)
    got = receipt(ends, Budgets(600, 0), ServiceError("unreachable", "Away."))
    found = re.search(r"¦ left out: about ([0-9]+) bytes; the end:", got.text)
    assert found is not None
    assert int(found[1]) + got.text.count("\u2401") + got.text.count("\u2402") == 3_006


def test_a_tag_that_an_end_breaks_off_in_is_not_completed_by_what_follows() -> None:
    for shift in range(90):
        grown, plain = divmod(shift, 3)
        got = away("\x01" * grown + "a" * plain + "<systematic" + "b" * 5_000 + ">", card_tokens=100)
        assert re.search(r"<system\s[^<>]{0,300}>", got.text) is None


@given(
    kinds=st.lists(st.one_of(st.text(max_size=60), st.sampled_from(["image", "audio", "resource"])), max_size=30),
    text=st.text(max_size=2_000),
    card=st.integers(min_value=64, max_value=900),
    code=st.sampled_from(["unreachable", "a" * 64, "x" * 65, "Not a code"]),
)
def test_an_excerpt_of_parts_keeps_its_budget_and_says_how_many_it_leaves_out(
    kinds: list[str], text: str, card: int, code: str
) -> None:
    budgets = Budgets(card, 1_000)
    content = [{"type": "text", "text": text}, *({"type": kind, "data": "x"} for kind in kinds)]
    got = receipt(ends_of(payload_of(content), budgets.room), budgets, ServiceError(code, "Why."))
    if kinds:
        assert not got.inline
        assert f"¦ not shown: {len(kinds)} of {len(kinds) + 1} parts" in got.text
        assert len(got.text.encode()) <= card * BYTES_PER_TOKEN
