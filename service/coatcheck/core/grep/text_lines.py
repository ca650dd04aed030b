"""Shows hits like grep: `12:matching line`, `11-context line`, `--` between groups, within a budget.

Every shown byte belongs to a window that gives its exact position; what a row leaves out is marked in its place. The
caller provides the bytes around each hit.
"""

import re
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct, structs

from coatcheck.core.artifact import LineFields
from coatcheck.core.grep.matcher import MAX_MATCHES, LineHit
from coatcheck.core.parts.blobs import hidden_parts
from coatcheck.core.text.excerpt import counts
from coatcheck.core.text.visible_text import (
    Hidden,
    frame_start,
    measure_shown_bytes,
    overwritten,
    show_parts,
    without_escapes,
)
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.clip import ClipBudget, Cut
from coatcheck.core.views.window import Extent, decode, separates, whole_chars

LINE_BYTES = 8_000
"""Bytes up to which a matching line is shown whole, while the budget allows several."""
CONTEXT_BYTES = 2_000
"""Bytes shown of a context line, likewise."""
_SEVERAL_HITS = 8
"""Number of hits that is worth more than whole lines."""
MATCH_BYTES = 1_000
"""Bytes shown of one match."""
_COUNTED_HITS = 24
"""Hits that are counted in one encoding."""
_FRAME_END = re.compile(rb"\r(?=[^\r\n])")
_JOINED_BYTES = 32
"""Gaps up to this many bytes are shown: the mark would be as long."""


class GrepDetail(Struct, frozen=True):
    """How much is shown of each hit."""

    line: int
    """Bytes up to which a matching line is shown whole."""
    beside: int
    """Bytes shown of a context line."""
    around: int
    """Bytes shown before and after a match in a longer line."""
    match: int
    """Bytes shown of a match."""
    context: int
    """Lines before and after."""
    matches: int
    """Matches shown of one hit."""

    def of(self, around: "Around") -> "Around":
        """Returns the hit with as many matches as are shown."""
        hit = around.hit
        if len(hit.matches) <= self.matches:
            return around
        return structs.replace(around, hit=structs.replace(hit, matches=hit.matches[: self.matches], more=True))


_GENEROUS = ((LINE_BYTES, CONTEXT_BYTES, 400), (2_000, 1_000, 300), (800, 400, 200), (400, 200, 120))
"""Bytes of a line, of a context line, around a match: less and less, until several hits fit."""
_BRIEF = ((40, 300, 4), (8, 48, 1))
"""Bytes around a match, bytes of it, matches: less and less of a first hit, until it fits."""


class Around(Struct, frozen=True):
    """The bytes from which a hit's rows are cut."""

    hit: LineHit
    before: bytes
    """The bytes that end where the line starts."""
    at: int
    """Where `data` begins: at the line's start, or at a character inside it."""
    data: bytes
    ends: bool
    """Whether `data` extends to the end of what is searched."""
    begins: bool
    """Whether `before` extends to its beginning."""
    is_terminal: bool = False
    """Whether lines are shown as a terminal showed them, where a carriage return overwrites what is before it."""
    fields: LineFields | None = None
    """What is not shown of a line, unless a match begins in it."""


class GrepRow(Struct, frozen=True):
    """One line of the answer."""

    line: int
    match: bool
    parts: list[tuple[int, bytes]]
    """What is shown: positions, and bytes."""
    start: int
    """Where the line begins; -1 for a context line whose beginning is not available."""
    end: int
    """Where it ends, without LF; -1 if that is not available."""
    more: bool = False
    """Whether there are more matches near those that are shown; this is not mentioned if the whole line is shown."""
    over: int = -1
    """What precedes this position in the line was overwritten."""
    hides_escapes: bool = False
    """Whether escape sequences are hidden."""
    hidden: tuple[Hidden, ...] = ()
    """Fields that are not shown."""

    def text(self) -> str:
        """Returns the row as it is shown, without a line end."""
        out = [f"{self.line}{':' if self.match else '-'}"]
        place = self.start
        hidden = self.end < 0
        for at, data in self.parts:
            if place < 0:
                out.append("[…]")
            elif at > place:
                if self.over > place:
                    out.append(overwritten(self.over - place))
                if at > max(place, self.over):
                    out.append(f"[… {at - max(place, self.over):,} bytes …]")
            hidden = hidden or at > max(place, self.over)
            visible = show_parts(data, self.hidden, at)
            out.append(decode(without_escapes(visible) if self.hides_escapes else visible))
            place = at + len(data)
        if self.end < 0:
            out.append("[…]")
        elif self.end > place:
            out.append(f"[… {self.end - place:,} bytes …]")
            hidden = True
        if self.more and hidden:
            out.append("[… more matches near …]")
        return "".join(out)


def rows(around: Around, detail: GrepDetail) -> list[GrepRow]:
    """Returns the rows of a hit: its line, and its context."""
    line_end = _line_end(around)
    match_row = _match_row(around, line_end, detail)
    return [
        *_before(around, around.hit, detail),
        match_row,
        *(_after(around, line_end, detail) if line_end >= 0 and detail.context else []),
    ]


def _line_end(around: Around) -> int:
    last = max(m.start for m in around.hit.matches) - around.at
    at = around.data.find(b"\n", max(0, last))
    if at < 0:
        return around.at + len(around.data) if around.ends else -1
    return around.at + at


def _match_row(around: Around, line_end: int, detail: GrepDetail) -> GrepRow:
    hit = around.hit
    stop = line_end if line_end >= 0 else around.at + len(around.data)
    low, high = _frame(around, stop)
    at_hand = low >= around.at and (high < stop or line_end >= 0)
    hidden = _hidden(around, around.at, around.data[: stop - around.at], ends=line_end >= 0)
    if any(_is_inside(match.start, part, hidden) for part in hidden for match in hit.matches):
        hidden = ()
    if at_hand and _visible(around, low, high, hidden) <= detail.line:
        spans = [Extent(low, high)]
    else:
        spans = _merge_extents([_extend_match(m, low, high, detail) for m in hit.matches])
    parts = [_cut(around, s.start, s.end, high) for s in spans]
    return GrepRow(hit.line, True, parts, hit.line_start, line_end, hit.more, low, around.is_terminal, hidden)


def _is_inside(at: int, part: Hidden, hidden: tuple[Hidden, ...]) -> bool:
    """Returns whether a match at `at` is to be shown as it is written: it begins in a field, or inside of a blob."""
    is_blob = part[2].startswith(b"[")
    return part[0] + is_blob <= at < part[1] and (is_blob or part in {hidden[0], hidden[-1]})


def _hidden(around: Around, start: int, line: bytes, *, ends: bool) -> tuple[Hidden, ...]:
    """Returns what is not shown of a line from `start` on."""
    begins = start != around.at or start == around.hit.line_start
    ranges = hidden_parts(around.fields, line, begins=begins, ends=ends) if around.is_terminal else []
    return tuple((start + low, start + high, replacement) for low, high, replacement in ranges)


def _frame(around: Around, stop: int) -> tuple[int, int]:
    """Returns where the frame with a hit's matches begins and ends; the whole line if nothing is overwritten."""
    hit, data, base = around.hit, around.data, around.at
    low, high = hit.line_start, stop
    if around.is_terminal:
        first = data.rfind(b"\r", 0, hit.matches[0].start - base + 1)
        low = base + first + 1 if first >= 0 else low
        following = _FRAME_END.search(data, hit.matches[-1].end - base, stop - base)
        high = base + following.start() if following else stop
    return low, high


def _visible(around: Around, start: int, end: int, hidden: tuple[Hidden, ...]) -> int:
    data = show_parts(around.data[start - around.at : end - around.at], hidden, start)
    return len(without_escapes(data)) if around.is_terminal else len(data)


def _in_last_frame(around: Around) -> Around:
    """Returns the hit with only those of its matches that were not overwritten by another one that is kept."""
    matches, data, base = around.hit.matches, around.data, around.at
    if not around.is_terminal or len(matches) < 2:  # noqa: PLR2004 - nothing to choose from
        return around
    frame = base + data.rfind(b"\r", 0, matches[-1].start - base + 1) + 1
    visible_matches = [match for match in matches if match.end > frame]
    if len(visible_matches) == len(matches):
        return around
    return structs.replace(around, hit=structs.replace(around.hit, matches=visible_matches, more=True))


def _extend_match(match: Extent, line_start: int, stop: int, detail: GrepDetail) -> Extent:
    low = max(line_start, match.start - detail.around)
    capped = match.end - match.start > detail.match
    high = match.start + detail.match if capped else match.end + detail.around
    return Extent(
        low if low - line_start > _JOINED_BYTES else line_start, high if stop - high > _JOINED_BYTES else stop
    )


def _merge_extents(spans: list[Extent]) -> list[Extent]:
    out: list[Extent] = []
    for span in spans:
        if out and span.start - out[-1].end <= _JOINED_BYTES:
            out[-1] = Extent(out[-1].start, max(out[-1].end, span.end))
        else:
            out.append(span)
    return out


def _cut(around: Around, start: int, end: int, stop: int) -> tuple[int, bytes]:
    """Returns the bytes of a span, extended to whole characters."""
    low, high = max(0, start - around.at), min(end, stop) - around.at
    while not separates(around.data, low):
        low -= 1
    while high < stop - around.at and not separates(around.data, high):
        high += 1
    return around.at + low, around.data[low:high]


def _before(around: Around, hit: LineHit, detail: GrepDetail) -> list[GrepRow]:
    context = detail.context
    if not context or not around.before:
        return []
    pieces = around.before.split(b"\n")[:-1]
    out: list[GrepRow] = []
    end = hit.line_start - 1
    for number, piece in enumerate(reversed(pieces[-context:]), 1):
        start = end - len(piece)
        at_hand = around.begins or number < len(pieces)
        if at_hand:
            out.append(_context_row(around, hit.line - number, start, piece, end, detail))
        else:
            part = _tail(end, piece[-detail.beside :])
            out.append(GrepRow(hit.line - number, False, [part], -1, end, over=start, hides_escapes=around.is_terminal))
        end = start - 1
    return out[::-1]


def _after(around: Around, line_end: int, detail: GrepDetail) -> list[GrepRow]:
    data = around.data[line_end + 1 - around.at :]
    pieces = data.split(b"\n")
    if around.ends and not pieces[-1]:
        pieces.pop()
    out: list[GrepRow] = []
    start = line_end + 1
    for number, piece in enumerate(pieces[: detail.context], 1):
        at_hand = around.ends or number < len(pieces)
        if not at_hand and not piece:
            break
        end = start + len(piece) if at_hand else -1
        out.append(_context_row(around, around.hit.line + number, start, piece, end, detail))
        start += len(piece) + 1
    return out


def _context_row(around: Around, line: int, start: int, data: bytes, end: int, detail: GrepDetail) -> GrepRow:
    """Returns the row of a line from its beginning on; `end` is -1 if not all of it is at hand."""
    over = frame_start(data) if around.is_terminal and end >= 0 else 0
    hidden = _hidden(around, start, data, ends=end >= 0)
    data, width = data[over:], detail.beside
    if around.is_terminal:
        width = measure_shown_bytes(
            data, width, [(low - start - over, high - start - over, b"") for low, high, _ in hidden]
        )
    part = start + over, _whole(data, width)
    return GrepRow(line, False, [part], start, end, over=start + over, hides_escapes=around.is_terminal, hidden=hidden)


def _whole(data: bytes, width: int) -> bytes:
    """Returns at most `width` bytes of the beginning of a line, without a part of a character."""
    return data if len(data) <= width else data[: whole_chars(data, width)]


def _tail(end: int, data: bytes) -> tuple[int, bytes]:
    """Returns the end of a line without the rest of a character at its beginning."""
    skip = next((n for n in range(min(4, len(data))) if data[n] & 0xC0 != 0x80), 0)  # noqa: PLR2004 - UTF-8
    return end - len(data) + skip, data[skip:]


class ShownHits(Struct, frozen=True):
    """The hits that fit the budget."""

    hits: list[LineHit]
    """Including the matches that are shown."""
    text: str
    tokens: int
    rows: list[GrepRow]
    limit: Cut | None


def compose(hits: list[Around], budget: ClipBudget, context: int, tokenizer: Tokenizer) -> ShownHits:
    """Returns as many hits as fit the budget, at least one: whole lines while several fit, otherwise shortened."""
    hits = [_in_last_frame(around) for around in hits]
    best = ShownHits([], "", 0, [], None)
    # Shorter rows until several hits fit: eight lines in part say more than one in full.
    for line, beside, around in _GENEROUS:
        detail = GrepDetail(line, beside, around, MATCH_BYTES, context, MAX_MATCHES)
        best = _fit(hits, budget, detail, tokenizer)
        if len(best.hits) >= min(len(hits), _SEVERAL_HITS):
            return best
    # Not even one fits: its context goes first, then its surroundings, then part of the match.
    for around, match, matches in ((_GENEROUS[-1][2], MATCH_BYTES, MAX_MATCHES), *_BRIEF):
        for lines in dict.fromkeys((context, 0)):
            if best.hits:
                return best
            detail = GrepDetail(0, _GENEROUS[-1][1], around, match, lines, matches)
            best = _fit([detail.of(a) for a in hits], budget, detail, tokenizer)
    return best


def _fit(hits: list[Around], budget: ClipBudget, detail: GrepDetail, tokenizer: Tokenizer) -> ShownHits:
    table: dict[int, _Sized] = {}
    prefixes: list[dict[int, GrepRow]] = [{}]
    tokens = chars = 0
    limit: Cut | None = None
    # Estimates decide how many hits are tried. Hits that are close share lines, which are counted once.
    for sized in _measure_rows(hits, detail, tokenizer):
        for new in sized:
            old = table.get(new.row.line)
            if old is not None:
                row = _both(old.row, new.row)
                if row is old.row:
                    continue
                tokens -= old.tokens
                chars -= old.chars
                if row is not new.row:
                    text = row.text()
                    new = _Sized(row, tokenizer.count(text) + 1, len(text) + 1)  # noqa: PLW2901 - what is shown of both
            table[new.row.line] = new
            tokens += new.tokens
            chars += new.chars
        if tokens > budget.tokens or chars > budget.chars:
            limit = "max_tokens" if tokens > budget.tokens else "max_characters"
            break
        prefixes.append({line: entry.row for line, entry in table.items()})
    # The joined text is counted, and hits go until it fits.
    while True:
        text, shown_rows = _text(prefixes[-1], detail.context)
        exact = tokenizer.count(text)
        if (exact <= budget.tokens and len(text) <= budget.chars) or len(prefixes) == 1:
            return ShownHits([a.hit for a in hits[: len(prefixes) - 1]], text, exact, shown_rows, limit)
        limit = "max_tokens" if exact > budget.tokens else "max_characters"
        prefixes.pop()


class _Sized(Struct, frozen=True):
    """A row, and its size as a line."""

    row: GrepRow
    tokens: int
    chars: int


def _measure_rows(hits: list[Around], detail: GrepDetail, tokenizer: Tokenizer) -> Iterator[list[_Sized]]:
    """Yields the rows of each hit, counting some hits at a time."""
    source = iter(hits)
    while batch := [rows(around, detail) for around in islice(source, _COUNTED_HITS)]:
        texts = [f"{row.text()}\n" for of_hit in batch for row in of_hit]
        sizes = iter(zip(counts(texts, tokenizer), map(len, texts), strict=True))
        for of_hit in batch:
            yield [_Sized(row, *next(sizes)) for row in of_hit]


def _both(old: GrepRow, new: GrepRow) -> GrepRow:
    """Merges a line that two hits show: matches prevail over context, and parts of two stretches are joined."""
    # A line with a match is shown around the match; as context, from its beginning.
    if new.match and not old.match:
        return new
    if old.match and not new.match:
        return old
    if not new.match:
        return old if old.start >= 0 and old.end >= 0 else new
    parts = list(old.parts)
    # Both have matches in one long line: their parts are put together, without repeating what overlaps.
    for at, data in new.parts:
        last, last_data = parts[-1]
        place = last + len(last_data)
        if at + len(data) <= place:
            continue
        if at <= place:
            parts[-1] = (last, last_data + data[place - at :])
        else:
            parts.append((at, data))
    over = min(old.over, new.over)
    end = new.end if new.end >= 0 else old.end
    hidden = new.hidden if new.hidden == old.hidden else ()
    return GrepRow(new.line, True, parts, new.start, end, old.more or new.more, over, new.hides_escapes, hidden)


def _text(table: dict[int, GrepRow], context: int) -> tuple[str, list[GrepRow]]:
    sorted_rows = [table[line] for line in sorted(table)]
    out: list[str] = []
    last = None
    for row in sorted_rows:
        if context and last is not None and row.line > last + 1:
            out.append("--\n")
        out.append(row.text() + "\n")
        last = row.line
    return "".join(out), sorted_rows
