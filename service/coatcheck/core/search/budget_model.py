"""The values of a budgeted search: what is shown, what is only named, and the numbers of everything else."""

from msgspec import Struct

from coatcheck.core.search.fold import Fold
from coatcheck.core.search.limits import Limits
from coatcheck.core.search.model import SearchResult
from coatcheck.core.search.passages import Quote


class ShownResult(Struct, frozen=True, kw_only=True):
    """A result whose text is shown."""

    section: str
    citation: str
    """`art_…#r1`; the section alone if nothing is stored."""
    result: SearchResult
    block: str
    """The line above, and the passages."""
    tokens: int
    """Tokens of `block`."""
    quotes: tuple[Quote, ...]
    whole: bool
    """Whether only boilerplate is missing."""
    chars: int
    """Characters of the result's text."""
    shown_chars: int
    boilerplate_chars: int
    also: str | None = None
    """An earlier source of the same page, with another text."""
    fingerprint: bytes = b""


class NamedResult(Struct, frozen=True, kw_only=True):
    """A result whose title and address are shown, and perhaps a sentence."""

    section: str
    citation: str
    result: SearchResult
    fingerprint: bytes = b""
    """That of its text."""


class Counts(Struct, frozen=True, kw_only=True):
    """The numbers of everything that is not in the text.

    results = shown + listed + unlisted + folded + excluded
    """

    results: int
    shown: int
    listed: int
    unlisted: int
    folded: int
    excluded: int
    """Results of sites that the request excludes: neither shown nor listed."""
    answers: int
    answers_shown: int
    chars: int
    """Characters of the texts of all results."""
    chars_of_shown: int
    """Characters of the texts of shown results: shown_chars + cut_chars + furniture_chars."""
    shown_chars: int
    cut_chars: int
    boilerplate_chars: int


class Budgeted(Struct, frozen=True, kw_only=True):
    """What a model reads, and its components."""

    text: str
    tokens: int
    """Tokens of `text`, counted as a whole."""
    limits: Limits
    query: str
    artifact_id: str | None
    shown_results: tuple[ShownResult, ...]
    title_results: tuple[NamedResult, ...]
    folds: tuple[Fold, ...]
    earlier_results: tuple[NamedResult, ...]
    """Results that are folded into earlier sources of the session, whose titles and addresses are shown."""
    counts: Counts
    warnings: tuple[str, ...]
    before: str = ""
    """The lines of `text` before the first result's block."""
    after: str = ""
    """The lines after the last block."""
