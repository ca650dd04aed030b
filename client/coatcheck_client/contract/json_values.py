"""Examines JSON values of unknown types, and names of members."""

from collections.abc import Container


def is_among(value: object, names: Container[str]) -> bool:
    """Returns whether a value is one of some texts.

    Unlike `in`, this also takes lists and objects, which a set or a dictionary cannot look up.
    """
    return isinstance(value, str) and value in names


def unique_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Returns the members of a JSON object, of which decoders would keep only the last of those with the same name.

    Raises:
        ValueError: two members have the same name.
    """
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("several keys of a mapping are the same name in JSON, such as 1 and '1'")
    return members
