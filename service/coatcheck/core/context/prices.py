"""What prompt caches charge, by the model's name: the data of the rule by which a history is rewritten without need.

Repeating what could be replaced costs the price of reading it from the cache, with each request. Replacing it costs,
once, that everything behind it is written to the cache anew instead of being read.
"""

import re
from typing import Final

from msgspec import Struct

from coatcheck.core.context.body.model import Format
from coatcheck.core.context.body.shape import Value
from coatcheck.core.context.window import model_of
from coatcheck.core.model_windows import plain_name


class CachePrice(Struct, frozen=True):
    """Prices of cached tokens, in percent of the price of input that is not cached."""

    read_percent: int
    write_percent: int

    def is_due(self, repeated: int, behind: int) -> bool:
        """Returns whether repeating has cost as much as rewriting costs.

        Args:
            repeated: tokens that replacing would have saved, summed over the requests that repeated them.
            behind: tokens from the first replacement on, which would be written anew.
        """
        return self.read_percent * repeated >= (self.write_percent - self.read_percent) * behind


_ANTHROPIC: Final = CachePrice(10, 125)
_OTHER: Final = CachePrice(10, 100)
_PRICES: Final = (
    (re.compile(r"claude"), _ANTHROPIC),
    (re.compile(r"gpt-4o|\bo1\b"), CachePrice(50, 100)),
    (re.compile(r"gpt-4-1\b|\bo[34]\b|gemini-2-0|kimi|moonshot|grok-[34]"), CachePrice(25, 100)),
)
"""By what a model's name contains; the first match counts. From the providers' price pages as of November 2026."""


def cache_price(body: Value, format_: Format) -> CachePrice:
    """Returns the prices of a request's model; an unknown one has those of most providers' newest models."""
    name = plain_name(model_of(body))
    model_price = next((price for pattern, price in _PRICES if pattern.search(name)), None)
    return model_price or (_ANTHROPIC if format_ is Format.ANTHROPIC else _OTHER)
