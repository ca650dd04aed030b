"""Selects the passages of a result's text that best answer the query, within a budget. A text that fits is shown whole.

Passages are ranked and chosen as in core/passages: units are rated by the query's terms, and the best are extended to
passages of 150 tokens. Passages that meet are merged, and all are shown in the order of the text. Boilerplate is never
shown. Of a text with none of the terms, the beginning is shown. Every passage is an exact range of the view.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, final

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.passages import (
    DocumentPart,
    Layout,
    PassageScanner,
    Ranking,
    RatedUnit,
    Term,
    compose,
    regions,
    weigh,
)
from coatcheck.core.passages.scan import TermFinder
from coatcheck.core.passages.units import units
from coatcheck.core.search.boilerplate import Ranges
from coatcheck.core.search.view import ResultBody
from coatcheck.core.text.excerpt import fit_head, fit_text
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.clip import ClipBudget
from coatcheck.core.views.window import Extent, Position, Window, decode, window
from coatcheck_client.contract.inert import inert, one_line

_BYTES_PER_TOKEN: Final = 8
"""Bytes per token of the budget, above which a text cannot fit as a whole."""
_SNIPPET_BYTES: Final = 4_000
"""Bytes at the beginning of a text in which a snippet is searched for."""
_SNIPPET_UNITS: Final = 6
"""Maximum sentences or lines of a snippet."""
_SEAM_TOKENS: Final = 4
"""Approximate tokens of the line before a passage."""
_MIN_PIECE_TOKENS: Final = 8
"""Tokens below which a part of a unit is not worth showing."""
_END: Final = b"\n\n"
"""Added after a text, as in the view, because windows end at line ends."""


class ResultPassage(Struct, frozen=True, kw_only=True):
    """A passage that is shown."""

    text: str
    """The passage as it is shown, made inert."""
    exact: bool
    """Whether `text` is unchanged; False if control characters or tags were replaced."""
    chars: Extent
    """Range of the passage in the result's text, in characters."""
    bytes: Extent
    """Range of the passage in the result's text, in bytes of UTF-8."""
    view: Window
    """Range of the passage in the text view of the response."""


class CutText(Struct, frozen=True):
    """The part of one result's text that is shown."""

    text: str
    """The passages, with lines that give their positions or what is missing, unless they are the whole text."""
    tokens: int
    quotes: tuple[ResultPassage, ...]
    whole: bool
    """Whether everything but boilerplate is shown."""


_NOTHING: Final = CutText("", 0, (), whole=True)


@final
class PassageCutter:
    """Cuts the texts of one response for one query. Not thread-safe."""

    def __init__(
        self, terms: tuple[Term, ...], finder: TermFinder | None, tokenizer: Tokenizer, *, shows_positions: bool
    ) -> None:
        """Creates a cutter.

        With `shows_positions`, a line above each passage gives its position; else gaps are marked.
        """
        self._layout: Layout = "ordered" if shows_positions else "marked"
        self._terms = terms
        self._finder = finder
        self._tokenizer = tokenizer

    def cut(self, body: ResultBody, boilerplate: Ranges, tokens: int) -> CutText:
        """Returns the passages of a text that are worth showing, in at most `tokens` tokens."""
        if not body.text or tokens <= 0:
            return replace(_NOTHING, whole=not body.text)
        fits = len(body.data) <= tokens * _BYTES_PER_TOKEN
        # A text that fits without changes needs no choice of passages and no lines of ours.
        if fits and not boilerplate and (cut_text := self._all_of(body, tokens)) is not None:
            return cut_text
        # Boilerplate splits the text: no passage may contain any.
        parts = _between(DocumentPart(body.place, body.data + _END), boilerplate, len(body.data))
        if not parts:
            return _NOTHING
        budget = ClipBudget(tokens, tokens * 64)
        # If the text fits without its boilerplate, all of the rest is shown, regardless of the query.
        if fits:
            cut_text = self._compose_text(_as_units(parts), parts, budget, body)
            shown_bytes = sum(quote.bytes.end - quote.bytes.start for quote in cut_text.quotes)
            if len(cut_text.quotes) == len(parts) and shown_bytes >= sum(
                len(part.data.strip(b" \t\r\n")) for part in parts
            ):
                return replace(cut_text, whole=True)
        # Otherwise choose passages for the query; of a text with none of its terms, show the beginning.
        rated_units = self._rate_units(body, boilerplate) or self._from_the_beginning(body, boilerplate, tokens)
        rated_units = _without_blanks(rated_units, body.data)
        return self._compose_text(*_apart(rated_units, body), budget, body)

    def _all_of(self, body: ResultBody, tokens: int) -> CutText | None:
        """Returns a whole text without a line for its position; None if it does not fit."""
        text = inert(body.text)
        cost = self._tokenizer.count(text)
        if cost > tokens or body.data != body.data.strip():
            return None
        where = window(body.place, body.place.after(body.data), ends_line=False)
        exact = text.encode("utf-8", "replace") == body.data
        return CutText(text, cost, (_quote(text, where, body.place, exact=exact),), whole=True)

    def snippet(self, body: ResultBody, boilerplate: Ranges, tokens: int) -> str:
        """Returns sentences from a text's beginning on one line: the first with the most terms, and the next ones."""
        data = beginning(body)
        open_units = [each for each in units(data, 0) if not _is_covered(*each, boilerplate)]
        terms: dict[int, set[int]] = {}
        for at, numbers in self._hits(data):
            place = bisect_right(open_units, (at, len(data))) - 1
            if place >= 0 and at < open_units[place][1]:
                terms.setdefault(place, set()).update(numbers)
        if not open_units:
            return ""
        # Of equally good sentences, the earliest is chosen: pages say first what they are about.
        best = max(range(len(open_units)), key=lambda place: (len(terms.get(place, ())), -place))
        pieces: list[str] = []
        at = open_units[best][0]
        for start, end in open_units[best : best + _SNIPPET_UNITS]:
            pieces += ["" if start == at else "…", decode(data[start:end])]
            at = end
        more = best + _SNIPPET_UNITS < len(open_units) or len(data) < len(body.data)
        return fit_text(one_line(" ".join([*pieces, "…"] if more else pieces)), tokens, self._tokenizer)

    def _hits(self, data: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yields the byte offsets at which terms begin, with the numbers of these terms."""
        at = 0
        while self._finder is not None and (match := self._finder.next(data, at)) is not None:
            yield match
            at = match[0] + 1

    def _compose_text(
        self, rated_units: list[RatedUnit], parts: list[DocumentPart], budget: ClipBudget, body: ResultBody
    ) -> CutText:
        whole = Extent(body.place.byte, body.place.byte + len(body.data))
        composition = compose(rated_units, parts, whole, budget, self._tokenizer, "", layout=self._layout)
        quotes = tuple(_quote(each.text, each.window, body.place, exact=each.exact) for each in composition.passages)
        return (
            CutText(composition.text, composition.tokens, quotes, whole=False)
            if quotes
            else replace(_NOTHING, whole=False)
        )

    def _from_the_beginning(self, body: ResultBody, boilerplate: Ranges, tokens: int) -> list[RatedUnit]:
        """Returns the first units of a text, and as much of the next one as fits; only boilerplate leaves gaps."""
        data = body.data[: tokens * _BYTES_PER_TOKEN * 2]
        data_end = data.rfind(b"\n") + 1 if len(data) < len(body.data) else len(data)
        first_units: list[RatedUnit] = []
        room, end = tokens, -1
        for start, stop in units(data[: data_end or len(data)], 0):
            if _is_covered(start, stop, boilerplate):
                continue
            # A gap in place of boilerplate costs a line.
            room -= _SEAM_TOKENS if start != end else 0
            cost = self._tokenizer.count(inert(decode(data[start:stop])))
            if cost > room:
                piece = (
                    fit_head(data[start:stop], room, self._tokenizer, lines=False)[0]
                    if room >= _MIN_PIECE_TOKENS
                    else b""
                )
                if piece:
                    first_units.append(RatedUnit(start, start + len(piece), 0.5, 0, start))
                break
            first_units.append(RatedUnit(start, stop, 1.0, 0, start))
            room -= cost
            end = stop
        # Later units get lower scores, so that `compose` cuts the end if it counts more tokens than were estimated
        # here.
        return [replace(unit, score=unit.score + 0.5 / (number + 1)) for number, unit in enumerate(first_units)]

    def _rate_units(self, body: ResultBody, boilerplate: Ranges) -> list[RatedUnit]:
        """Returns the rated units outside boilerplate; an empty list if no term occurs in them."""
        if not self._terms:
            return []
        scanner = PassageScanner(self._terms)
        scanner.feed(body.data, last=True)
        hits = scanner.hits()
        weights = weigh(hits, self._terms)
        hit_regions = regions(hits, weights, len(body.data))
        if not hit_regions:
            return []
        parts = [DocumentPart(Position(place.start, 0, 0), body.data[place.start : place.end]) for place in hit_regions]
        rated_units = Ranking(self._terms, weights).of_parts(parts, page=False)
        content_units = [unit for unit in rated_units if not _is_covered(unit.start, unit.end, boilerplate)]
        return content_units if any(unit.score > 0 for unit in content_units) else []


def beginning(body: ResultBody) -> bytes:
    """Returns the beginning of a text, in which a snippet is searched for."""
    return body.data[:_SNIPPET_BYTES]


def _quote(text: str, window: Window, place: Position, *, exact: bool) -> ResultPassage:
    return ResultPassage(
        text=text,
        exact=exact,
        chars=Extent(window.chars.start - place.chars, window.chars.end - place.chars),
        bytes=Extent(window.bytes.start - place.byte, window.bytes.end - place.byte),
        view=window,
    )


def _is_covered(low: int, high: int, boilerplate: Ranges) -> bool:
    """Returns whether most of a range of a text is boilerplate."""
    at = max(0, bisect_right(boilerplate, (low, 1 << 62)) - 1) if boilerplate else 0
    while at < len(boilerplate) and boilerplate[at][0] < high:
        start, end = boilerplate[at]
        if min(end, high) - max(start, low) > (high - low) // 2:
            return True
        at += 1
    return False


def _between(part: DocumentPart, boilerplate: Ranges, size: int) -> list[DocumentPart]:
    """Returns a text without its boilerplate, as parts of the view; parts that are blank are dropped."""
    out: list[DocumentPart] = []
    at, place = 0, part.place
    for start, end in (*boilerplate, (size, size)):
        data = part.data[at : start if start < size else len(part.data)]
        if data.strip():
            out.append(_with_line_end(place, data, part.data, at))
        place = place.after(part.data[at:end])
        at = end
    return out


def _with_line_end(place: Position, data: bytes, whole: bytes, at: int) -> DocumentPart:
    """Returns a part with the LF before it, if there is one, to show that the part begins a line."""
    if whole[max(0, at - 1) : at] != b"\n":
        return DocumentPart(place, data)
    return DocumentPart(Position(place.byte - 1, place.newlines - 1, place.chars - 1), b"\n" + data)


def _as_units(parts: list[DocumentPart]) -> list[RatedUnit]:
    """Returns each part as one unit, which is shown whole or not at all."""
    out: list[RatedUnit] = []
    for number, part in enumerate(parts):
        start = part.place.byte + len(part.data) - len(part.data.lstrip(b"\r\n"))
        out.append(RatedUnit(start, part.place.byte + len(part.data), 1.0, number, start))
    return out


def _without_blanks(rated_units: list[RatedUnit], data: bytes) -> list[RatedUnit]:
    """Returns the units with blank ones joined to the unit before, because nothing of a blank unit could be shown."""
    out: list[RatedUnit] = []
    for unit in rated_units:
        if data[unit.start : unit.end].strip():
            out.append(unit)
        elif out and out[-1].end == unit.start and out[-1].part == unit.part:
            out[-1] = replace(out[-1], end=unit.end)
    return out


def _apart(rated_units: list[RatedUnit], body: ResultBody) -> tuple[list[RatedUnit], list[DocumentPart]]:
    """Returns the units with positions in the view, and the parts that contain them; consecutive units share a part."""
    parts: list[DocumentPart] = []
    out: list[RatedUnit] = []
    data = body.data + _END
    at, place = 0, body.place
    run: list[RatedUnit] = []
    for unit in (*rated_units, None):
        if run and (unit is None or unit.start != run[-1].end or unit.part != run[-1].part):
            place = place.after(data[at : run[0].start])
            at = run[0].start
            end = run[-1].end if run[-1].end < len(body.data) else len(data)
            parts.append(_with_line_end(place, data[at:end], data, at))
            base = body.place.byte
            out += [RatedUnit(base + u.start, base + u.end, u.score, len(parts) - 1, base + u.hit) for u in run]
            run = []
        if unit is not None:
            run.append(unit)
    return out, parts
