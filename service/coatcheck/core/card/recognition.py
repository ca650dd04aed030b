"""Recognises a card in a history by its first line, which every card has; not inside a text.

A payload could imitate that beginning: all it gains is to be left as it is, up to the size of a card.
"""

import re
from typing import Final

from coatcheck.core.card.compose import MAX_BUDGET
from coatcheck.core.ids import is_id

_FIRST: Final = re.compile(
    r"\[(art_[0-9]{18}) · [a-z_]{1,40} · (?:[^\n]{1,400} · )?"
    r"(?:stored outside this conversation|NOT STORED)(?:; below: [^\n]{1,200})?\](?=\r?\n|\Z)"
)
MAX_CARD_CHARS: Final = 32 * MAX_BUDGET
"""Maximum characters of a text that is taken for a card: those of the largest budget, of blanks, 32 per token."""


def is_card(text: str) -> bool:
    """Returns whether a text begins with a card's first line and a possible ID, and is short enough for a card."""
    match = _FIRST.match(text) if len(text) <= MAX_CARD_CHARS else None
    return match is not None and is_id(match[1])
