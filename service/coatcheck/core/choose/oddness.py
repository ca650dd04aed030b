"""Finds lines that differ from nearly all others: by their shape, or by a word where nearly all have the same few."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from coatcheck.core.choose.units import Units

_MANY: Final = 60
"""Minimum lines of a text in which one is odd."""
_ALIKE: Final = 10
"""Lines per shape from which a line with a shape of its own is odd."""
_DIFFERING: Final = 8
"""Maximum such lines in a text; if there are more, none is odd."""
_LETTERS: Final = b"abcdefABCDEF"
"""Hexadecimal digits that shapes have."""
_ODDNESS_SAMPLE: Final = 20
"""Lines, evenly spread, that tell which columns of words have few values."""
_MAX_COMPARED_UNITS: Final = 5_000
"""Units of a text whose words are compared, in about 3 ms; of a larger one, only the shapes of lines are."""
_WORDS: Final = 12
"""Columns of words that are examined."""
_EMPTY: Final = 0.7
"""Maximum share of the sample that has no word in such a column: less than half of all lines may have none."""
_VALUES: Final = 8
"""Maximum different words in a column of which one may be odd."""
_RARE: Final = 2
"""Maximum lines that have an odd word."""
_USUAL: Final = 20
"""Minimum lines, on average, that have each of the others."""


def odd_lines(units: Units) -> list[int]:
    """Returns lines that resemble no other, if nearly all lines resemble others; or few, hexadecimal digits aside."""
    if len(units) < _MANY:
        return []
    shapes, counts, most = units.shape, units.count, len(units)
    if len(counts) * _ALIKE > len(units):
        if len(set(_without_letters(shapes[:: len(units) // _MANY]))) * 2 > _MANY:  # cheap, and true of most texts
            return []
        shapes, most = _without_letters(shapes), _DIFFERING
        counts = Counter(shapes)
    odd = [place for place, shape in enumerate(shapes) if counts[shape] == 1 and shape.strip()]
    return odd if len(counts) * _ALIKE <= len(units) and len(odd) <= most else []


def _without_letters(shapes: list[bytes]) -> list[bytes]:
    return b"\n".join(shapes).translate(None, _LETTERS).split(b"\n")


def odd_words(units: Units) -> list[int]:
    """Returns lines with a word that nearly no other has at its place, where all others have one of a few.

    Like `503` among the statuses of many requests, or `replicas: 0` among the other lines that begin with `replicas:`.
    """
    if len(units) > _MAX_COMPARED_UNITS:
        return []
    text, opens = units.text, units.opens
    lines: Sequence[int] = range(len(text))
    if not (all(opens) and all(map(bytes.strip, text))):
        lines = [place for place in lines if opens[place] and text[place].strip()]
    if len(lines) <= _USUAL:
        return []
    odd, rows = _odd_among([text[place] for place in lines], lines)
    first = [row[0] for row in rows]
    if len(first) - len(set(first)) >= _USUAL:
        groups: defaultdict[bytes, list[int]] = defaultdict(list)
        for place, word in zip(lines, first, strict=True):
            groups[word].append(place)
        for group in groups.values():
            if _USUAL < len(group) < len(lines):
                odd |= _odd_among([text[place] for place in group], group)[0]
    return sorted(odd) if len(odd) <= _DIFFERING else []


def _odd_among(texts: list[bytes], positions: Sequence[int]) -> tuple[set[int], list[list[bytes]]]:
    """Returns the places of the texts with an odd word, compared with only each other, and the first words of each."""
    sample = [text.split(None, _WORDS)[:_WORDS] for text in texts[:: max(1, len(texts) // _ODDNESS_SAMPLE)]]
    filled = [words for words in zip_longest(*sample) if words.count(None) <= _EMPTY * len(words)]
    columns = [column for column, words in enumerate(filled) if len({*words} - {None}) <= _VALUES]
    most = columns[-1] + 1 if columns else 1
    rows = [text.split(None, most) for text in texts]
    odd: set[int] = set()
    for column in columns:
        counts = Counter([row[column] for row in rows if len(row) > column])
        if 2 * counts.total() < len(rows):
            break
        usual = [count for count in counts.values() if count > _RARE]
        if len(usual) < len(counts) <= _VALUES and sum(usual) >= _USUAL * max(1, len(usual)):
            pairs = zip(rows, positions, strict=True)
            odd.update(place for row, place in pairs if len(row) > column and counts[row[column]] <= _RARE)
    return odd, rows
