"""Compose an answer of given units."""

from collections.abc import Sequence

from coatcheck.core.passages import DocumentPart, Layout, PassageText, RatedUnit, compose
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.clip import ClipBudget
from coatcheck.core.views.view import Section
from coatcheck.core.views.window import Extent, Position


def composed(
    tokenizer: Tokenizer,
    data: bytes,
    unit: tuple[int, int],
    *,
    sections: Sequence[Section] = (),
    layout: Layout = "ranked",
) -> PassageText:
    """All that there is of one unit, in a budget that is large enough to say where it stands."""
    rated = [RatedUnit(*unit, 1.0, 0, unit[0])]
    part, whole = DocumentPart(Position(0, 0, 0), data), Extent(0, len(data))
    return compose(rated, [part], whole, ClipBudget(400, 9_000), tokenizer, "", sections=sections, layout=layout)
