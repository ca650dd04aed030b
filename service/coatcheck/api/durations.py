"""Durations as callers write them: seconds, `30m`, `7d`, or `forever`. Fractions and signs are refused."""

import re
from datetime import timedelta

from msgspec import UNSET, UnsetType

from coatcheck.core.errors import CoatcheckError, Code

MAX_SECONDS = 10 * 365 * 86_400
"""Ten years; anything longer must be written as `forever`."""

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SHAPE = re.compile(r"([0-9]{1,10})([smhdw]?)", re.ASCII)
FOR_EVER = frozenset({"forever", "null"})


def seconds(value: int | str | None, name: str) -> int | None:
    """Returns a duration in seconds; None means forever.

    Args:
        value: whole seconds, or digits with a unit (`s`, `m`, `h`, `d`, `w`), or `forever`, or None.
        name: the field, for the error.

    Raises:
        CoatcheckError: `invalid_request` if it is invalid, not positive, or longer than ten years.
    """
    if value is None or value in FOR_EVER:
        return None
    if isinstance(value, str):
        shape = _SHAPE.fullmatch(value)
        count = int(shape[1]) * _UNITS[shape[2]] if shape else 0
    else:
        count = value
    if 1 <= count <= MAX_SECONDS:
        return count
    raise CoatcheckError(
        Code.INVALID_REQUEST,
        f'\'{name}\' must be 1 to {MAX_SECONDS} seconds, or text like "30m", "12h", "7d", or null (no end).',
        field=name,
    )


def seconds_or_unset(value: int | str | None | UnsetType, name: str) -> int | None | UnsetType:
    """Returns a duration in seconds; UNSET if it was left out."""
    return UNSET if isinstance(value, UnsetType) else seconds(value, name)


def life(value: int | str | None, name: str) -> timedelta | None:
    """Returns how long something is valid; None: forever."""
    count = seconds(value, name)
    return None if count is None else timedelta(seconds=count)
