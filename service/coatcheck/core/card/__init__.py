"""Evidence cards: what a model reads instead of a payload."""

from coatcheck.core.card.compose import MAX_BUDGET, MIN_BUDGET, cut
from coatcheck.core.card.model import ByteRange, Card, Excerpt, LineRange, NextCall, Omission
from coatcheck.core.card.text import Text, may_show_text, shows_text, text_of

__all__ = [
    "MAX_BUDGET",
    "MIN_BUDGET",
    "ByteRange",
    "Card",
    "Excerpt",
    "LineRange",
    "NextCall",
    "Omission",
    "Text",
    "cut",
    "may_show_text",
    "shows_text",
    "text_of",
]
