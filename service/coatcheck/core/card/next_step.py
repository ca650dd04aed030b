"""Describes the most important omissions of a card, and the one call that is most likely to help."""

import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Final, final

from msgspec import Struct

from coatcheck.core.card.model import LineRange, NextCall, Omission
from coatcheck.core.choose.units import Units
from coatcheck.core.survey.lexicon import BENIGN, SURE
from coatcheck.core.text.scan import rows_with
from coatcheck_client.contract.inert import one_line

TOOL: Final = "read_artifact"
_PAGE: Final = 80
"""Lines of the next part, if nothing better than reading on is known: about a thousand tokens."""
_LEAST: Final = 10
"""Minimum lines that a call requests."""
_NAMED: Final = 3
"""Words of failure that a card counts."""
_LOOKED: Final = 12
"""Words of failure among which these are chosen."""
_LIKE: Final = 10
"""Number of similar lines from which they are named."""
_SHARE: Final = 0.2
"""Minimum share of what is left out that similar lines must have to be named."""
_SHOWN: Final = 40
"""Characters shown of a line that represents similar ones."""
_WORD: Final = re.compile(
    rb"[A-Za-z_][\w.]*(?:Error|Exception|Fault)\b|\b(?:FAIL(?:ED|URE|URES)?|ERROR|FATAL|CRITICAL|PANIC|SEVERE)\b"
    rb"|\b(?:[Ff]atal|[Ee]rror|[Ff]ailed|[Ff]ailure|panicked|undefined reference|not ok)\b|[\xe2][\x9c][\x97\x98\x96]"
)


class Rest(Struct, frozen=True):
    """What is left out that matters."""

    failures: tuple[tuple[str, int], ...] = ()
    """Words of failure with the number of left-out lines that contain them, most frequent first."""
    like: tuple[str, int] | None = None
    """The beginning of a line, and how many left-out lines differ from it only in digits."""
    inside: str | None = None
    """If there is no such line, a word of failure in what is left out of a long line shown in part."""

    @property
    def words(self) -> str:
        """Returns the failures in words; empty if there is nothing to say."""
        parts = [f"{count} more {word}" for word, count in self.failures]
        if self.like is not None:
            parts.append(f"{self.like[1]} like “{self.like[0]}”")
        return ", ".join(parts)


@final
class RestFinder:
    """Describes what is left out of a text that is available in full, for any choice of what is shown."""

    def __init__(self, units: Units, flags: dict[int, int]) -> None:
        """Counts all units once.

        Args:
            units: all of them.
            flags: what the units that represent their shapes state.
        """
        self._units = units
        words = Counter[bytes]()
        for place, stated in flags.items():
            if stated & SURE and not stated & BENIGN and (found := _WORD.search(units.text[place])):
                words[found[0]] += units.count[units.shape[place]]
        self._pieces = [
            place
            for place, closes in enumerate(units.closes)
            if not ((closes and units.opens[place]) or place in units.shortened)
        ]
        """Units that are not whole lines: their shapes and words are not counted like those of lines."""
        count = units.count
        if self._pieces:
            count = units.count.copy()
            count.subtract([units.shape[place] for place in self._pieces])
        self._words = dict.fromkeys([word for word, _ in words.most_common(_LOOKED)], 0)
        shapes = list(count)
        block = b"\n".join(shapes)
        for word in self._words:
            self._words[word] = sum([count[shapes[row]] for row in rows_with(word, block)])
        most = max(count.values(), default=0)
        self._most = max([shape for shape, times in count.items() if times == most], default=b""), most

    def without(self, shown: list[int]) -> Rest:
        """Returns what is left out if the units with these numbers are shown."""
        units = self._units
        apart = set(self._pieces)
        shapes = [units.shape[place] for place in shown if place not in apart]
        block = b"\n".join(shapes)
        begun = {units.line[place] for place in shown if place in apart}
        left = [
            (len(rows_with(word, block)) - count - self._in_long_lines(word, begun), word)
            for word, count in self._words.items()
        ]
        named = [(one_line(word.decode("utf-8", "replace")), -count) for count, word in sorted(left) if count < 0]
        shape, count = self._most
        count -= shapes.count(shape)
        like = None
        if count >= max(_LIKE, _SHARE * (len(units) - len(shown))) and shape.strip():
            example = one_line(units.text[units.shape.index(shape)][: _SHOWN * 4].decode("utf-8", "replace"))
            like = (example if len(example) <= _SHOWN else f"{example[: _SHOWN - 1]}…"), count
        return Rest(tuple(named[:_NAMED]), like, None if named else self._inside(set(shown)))

    def _inside(self, shown: set[int]) -> str | None:
        """Returns the first word of failure in a piece that is not shown."""
        hidden = [self._units.text[place] for place in self._pieces if place not in shown] if self._words else []
        found = next((word for word in self._words if any(word in text for text in hidden)), None)
        return None if found is None else one_line(found.decode("utf-8", "replace"))

    def _in_long_lines(self, word: bytes, begun: set[int]) -> int:
        """Returns how many lines in pieces contain a word, among those of which no piece is shown."""
        units = self._units
        lines = {units.line[place] for place in self._pieces if word in units.text[place]}
        return len(lines - begun)


def richest(units: Units, values: dict[int, float], shown: list[int]) -> LineRange | None:
    """Returns the lines that say most, none of them shown, and no more than one call requests.

    Args:
        units: those of a text.
        values: what each unit that is not shown says.
        shown: the numbers of shown units, in order.
    """
    best, found = 0.0, None
    for before, after in pairwise([-1, *shown, len(units)]):
        said = [(place, values[place]) for place in range(before + 1, after) if place in values]
        first, total = 0, 0.0
        for number, (place, value) in enumerate(said):
            total += value
            while units.line[place] - units.line[said[first][0]] >= _PAGE:
                total -= said[first][1]
                first += 1
            if total > best:
                best, found = total, (said[first][0], said[number][0])
    return None if found is None else LineRange(units.line[found[0]], units.line[found[1]])


def longest_of(omitted: list[Omission]) -> Omission:
    """Returns the gap with the most lines; of those inside a line, the one with the most bytes."""
    return max(omitted, key=lambda gap: (gap.whole_lines, gap.bytes.end - gap.bytes.start))


def next_call(
    artifact_id: str,
    omitted: list[Omission],
    rest: Rest,
    *,
    lines: int,
    section: str | None = None,
    path: str | None = None,
    rich: Callable[[], LineRange | None] = lambda: None,
    limited: bool = True,
    line_start: int | None = None,
) -> NextCall:
    """Returns the call that helps most: the commonest failure left out, a section, a path, the lines that say most.

    Args:
        artifact_id: that of the artifact.
        omitted: what no excerpt shows; not empty.
        rest: what matters of that.
        lines: number of lines in the whole text.
        section: a title of a part that is not shown.
        path: a JSONPath to values that are not shown.
        rich: finds the lines that say most among those not shown; called only if nothing before it applies.
        limited: whether a call to read on includes a number of lines; if not, the reader decides.
        line_start: where the line with the longest gap begins, if that is a gap inside a line.
    """
    arguments: dict[str, str | int] = {"artifact_id": artifact_id}
    if rest.failures or rest.inside:
        arguments["pattern"] = rest.failures[0][0] if rest.failures else rest.inside or ""
    elif section is not None:
        arguments["section"] = section
    elif path is not None:
        arguments["path"] = path
    else:
        longest = longest_of(omitted)
        if longest.whole_lines and (most := rich()) is not None:
            arguments["offset"] = most.first
            if limited:
                arguments["limit"] = max(most.last, min(most.first + _LEAST - 1, lines)) - most.first + 1
        elif longest.whole_lines:
            first = longest.lines.first if longest.whole_lines == longest.lines.last - longest.lines.first + 1 else None
            arguments["offset"] = first or min(longest.lines.first + 1, longest.lines.last)
            if limited:
                arguments["limit"] = min(_PAGE, longest.whole_lines)
        else:
            inside = longest.bytes.start - line_start if line_start is not None else 0
            first = longest.lines.first
            arguments["offset"] = f"{first}+{inside}" if inside else first
    return NextCall(TOOL, arguments)
