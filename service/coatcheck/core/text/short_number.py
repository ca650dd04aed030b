"""Numbers in few characters, for lines in which exact ones would not be read."""

from typing import Final

_STEPS: Final = ((1_000_000, "M"), (1_000, "k"))
_TEN: Final = 100
"""Tenths from which a decimal is omitted."""


def short_number(number: int) -> str:
    """Returns a count in at most three digits, rounded half up: 940, 9.5k, 184k, 1.2M; more from 1,000 million on."""
    for unit, letter in _STEPS:
        if number >= unit - unit // 2_000:
            tenths = (20 * number + unit) // (2 * unit)
            return f"{tenths / 10:.1f}{letter}" if tenths < _TEN else f"{(2 * number + unit) // (2 * unit):,}{letter}"
    return str(number)
