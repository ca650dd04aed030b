"""Renders an outline as text, one line per entry, and finds the entry that a caller means.

The text has as many entries as a budget allows, and a line of the service's own that says what is missing. It is
counted as a whole, so that the bound holds for every content.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from coatcheck.core.outline.model import OutlineEntry
from coatcheck.core.outline.section_names import match_titles, no_section, not_found, shorten_label
from coatcheck.core.text.excerpt import fit_text
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.clip import ClipBudget
from coatcheck.core.views.view import Section
from coatcheck_client.contract.inert import MARK

MIN_TOKENS: Final = 64
"""Smallest budget of an outline, in tokens: its last line takes 48."""
_LAST_LINE_TOKENS: Final = 48
"""Tokens reserved for the last line, without notices."""
_MIN_ENTRY_CHARS: Final = 12
"""Minimum characters to which the only entry of an answer is cut."""
_DETAIL: Final = 300
"""Maximum characters of an entry's detail."""


class RenderedOutline(Struct, frozen=True):
    """An outline's text and how many entries are in it."""

    text: str
    tokens: int
    entry_count: int
    """Number of entries in the text."""


def line_of(entry: OutlineEntry) -> str:
    """Returns an entry as a line of text, indented by its level."""
    words = [entry.section or "", entry.title]
    if entry.detail:
        detail = entry.detail if len(entry.detail) <= _DETAIL else entry.detail[: _DETAIL - 1] + "…"
        words.append(f"- {detail}")
    if entry.url:
        words.append(f"<{entry.url}>" if len(entry.url) <= _DETAIL else f"<{entry.url[: _DETAIL - 1]}…>")
    lines = entry.lines
    if lines is not None:
        words.append(f"({lines.first}-{lines.last})" if lines.last > lines.first else f"({lines.first})")
    return "  " * (entry.level - 1) + " ".join(word for word in words if word)


def render(
    entries: list[OutlineEntry],
    first: int,
    limit: int,
    budget: ClipBudget,
    tokenizer: Tokenizer,
    notices: list[str],
    *,
    more: str,
    origin: int,
) -> RenderedOutline:
    """Returns the entries from number `first` (from 0) on, at most `limit`.

    Args:
        entries: all entries.
        first: number of entries to skip.
        limit: maximum number of entries.
        budget: the budget of the text, including its last line.
        tokenizer: counts tokens.
        notices: sentences of the service's own for the last line.
        more: how to request the rest, with `{}` for the number of the next entry.
        origin: number of the first of all entries, in `more`.
    """
    total = len(entries)
    room = budget.tokens - _LAST_LINE_TOKENS - sum(map(tokenizer.count, notices))
    lines: list[str] = []
    tokens = chars = 0
    for entry in entries[first : first + limit]:
        line = line_of(entry)
        tokens += tokenizer.count(line) + 1
        chars += len(line) + 1
        if tokens > room or chars > budget.chars - 400 - sum(map(len, notices)):
            break
        lines.append(line)
    if not lines and first < total:  # a single entry is shown as far as it fits, so that those after it can be reached
        lines.append(line_of(entries[first]))
    while True:
        entry_count = len(lines)
        text = "\n".join([*lines, *_last(first, entry_count, total, notices, more, origin)])
        count = tokenizer.count(text)
        if count <= budget.tokens and len(text) <= budget.chars:
            return RenderedOutline(text, count, entry_count)
        if len(lines) > 1:
            lines.pop()
        elif lines and len(lines[0]) > _MIN_ENTRY_CHARS:
            lines[0] = lines[0][: len(lines[0]) // 2] + "…"
        elif notices:
            notices = []
        else:
            text = fit_text(text, budget.tokens, tokenizer)[: budget.chars]
            return RenderedOutline(text, tokenizer.count(text), entry_count)


def _last(first: int, entry_count: int, total: int, notices: list[str], more: str, origin: int) -> list[str]:
    sentences = list(notices)
    if entry_count < total:
        on = f" Next: {more.format(origin + first + entry_count)}." if first + entry_count < total else ""
        sentences.insert(0, f"Entries {first + 1}-{first + entry_count} of {total:,}.{on}")
    return [f"{MARK} {' '.join(sentences)}"] if sentences else []


def choose_entry(entries: Sequence[OutlineEntry], query: str, artifact_id: str) -> int:
    """Returns the index of the entry that `query` means, by its title, a name in it or its beginning.

    Raises:
        CoatcheckError: `section_not_found` if there is none, or several.
    """
    matches = match_titles([entry.title for entry in entries], query, names=True)
    if len(matches) == 1:
        return matches[0]
    if not entries:
        raise no_section(artifact_id, query, ())
    candidates = [_label_entry(entries[number]) for number in matches or range(len(entries))]
    raise not_found(artifact_id, query, candidates, ambiguous=bool(matches), total=len(entries))


def section_of(entries: Sequence[OutlineEntry], number: int) -> tuple[tuple[Section, ...], int | None]:
    """Returns the entries with lines as sections of their view, and which of them is entry `number`.

    If that entry has no lines, returns no sections, and None.
    """
    if entries[number].lines is None or entries[number].bytes is None:
        return (), None
    sections: list[Section] = []
    nth = 0
    for place, entry in enumerate(entries):
        lines, extent = entry.lines, entry.bytes
        if lines is None or extent is None:
            continue
        if place == number:  # its number among the sections, which lack entries without lines
            nth = len(sections)
        sections.append(
            Section(
                name=entry.section or shorten_label(entry.title),
                title=entry.title if entry.section else "",
                level=entry.level,
                start=extent.start,
                end=extent.end,
                line=lines.first,
                lines=lines.last - lines.first + 1,
                url=entry.url,
            )
        )
    return tuple(sections), nth


def _label_entry(entry: OutlineEntry) -> str:
    title = shorten_label(entry.title)
    where = "" if entry.lines is None else f" (line {entry.lines.first})"
    return f"{title}{where}" if entry.section is None else f"{entry.section} ({title})"
