"""Examines JSON values of unknown types."""

from collections.abc import Container


def is_among(value: object, names: Container[str]) -> bool:
    """Returns whether a value is one of some texts.

    Unlike `in`, this also takes lists and objects, which a set or a dictionary cannot look up.
    """
    return isinstance(value, str) and value in names
