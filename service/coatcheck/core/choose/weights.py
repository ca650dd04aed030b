"""How a card is spent in each situation: weights of statements, ends and topics."""

from typing import Final

from msgspec import Struct


class CardWeights(Struct, frozen=True, kw_only=True):
    """How a card is spent in a situation."""

    statements: float
    """Share of the worth that a statement of failure has in an outcome."""
    head: float
    head_reach: float
    """Share of the budget over which the worth of the beginning falls to a third."""
    head_least: float = 0.08
    """Share of the budget that the beginning always gets."""
    tail: float
    tail_reach: float
    cover: float
    """Worth of words that no chosen unit contains."""
    thrift: float = 0.2
    """How much a unit's price counts against its worth, as an exponent; 0 shows what is worth most, however long."""
    repeats: float = 0.0
    """What a unit loses of its worth if all of its words were shown already."""


OUTCOME: Final = CardWeights(
    statements=1.0, head=0.5, head_reach=0.2, head_least=0.03, tail=3.0, tail_reach=0.35, cover=0.0, repeats=0.8
)
DOCUMENT: Final = CardWeights(statements=0.15, head=3.0, head_reach=0.5, tail=1.0, tail_reach=0.15, cover=4.0)
