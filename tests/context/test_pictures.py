"""What images cost a context: by their provider's rule, whatever the tokenizer of its texts."""

import base64
from typing import Any

import pytest

from coatcheck.core.context.measure import MeasureRequest, measure
from coatcheck.core.context.policy import CompactionPolicy
from context.histories import compact, counter
from core.test_image_tokens import png

Json = Any
DATA = base64.b64encode(png(1_000, 1_000)).decode()
URL = f"data:image/png;base64,{DATA}"
SOURCE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        (
            {
                "model": "gpt-4o",
                "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": URL}}]}],
            },
            765,
        ),
        ({"model": "gpt-4o", "input": [{"role": "user", "content": [{"type": "input_image", "image_url": URL}]}]}, 765),
        ({"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": [SOURCE]}]}, 1_296),
        ({"model": "claude-opus-5", "max_tokens": 9, "messages": [{"role": "user", "content": [SOURCE]}]}, 1_296),
        ({"contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": DATA}}]}]}, 1_032),
    ],
    ids=["chat", "responses", "older claude", "claude", "gemini"],
)
def test_an_image_is_counted_by_its_providers_rule(body: Json, tokens: int) -> None:
    empty = measure(body, MeasureRequest(), CompactionPolicy(), counter())
    assert round(empty.parts.media * empty.scale) == pytest.approx(tokens, abs=2)


def test_an_image_that_is_only_referred_to_is_counted_flat() -> None:
    link = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    got = measure({"messages": [{"role": "user", "content": [link]}]}, MeasureRequest(), CompactionPolicy(), counter())
    assert got.parts.media == 1_000


def looked_at() -> Json:
    """A history in which a tool showed a picture."""
    call: Json = {"type": "tool_use", "id": "t1", "name": "shot", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a page"}, SOURCE]}
    return {
        "model": "claude-sonnet-4-5",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": "seen"},
            {"role": "user", "content": "go on"},
        ],
    }


def test_a_placeholder_saves_what_the_image_costs() -> None:
    new, report = compact(looked_at(), CompactionPolicy(media="placeholder", protect="none"))
    text, marker = new["messages"][2]["content"][0]["content"]
    assert (text["text"], marker["type"]) == ("a page", "text")
    assert "image/png" in marker["text"]
    (change,) = report.changes
    assert change.tokens_before == -(-1_296 * 100 // 135)
