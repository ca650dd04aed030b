"""Evidence cards: what a model reads instead of a payload."""

from coatcheck.core.card.compose import MAX_BUDGET, MIN_BUDGET, cut, make_bare_card
from coatcheck.core.card.model import Card
from coatcheck.core.card.text import CardSource, may_show_text, shows_text, text_of

__all__ = [
    "MAX_BUDGET",
    "MIN_BUDGET",
    "Card",
    "CardSource",
    "cut",
    "make_bare_card",
    "may_show_text",
    "shows_text",
    "text_of",
]
