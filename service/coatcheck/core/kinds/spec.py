"""The only table of kinds: how payloads of each kind are recognised, described, weighted on cards, read and outlined.

No module outside `core/kinds` names a kind, which a test enforces: every peculiarity of a kind is a column of this
table. A new kind needs a member of `Kind`, a row in this table, a test, and a describer if no existing one fits.
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
    """Describes a payload of this kind. Pure, bounded by the sample, and never raises because of content."""
    media_types: tuple[str, ...] = ()
    """Declared media types that determine the kind of a text by themselves."""
    begins: Callable[[bytes], bool] | None = None
    """Takes the first 8 KiB of a text that is neither JSON nor a diff, and returns whether the text is of this kind.
    None: other rules decide (`core/kinds/classify.py`). Pure, linear, and never raises."""
    names: bool = False
    """Whether `describe` finds a title, a URL or a media type, which are needed even if no card is cut."""
    facts_share: float = 0.25
    """Maximum share that facts get of a card's tokens that remain after the names. 1: facts replace excerpts, if there
    are any facts."""
    weights: CardWeights | None = None
    """Weights for a kind whose structure shows that a text is not a program's outcome; None: the text itself
    decides."""
    has_fields: bool = True
    """Whether lines may have fields, which rendering leaves out."""
    prose: bool = False
    """Whether a text of this kind consists of sentences, so that a failure that it only mentions makes it no
    outcome."""
    readable: bool = True
    """Whether the bytes of the payload are text."""
    text_view: TextForm = "same"
    """How a payload is read as text: as it is, or as a text that is made from it."""
    card_view: bool = False
    """Whether cards are cut from the text view."""
    shows_view: Callable[[bytes], bool] | None = None
    """Takes the first 64 KiB of a payload, and returns whether it may be worthwhile to make the text view for a card.
    None: it always is."""
    view_bytes: int = 8 * 1024**2
    """Maximum bytes of a payload that an extractor receives."""
    view_partial: bool = False
    """Whether a view is made of the beginning of a longer payload; if not, a longer payload has no text view."""
    landmarks: Landmarks = landmarks.PRINTED
    """How an outline finds entries if the view has no sections."""
    markup: bool = False
    """Whether the payload is markup. Passages of its own bytes are then rated without the tags, and the last section of
    its text view may list link targets, which are no evidence."""
    paths: bool = False
    """Whether JSONPath can read the payload, even beyond the end of its text view."""
    results: Literal["no", "by_tool", "yes"] = "no"
    """Whether the payload lists search results, best first; `by_tool`: only if the tool's name says so."""
    source: Literal["response", "page"] | None = None
    """How later searches of the session use the payload: as a list of sources (`response`), as one source (`page`), or
    not at all (None)."""

    def lists_results(self, tool_name: str | None) -> bool:
        """Returns whether a payload of this kind, produced by this tool, lists the results of a search."""
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
"""Kind of a text that contains a JSON document and little else."""
TEXTS: Final = frozenset(kind for kind, spec in SPECS.items() if spec.text_view in AS_IS)
"""Kinds of texts that may contain a JSON document."""
FILES: Final = frozenset({Kind.CODE_OR_FILE, Kind.TEXT})
"""Kinds of texts that somebody wrote."""
ROWS: Final = frozenset({Kind.TABLE, Kind.JSON})
"""Kinds whose lines have fields of their own."""
MESSAGES: Final = Kind.TEXT
"""Declared kind of messages that were taken out of a history, one per line. A message is read by its line."""


def spec_of(kind: Kind) -> KindSpec:
    """Returns the row of a kind."""
    return SPECS[kind]
