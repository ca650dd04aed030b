"""How a card is known again in a history, by the first line that every card has. Refuses to look for one inside a text.

A payload could begin like a card on purpose: what it gains is to be taken as it is, up to the size of a card.
"""

import re
from typing import Final

from coatcheck.core.card.compose import MAX_BUDGET
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.ids import parse

_FIRST: Final = re.compile(
    r"\[(art_[0-9]{18}) · [a-z_]{1,40}(?: · [0-9a-z,~ ]{1,60})? · "
    r"(?:stored outside this conversation|NOT STORED)(?:; below: [^\n]{1,200})?\](?=\r?\n|\Z)"
)
MAX_CARD_CHARS: Final = 32 * MAX_BUDGET
"""Characters of the longest text that is taken for a card: of the largest budget, and of blanks, 32 to a token."""


def is_card(text: str) -> bool:
    """Whether a text begins with a card's first line, with an ID that can be, and is as short as one."""
    found = _FIRST.match(text) if len(text) <= MAX_CARD_CHARS else None
    if found is None:
        return False
    try:
        _ = parse(found[1])
    except CoatcheckError:
        return False
    return True
