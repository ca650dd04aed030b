"""Rates each unit of a text for a card: by statements and their class, rarity and position, by both ends, by novelty.

The text itself distinguishes two situations. In an outcome (a log, a build, a test run), statements of failure matter
most; in a document they are its subject, and its beginning, its end and what covers most topics matter. The numbers
stem from experiments on sets of payloads; docs/decisions has the results on sets that were not used for them.
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
    """How a card is spent in a situation."""

    statements: float
    """Share of the worth that a statement of failure has in an outcome."""
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
    """How much a unit's price counts against its worth, as an exponent; 0 shows what is worth most, however long."""
    repeats: float = 0.0
    """What a unit loses of its worth if all of its words were shown already."""


OUTCOME: Final = CardWeights(
    statements=1.0, head=0.5, head_reach=0.2, head_least=0.03, tail=3.0, tail_reach=0.35, cover=0.0, repeats=0.8
)
DOCUMENT: Final = CardWeights(statements=0.15, head=3.0, head_reach=0.5, tail=1.0, tail_reach=0.15, cover=4.0)


_VERDICT: Final = 6.0
"""Worth of the line that states an outcome, and of a summary: more than any failure but a grave one."""
_NOVEL: Final = 2.0
"""Worth of a line of which an earlier run has no word."""
_KNOWN: Final = 0.5
"""Share of a statement's worth that is left if an earlier run has the line too."""
_ODD: Final = 5.0
"""Worth of the only line that resembles no other, or has a word of its own."""
_QUERY: Final = 10.0
"""Worth of the best answer to a query."""
_MIN_WORTH: Final = 0.05
"""Worth below which the reach of an end is over: without a bound, every line of a long text would get some."""
_CLEAN_UP: Final = 0.2
"""Share of its reach that the end of a text has left below a failed end."""
_LAST: Final = 12
"""Lines before the end, without blank ones, that identify an outcome."""
_ENDING: Final = VERDICT | STRONG | SUMMARY
"""What one of these lines states in an outcome."""
_FAILED: Final = VERDICT | STRONG
"""What it states, both of them, even where a document was printed before."""
_STAMP_LINES: Final = 120
"""Lines, evenly spread, that tell whether lines begin with times. Chosen, not measured."""
_COVERED: Final = 400
"""Units that are examined for their topics, evenly spread."""
_STAMP: Final = BlockPattern(r"^\[? *\d+\.\d{3,}\]?|^\d{10,13}\b")
"""Matches times without a date or a time of day."""
_DIGITS_ALIKE: Final = bytes.maketrans(b"123456789", b"000000000")
_SHORT: Final = 20
"""Minimum bytes that a unit counts as having when its topics are related to its length."""
_PATH_SIGN: Final = re.compile(rb"[/_.]")
_TOPIC: Final = re.compile(rb"[\w/][\w./:@+-]{3,}\w|[\xe3-\xe9][\x80-\xff]{5}")
"""Matches a word of five bytes or more, a path, an address; two characters of Chinese, Japanese or Korean."""


@final
class Topics:
    """The longer words of units, which are worth something until they are shown.

    A word that recurs is worth less, never nothing: it may be what the whole text is about. Paths and names count more.
    """

    def __init__(self, units: Units, cover: float, licence: set[int]) -> None:
        """Finds the words of sampled units; those of a `licence` have none. `cover`: see `CardWeights`."""
        self._shape = units.shape
        self._of_shape: dict[bytes, list[bytes]] = {}
        """Lines that differ in numbers only have the same words."""
        sample = range(0, len(units), max(1, len(units) // _COVERED))
        self._words = {place: self._words_of(units.shape[place]) for place in sample if place not in licence}
        self._share = {place: cover / max(_SHORT, len(units.text[place])) ** 0.5 for place in self._words}
        self._worth = {
            word: (1.0 if word.isalnum() or not _PATH_SIGN.search(word) else 2.0) / (1 + 0.15 * count)
            for word, count in Counter(chain.from_iterable(self._words.values())).items()
        }
        """Of each word in the sample; 0 once it is shown."""

    def worth_of(self, place: int) -> float:
        """Returns what a unit's words are worth now; nothing if it is not in the sample."""
        words = self._words.get(place)
        return sum(map(self._worth.__getitem__, words)) * self._share[place] if words else 0.0

    def add_worth(self, values: dict[int, float]) -> None:
        """Adds what the words of each unit are worth now."""
        worth, share = self._worth.__getitem__, self._share
        for place, words in self._words.items():
            if value := sum(map(worth, words)):
                values[place] = values.get(place, 0.0) + value * share[place]

    def show(self, place: int) -> None:
        """Takes their worth from the words of a unit, and so from those of all others that have them."""
        self._worth.update(dict.fromkeys(self._worth.keys() & self._words_of(self._shape[place]), 0.0))

    def _words_of(self, shape: bytes) -> list[bytes]:
        words = self._of_shape.get(shape)
        if words is None:
            words = self._of_shape[shape] = list(dict.fromkeys(_TOPIC.findall(shape)))
        return words


class Worth(Struct):
    """The worth of units by number; those that are not named are worth nothing."""

    weights: CardWeights
    base: dict[int, float]
    flags: dict[int, int]
    """What units state, if anything; of those with the same shape, the first and the last are examined."""
    topics: Topics | None
    """None: they do not count."""
    statement_worth: dict[int, float]
    """The part of `base` that units have for what they say, wherever they are."""
    exempt: AbstractSet[int] = frozenset()
    """Those that are shown however many similar ones are: answers, a summary, those with an odd word or number."""
    beside: AbstractSet[int] = frozenset()
    """Those of asides, which are worth nothing for being at an end."""

    def values(self, units: Units) -> dict[int, float]:
        """Returns the worth of each unit while nothing is shown, without worthless ones."""
        values = dict(self.base)
        if self.topics is not None:
            self.topics.add_worth(values)
        return {place: value for place, value in values.items() if units.text[place].strip()}


def _flags_of(units: Units) -> dict[int, int]:
    """Returns what units state; of those with the same shape, only the first and the last are classified.

    A log repeats few shapes many times, so that this is most of the time saved on long ones.
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
    """Returns whether a text is an outcome, and the unit that is the verdict: near its end, or its last summary.

    An outcome ends with a statement of how it ended, has a line that begins with a sure failure, or lines with times of
    which one states a failure. A `document` may quote all of these: only a sure failure near its end makes it one.
    """
    text, ending = units.text, SURE if document else _ENDING
    last = islice((place for place in range(len(units) - 1, -1, -1) if text[place].strip()), _LAST)
    # Of units with the same shape, the last one has flags. No run ends in the middle of a long line.
    endings = [
        place
        for place in last
        if (flags.get(place, 0) & ending or flags.get(place, 0) & _FAILED == _FAILED)
        and (units.opens[place] or units.closes[place])
        and not CODE.search(text[place])
    ]
    # Cleaning up may push the summary of a run out of the last lines: it is the verdict wherever it stands.
    sums = (place for place in reversed(flags) if flags[place] & SUMMARY and not CODE.search(text[place]))
    verdict = next(chain([place for place in endings if flags[place] & VERDICT], sums), None)
    sure = [
        (text[place], unit_flags)
        for place, unit_flags in flags.items()
        if unit_flags & (SURE | BENIGN) == SURE and not CODE.search(text[place])
    ]
    if endings or (not document and any(bits & GRAVE or begins_with_failure(line) for line, bits in sure)):
        return True, verdict
    # Lines with times are a log, which tells of a failure wherever it happened; in prose a failure is the subject.
    return bool(sure) and (units.has_times or _has_stamps(text)), verdict


def verdict_of(units: Units, *, document: bool) -> int | None:
    """Returns the unit that says how an outcome ended; None if none does. For `document`, see `worth_of`."""
    return _situation(units, _flags_of(units), document=document)[1]


def failures_of(units: Units, *, document: bool) -> tuple[int, int] | None:
    """Returns how many different failures an outcome states: sure ones, and others too; None: the text is no outcome.

    Lines that differ only in numbers state the same one. For `document`, see `worth_of`.
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
    """Returns whether most lines begin with a time that is no field of theirs."""
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
        units: those of the whole text, or of its available parts.
        reach: approximate bytes of excerpts.
        weights: those of a kind whose structure tells its situation; None: the text tells.
        document: whether the text has headings or is prose: an outcome only if a sure failure is near its end.
        lines: number of lines in the whole text.
        compared: what is new since an earlier run; the rest is worth less.
        summary: bytes at the beginning that say what follows; these units are worth as much as a verdict.
        is_view: whether the text is a view, in which lines that stand for images are asides too.
        asides: parts of which nothing is worth anything but what answers the query.
        query: what the reader wants to know, or empty; units that answer it are worth most, beside the verdict.
    """
    flags = _flags_of(units)
    outcome, verdict = (False, None) if weights is not None else _situation(units, flags, document=document)
    active_weights = weights or (OUTCOME if outcome else DOCUMENT)
    base: dict[int, float] = {}
    # What units say. After a good verdict at the end, an earlier failed end was retried or expected, and leads nowhere.
    ended_well = verdict is not None and verdict >= len(units) - _LAST and flags[verdict] & (SURE | STRONG | ENDED) == 0
    ends = find_failed_ends(units, flags) if outcome and not ended_well else []
    add_statements(base, units, flags, active_weights.statements, lines, ends)
    if compared is not None:
        _novel(base, units, compared)
    beside = _beside(units, asides) if is_view else set[int]()
    exempt = _add_oddness(base, units)
    base = {place: worth for place, worth in base.items() if place not in beside}
    # The next call of a card searches for what units say; that a unit stands at an end is no reason to read it.
    statement_worth = base.copy()
    # Where units stand: near an end, or as the one that says how it went.
    _ends(base, units, active_weights, reach, beside, ends)
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
    """Adds the worth of lines that differ from nearly all others; returns those that differ by a word or a number."""
    words, numbers = odd_words(units), outlying_lines(units)
    for positions in (odd_lines(units), words, numbers):
        for place in positions:
            base[place] = max(base.get(place, 0.0), _ODD / len(positions) ** 0.5)
    return {*words, *numbers}


def _beside(units: Units, asides: Sequence[Section]) -> set[int]:
    """Returns the units of asides, and those that stand for images."""
    ranges = [range(bisect_left(units.start, each.start), bisect_left(units.start, each.end)) for each in asides]
    images = (place for place, text in enumerate(units.text) if text[:2] == b"![" and text[-1:] == b"]")
    return {*chain.from_iterable(ranges), *images}


def _novel(base: dict[int, float], units: Units, compared: Novelty) -> None:
    """Adds what is new since an earlier run, and reduces statements that the earlier run also made."""
    new = dict(compared.new)
    for place, start in enumerate(units.start):
        if start in new:
            base[place] = base.get(place, 0.0) + _NOVEL * new[start]
        elif place in base:
            base[place] *= _KNOWN


def _ends(
    base: dict[int, float], units: Units, weights: CardWeights, reach: float, beside: set[int], failed: list[int]
) -> None:
    """Adds the worth of the ends: less with each byte between a unit and its end, asides left out.

    What led to each of the `failed` ends is worth as much as the end of the text, which then only cleans up.
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
