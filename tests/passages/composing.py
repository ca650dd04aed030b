"""Compose an answer of given units."""

from collections.abc import Sequence

from coatcheck.core.clip import Budget
from coatcheck.core.passages import Composed, Layout, Part, Rated, compose
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views import Section
from coatcheck.core.window import Extent, Place


def composed(
    tokenizer: Tokenizer,
    data: bytes,
    unit: tuple[int, int],
    *,
    sections: Sequence[Section] = (),
    layout: Layout = "ranked",
) -> Composed:
    """All that there is of one unit, in a budget that is large enough to say where it stands."""
    rated = [Rated(*unit, 1.0, 0, unit[0])]
    part, whole = Part(Place(0, 0, 0), data), Extent(0, len(data))
    return compose(rated, [part], whole, Budget(400, 9_000), tokenizer, "", sections=sections, layout=layout)
