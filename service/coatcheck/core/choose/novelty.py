"""Finds the new lines of a run's output, by the distance of each to the nearest line of an earlier output.

Lines are compared by their words, without numbers, hashes and addresses, so that times and temporary names do not count
as new. A line whose shape occurs in the earlier output is not examined further. For other lines, the nearest line is
searched for by their rarest words, so that the cost is bounded however long both outputs are.
"""

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from coatcheck.core.artifact import DetectedMetadata, EarlierRun, Measure, Novelty, PayloadSample
from coatcheck.core.choose.units import Units, units_of
from coatcheck.core.survey import Survey, unpack_survey
from coatcheck.core.text.count import format_count
from coatcheck_client.contract.inert import one_line

_WORD: Final = re.compile(rb"[A-Za-z_\x80-\xff][\w\x80-\xff]*")
_ADDRESS: Final = re.compile(rb"0x[0-9a-fA-F]+|\b(?=[0-9a-fA-F-]*\d)[0-9a-fA-F]{7,}(?:-[0-9a-fA-F]{2,})*\b")
_SHORT: Final = 2
"""Maximum bytes of the words that are ignored."""
_NEAR: Final = 0.2
"""Maximum distance to an earlier line at which a line counts as known."""
_COMPARED_LINES: Final = 3_000
"""Maximum new shapes that are compared with the earlier output; lines of further shapes count as entirely new."""
_RARE: Final = 4
"""Number of rarest words of a line by which its nearest line is searched for."""
_CANDIDATES: Final = 40
"""Maximum lines that are compared for each of these words."""
_MAX_NEW_LINES: Final = 400
"""Maximum new lines that are recorded, those with the largest distance first."""
_MAX_GONE_LINES: Final = 3
"""Maximum missing lines that the card shows: so few may be important, and the new output does not have them."""
_GONE_CHARS: Final = 200
"""Maximum characters of a missing line that is shown: three leave most of a card of 300 tokens to the new output."""


def compare_runs(
    facts: DetectedMetadata,
    earlier: EarlierRun,
    sample: PayloadSample,
    survey: Survey | None,
    measure: Measure,
    *,
    reveal: Callable[[str, tuple[str, ...]], str],
) -> DetectedMetadata:
    """Returns the facts, with the lines that are new since an earlier run, and a line for the card that counts them.

    Lines are counted only if both outputs are available in full. Of larger outputs, the available parts are compared,
    without counts. If only a few lines of the earlier output are missing, they are shown. `reveal` replaces fillers in
    the earlier output by the names of the rules that hid the text.
    """
    if earlier.sha256 == measure.sha256:
        return replace(facts, comparison=(f"Same as {earlier.id}, byte for byte.",))
    earlier_survey = None if earlier.survey is None else unpack_survey(earlier.survey)
    units = units_of(sample, measure.lines, survey, sought=True)
    before = units_of(earlier.sample, earlier.lines, earlier_survey, sought=True)
    result = novelty(units, before)
    counts, gone_lines = "", list[str]()
    if sample.whole and earlier.sample.whole:
        counts = (
            f": {format_count(result.lines, 'line')} new, {format_count(result.gone, 'line')} of it gone, numbers aside"
        )
        if result.gone <= _MAX_GONE_LINES:
            gone_lines = [_render_gone_line(earlier, before, place, reveal) for _, place in _find_unlike(before, units)]
    return replace(facts, novelty=result, comparison=(f"Compared with {earlier.id}{counts}", *gone_lines))


def _render_gone_line(
    earlier: EarlierRun, units: Units, place: int, reveal: Callable[[str, tuple[str, ...]], str]
) -> str:
    """Returns a line for the card with the text of a missing unit, shortened to whole words."""
    sample = earlier.shown or earlier.sample
    text = sample.head[units.start[place] : units.end[place]].decode("utf-8", "replace")
    text = one_line(reveal(text, sample.masked) if sample.masked else text)
    if len(text) > _GONE_CHARS:  # cut between words: half a secret would not be masked
        text = f"{text[: text.rfind(' ', 0, _GONE_CHARS) + 1]}…"
    return f"Gone, line {units.line[place]}: {text}"


def novelty(units: Units, earlier: Units) -> Novelty:
    """Returns the new lines in `units`, and the number of lines of `earlier` that are missing."""
    new = _find_unlike(units, earlier)
    farthest = sorted(new, key=lambda each: (-each[0], each[1]))[:_MAX_NEW_LINES]
    return Novelty(
        new=tuple((units.start[place], round(distance, 3)) for distance, place in farthest),
        lines=len(new),
        gone=len(_find_unlike(earlier, units)),
    )


def _find_unlike(units: Units, others: Units) -> list[tuple[float, int]]:
    """Returns the units that resemble none of the others, each with its distance to the nearest one."""
    index: _Index | None = None
    distances: dict[bytes, float] = {}
    out: list[tuple[float, int]] = []
    for place, shape in enumerate(units.shape):
        if shape in others.count or not shape.strip():
            continue
        distance = distances.get(shape)
        if distance is None:
            index = index or _Index(others)
            distance = distances[shape] = index.distance(units.text[place]) if len(distances) < _COMPARED_LINES else 1.0
        if distance > _NEAR:
            out.append((distance, place))
    return out


def words_of(text: bytes) -> frozenset[bytes]:
    """Returns the words of a line that distinguish it from other lines."""
    return frozenset(word for word in _WORD.findall(_ADDRESS.sub(b"", text)) if len(word) > _SHORT)


class _Index:
    """Index of the earlier output's lines by word, to find the nearest line."""

    def __init__(self, earlier: Units) -> None:
        first: dict[bytes, bytes] = {}
        for shape, text in zip(earlier.shape, earlier.text, strict=True):
            first.setdefault(shape, text)
        self._lines = [words_of(text) for text in first.values()]
        self._by_word: defaultdict[bytes, list[int]] = defaultdict(list)
        for number, words in enumerate(self._lines):
            for word in words:
                self._by_word[word].append(number)

    def distance(self, text: bytes) -> float:
        """Returns the distance to the nearest earlier line: 0 for the same words or no words, 1 for none in common."""
        words = words_of(text)
        if not words:
            return 0.0
        by_rarity = sorted((len(rows), word) for word in words if (rows := self._by_word.get(word)))
        best = 0.0
        for _, word in by_rarity[:_RARE]:
            for number in self._by_word[word][:_CANDIDATES]:
                other = self._lines[number]
                best = max(best, len(words & other) / len(words | other))
        return 1.0 - best
