"""What pictures cost, by the providers' published rules, and which parts of a tool result are pictures."""

import base64
import struct
import zlib
from typing import Any

import pytest

from coatcheck.core.media.headers import sides
from coatcheck.core.media.image_tokens import Provider, image_tokens
from coatcheck.core.pictures import UNKNOWN, picture_tokens, pictures_of


def png(width: int, height: int) -> bytes:
    """A picture of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(b"".join(b"\0" + b"\0" * width for _ in range(height)))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        (
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
            chunk(b"IDAT", rows),
            chunk(b"IEND", b""),
        )
    )


@pytest.mark.parametrize(
    ("provider", "model", "width", "height", "low", "tokens"),
    [
        ("openai", "gpt-4o", 1_024, 1_024, False, 85 + 170 * 4),
        ("openai", "gpt-4o-2024-08-06", 2_048, 4_096, False, 85 + 170 * 6),
        ("openai", "gpt-4o", 4_000, 4_000, True, 85),
        ("openai", "gpt-4o-mini", 512, 512, False, 2_833 + 5_667),
        ("openai", "gpt-5", 1_024, 1_024, False, 70 + 140 * 4),
        ("openai", "gpt-5.1", 1_024, 1_024, False, 70 + 140 * 4),
        ("openai", "o3", 512, 512, False, 75 + 150),
        ("openai", "gpt-5.4", 1_024, 1_024, False, 1_229),
        ("openai", "gpt-5.4", 4_096, 4_096, False, 3_000),
        ("openai", "gpt-4.1-mini", 1_024, 1_024, False, 1_659),
        ("openai", "gpt-5.6-sol", 4_096, 4_096, False, 19_661),
        ("openai", "", 4_096, 4_096, True, 308),
        ("anthropic", "claude-sonnet-4-5", 1_000, 1_000, False, 36 * 36),
        ("anthropic", "claude-sonnet-4-5", 4_000, 4_000, False, 1_568),
        ("anthropic", "claude-opus-4-7", 2_000, 1_500, False, 72 * 54),
        ("anthropic", "", 20_000, 20_000, False, 4_784),
        ("gemini", "gemini-2.5-pro", 384, 384, False, 258),
        ("gemini", "", 1_920, 1_080, False, 258 * 3 * 2),
        ("openai", "", 1, 1, False, 2),
    ],
)
def test_each_provider_counts_by_its_own_rule(
    provider: Provider, model: str, width: int, height: int, low: bool, tokens: int
) -> None:
    assert image_tokens(provider, width, height, model=model, low=low) == tokens


def test_sides_come_from_the_header_and_what_is_cut_off_has_none() -> None:
    assert sides("image/png", png(640, 480)) == (640, 480)
    assert sides("image/png", png(640, 480)[:20]) is None
    assert sides("image/x-unknown", b"abc") is None
    assert sides(None, b"") is None


DATA = base64.b64encode(png(1_024, 1_024)).decode()
SHAPES: dict[str, tuple[list[Any], dict[str, Any], int]] = {
    "anthropic": (
        [
            {"type": "text", "text": "a page", "cache_control": {"type": "ephemeral"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
        ],
        {"type": "text", "cache_control": {"type": "ephemeral"}},
        37 * 37,
    ),
    "responses": (
        [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}"}],
        {"type": "input_text"},
        1_229,
    ),
    "chat": (
        [
            {"type": "text", "text": "a"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}", "detail": "low"}},
        ],
        {"type": "text"},
        308,
    ),
    "mcp": (
        [{"type": "text", "text": "a"}, {"type": "image", "data": DATA, "mimeType": "image/png"}],
        {"type": "text"},
        1_229,
    ),
    "gemini": (["a", {"inlineData": {"mimeType": "image/png", "data": DATA}}], {}, 258 * 4),
    "linked": (
        [{"type": "input_image", "image_url": "https://example.org/a.png"}],
        {"type": "input_text"},
        UNKNOWN,
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_pictures_stand_beside_a_text_in_the_shape_in_which_they_came(name: str) -> None:
    parts, text, tokens = SHAPES[name]
    found = pictures_of(parts)
    assert found is not None
    assert found.tokens == tokens
    assert found.beside("CARD") == [{**text, "text": "CARD"}, parts[-1]]


def test_the_order_of_text_and_pictures_stays() -> None:
    picture = SHAPES["mcp"][0][1]
    found = pictures_of([picture, {"type": "text", "text": "a"}, picture, {"type": "text", "text": "b"}, picture])
    assert found is not None
    assert [each.get("text") for each in found.beside("CARD")] == [None, "CARD", None, None]
    assert picture_tokens(picture, model="gpt-4o") == 85 + 170 * 4


def test_a_photograph_with_a_long_preview_in_front_is_measured_from_its_first_bytes() -> None:
    preview = b"\xff\xe1" + struct.pack(">H", 65_000) + b"p" * 64_998
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 11, 8, 768, 1_536, 1) + b"\x01\x11\x00"
    data = base64.b64encode(b"\xff\xd8" + preview * 2 + frame + b"x" * 3_000_000).decode()
    part = {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": data}}
    assert picture_tokens(part) == 55 * 28
    lines = "\n".join(data[at : at + 76] for at in range(0, 200_000, 76))
    assert picture_tokens({"type": "image", "data": lines, "mimeType": "image/jpeg"}, "gpt-4o") == 85 + 170 * 6


@pytest.mark.parametrize(
    "parts",
    [
        [],
        ["a"],
        [{"type": "text", "text": "a"}],
        [{"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}],
        [{"type": "document", "source": {"type": "text", "data": "a"}}],
        [5, None, ["image"]],
        [{"type": ["image"]}],
    ],
)
def test_what_is_no_picture_is_none(parts: list[Any]) -> None:
    assert pictures_of(parts) is None
