"""The input tokens in any provider's usage object; and rounding, in one place."""

from collections.abc import Mapping
from typing import Final

from coatcheck.core.context.body.shape import Value

_WHOLE: Final = ("prompt_tokens", "promptTokenCount", "prompt_token_count")
_CACHED: Final = ("cache_read_input_tokens", "cache_creation_input_tokens")


def input_tokens(usage: Mapping[str, Value]) -> int | None:
    """Returns all input tokens, including cached ones; None if the object has none.

    OpenAI, Gemini and LangChain report the sum; Anthropic reports cached tokens separately from `input_tokens`.
    """
    for name in _WHOLE:
        if _is_count(usage.get(name)):
            return int(usage[name])
    if not _is_count(usage.get("input_tokens")):
        return None
    return int(usage["input_tokens"]) + sum(int(usage[name]) for name in _CACHED if _is_count(usage.get(name)))


def _is_count(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def scale_tokens(tokens: int, numerator: int, denominator: int) -> int:
    """Returns tokens times a ratio, rounded half up."""
    return (2 * tokens * numerator + denominator) // (2 * denominator)


def percent(part: int, whole: int) -> float:
    """Returns `part` of `whole` in percent with one decimal, rounded half up; 100 if `whole` is 0."""
    return scale_tokens(part, 1_000, whole) / 10 if whole > 0 else 100.0
