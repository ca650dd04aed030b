"""The tokens of an image in a model's context, by the providers' published rules, from its width and height in pixels.

A model that no rule names gets its provider's latest. Rules change with models, so results may become inexact.
"""

import re
import struct
from collections.abc import Callable
from math import ceil, sqrt
from typing import Final, Literal

from coatcheck.core.artifact import PayloadSample
from coatcheck.core.media.headers import header_facts

Provider = Literal["openai", "anthropic", "gemini"]
Rule = Callable[[int, int, bool], int]
"""Returns tokens by width, height, and whether the caller asks for low detail."""

_SIDES: Final = re.compile(r"([0-9]+) x ([0-9]+) pixels")


def sides(media_type: str | None, data: bytes) -> tuple[int, int] | None:
    """Returns width and height in pixels from an image's header; None if it does not state them."""
    try:
        facts = header_facts(media_type or "", PayloadSample(data, b"", len(data)))
    except (struct.error, IndexError, ValueError, ZeroDivisionError):
        return None
    found = next((match for fact in facts if (match := _SIDES.fullmatch(fact))), None)
    return None if found is None else (int(found[1]), int(found[2]))


def image_tokens(provider: Provider, width: int, height: int, *, model: str = "", low: bool = False) -> int:
    """Returns the tokens of one image.

    Args:
        provider: whose rule applies.
        width: in pixels, as sent.
        height: in pixels, as sent.
        model: the model's name; empty or unknown: the provider's latest rule.
        low: whether the request asks for low detail, which only OpenAI's rules have.
    """
    rule = next(rule for name, rule in _RULES[provider] if re.match(name, model.casefold()))
    return rule(width, height, low)


def _tiles(base: int, tile: int) -> Rule:
    """Returns a rule of tiles of 512 pixels, after scaling to 2,048 pixels and a short side of 768."""

    def rule(width: int, height: int, low: bool) -> int:
        if low:
            return base
        wide, high = _within(width, height, 2_048)
        scale = min(1.0, 768 / min(wide, high))
        return base + tile * ceil(wide * scale / 512) * ceil(high * scale / 512)

    return rule


def _patches(longest: int, most: int, factor: float = 1.2) -> Rule:
    """Returns a rule of patches of 32 pixels, with a maximum side and a maximum number of patches."""

    def rule(width: int, height: int, low: bool) -> int:
        return ceil(_squares(*_within(width, height, 512 if low else longest), 32, most) * factor)

    return rule


def _claude(longest: int, most: int) -> Rule:
    """Returns a rule of squares of 28 pixels, one token each."""

    def rule(width: int, height: int, _low: bool) -> int:
        return _squares(*_within(width, height, longest), 28, most)

    return rule


def _gemini(width: int, height: int, _low: bool) -> int:
    """Returns 258 for a small image, and for each tile of 768 pixels of a larger one."""
    return 258 if max(width, height) <= 384 else 258 * ceil(width / 768) * ceil(height / 768)  # noqa: PLR2004


def _within(width: int, height: int, longest: int) -> tuple[float, float]:
    scale = min(1.0, longest / max(width, height))
    return max(width * scale, 1.0), max(height * scale, 1.0)


def _squares(width: float, height: float, side: int, most: int) -> int:
    """Returns the number of squares that cover an image, after scaling it down to at most `most`."""
    count = ceil(width / side) * ceil(height / side)
    if count <= most:
        return count
    scale = sqrt(most / count)
    return min(most, ceil(width * scale / side) * ceil(height * scale / side))


_UNBOUNDED: Final = 1 << 31
_RULES: Final[dict[Provider, tuple[tuple[str, Rule], ...]]] = {
    "openai": (
        (r"gpt-4o-mini", _tiles(2_833, 5_667)),
        (r"gpt-4\.1-mini", _patches(2_048, 6_144, 1.62)),
        (r"gpt-4o|gpt-4\.1", _tiles(85, 170)),
        (r"gpt-5(?:\.1)?(?![.\d])", _tiles(70, 140)),
        (r"o[13](?![\w])", _tiles(75, 150)),
        (r"gpt-5\.2", _patches(2_048, 6_144)),
        (r"gpt-5\.5", _patches(6_000, 10_000)),
        (r"gpt-5\.6|gpt-6", _patches(65_535, _UNBOUNDED)),
        (r"", _patches(2_048, 2_500)),
    ),
    "anthropic": (
        (r"claude-(?:[123]\b|instant|(?:opus|sonnet|haiku)-(?:3|4(?:-[0-6])?(?!\d|-[7-9])))", _claude(1_568, 1_568)),
        (r"", _claude(2_576, 4_784)),
    ),
    "gemini": ((r"", _gemini),),
}
