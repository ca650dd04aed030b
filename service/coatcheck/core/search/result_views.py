"""Results of a budgeted search as callers see them: flat, with where each can be read."""

from msgspec import Struct

from coatcheck.core.search.budget_model import Budgeted
from coatcheck.core.search.passages import Quote


class ResultShown(Struct, frozen=True, kw_only=True):
    """A result whose text is shown."""

    section: str
    citation: str
    title: str
    url: str | None
    canonical_url: str | None
    date: str | None
    """As the provider gave it."""
    date_iso: str | None
    score: float | None
    """The provider's own, on its own scale."""
    tokens: int
    """Tokens of what is shown of it, with the line above."""
    whole: bool
    """Whether only menus, notices and repetitions are missing."""
    chars: int
    """Characters of its text."""
    shown_chars: int
    windows: tuple[Quote, ...]
    """The passages that are shown; `view` gives the range of each in the text view."""
    also: str | None
    """An earlier source of the session of the same page, with another text."""


class ResultListed(Struct, frozen=True, kw_only=True):
    """A result whose title and address are shown."""

    section: str
    citation: str
    title: str
    url: str | None
    canonical_url: str | None
    date: str | None
    date_iso: str | None
    score: float | None


def results_shown(budgeted: Budgeted) -> tuple[ResultShown, ...]:
    """Returns the results whose text is shown, as callers see them."""
    return tuple(
        ResultShown(
            section=each.section,
            citation=each.citation,
            title=each.result.title,
            url=each.result.url,
            canonical_url=each.result.canonical_url,
            date=each.result.date,
            date_iso=each.result.date_iso,
            score=each.result.score,
            tokens=each.tokens,
            whole=each.whole,
            chars=each.chars,
            shown_chars=each.shown_chars,
            windows=each.quotes,
            also=each.also,
        )
        for each in budgeted.shown_results
    )


def results_listed(budgeted: Budgeted) -> tuple[ResultListed, ...]:
    """Returns the results whose title and address are shown, as callers see them."""
    return tuple(
        ResultListed(
            section=each.section,
            citation=each.citation,
            title=each.result.title,
            url=each.result.url,
            canonical_url=each.result.canonical_url,
            date=each.result.date,
            date_iso=each.result.date_iso,
            score=each.result.score,
        )
        for each in budgeted.title_results
    )
