"""The text of a budgeted search, the counts of everything left out, and the forms in which a search is returned.

For Anthropic: one `search_result` block per result with citations enabled, and a text block with our own lines.
Citations refer to blocks by number, so a block is never removed later; another block takes its place. For OpenAI and
others: one text. For callers: results as flat records, with the ranges where each can be read.
"""

from collections.abc import Iterator
from typing import Any, cast

from msgspec import Struct

from coatcheck.core.search.fold import FoldedResult
from coatcheck.core.search.model import ADDRESS_CHARS, DATE_CHARS, LINE_CHARS, SearchLimits, SearchResult, short
from coatcheck.core.search.passages import ResultPassage
from coatcheck.core.tokens import Tokenizer


class NamedResult(Struct, frozen=True, kw_only=True):
    """A result whose title and address are shown, and perhaps a sentence."""

    section: str
    citation: str
    """The citation `art_…#r1`; only the section if the response is not stored."""
    result: SearchResult
    fingerprint: bytes = b""
    """Fingerprint of the result's text; empty if it has too few words."""


class ShownResult(NamedResult, frozen=True, kw_only=True):
    """A result whose text is shown."""

    block: str
    """The result's text as it is shown: the line above it, and the passages."""
    tokens: int
    """Tokens of `block`."""
    quotes: tuple[ResultPassage, ...]
    whole: bool
    """Whether everything but boilerplate is shown."""
    chars: int
    """Characters of the result's text."""
    shown_chars: int
    boilerplate_chars: int
    also: str | None = None
    """Citation of an earlier source with another text of the same page; None if there is none."""


class SearchCounts(Struct, frozen=True, kw_only=True):
    """How many results, answers and characters are in the text, and how many are not.

    results = shown + listed + unlisted + folded + excluded
    """

    results: int
    shown: int
    listed: int
    unlisted: int
    folded: int
    excluded: int
    """Results of sites that the request excludes; they are neither shown nor listed."""
    answers: int
    answers_shown: int
    chars: int
    """Characters of the texts of all results."""
    chars_of_shown: int
    """Characters of the texts of shown results: shown_chars + cut_chars + boilerplate_chars."""
    shown_chars: int
    cut_chars: int
    boilerplate_chars: int


class Budgeted(Struct, frozen=True, kw_only=True):
    """The text of a search for a model, and its components."""

    text: str
    tokens: int
    """Tokens of `text`, counted as a whole."""
    limits: SearchLimits
    query: str
    artifact_id: str | None
    shown_results: tuple[ShownResult, ...]
    title_results: tuple[NamedResult, ...]
    folds: tuple[FoldedResult, ...]
    earlier_results: tuple[NamedResult, ...]
    """Results that are folded into earlier sources of the session; their titles and addresses are listed."""
    counts: SearchCounts
    warnings: tuple[str, ...]
    before: str = ""
    """The lines of `text` before the first result's block."""
    after: str = ""
    """The lines of `text` after the last result's block."""


Block = dict[str, object]


def anthropic_result(output: Budgeted, tokenizer: Tokenizer) -> list[Block]:
    """Returns the content of a `tool_result`; neither the content nor any text in it is empty.

    If all strings in the blocks together exceed the total, the content is the text in one block. Only addresses that
    the text cuts can cause this.
    """
    blocks = [_text(output.before)] if output.before else []
    blocks += [
        _search_result(shown_result) if shown_result.quotes else _text(shown_result.block)
        for shown_result in output.shown_results
    ]
    if output.after:
        blocks.append(_text(output.after))
    if not blocks or tokenizer.count("\n".join(_strings(blocks))) > output.limits.max_total_tokens:
        return [_text(output.text or "No results.")]
    return blocks


def _strings(blocks: list[Block]) -> Iterator[str]:
    """Yields every string in blocks that a model reads."""
    for block in blocks:
        for name in ("text", "source", "title"):
            if name in block:
                yield cast("str", block[name])
        yield from _strings(cast("list[Block]", block.get("content", [])))


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _search_result(shown_result: ShownResult) -> Block:
    """Returns the block of one result, in which each passage is a block that can be cited separately."""
    url = shown_result.result.url or shown_result.citation
    head = f"{shown_result.section} {short(shown_result.result.title, LINE_CHARS)}".strip()
    return {
        "type": "search_result",
        "source": short(url, ADDRESS_CHARS) if len(url) <= ADDRESS_CHARS else shown_result.citation,
        "title": " | ".join(part for part in (head, short(shown_result.result.date or "", DATE_CHARS)) if part),
        "content": [_text(quote.text.rstrip("\n")) for quote in shown_result.quotes],
        "citations": {"enabled": True},
    }


class ResultListed(Struct, frozen=True, kw_only=True):
    """A result whose title and address are shown."""

    section: str
    citation: str
    title: str
    url: str | None
    canonical_url: str | None
    date: str | None
    """The date as the provider gave it."""
    date_iso: str | None
    score: float | None
    """The provider's own score, on the provider's own scale."""


class ResultShown(ResultListed, frozen=True, kw_only=True):
    """A result whose text is shown."""

    tokens: int
    """Tokens of the result's passages together with the line above them."""
    whole: bool
    """Whether only menus, notices and repetitions are left out."""
    chars: int
    """Characters of the result's text."""
    shown_chars: int
    windows: tuple[ResultPassage, ...]
    """The passages that are shown; the `view` of each is its range in the text view."""
    also: str | None
    """Citation of an earlier source of the session with another text of the same page; null if there is none."""


def results_shown(budgeted: Budgeted) -> tuple[ResultShown, ...]:
    """Returns the results whose text is shown, in the form for callers."""
    own = ("tokens", "whole", "chars", "shown_chars", "also")
    return tuple(
        ResultShown(**_listed_fields(each), **{name: getattr(each, name) for name in own}, windows=each.quotes)
        for each in budgeted.shown_results
    )


def results_listed(budgeted: Budgeted) -> tuple[ResultListed, ...]:
    """Returns the results whose title and address are listed, in the form for callers."""
    return tuple(ResultListed(**_listed_fields(each)) for each in budgeted.title_results)


def _listed_fields(each: NamedResult) -> dict[str, Any]:
    own = ("title", "url", "canonical_url", "date", "date_iso", "score")
    return {"section": each.section, "citation": each.citation, **{name: getattr(each.result, name) for name in own}}
