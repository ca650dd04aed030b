"""What a search may cost in a model's context, and how a budget is split among results with different needs."""

from typing import Final

from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code

MOST_RESULTS: Final = 20
MOST_PER_RESULT: Final = 8_192
MOST_IN_ALL: Final = 32_768
LEAST_PER_RESULT: Final = 64
LEAST_IN_ALL: Final = 128
BOUNDS: Final = {
    "max_results": (1, MOST_RESULTS),
    "max_tokens_per_result": (LEAST_PER_RESULT, MOST_PER_RESULT),
    "max_total_tokens": (LEAST_IN_ALL, MOST_IN_ALL),
}


class Limits(Struct, frozen=True, kw_only=True):
    """Hard limits, each counted separately in the tokenizer's encoding."""

    max_results: int = 3
    """Results whose text is shown; the others are listed by title and URL."""
    max_tokens_per_result: int = 2_048
    """Tokens of a result's text with the line above it."""
    max_total_tokens: int = 8_192
    """Tokens in total."""


class Switches(Struct, frozen=True, kw_only=True):
    """Whether and how often searches are taken, and what stays of them."""

    enabled: bool = True
    keep_summary: bool = True
    """Whether sentences and sources stay for later turns."""
    max_searches: int | None = None
    """In a session; None: no limit."""
    max_searches_per_turn: int | None = None


def check_limits(limits: Limits) -> Limits:
    """Returns the limits after checking them.

    Raises:
        CoatcheckError: `invalid_request` for a number out of bounds.
    """
    for name, (least, most) in BOUNDS.items():
        if not least <= getattr(limits, name) <= most:
            raise CoatcheckError(Code.INVALID_REQUEST, f"{name} must be from {least} to {most:,}.", parameter=name)
    return limits


def shares(needs: list[int], room: int) -> list[int]:
    """Returns each one's share of `room`: its need, or as much as everyone else who does not get all.

    What one does not need goes to the others; the sum never exceeds `room`.
    """
    out = [0] * len(needs)
    remaining = max(0, room)
    for count, place in enumerate(sorted(range(len(needs)), key=lambda place: (needs[place], place))):
        out[place] = min(needs[place], remaining // (len(needs) - count))
        remaining -= out[place]
    return out
