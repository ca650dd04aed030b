"""Evidence cards: what a model reads instead of a payload."""

from coatcheck.core.card.compose import MAX_BUDGET, MIN_BUDGET, cut, plan
from coatcheck.core.card.model import ByteRange, Card, Excerpt, LineRange, NextCall, Omission

__all__ = [
    "MAX_BUDGET",
    "MIN_BUDGET",
    "ByteRange",
    "Card",
    "Excerpt",
    "LineRange",
    "NextCall",
    "Omission",
    "cut",
    "plan",
]
