"""The one table of kinds: how each is recognised, described, weighted on cards, read and outlined.

Nothing outside `core/kinds` names a kind: whatever is special about one is a column, which a test enforces. A new kind
is a member of `Kind`, a row here, a describer if no other fits, and a test.
"""

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

from coatcheck.core.artifact import Kind
from coatcheck.core.choose.worth import DOCUMENT, CardWeights
from coatcheck.core.extract.texts import may_be_notebook, may_be_parts
from coatcheck.core.kinds.description import Description, PayloadProbe
from coatcheck.core.kinds.json_facts import describe_json, describe_media, describe_written
from coatcheck.core.kinds.page import describe_page, is_page
from coatcheck.core.kinds.results import describe_results, is_search_tool
from coatcheck.core.kinds.text_facts import describe_diff, describe_output, describe_source, describe_table
from coatcheck.core.outline import landmarks
from coatcheck.core.outline.model import Landmarks
from coatcheck.core.views.view import AS_IS, TextForm


class KindSpec(Struct, frozen=True, kw_only=True):
    """How one kind is described, shown and read."""

    describe: Callable[[PayloadProbe], Description]
    """Pure, bounded by the sample, and never raises because of content."""
    media_types: tuple[str, ...] = ()
    """Declared media types that determine the kind of a text by themselves."""
    begins: Callable[[bytes], bool] | None = None
    """Returns, given the first 8 KiB of a text that is no JSON and no diff, whether it is of this kind; None: other
    rules decide (`core/kinds/classify.py`). Pure, linear, and never raises."""
    names: bool = False
    """Whether describing finds a title, an address or a media type, which are needed beyond cards."""
    facts_share: float = 0.25
    """Maximum share of a card's tokens after the names that facts get. 1: facts, if there are any, replace excerpts."""
    weights: CardWeights | None = None
    """Weights of a kind whose structure shows that it is not an outcome; None: the text itself tells."""
    has_fields: bool = True
    """Whether lines may have fields, which are left out when they are shown."""
    prose: bool = False
    """Whether a text of this kind is told in sentences: only a sure failure near its end makes it an outcome."""
    readable: bool = True
    """Whether the bytes are text."""
    text_view: TextForm = "same"
    """How a payload is read as text: as it is, or as a text made from it."""
    card_view: bool = False
    """Whether cards are cut from the text view."""
    shows_view: Callable[[bytes], bool] | None = None
    """Returns, given the first 64 KiB, whether making the view for a card may be worthwhile; None: always."""
    view_bytes: int = 8 * 1024**2
    """Bytes of payload that an extractor gets."""
    view_partial: bool = False
    """Whether the beginning of a longer payload is worth a view; otherwise it has none."""
    landmarks: Landmarks = landmarks.PRINTED
    """How an outline finds entries if the view has no sections."""
    markup: bool = False
    """Whether the payload is tags around words: passages from its own bytes are rated without the tags, and the last
    section of its text view may list link targets, which are no evidence."""
    paths: bool = False
    """Whether JSONPath reads the payload, even beyond the end of its text view."""
    results: Literal["no", "by_tool", "yes"] = "no"
    """Whether the payload lists search results, best first; `by_tool`: if its tool's name says so."""
    source: Literal["response", "page"] | None = None
    """What the payload is to later searches of its session: a list of sources, one source, or none."""

    def lists_results(self, tool_name: str | None) -> bool:
        """Returns whether a payload of this kind, produced by this tool, lists what a search found."""
        return self.results == "yes" or (self.results == "by_tool" and is_search_tool(tool_name))


def _may_have_parts(head: bytes) -> bool:
    return may_be_parts(head) or may_be_notebook(head)


_PAGE: Final = CardWeights(statements=0.0, head=3.0, head_reach=1.0, tail=1.0, tail_reach=0.1, cover=0.0, thrift=0.0)
_RESULTS: Final = CardWeights(statements=0.0, head=3.0, head_reach=0.5, tail=1.0, tail_reach=0.2, cover=2.5)
_ROWS: Final = CardWeights(statements=0.15, head=3.0, head_reach=0.5, tail=1.5, tail_reach=0.2, cover=0.5)

SPECS: Final[dict[Kind, KindSpec]] = {
    Kind.COMMAND_OUTPUT: KindSpec(describe=describe_output, text_view="mixed", landmarks=landmarks.OUTPUT),
    Kind.LOG: KindSpec(describe=describe_output, text_view="mixed", landmarks=landmarks.OUTPUT),
    Kind.CODE_OR_FILE: KindSpec(
        describe=describe_source, facts_share=0.5, text_view="mixed", view_partial=True, landmarks=landmarks.SOURCE
    ),
    Kind.DIFF: KindSpec(
        describe=describe_diff,
        media_types=("text/x-diff", "text/x-patch", "application/x-patch"),
        facts_share=0.35,
        weights=DOCUMENT,
        has_fields=False,
        landmarks=landmarks.DIFF,
    ),
    Kind.JSON: KindSpec(
        describe=describe_json,
        media_types=("application/x-ndjson", "application/jsonl"),
        facts_share=0.8,
        text_view="json",
        card_view=True,
        shows_view=_may_have_parts,
        view_bytes=32 * 1024**2,
        landmarks=landmarks.JSON,
        paths=True,
        results="by_tool",
    ),
    Kind.TABLE: KindSpec(
        describe=describe_table,
        media_types=("text/csv", "text/tab-separated-values"),
        facts_share=0.4,
        weights=_ROWS,
        landmarks=landmarks.TABLE,
    ),
    Kind.SEARCH_RESULTS: KindSpec(
        describe=describe_results,
        facts_share=1.0,
        weights=_RESULTS,
        has_fields=False,
        text_view="search_results",
        card_view=True,
        view_bytes=32 * 1024**2,
        results="yes",
        source="response",
    ),
    Kind.WEB_PAGE: KindSpec(
        describe=describe_page,
        media_types=("text/html", "application/xhtml+xml"),
        begins=is_page,
        names=True,
        facts_share=0.05,
        weights=_PAGE,
        has_fields=False,
        text_view="page",
        card_view=True,
        view_partial=True,
        markup=True,
        source="page",
    ),
    Kind.IMAGE: KindSpec(describe=describe_media, names=True, facts_share=1.0, readable=False),
    Kind.DOCUMENT: KindSpec(
        describe=describe_written,
        names=True,
        has_fields=False,
        prose=True,
        text_view="document",
        card_view=True,
        view_bytes=32 * 1024**2,
        landmarks=landmarks.PROSE,
    ),
    Kind.BINARY: KindSpec(
        describe=describe_media,
        names=True,
        facts_share=1.0,
        readable=False,
        text_view="document",
        card_view=True,
        view_bytes=32 * 1024**2,
    ),
    Kind.TEXT: KindSpec(
        describe=describe_output, prose=True, text_view="prose", view_partial=True, landmarks=landmarks.PROSE
    ),
}

SEARCH_RESPONSE: Final = Kind.SEARCH_RESULTS
"""Declared kind of a payload that was submitted as a search response."""
JSON: Final = Kind.JSON
"""Kind of a document in a text."""
TEXTS: Final = frozenset(kind for kind, spec in SPECS.items() if spec.text_view in AS_IS)
"""Kinds of texts, in which a document of another kind may be."""
FILES: Final = frozenset({Kind.CODE_OR_FILE, Kind.TEXT})
"""Kinds of what somebody wrote."""
ROWS: Final = frozenset({Kind.TABLE, Kind.JSON})
"""Kinds whose lines have fields of their own."""
MESSAGES: Final = Kind.TEXT
"""Declared kind of messages taken out of a history, one per line: each is read by its line."""


def spec_of(kind: Kind) -> KindSpec:
    """Returns the row of a kind."""
    return SPECS[kind]
