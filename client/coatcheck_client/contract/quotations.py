"""Checks whether and where a text contains a quotation, and how it differs.

First, an exact match is tried. Then a match is tried that ignores typesetting: compatibility forms, blanks,
quotation marks, dashes, marks around the quotation, and an ellipsis for an omission. Otherwise, the part of the text
with the most common words is found, and the differences are reported. Whoever checks a citation decides whether they
are important. Case counts: `us` for `US` is a difference. A quotation that is too long is `absent`, and so is one whose
words are too far apart in the text. Of a long text, only the beginning is searched, and words are compared only at the
most likely positions.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from difflib import SequenceMatcher
from functools import cached_property
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

Verdict = Literal["exact", "normalised", "fuzzy", "absent"]

QUOTE_CHARS: Final = 4_000
"""Maximum characters of a quotation that is checked; a longer one is `absent`."""
SOURCE_CHARS: Final = 4_000_000
"""Maximum characters of a text that are searched."""
FUZZY_CHARS: Final = 1_000_000
"""Maximum characters of a text that are searched word by word, which costs more."""
MATCH_CHARS: Final = 2 * QUOTE_CHARS
"""Maximum characters of the text that a quotation matches, which are more than the quotation's if it omits something.
Words further apart are no quotation: the text between them may say anything."""
LEAST_RATIO: Final = 0.7
"""Minimum share of common words, in order, for a `fuzzy` match: twice their number over the words of both texts (as
difflib counts)."""
_LEAST_WORDS: Final = 4
"""Minimum words of a quotation that is searched word by word."""
_NEAR: Final = 3
"""Maximum positions of a text at which it is compared word by word."""
_TRIES: Final = 1_000
"""Maximum positions of a quotation's beginning that are tried if its pieces are too far apart."""
_DIFFERENCES: Final = 12
"""Maximum differences that are reported."""
_SHOWN: Final = 80
"""Maximum characters that are shown of either side of a difference."""
_FREQUENT: Final = 2_000
"""Occurrences in the text beyond which a word says nothing about the position of the quotation."""
_ROOM: Final = 12
"""Words before and after a likely position that are compared, too."""

_QUOTES: Final = (
    "\"'`\u00ab\u00bb\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2032\u2033\u2039\u203a"
    "\u300c\u300d\u300e\u300f\uff02\uff07"
)
_DASHES: Final = "-\u00ad\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_MARKED: Final = re.escape(_QUOTES.replace("'", ""))
_DASHED: Final = re.escape(_DASHES)
_CHANGED: Final = re.compile(
    rf"(\s{{2,}}|[^\S ])|([{_MARKED}])|([{_DASHED}]{{2,}}|[{_DASHED[2:]}])|([^\x00-\x7f\s{_MARKED}{_DASHED[2:]}]+)"
)
"""Matches blanks other than one space, quotation marks other than ', dashes other than one -, and anything outside
ASCII."""
_CLUSTER: Final = re.compile(
    r".[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u3099\u309a]*", re.DOTALL
)
"""Matches a character with its combining marks, which are normalised together."""
_LEFT_OUT: Final = re.compile(r"\s*(?:\[\s*(?:…|\.\.\.)\s*\]|\(\s*(?:…|\.\.\.)\s*\)|…|\.{3,})\s*")
"""Matches an ellipsis that stands for an omission, with the blanks around it."""
_ENDS: Final = re.compile(r"[.!?\u2026][\s\"'\u2019\u201d)\]]|[\u3002\uff01\uff1f]|\n[^\S\n]*\n")
"""Matches the end of a sentence or of a paragraph between two words."""
WORD: Final = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|\w+")
"""Matches a word, or one character of a script that puts no blanks between words."""


class Extent(Struct, frozen=True):
    """A half-open range: from `start` to before `end`, counted from 0."""

    start: int
    end: int


class Difference(Struct, frozen=True):
    """A difference between a quotation and the text. Either side may be empty."""

    quoted: str
    stands: str


class QuotationMatch(Struct, frozen=True, kw_only=True):
    """The result for one quotation: whether the text contains it, where, and how it differs."""

    verdict: Verdict
    at: Extent | None = None
    """The characters of the text that are quoted; with omissions, from the first piece to the last."""
    text: str = ""
    """The text in that range."""
    ratio: float = 0.0
    """The share of common words; 1 for `exact` and `normalised`."""
    differences: tuple[Difference, ...] = ()
    moved: bool = False
    """Whether the match is outside the range that is cited."""
    partial: bool = False
    """Whether only a part of the text was searched for the quotation, so that it may stand elsewhere."""


_ABSENT: Final = QuotationMatch(verdict="absent")


class QuotableText:
    """A text in which several quotations are searched for. What all searches need is computed once."""

    def __init__(self, text: str) -> None:
        """`text`: the cited text; only its first SOURCE_CHARS characters are searched."""
        self.text = text[:SOURCE_CHARS]
        self.is_cut = len(text) > SOURCE_CHARS

    @cached_property
    def plain(self) -> "_Plain":
        """The text without its typesetting."""
        return _Plain(self.text)

    @cached_property
    def words(self) -> tuple[list[re.Match[str]], list[str]]:
        """The words in the first FUZZY_CHARS characters: their matches, and the forms in which they are compared."""
        spots = list(WORD.finditer(self.text[:FUZZY_CHARS]))
        return spots, [_same(match.group()) for match in spots]


def verify(quote: str, source: str | QuotableText, within: Extent | None = None) -> QuotationMatch:
    """Looks for a quotation in a text.

    Args:
        quote: the words as quoted.
        source: the text that is cited.
        within: the cited range of its characters. A match there is preferred; a match elsewhere is `moved`.
    """
    if not quote.strip() or len(quote) > QUOTE_CHARS:
        return _ABSENT
    source = QuotableText(source) if isinstance(source, str) else source
    if within is not None:
        start, end = max(0, within.start), min(len(source.text), within.end)
        inside = _verify(quote, QuotableText(source.text[start:end]), start) if start < end else _ABSENT
        if inside.verdict != "absent":
            return inside
    found = _verify(quote, source, 0)
    outside = (
        within is not None
        and found.at is not None
        and not (within.start <= found.at.start and found.at.end <= within.end)
    )
    return replace(found, moved=outside)


def _verify(quote: str, part: QuotableText, base: int) -> QuotationMatch:
    at = part.text.find(quote)
    if at >= 0:
        return QuotationMatch(verdict="exact", at=Extent(base + at, base + at + len(quote)), text=quote, ratio=1.0)
    where = part.plain.find(quote)
    if where is not None:
        start, end = where
        text = part.text[start:end]
        return QuotationMatch(verdict="normalised", at=Extent(base + start, base + end), text=text, ratio=1.0)
    return _fuzzy(quote, part, base)


class _Plain:
    """A text without its typesetting, and the original position of each of its characters."""

    def __init__(self, text: str) -> None:
        pieces: list[str] = []
        self._to: list[int] = []
        self._from: list[int] = []
        at = 0
        done = 0
        for match in _CHANGED.finditer(text):
            made = _undone(match)
            if not made:
                continue
            before = [(text[done : match.start()], done)] if done < match.start() else []
            for piece, start in (*before, *made):
                self._to.append(at)
                self._from.append(start)
                pieces.append(piece)
                at += len(piece)
            done = match.end()
        if done < len(text):
            self._to.append(at)
            self._from.append(done)
            pieces.append(text[done:])
        self._ends = [*self._from[1:], len(text)]
        self.text = "".join(pieces)

    def find(self, quote: str) -> tuple[int, int] | None:
        """Returns the range of a quotation in the original text, with its pieces in order; None if it is absent.

        The range has at most MATCH_CHARS characters.
        """
        wanted = [piece for each in _LEFT_OUT.split(quote) if (piece := _bare(each))]
        least = 0
        for _ in range(_TRIES if wanted else 0):
            at = first = self.text.find(wanted[0], least)
            for piece in wanted:
                place = self.text.find(piece, at)
                if place < 0:
                    return None
                at = place + len(piece)
            start, end = self._back(first), self._back(at - 1) + 1
            if end - start <= MATCH_CHARS:
                return start, end
            # The last piece can end no earlier, so a short enough range begins later.
            least = bisect_left(range(len(self.text)), end - MATCH_CHARS, key=self._back)
        return None

    def _back(self, place: int) -> int:
        number = bisect_right(self._to, place) - 1
        return self._from[number] + min(place - self._to[number], self._ends[number] - self._from[number] - 1)


def clip_match(text: str) -> str:
    """Returns the text of a match with at most MATCH_CHARS characters; "…" stands for its middle if it is longer."""
    half = MATCH_CHARS // 2
    return text if len(text) <= MATCH_CHARS else f"{text[: half - 1]}…{text[-half:]}"


def _undone(match: re.Match[str]) -> list[tuple[str, int]]:
    """Returns what replaces a match, with original positions; empty if the match stays as it is."""
    start = match.start()
    if match.group(1):
        return [(" ", start)]
    if match.group(2):
        return [("'", start)]
    if match.group(3):
        return [("-", start)]
    text = match.group()
    if unicodedata.is_normalized("NFKC", text):
        return []
    out: list[tuple[str, int]] = []
    for cluster in _CLUSTER.finditer(text):
        made = unicodedata.normalize("NFKC", cluster.group())
        out += [(made, start + cluster.start())] if made else []
    return out


def _bare(quote: str) -> str:
    """Returns a quotation without typesetting, without marks around it, and without a final full stop."""
    return _Plain(quote).text.strip(" '").removesuffix(".").rstrip(" '")


# ----------------------------------------------------------------------------------------------------------- fuzzy


def _fuzzy(quote: str, source: QuotableText, base: int) -> QuotationMatch:
    """Returns the match with the most common words, in order; absent if there are not enough."""
    wanted = [_same(match.group()) for match in WORD.finditer(quote)]
    if len(wanted) < _LEAST_WORDS:
        return replace(_ABSENT, partial=source.is_cut)
    part, (spots, words) = source.text, source.words
    best: tuple[float, int, int, tuple[int, int]] = (0.0, 0, 0, (0, 0))
    for place in _likely_starts(wanted, words):
        low, high = max(0, place - _ROOM), min(len(words), place + len(wanted) + _ROOM)
        matcher = SequenceMatcher(None, wanted, words[low:high], autojunk=False)
        blocks = [block for block in matcher.get_matching_blocks() if block.size]
        if not blocks:
            continue
        first, last = low + blocks[0].b, low + blocks[-1].b + blocks[-1].size
        shared = sum(block.size for block in blocks)
        missing = blocks[0].a, len(wanted) - blocks[-1].a - blocks[-1].size
        best = max(best, (2 * shared / (len(wanted) + last - first), -first, last, missing))
    ratio, first, last = best[0], -best[1], best[2]
    absent = replace(_ABSENT, partial=source.is_cut or len(part) > FUZZY_CHARS)
    if ratio < LEAST_RATIO:
        return absent
    first, last = _with_ends(part, spots, (first, last), best[3])
    start, end = spots[first].start(), spots[last - 1].end()
    if end - start > MATCH_CHARS:
        return absent
    return QuotationMatch(
        verdict="fuzzy",
        at=Extent(base + start, base + end),
        text=part[start:end],
        ratio=round(ratio, 3),
        differences=_differences(quote, part[start:end]),
        partial=absent.partial,
    )


def _with_ends(
    part: str, spots: list[re.Match[str]], shared: tuple[int, int], missing: tuple[int, int]
) -> tuple[int, int]:
    """Returns the range of the common words, extended where the quotation begins or ends with other words.

    The range is extended by as many words as the quotation has there, but only within the same sentence. So words that
    are added to a complete sentence correspond to nothing in the text.
    """
    first, last = shared
    for _ in range(missing[0]):
        if not first or _ENDS.search(part, spots[first - 1].end(), spots[first].start()):
            break
        first -= 1
    for _ in range(missing[1]):
        if last == len(spots) or _ENDS.search(part, spots[last - 1].end(), spots[last].start()):
            break
        last += 1
    return first, last


def _same(word: str) -> str:
    return word.lower() if word.isascii() else unicodedata.normalize("NFKC", word).lower()


def _likely_starts(wanted: list[str], words: list[str]) -> list[int]:
    """Returns positions at which the quotation perhaps begins; those on which most of its words agree come first."""
    numbers: dict[str, list[int]] = {}
    for number, word in enumerate(wanted):
        numbers.setdefault(word, []).append(number)
    counts = Counter(word for word in words if word in numbers)
    votes: Counter[int] = Counter()
    for place, word in enumerate(words):
        if word in numbers and counts[word] <= _FREQUENT:
            for number in numbers[word][:4]:
                votes[(place - number) // _ROOM] += 1
    ranked = sorted(votes.items(), key=lambda vote: (-(vote[1] + votes.get(vote[0] + 1, 0)), vote[0]))
    return [max(0, start * _ROOM) for start, _ in ranked[:_NEAR]]


def _differences(quote: str, stands: str) -> tuple[Difference, ...]:
    """Returns the differences between two texts in words: what each contains in place of the other's words."""
    one, other = list(WORD.finditer(quote)), list(WORD.finditer(stands))
    matcher = SequenceMatcher(None, [m.group() for m in one], [m.group() for m in other], autojunk=False)
    changes = [opcode for opcode in matcher.get_opcodes() if opcode[0] != "equal"][:_DIFFERENCES]
    return tuple(Difference(_between(quote, one, a, b), _between(stands, other, c, d)) for _, a, b, c, d in changes)


def _between(text: str, words: list[re.Match[str]], low: int, high: int) -> str:
    return text[words[low].start() : words[high - 1].end()][:_SHOWN] if low < high else ""
