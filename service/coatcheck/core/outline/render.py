"""An outline as text: one line per entry, as many as a budget allows, and a line of ours that says what is missing.

The text is counted as a whole, so that the bound holds for every content.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.outline.model import Entry
from coatcheck.core.text.excerpt import fit_text
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.clip import ClipBudget
from coatcheck_client.contract.inert import MARK

MIN_TOKENS: Final = 64
_LAST: Final = 48
"""Tokens reserved for the last line, without notices."""
_LEAST: Final = 12
"""Minimum characters to which the only entry of an answer is cut."""
_DETAIL: Final = 300
"""Maximum characters of an entry's detail."""

_INNER: Final = 30
"""Entries of the outer levels that a card can name about; of more, the outermost are named alone."""
_OUTER: Final = 2
_FEW: Final = 3
"""Entries of the outer levels that alone would be no outline: a title, and a version or two."""
_UPPER: Final = 8
_BELOW: Final = 2
"""Maximum entries of the outer levels beside which those of the next level are named, and how many more those are."""
_CHARS: Final = 800
"""Characters of the entries that a fact names: about what a card of 600 tokens has room for."""
_HOLDERS: Final = 3
"""Maximum outer entries whose inner ones are named."""
_HELD: Final = 4
"""Minimum inner entries of such a one."""
_SHARE: Final = 0.6
"""Minimum share of the inner entries that these hold."""
_PUBLIC: Final = ("public ", "export ", "pub ")
_PLACE: Final = 6
"""Characters of a line's number and of what is between two entries."""


class RenderedOutline(Struct, frozen=True):
    """An outline's text and how many entries are in it."""

    text: str
    tokens: int
    shown: int


def size_of(entry: Entry) -> int:
    """Returns the number of lines of an entry; 0 if it has none."""
    return 0 if entry.lines is None else entry.lines.last - entry.lines.first + 1


def summary(entries: list[Entry], where: str) -> tuple[list[Entry], tuple[str, ...]]:
    """Returns the entries of the outer levels, and the facts that name them: the largest, then others or inner ones.

    Args:
        entries: all of them, in order.
        where: words for the lines that were examined, if they are not all.
    """
    levels = sorted(entry.level for entry in entries)
    deepest = levels[min(2 if entries[0].what == "part" else _FEW, len(levels) - 1)]
    if sum(level <= _OUTER for level in levels) <= _INNER:
        deepest = max(deepest, _OUTER)
    outer = [entry for entry in entries if entry.level <= deepest] or entries
    label, part = ("Sections", "sections") if outer[0].what == "heading" else ("Outline", "parts")
    inner = min((entry.level for entry in entries if entry.level > deepest), default=0)
    holders = _holders(entries, outer, inner)
    first = _largest(outer, _CHARS // 2 if holders else _CHARS)
    if len(first) < len(outer):
        label, first = f"Largest {part}", sorted(first, key=_rank)  # a card may have room for a few only
    facts = [_fact(f"{label}{where}", first, 0)]
    within = [entry for entry in entries if entry.level == inner and entry.what != "part"]
    within = within if len(outer) <= _UPPER and len(within) >= _BELOW * len(outer) else []
    for held in holders.values():
        within += [replace(entry, title=entry.title.partition("(")[0] or entry.title) for entry in held]
    if within:
        of = f" of {' and '.join(holders)}" if len(outer) > _UPPER else ""
        named = _largest(within, _CHARS)
        facts.append(_fact(f"Inner {part}{of}{where}", named, len(within) - len(named)))
    if len(first) < len(outer):
        kept = set(map(id, first))
        others = [entry for entry in outer if id(entry) not in kept]
        named = _largest(others, _CHARS)
        facts.append(_fact(f"Smaller {part}{where}", named, len(others) - len(named)))
    return outer, tuple(facts)


def _holders(entries: list[Entry], outer: list[Entry], inner: int) -> dict[str, list[Entry]]:
    """Returns the few of many outer entries in which most inner ones are, like the services among messages."""
    held: dict[str, list[Entry]] = {}
    name = ""
    for entry in entries if len(outer) > _UPPER else []:
        if entry.level < inner:
            name = entry.title
        elif entry.level == inner:
            held.setdefault(name, []).append(entry)
    most = {name: each for name, each in held.items() if len(each) >= _HELD}
    enough = _SHARE * sum(map(len, held.values())) <= sum(map(len, most.values()))
    return most if 0 < len(most) <= _HOLDERS and enough else {}


def _fact(label: str, entries: list[Entry], left: int) -> str:
    """Returns a fact that names entries with their lines, and how many are left out."""
    named = [f"{entry.title} {entry.lines.first if entry.lines else ''}" for entry in entries]
    return f"{label} (with lines): {'; '.join([*named, *([f'… {left} more'] if left else [])])}"


def _largest(entries: list[Entry], most: int) -> list[Entry]:
    """Returns entries, in order, up to so many characters: the outermost, of one level the public and the largest."""
    chars, kept = 0, set[int]()
    for number in sorted(range(len(entries)), key=lambda each: (*_rank(entries[each]), each)):
        chars += len(entries[number].title) + _PLACE
        if chars > most and kept:
            break
        kept.add(number)
    return [entry for number, entry in enumerate(entries) if number in kept]


def _rank(entry: Entry) -> tuple[int, bool, int]:
    return entry.level, not entry.title.startswith(_PUBLIC), -size_of(entry)


def line_of(entry: Entry) -> str:
    """Returns an entry as a line."""
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
    entries: list[Entry],
    first: int,
    limit: int,
    budget: ClipBudget,
    tokenizer: Tokenizer,
    notices: list[str],
    *,
    more: str,
) -> RenderedOutline:
    """Returns the entries from number `first` (from 0) on, at most `limit`.

    Args:
        entries: all of them.
        first: how many to skip.
        limit: maximum number of entries.
        budget: that of the text, including the last line.
        tokenizer: counts tokens.
        notices: sentences of ours for the last line.
        more: how to request the rest, with `{}` for the number of the next entry.
    """
    total = len(entries)
    room = budget.tokens - _LAST - sum(map(tokenizer.count, notices))
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
        shown = len(lines)
        text = "\n".join([*lines, *_last(first, shown, total, notices, more)])
        count = tokenizer.count(text)
        if count <= budget.tokens and len(text) <= budget.chars:
            return RenderedOutline(text, count, shown)
        if len(lines) > 1:
            lines.pop()
        elif lines and len(lines[0]) > _LEAST:
            lines[0] = lines[0][: len(lines[0]) // 2] + "…"
        elif notices:
            notices = []
        else:
            text = fit_text(text, budget.tokens, tokenizer)[: budget.chars]
            return RenderedOutline(text, tokenizer.count(text), shown)


def _last(first: int, shown: int, total: int, notices: list[str], more: str) -> list[str]:
    said = list(notices)
    if shown < total:
        on = f" Next: {more.format(first + shown)}." if first + shown < total else ""
        said.insert(0, f"Entries {first + 1}-{first + shown} of {total:,}.{on}")
    return [f"{MARK} {' '.join(said)}"] if said else []
