"""Rates each unit of a text for a card: by what it states, rarity, position, distance from both ends, and novelty.

The text itself shows which of two situations applies. In an outcome (a log, a build, a test run), statements of failure
matter most. In a document, failures are merely the subject; what matters is the beginning, the end, and the units that
cover most topics. The numbers come from experiments on sets of payloads; docs/decisions has the results on other sets,
which were not used to choose the numbers.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, islice
from math import exp
from typing import Final, final

from msgspec import Struct

from coatcheck.core.artifact import Novelty
from coatcheck.core.choose.answers import answers
from coatcheck.core.choose.outliers import odd_lines, odd_words, outlying_lines
from coatcheck.core.choose.statements import CODE, add_statements, begins_with_failure, find_failed_ends
from coatcheck.core.choose.units import Units
from coatcheck.core.text.lexicon import BENIGN, ENDED, GRAVE, STRONG, SUMMARY, SURE, VERDICT, classify, speaking
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.view import Section


class CardWeights(Struct, frozen=True, kw_only=True):
    """How a card's budget is spent in one situation."""

    statements: float
    """Worth of a statement of failure, as a share of its worth in an outcome."""
    head: float
    """Worth of the first unit."""
    head_reach: float
    """Share of the budget over which the worth of the beginning falls to a third."""
    head_least: float = 0.08
    """Share of the budget that the beginning always gets."""
    tail: float
    """Worth of the last unit, and of a failed end."""
    tail_reach: float
    """Share of the budget over which the worth of an end falls to a third."""
    cover: float
    """Worth of words that no chosen unit contains."""
    thrift: float = 0.2
    """Exponent of the price by which a unit's worth is divided; at 0, the most valuable units are shown, however
    long."""
    repeats: float = 0.0
    """Share of its worth that a unit loses if all of its words were shown already."""


OUTCOME: Final = CardWeights(
    statements=1.0, head=0.5, head_reach=0.2, head_least=0.03, tail=3.0, tail_reach=0.35, cover=0.0, repeats=0.8
)
DOCUMENT: Final = CardWeights(statements=0.15, head=3.0, head_reach=0.5, tail=1.0, tail_reach=0.15, cover=4.0)


_VERDICT: Final = 6.0
"""Worth of the line that states an outcome, and of a summary: more than any failure except a grave one."""
_NOVEL: Final = 2.0
"""Worth of a line none of whose words occurs in an earlier run."""
_REPEATED: Final = 0.5
"""Share of its worth that a statement keeps if an earlier run has the same line."""
_ODD: Final = 5.0
"""Worth of an odd line if it is the only one; of n odd lines, each has this worth divided by the square root of n."""
_QUERY: Final = 10.0
"""Worth of the best answer to a query."""
_MIN_WORTH: Final = 0.05
"""Worth at which the influence of an end stops. Without this bound, every line of a long text would get some worth."""
_CLEAN_UP: Final = 0.2
"""Share of its reach that the end of a text keeps if a failed end is above it."""
_LAST: Final = 12
"""Number of last lines, blank ones not counted, that are examined for a statement of an outcome."""
_ENDING: Final = VERDICT | STRONG | SUMMARY
"""Flags that make a text an outcome if one of its last lines has any of them; for a document, see `_situation`."""
_FAILED: Final = VERDICT | STRONG
"""Flags that make any text an outcome, even a document, if one of its last lines has both."""
_STAMP_LINES: Final = 120
"""Number of lines, evenly spread, that are sampled to find out whether lines begin with times. Chosen, not measured."""
_COVERED: Final = 400
"""Maximum units, evenly spread, whose topics are examined."""
_STAMP: Final = BlockPattern(r"^\[? *\d+\.\d{3,}\]?|^\d{10,13}\b")
"""Matches times without a date or a time of day."""
_DIGITS_ALIKE: Final = bytes.maketrans(b"123456789", b"000000000")
_MIN_TOPIC_BYTES: Final = 20
"""Length in bytes that a shorter unit is taken to have when the worth of its topics is related to its length."""
_PATH_SIGN: Final = re.compile(rb"[/_.]")
_TOPIC: Final = re.compile(rb"[\w/][\w./:@+-]{3,}\w|[\xe3-\xe9][\x80-\xff]{5}")
"""Matches a word, a path or an address of five bytes or more, or two characters of Chinese, Japanese or Korean."""


@final
class Topics:
    """The longer words of units, which are worth something until they are shown.

    A word that recurs is worth less but never nothing, because the whole text may be about it. Paths and names count
    more.
    """

    def __init__(self, units: Units, cover: float, asides: set[int]) -> None:
        """Finds the words of sampled units.

        Args:
            units: the units of the text.
            cover: worth of the words, see `CardWeights`.
            asides: numbers of the units in asides, whose words are worth nothing.
        """
        self._shape = units.shape
        self._of_shape: dict[bytes, list[bytes]] = {}
        """The words of each shape: lines that differ only in numbers have the same shape, and so the same words."""
        sample = range(0, len(units), max(1, len(units) // _COVERED))
        self._words = {place: self._words_of(units.shape[place]) for place in sample if place not in asides}
        self._share = {place: cover / max(_MIN_TOPIC_BYTES, len(units.text[place])) ** 0.5 for place in self._words}
        self._worth = {
            word: (1.0 if word.isalnum() or not _PATH_SIGN.search(word) else 2.0) / (1 + 0.15 * count)
            for word, count in Counter(chain.from_iterable(self._words.values())).items()
        }
        """Worth of each word in the sample; 0 once the word is shown."""

    def worth_of(self, place: int) -> float:
        """Returns the current worth of a unit's words; 0 if the unit is not in the sample."""
        words = self._words.get(place)
        return sum(map(self._worth.__getitem__, words)) * self._share[place] if words else 0.0

    def add_worth(self, values: dict[int, float]) -> None:
        """Adds the current worth of each sampled unit's words to `values`."""
        worth, share = self._worth.__getitem__, self._share
        for place, words in self._words.items():
            if value := sum(map(worth, words)):
                values[place] = values.get(place, 0.0) + value * share[place]

    def show(self, place: int) -> None:
        """Sets the worth of a unit's words to 0, in this unit and in all others that have them."""
        self._worth.update(dict.fromkeys(self._worth.keys() & self._words_of(self._shape[place]), 0.0))

    def _words_of(self, shape: bytes) -> list[bytes]:
        words = self._of_shape.get(shape)
        if words is None:
            words = self._of_shape[shape] = list(dict.fromkeys(_TOPIC.findall(shape)))
        return words


class Worth(Struct):
    """The worth of units by their number; a unit that is missing is worth nothing."""

    weights: CardWeights
    base: dict[int, float]
    flags: dict[int, int]
    """Flags of what units state, if anything. Of units with the same shape, only the first and the last have flags."""
    topics: Topics | None
    """The topics of the units. None: topics are worth nothing."""
    statement_worth: dict[int, float]
    """The part of `base` that units have for what they say, whatever their position."""
    exempt: AbstractSet[int] = frozenset()
    """Units that may be shown even if many similar ones are: answers, a summary, units with an odd word or number."""
    beside: AbstractSet[int] = frozenset()
    """Units of asides, which get no worth for being near an end."""

    def values(self, units: Units) -> dict[int, float]:
        """Returns the worth of each unit before anything is shown; worthless and blank units are missing."""
        values = dict(self.base)
        if self.topics is not None:
            self.topics.add_worth(values)
        return {place: value for place, value in values.items() if units.text[place].strip()}


def _flags_of(units: Units) -> dict[int, int]:
    """Returns the flags of units; of units with the same shape, only the first and the last are classified.

    A log repeats few shapes many times: skipping the repetitions saves most of the time for long logs.
    """
    total = len(units)
    if len(units.count) == total:
        positions = speaking(units.block)
    else:
        last = dict(zip(units.shape, range(total), strict=True))
        first = dict(zip(reversed(units.shape), range(total - 1, -1, -1), strict=True))
        candidates = sorted({*first.values(), *last.values()})
        positions = [candidates[row] for row in speaking(b"\n".join([units.text[place] for place in candidates]))]
    return {place: classify(units.text[place]) for place in positions}


def _situation(units: Units, flags: dict[int, int], *, document: bool) -> tuple[bool, int | None]:
    """Returns whether a text is an outcome, and the unit with its verdict: near the end, or the last summary.

    An outcome ends with a statement of how it ended, or has a line that begins with a sure failure or states a grave
    one, or consists of lines with times of which at least one states a sure failure. A `document` may quote such
    statements. Unless its lines have times, only a sure failure, or the verdict of a failure, near its end makes it an
    outcome.
    """
    text, ending = units.text, SURE if document else _ENDING
    last = islice((place for place in range(len(units) - 1, -1, -1) if text[place].strip()), _LAST)
    # The last unit of each shape has flags. No run ends in the middle of a long line.
    endings = [
        place
        for place in last
        if (flags.get(place, 0) & ending or flags.get(place, 0) & _FAILED == _FAILED)
        and (units.opens[place] or units.closes[place])
        and not CODE.search(text[place])
    ]
    # Output of the cleaning up may follow the summary of a run: a summary is the verdict wherever it stands.
    summaries = (place for place in reversed(flags) if flags[place] & SUMMARY and not CODE.search(text[place]))
    verdict = next(chain([place for place in endings if flags[place] & VERDICT], summaries), None)
    sure = [
        (text[place], unit_flags)
        for place, unit_flags in flags.items()
        if unit_flags & (SURE | BENIGN) == SURE and not CODE.search(text[place])
    ]
    if endings or (not document and any(bits & GRAVE or begins_with_failure(line) for line, bits in sure)):
        return True, verdict
    # Lines with times are a log, in which a failure counts wherever it is; in prose a failure is only the subject.
    return bool(sure) and (units.has_times or _has_stamps(text)), verdict


def verdict_of(units: Units, *, document: bool) -> int | None:
    """Returns the number of the unit that says how an outcome ended, or None. For `document`, see `worth_of`."""
    return _situation(units, _flags_of(units), document=document)[1]


def failures_of(units: Units, *, document: bool) -> tuple[int, int] | None:
    """Returns how many different sure failures an outcome states, and how many failures of any kind.

    Lines that differ only in numbers state the same failure. None: the text is no outcome. For `document`, see
    `worth_of`.
    """
    flags = _flags_of(units)
    if not _situation(units, flags, document=document)[0]:
        return None
    statements = [
        (units.shape[place].strip(), each)
        for place, each in flags.items()
        if each & (SURE | STRONG) and not each & BENIGN and not CODE.search(units.text[place])
    ]
    return len({shape for shape, each in statements if each & SURE}), len({shape for shape, _ in statements})


def _has_stamps(text: list[bytes]) -> bool:
    """Returns whether most lines begin with a time, with or without a date."""
    step = -(-len(text) // _STAMP_LINES) or 1
    lines = [line[:40] for line in text[::step] if line.strip()]
    rest = b"\n".join(lines).translate(_DIGITS_ALIKE).split(b"\n") if lines else []
    rest = [line for line in rest if b"00:00:00" not in line]
    most = len(lines) // 2 + 1 - (len(lines) - len(rest))
    return most <= 0 or _STAMP.count(b"\n".join(rest), most) >= most


def worth_of(
    units: Units,
    reach: float,
    weights: CardWeights | None,
    lines: int,
    *,
    document: bool,
    query: str,
    compared: Novelty | None,
    summary: int = 0,
    asides: Sequence[Section] = (),
    is_view: bool = False,
) -> Worth:
    """Returns the worth of each unit.

    Args:
        units: the units of the whole text, or of its available parts.
        reach: approximate number of bytes that excerpts will show.
        weights: the weights of a kind whose structure determines its situation; None: the text determines it.
        document: whether the text has headings or is prose, so that fewer statements make it an outcome.
        lines: number of lines in the whole text.
        compared: the lines that are new since an earlier run; None: no run to compare with. Other lines are worth less.
        summary: number of bytes at the beginning that summarise the text; their units are worth as much as a verdict.
        is_view: whether the text is a view, in which lines that stand for images are asides too.
        asides: parts in which only answers to the query are worth anything.
        query: what the reader wants to know, or empty; units that answer it are worth most.
    """
    flags = _flags_of(units)
    outcome, verdict = (False, None) if weights is not None else _situation(units, flags, document=document)
    active_weights = weights or (OUTCOME if outcome else DOCUMENT)
    base: dict[int, float] = {}
    # The worth of what units say. After a good verdict at the end, an earlier failed end was retried or expected: it
    # does not count as an end.
    ended_well = verdict is not None and verdict >= len(units) - _LAST and flags[verdict] & (SURE | STRONG | ENDED) == 0
    ends = find_failed_ends(units, flags) if outcome and not ended_well else []
    add_statements(base, units, flags, active_weights.statements, lines, ends)
    if compared is not None:
        _add_novelty(base, units, compared)
    beside = _find_aside_units(units, asides) if is_view else set[int]()
    exempt = _add_oddness(base, units)
    base = {place: worth for place, worth in base.items() if place not in beside}
    # The next call that a card suggests searches for what units say; standing near an end is no reason to be searched
    # for.
    statement_worth = base.copy()
    # The worth of where units stand: near an end, or as the verdict.
    _add_ends(base, units, active_weights, reach, beside, ends)
    if verdict is not None:
        base[verdict] = max(base.get(verdict, 0.0), _VERDICT)
    summary_worth = dict.fromkeys([place for place, start in enumerate(units.start) if start < summary], _VERDICT)
    base.update(summary_worth)
    answering = answers(units, query, outcome=outcome, document=document) if query else {}
    for place, score in answering.items():
        base[place] = base.get(place, 0.0) + _QUERY * score
    topics = Topics(units, active_weights.cover, beside) if active_weights.cover else None
    return Worth(active_weights, base, flags, topics, statement_worth, {*exempt, *answering, *summary_worth}, beside)


def _add_oddness(base: dict[int, float], units: Units) -> set[int]:
    """Adds the worth of lines that differ from nearly all others; returns those with an odd word or number."""
    words, numbers = odd_words(units), outlying_lines(units)
    for positions in (odd_lines(units), words, numbers):
        for place in positions:
            base[place] = max(base.get(place, 0.0), _ODD / len(positions) ** 0.5)
    return {*words, *numbers}


def _find_aside_units(units: Units, asides: Sequence[Section]) -> set[int]:
    """Returns the units of asides, and the units that stand for images."""
    ranges = [range(bisect_left(units.start, each.start), bisect_left(units.start, each.end)) for each in asides]
    images = (place for place, text in enumerate(units.text) if text[:2] == b"![" and text[-1:] == b"]")
    return {*chain.from_iterable(ranges), *images}


def _add_novelty(base: dict[int, float], units: Units, compared: Novelty) -> None:
    """Adds worth to lines that are new since an earlier run; reduces the worth of statements that both runs made."""
    new = dict(compared.new)
    for place, start in enumerate(units.start):
        if start in new:
            base[place] = base.get(place, 0.0) + _NOVEL * new[start]
        elif place in base:
            base[place] *= _REPEATED


def _add_ends(
    base: dict[int, float], units: Units, weights: CardWeights, reach: float, beside: set[int], failed: list[int]
) -> None:
    """Adds the worth of being near an end, which falls with each byte between unit and end; asides do not count.

    Units before each `failed` end are worth as much as those before the end of the text. If there is a failed end, the
    end of the text gets less reach, because after a failure a run only cleans up.
    """
    # The ends share one reach: two failed ends must not take the room of everything else.
    tail = weights.tail_reach / (1 + len(failed))
    for positions, worth, share in (
        (range(len(units)), weights.head, weights.head_reach),
        (range(len(units) - 1, -1, -1), weights.tail, tail * (_CLEAN_UP if failed else 1)),
        *((range(place, -1, -1), weights.tail, tail) for place in failed),
    ):
        passed = 0
        for place in positions:
            if place in beside:
                continue
            value = worth * exp(-passed / (share * reach))
            if value < _MIN_WORTH:
                break
            base[place] = max(base.get(place, 0.0), value)
            passed += len(units.text[place]) + 1
