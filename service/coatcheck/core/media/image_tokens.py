"""The tokens of an image in a model's context, by the providers' published rules, from its width and height in pixels.

For a model without a rule of its own, the provider's latest rule applies. Rules change with new models, so that results
may become inexact.
"""

import re
from collections.abc import Callable
from functools import partial
from math import ceil, sqrt
from typing import Final, Literal

Provider = Literal["openai", "anthropic", "gemini"]
Rule = Callable[[int, int, bool], int]
"""Takes width, height, and whether low detail is requested; returns the number of tokens."""


def image_tokens(provider: Provider, width: int, height: int, *, model: str = "", low: bool = False) -> int:
    """Returns the tokens of one image by its provider's rule. Width and height are in pixels, as the image is sent.

    For an unknown or empty `model`, the latest rule applies. `low` requests low detail, which only OpenAI's rules know.
    """
    rule = next(rule for name, rule in _RULES[provider] if re.match(name, model.casefold()))
    return rule(width, height, low)


def _tiles(width: int, height: int, low: bool, base: int, tile: int) -> int:
    """Returns `base` tokens, and `tile` tokens for each tile of 512 pixels.

    The image is first scaled down to 2,048 pixels, and to 768 on its shorter side.
    """
    if low:
        return base
    wide, high = _within(width, height, 2_048)
    scale = min(1.0, 768 / min(wide, high))
    return base + tile * ceil(wide * scale / 512) * ceil(high * scale / 512)


def _patches(width: int, height: int, low: bool, longest: int, most: int, factor: float = 1.2) -> int:
    """Returns `factor` tokens for each patch of 32 pixels, with at most `longest` pixels a side and `most` patches."""
    return ceil(_squares(*_within(width, height, 512 if low else longest), 32, most) * factor)


def _claude(width: int, height: int, _low: bool, longest: int, most: int) -> int:
    """Returns one token for each square of 28 pixels, with at most `longest` pixels a side and `most` squares."""
    return _squares(*_within(width, height, longest), 28, most)


def _gemini(width: int, height: int, _low: bool) -> int:
    """Returns 258 tokens for a small image, and 258 for each tile of 768 pixels of a larger image."""
    return 258 if max(width, height) <= 384 else 258 * ceil(width / 768) * ceil(height / 768)  # noqa: PLR2004


def _within(width: int, height: int, longest: int) -> tuple[float, float]:
    scale = min(1.0, longest / max(width, height))
    return max(width * scale, 1.0), max(height * scale, 1.0)


def _squares(width: float, height: float, side: int, most: int) -> int:
    """Returns the number of squares that cover an image, which is first scaled down so that they are at most `most`."""
    count = ceil(width / side) * ceil(height / side)
    if count <= most:
        return count
    scale = sqrt(most / count)
    return min(most, ceil(width * scale / side) * ceil(height * scale / side))


_OLDER_CLAUDE: Final = r"claude-(?:[123]\b|instant|(?:opus|sonnet|haiku)-(?:3|4(?:-[0-6])?(?!\d|-[7-9])))"
_RULES: Final[dict[Provider, tuple[tuple[str, Rule], ...]]] = {
    "openai": (
        (r"gpt-4o-mini", partial(_tiles, base=2_833, tile=5_667)),
        (r"gpt-4\.1-mini", partial(_patches, longest=2_048, most=6_144, factor=1.62)),
        (r"gpt-4o|gpt-4\.1", partial(_tiles, base=85, tile=170)),
        (r"gpt-5(?:\.1)?(?![.\d])", partial(_tiles, base=70, tile=140)),
        (r"o[13](?![\w])", partial(_tiles, base=75, tile=150)),
        (r"gpt-5\.2", partial(_patches, longest=2_048, most=6_144)),
        (r"gpt-5\.5", partial(_patches, longest=6_000, most=10_000)),
        (r"gpt-5\.6|gpt-6", partial(_patches, longest=65_535, most=1 << 31)),
        (r"", partial(_patches, longest=2_048, most=2_500)),
    ),
    "anthropic": (
        (_OLDER_CLAUDE, partial(_claude, longest=1_568, most=1_568)),
        (r"", partial(_claude, longest=2_576, most=4_784)),
    ),
    "gemini": ((r"", _gemini),),
}
