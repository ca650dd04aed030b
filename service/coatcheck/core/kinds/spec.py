"""The one table of kinds: what each is worth on a card, who describes it, and how it is read as text.

Nothing else in the service asks which kind a payload is. A new kind is a row here, a describer, and a test.
"""

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

from coatcheck.core.artifact import Kind
from coatcheck.core.choose.worth import DOCUMENT, Weights
from coatcheck.core.kinds.description import Description, Payload
from coatcheck.core.kinds.json_facts import describe_json
from coatcheck.core.kinds.media import describe_media
from coatcheck.core.kinds.page import describe_page
from coatcheck.core.kinds.results import describe_results
from coatcheck.core.kinds.table import describe_table
from coatcheck.core.kinds.text_facts import describe_diff, describe_output, describe_source

_MIB: Final = 1024 * 1024
Describe = Callable[[Payload], Description]
"""Pure, bounded by the sample, and raises for no content."""


class KindSpec(Struct, frozen=True, kw_only=True):
    """How one kind is described, shown and read."""

    describe: Describe
    facts_share: float = 0.25
    """Of a card's tokens behind the names, the most that facts get."""
    facts_only: bool = False
    """Facts, where there are any, stand in the place of excerpts."""
    weights: Weights | None = None
    """Of a kind whose structure tells that it is no outcome; None: the text itself tells."""
    readable: bool = True
    """Whether the bytes are text."""
    text_view: Literal["same", "extracted", "document"] = "same"
    """What a reader reads: the payload itself, a text made of it, or a text where an extractor knows the format."""
    card_view: bool = False
    """Whether cards are cut from the text view."""
    view_bytes: int = 8 * _MIB
    """Bytes of payload that an extractor is given."""
    view_partial: bool = False
    """Whether the beginning of a longer payload is worth a view; otherwise it has none."""


_PAGE: Final = Weights(
    statements=0.0, head=3.0, head_reach=1.0, tail=1.0, tail_reach=0.1, cover=0.0, thrift=0.0, repeats=0.0
)
_RESULTS: Final = Weights(statements=0.0, head=3.0, head_reach=0.5, tail=1.0, tail_reach=0.2, cover=2.5)
_ROWS: Final = Weights(statements=0.15, head=3.0, head_reach=0.5, tail=1.5, tail_reach=0.2, cover=0.5)

SPECS: Final[dict[Kind, KindSpec]] = {
    Kind.COMMAND_OUTPUT: KindSpec(describe=describe_output),
    Kind.LOG: KindSpec(describe=describe_output),
    Kind.CODE_OR_FILE: KindSpec(describe=describe_source, view_partial=True),
    Kind.DIFF: KindSpec(describe=describe_diff, facts_share=0.35, weights=DOCUMENT),
    Kind.JSON: KindSpec(
        describe=describe_json, facts_share=0.8, text_view="extracted", card_view=True, view_bytes=32 * _MIB
    ),
    Kind.TABLE: KindSpec(describe=describe_table, facts_share=0.4, weights=_ROWS),
    Kind.WEB_PAGE: KindSpec(
        describe=describe_page,
        facts_share=0.05,
        weights=_PAGE,
        text_view="extracted",
        card_view=True,
        view_partial=True,
    ),
    Kind.SEARCH_RESULTS: KindSpec(
        describe=describe_results,
        facts_share=1.0,
        facts_only=True,
        weights=_RESULTS,
        text_view="extracted",
        card_view=True,
        view_bytes=32 * _MIB,
    ),
    Kind.IMAGE: KindSpec(describe=describe_media, facts_share=1.0, facts_only=True, readable=False),
    Kind.BINARY: KindSpec(
        describe=describe_media,
        facts_share=1.0,
        facts_only=True,
        readable=False,
        text_view="document",
        card_view=True,
        view_bytes=32 * _MIB,
    ),
    Kind.TEXT: KindSpec(describe=describe_output, view_partial=True),
}


def spec_of(kind: Kind) -> KindSpec:
    """Returns the row of a kind."""
    return SPECS[kind]
