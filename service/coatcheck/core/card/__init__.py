"""Evidence cards: what a model reads instead of a payload."""

from coatcheck.core.card.compose import MAX_BUDGET, MIN_BUDGET, cut, named
from coatcheck.core.card.model import ByteRange, Card, Excerpt, LineRange, NextCall, Omission
from coatcheck.core.card.text import CardSource, may_show_text, shows_text, text_of

__all__ = [
    "MAX_BUDGET",
    "MIN_BUDGET",
    "ByteRange",
    "Card",
    "CardSource",
    "Excerpt",
    "LineRange",
    "NextCall",
    "Omission",
    "cut",
    "may_show_text",
    "named",
    "shows_text",
    "text_of",
]
