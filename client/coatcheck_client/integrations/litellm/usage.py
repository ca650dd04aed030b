"""Adds up the tokens of all requests to a model that one answer took. Pure functions."""

# ruff: noqa: ANN401 - LiteLLM's answers are of many types
# pyright: basic

from typing import Any

Raw = dict[str, Any]


def plain(value: Any) -> Raw:
    """Returns a value of one of LiteLLM's types as a JSON object without members that are None; empty for None."""
    if value is None or isinstance(value, dict):
        return value or {}
    return value.model_dump(exclude_none=True)


def added(one: Raw, other: Raw) -> Raw:
    """Returns two counts of tokens as one. Numbers in both are added; of other members in both, `one`'s are kept."""
    total = {**other, **one}
    for name in one.keys() & other.keys():
        left, right = one[name], other[name]
        if isinstance(left, dict) and isinstance(right, dict):
            total[name] = added(left, right)
        elif isinstance(left, int | float) and isinstance(right, int | float):
            total[name] = left + right
    return total


def with_usage(answer: Any, before: Raw) -> Any:
    """Returns a copy of an answer, or of a part of a stream, with tokens added; the object itself if it has none."""
    used = getattr(answer, "usage", None)
    return answer if used is None else answer.model_copy(update={"usage": type(used)(**added(plain(used), before))})
