"""Finds lines that stand out: by a number far from all others in its column, by their shape, or by a word."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise, zip_longest
from math import nan
from typing import Final, TypeVar

import numpy as np

from coatcheck.core.choose.units import Units
from coatcheck.core.records.statistics import MAX_PER_SIDE, find_far

T = TypeVar("T")

_MIN_NUMBERS: Final = 20
"""Minimum numbers in a column, besides an outlier."""
_MAX_UNITS: Final = 10_000
"""Maximum units of a text whose numbers are compared. Comparing five columns of this length takes about 10 ms."""
_SAMPLE: Final = 12
"""Number of evenly spread lines that show how lines are divided into cells, and which cells have numbers."""
_SEPARATORS: Final = (b"\t", b"|", b",", b";", None)
"""Separators of cells; the first that divides the sample evenly into cells with numbers is used. None: blanks."""
_EVEN: Final = 0.8
"""Minimum share of sampled lines that have the same number of separators."""
_NUMERIC: Final = 0.6
"""Minimum share of sampled lines that have a number in a column."""
_COLUMNS: Final = 24
"""Maximum cells of a line that are examined; further cells are ignored."""

_DIFFERING: Final = 8
"""Maximum lines that stand out in a text; if there are more, none of them does."""
_TAIL: Final = 20
"""One in this many numbers at either end of a column does not count for the range of the others."""
_SIGNS: Final = b"% "
_LAST: Final = frozenset(bytes([byte]) for byte in b"0123456789% ")
"""Bytes with which a cell with a number may end."""
_NUMBER: Final = re.compile(rb"\s*[-+]?(?:\d+\.?\d*|\.\d+)[% ]*")
_NAME: Final = re.compile(rb"\s*([A-Za-z_][\w.]*)")


def outlying_lines(units: Units) -> list[int]:
    """Returns the units with a number whose distance to the next number exceeds the range of nearly all others.

    If most lines begin with a name, as those of metrics do, only lines with the same name are compared.
    """
    text, opens = units.text, units.opens
    # The first line may be a header, and a card shows it in any case.
    lines = [place for place in range(1, len(text)) if opens[place] and text[place]] if len(text) <= _MAX_UNITS else []
    sample = [text[place] for place in _sample(lines)]
    if len(lines) <= _MIN_NUMBERS or not _columns(sample)[1]:
        return []
    by_name: defaultdict[bytes, list[int]] = defaultdict(list)
    for place in lines if 2 * sum(map(bool, map(_NAME.match, sample))) >= len(sample) else []:
        if (name := _NAME.match(text[place])) is not None:
            by_name[name[1]].append(place)
    large = [group for group in by_name.values() if len(group) > _MIN_NUMBERS]
    groups = large if len(large) > 1 and 2 * sum(map(len, large)) >= len(lines) else [lines]
    outliers = {members[row] for members in groups for row in _find_outlying([text[place] for place in members])}
    return sorted(outliers) if len(outliers) <= _DIFFERING else []


def _sample(lines: list[T]) -> list[T]:
    return lines[:: max(1, len(lines) // _SAMPLE)]


def _columns(sample: list[bytes]) -> tuple[bytes | None, list[int]]:
    """Returns the separator of cells (None: blanks), and the columns in which nearly all lines have a number."""
    for separator in _SEPARATORS:
        counts = [1 if separator is None else line.count(separator) for line in sample]
        middle = sorted(counts)[len(counts) // 2]
        if middle and counts.count(middle) >= _EVEN * len(counts):
            rows = [line.split(separator, _COLUMNS)[:_COLUMNS] for line in sample]
            columns = [n for n, cells in enumerate(zip_longest(*rows, fillvalue=b"")) if _may_stand_out(cells)]
            if columns:
                return separator, columns
    return None, []


def _may_stand_out(cells: Sequence[bytes]) -> bool:
    """Returns whether most sampled cells of a column are numbers that do not ascend as line numbers and times do."""
    least = _NUMERIC * len(cells)
    if sum(cell[-1:] in _LAST for cell in cells) < least:
        return False
    numbers = [float(cell.rstrip(_SIGNS)) for cell in cells if _NUMBER.fullmatch(cell)]
    return len(numbers) >= least and any(above >= below for above, below in pairwise(numbers))


def _find_outlying(lines: list[bytes]) -> set[int]:
    """Returns the indices of those `lines` that stand out."""
    separator, columns = _columns(_sample(lines))
    if not columns:
        return set()
    last = columns[-1] + 1
    split = [(number, row) for number, line in enumerate(lines) if len(row := line.split(separator, last)) >= last]
    outliers: set[int] = set()
    for column in columns:
        numbers = _numbers([row[column] for _, row in split])
        if apart := _find_apart(numbers):
            outliers.update(line for number, (line, _) in zip(numbers, split, strict=True) if number in apart)
    return outliers


def _numbers(cells: list[bytes]) -> list[float]:
    """Returns cells as numbers, with NaN for cells that are not numbers."""
    with suppress(ValueError):  # some cells are not numbers
        return list(map(float, cells))
    stripped = (cell.strip(_SIGNS) for cell in cells)
    return [float(cell) if _NUMBER.fullmatch(cell) else nan for cell in stripped]


def _find_apart(column: list[float]) -> set[float]:
    """Returns the numbers of a column that lie apart from the others, below or above; NaN is ignored."""
    numbers = np.sort(np.array(column))
    numbers = numbers[np.isfinite(numbers)]
    if len(numbers) <= _MIN_NUMBERS:
        return set()
    tail = len(numbers) // _TAIL
    least, most = float(numbers[tail]), float(numbers[-1 - tail])
    if least == most:
        others: list[float] = numbers[numbers != most].tolist()
        return {*others} if len(others) <= MAX_PER_SIDE else set()
    return find_far(numbers, most - least)


_MANY: Final = 60
"""Minimum lines of a text in which a line can be odd."""
_ALIKE: Final = 10
"""A line with a shape of its own is odd only if each shape has at least this many lines on average."""
_LETTERS: Final = b"abcdefABCDEF"
"""Hexadecimal digits that are letters, and therefore part of shapes."""
_ODDNESS_SAMPLE: Final = 20
"""Number of evenly spread lines that show which columns of words have few values."""
_MAX_COMPARED_UNITS: Final = 5_000
"""Maximum units of a text whose words are compared, in about 3 ms; of larger texts, only shapes are compared."""
_WORDS: Final = 12
"""Maximum columns of words that are examined."""
_EMPTY: Final = 0.7
"""Maximum share of sampled lines without a word in a column. At most half of all lines may lack a word there."""
_VALUES: Final = 8
"""Maximum different words in a column in which a word can be odd."""
_RARE: Final = 2
"""Maximum lines that have the same odd word."""


def odd_lines(units: Units) -> list[int]:
    """Returns the units that resemble no other, if nearly all others resemble one another.

    If too many shapes differ, shapes are compared without the letters of hexadecimal numbers, and only a few lines may
    be odd.
    """
    if len(units) < _MANY:
        return []
    shapes, counts, most = units.shape, units.count, len(units)
    if len(counts) * _ALIKE > len(units):
        if (
            len(set(_without_letters(shapes[:: len(units) // _MANY]))) * 2 > _MANY
        ):  # a cheap test, which ends the search for most texts
            return []
        shapes, most = _without_letters(shapes), _DIFFERING
        counts = Counter(shapes)
    odd = [place for place, shape in enumerate(shapes) if counts[shape] == 1 and shape.strip()]
    return odd if len(counts) * _ALIKE <= len(units) and len(odd) <= most else []


def _without_letters(shapes: list[bytes]) -> list[bytes]:
    return b"\n".join(shapes).translate(None, _LETTERS).split(b"\n")


def odd_words(units: Units) -> list[int]:
    """Returns the units with a rare word in a column in which all other lines have one of a few words.

    For example, `503` among the statuses of many requests, or `replicas: 0` among other lines that begin with
    `replicas:`.
    """
    if len(units) > _MAX_COMPARED_UNITS:
        return []
    text, opens = units.text, units.opens
    lines: Sequence[int] = range(len(text))
    if not (all(opens) and all(map(bytes.strip, text))):
        lines = [place for place in lines if opens[place] and text[place].strip()]
    if len(lines) <= _MIN_NUMBERS:
        return []
    odd, rows = _odd_among([text[place] for place in lines], lines)
    first = [row[0] for row in rows]
    if len(first) - len(set(first)) >= _MIN_NUMBERS:
        groups: defaultdict[bytes, list[int]] = defaultdict(list)
        for place, word in zip(lines, first, strict=True):
            groups[word].append(place)
        for group in groups.values():
            if _MIN_NUMBERS < len(group) < len(lines):
                odd |= _odd_among([text[place] for place in group], group)[0]
    return sorted(odd) if len(odd) <= _DIFFERING else []


def _odd_among(texts: list[bytes], positions: Sequence[int]) -> tuple[set[int], list[list[bytes]]]:
    """Compares texts with one another; returns the positions of those with an odd word, and the first words of each."""
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
        if len(usual) < len(counts) <= _VALUES and sum(usual) >= _MIN_NUMBERS * max(1, len(usual)):
            pairs = zip(rows, positions, strict=True)
            odd.update(place for row, place in pairs if len(row) > column and counts[row[column]] <= _RARE)
    return odd, rows
