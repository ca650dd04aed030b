"""An outline as facts of a card: its largest parts, then others, or those inside where the outer ones are few."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace

from coatcheck.core.outline.model import Entry
from coatcheck.core.outline.titles import without_arguments

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
_PLACE: Final = 6
"""Characters of a line's number and of what is between two entries."""


def size_of(entry: Entry) -> int:
    """Returns the number of lines of an entry; 0 if it has none."""
    return 0 if entry.lines is None else entry.lines.last - entry.lines.first + 1


def summary(entries: list[Entry], where: str) -> tuple[list[Entry], tuple[str, ...]]:
    """Returns the entries of the outer levels, and the facts that name them: the largest, then others or inner ones.

    Args:
        entries: all of them, in order.
        where: words for the lines that were examined, if they are not all.
    """
    deepest = _deepest(entries, 2 if entries[0].what == "part" else _FEW)
    if sum(entry.level <= _OUTER for entry in entries) <= _INNER:
        deepest = max(deepest, _OUTER)
    outer = [entry for entry in entries if entry.level <= deepest]
    label, part = ("Sections", "sections") if outer[0].what == "heading" else ("Outline", "parts")
    inner = min((entry.level for entry in entries if entry.level > deepest), default=0)
    outer = _shorten_titles(outer, entries, _CHARS)
    first = _largest(outer, _CHARS)
    if len(first) < len(outer):  # a card may have room for a few only
        label, first = f"Largest {part}", sorted(first, key=lambda each: (each.level, -size_of(each)))
    facts = [_fact(f"{label}{where}", first, 0)]
    within = [entry for entry in entries if entry.level == inner and entry.what != "part"]
    within = within if len(outer) <= _UPPER and len(within) >= _BELOW * len(outer) else []
    if within:
        within = _shorten_titles(within, entries, _CHARS)
        largest = _largest(within, _CHARS)
        facts.append(_fact(f"Inner {part}{where}", largest, len(within) - len(largest)))
    if len(first) < len(outer):
        first_ids = set(map(id, first))
        others = [entry for entry in outer if id(entry) not in first_ids]
        largest = _largest(others, _CHARS)
        facts.append(_fact(f"Smaller {part}{where}", largest, len(others) - len(largest)))
    return outer, tuple(facts)


def contents(entries: list[Entry], where: str, room: int) -> Iterator[str]:
    """Yields facts that name headings, each shorter than the one before: the outermost, without lines, the largest.

    Nothing if no level of the outermost ones has several. The largest are those with most bytes: in a text that is made
    from a page, a paragraph of any length is a line.

    Args:
        entries: all headings, in order.
        where: words for the part of the text that they are of.
        room: about how many tokens a fact may have.
    """
    deepest = _deepest(entries, _FEW) if entries else 0
    outer = [entry for entry in entries if entry.level <= deepest]
    if max(Counter([entry.level for entry in outer]).values(), default=0) <= _FEW:
        return
    yield _fact(f"Sections{where}", outer, 0)
    yield f"Sections{where}: {'; '.join([entry.title for entry in outer])}"
    for chars in range(room * 5, 0, -max(1, room // 2)):
        yield f"Largest sections{where}: {'; '.join([entry.title for entry in _largest(outer, chars, _bytes_of)])}"


def _deepest(entries: list[Entry], few: int) -> int:
    """Returns the level down to which there are more than `few` entries, or all."""
    return sorted([entry.level for entry in entries])[: few + 1][-1]


def _fact(label: str, entries: list[Entry], more: int) -> str:
    """Returns a fact that names entries with their lines, and how many are left out."""
    labels = [f"{entry.title} {entry.lines.first if entry.lines else ''}" for entry in entries]
    return f"{label} (with lines): {'; '.join([*labels, *([f'… {more} more'] if more else [])])}"


def _bytes_of(entry: Entry) -> int:
    return 0 if entry.bytes is None else entry.bytes.end - entry.bytes.start


def _shorten_titles(selection: list[Entry], entries: list[Entry], most: int) -> list[Entry]:
    """Returns entries without their arguments if they take more characters, except where that leaves several alike."""
    if sum(len(entry.title) + _PLACE for entry in selection) <= most or selection[0].what != "symbol":
        return selection
    forms = Counter([without_arguments(title) for title in {entry.title for entry in entries}])
    short = [(entry, without_arguments(entry.title)) for entry in selection]
    return [replace(entry, title=title) if forms[title] == 1 else entry for entry, title in short]


def _largest(entries: list[Entry], most: int, size: Callable[[Entry], int] = size_of) -> list[Entry]:
    """Returns entries, in order, up to so many characters: the outermost, of one level the largest."""
    chars, indices = 0, set[int]()
    for number in sorted(range(len(entries)), key=lambda each: (entries[each].level, -size(entries[each]), each)):
        chars += len(entries[number].title) + _PLACE
        if chars > most and indices:
            break
        indices.add(number)
    return [entry for number, entry in enumerate(entries) if number in indices]
