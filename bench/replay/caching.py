"""What prompt caches charge for the requests of a run: a simulation by each provider's published rule, as data.

A cache holds what this run sent before, for as long as the run lasts: real ones forget after minutes, which meets every
way of making requests smaller alike.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple


class CacheRule(NamedTuple):
    """How a provider caches prompts, and its list prices in dollars for a million input tokens."""

    name: str
    fresh: float
    read: float
    written: float
    """What is put into the cache: as fresh, where that costs nothing more."""
    least: int
    """Tokens of the shortest prefix that is cached."""
    step: int = 1
    """Prefixes are cached in multiples of so many tokens."""
    whole: bool = False
    """Only a whole earlier request is found again, because that is where the caller sets its mark."""


RULES: Final = (
    CacheRule("OpenAI", fresh=1.25, read=0.125, written=1.25, least=1_024, step=128),
    CacheRule("Anthropic", fresh=3.0, read=0.3, written=3.75, least=1_024, whole=True),
    CacheRule("Gemini", fresh=1.25, read=0.125, written=1.25, least=4_096),
)

Request = Sequence[tuple[str, int]]
"""Messages as they are written, with their tokens."""


def dollars(rule: CacheRule, requests: Sequence[Request]) -> float:
    """What the input of these requests costs, one after the other."""
    cost = 0.0
    for number, request in enumerate(requests):
        total = sum(tokens for _, tokens in request)
        cached = max((_shared(rule, earlier, request) for earlier in requests[:number]), default=0)
        rest = total - cached
        cost += cached * rule.read + rest * (rule.written if total >= rule.least else rule.fresh)
    return cost / 1_000_000


def _shared(rule: CacheRule, earlier: Request, request: Request) -> int:
    """Tokens of a request that are found in the cache because an earlier one was sent."""
    count = common(earlier, request)
    if rule.whole and count < len(earlier):
        return 0
    tokens = sum(tokens for _, tokens in request[:count])
    return tokens // rule.step * rule.step if tokens >= rule.least else 0


def common(earlier: Request, request: Request) -> int:
    """Messages that both begin with."""
    for number, (one, other) in enumerate(zip(earlier, request, strict=False)):
        if one != other:
            return number
    return min(len(earlier), len(request))
