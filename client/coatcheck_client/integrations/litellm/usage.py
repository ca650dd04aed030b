"""Tokens of one answer that took a model several requests. Pure."""

# ruff: noqa: ANN401 - LiteLLM's answers are of many types
# pyright: basic

from typing import Any

Raw = dict[str, Any]


def plain(value: Any) -> Raw:
    """Returns a value of one of LiteLLM's types as JSON, without what it leaves out."""
    if value is None or isinstance(value, dict):
        return value or {}
    return value.model_dump(exclude_none=True)


def added(one: Raw, other: Raw) -> Raw:
    """Returns two counts of tokens, added up wherever both have numbers."""
    total = {**other, **one}
    for name in one.keys() & other.keys():
        left, right = one[name], other[name]
        if isinstance(left, dict) and isinstance(right, dict):
            total[name] = added(left, right)
        elif isinstance(left, int | float) and isinstance(right, int | float):
            total[name] = left + right
    return total


def with_usage(answer: Any, before: Raw) -> Any:
    """Returns a copy of an answer, or of a part of a stream, with more tokens; the object itself if it has none."""
    used = getattr(answer, "usage", None)
    return answer if used is None else answer.model_copy(update={"usage": type(used)(**added(plain(used), before))})
