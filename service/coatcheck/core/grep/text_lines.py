"""Shows hits like grep: `12:matching line`, `11-context line`, `--` between groups, within a budget.

Every byte shown lies in a window whose exact position is reported. Where a row leaves bytes out, a mark says how many.
The caller provides the bytes around each hit.
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
"""Maximum bytes of a matching line that is shown whole, as long as the budget has room for several hits."""
CONTEXT_BYTES = 2_000
"""Maximum bytes shown of a context line, as long as the budget has room for several hits."""
_SEVERAL_HITS = 8
"""Number of hits that should fit. While fewer fit, lines are shortened to make room for more."""
MATCH_BYTES = 1_000
"""Maximum bytes shown of one match."""
_COUNTED_HITS = 24
"""Number of hits whose tokens are counted in one call of the tokenizer."""
_FRAME_END = re.compile(rb"\r(?=[^\r\n])")
_JOINED_BYTES = 32
"""Gaps of up to this many bytes are shown, because the mark in their place would be as long."""


class GrepDetail(Struct, frozen=True):
    """Limits on the bytes and lines that are shown of each hit."""

    line: int
    """Maximum bytes of a matching line that is shown whole."""
    beside: int
    """Maximum bytes shown of a context line."""
    around: int
    """Bytes shown before and after a match in a line that is too long to be shown whole."""
    match: int
    """Maximum bytes shown of a match."""
    context: int
    """Number of context lines shown before a hit, and as many after it."""
    matches: int
    """Maximum matches shown of one hit."""

    def of(self, around: "Around") -> "Around":
        """Returns the hit with at most `matches` of its matches."""
        hit = around.hit
        if len(hit.matches) <= self.matches:
            return around
        return structs.replace(around, hit=structs.replace(hit, matches=hit.matches[: self.matches], more=True))


_GENEROUS = ((LINE_BYTES, CONTEXT_BYTES, 400), (2_000, 1_000, 300), (800, 400, 200), (400, 200, 120))
"""Limits in bytes for a line, a context line and the text around a match. The rows get tighter, and are tried in order
until several hits fit."""
_BRIEF = ((40, 300, 4), (8, 48, 1))
"""Bytes around a match, bytes of the match, and number of matches: tried in order until at least one hit fits."""


class Around(Struct, frozen=True):
    """A hit and the bytes around it, from which its rows are cut."""

    hit: LineHit
    before: bytes
    """The bytes that end where the line starts."""
    at: int
    """Byte position at which `data` begins: at the start of the line, or at a character inside the line."""
    data: bytes
    ends: bool
    """Whether `data` extends to the end of the searched content."""
    begins: bool
    """Whether `before` extends to the beginning of the searched content."""
    is_terminal: bool = False
    """Whether lines are shown as a terminal shows them: text after a carriage return overwrites the text before it."""
    fields: LineFields | None = None
    """The fields of a line that are hidden, unless a match begins in one of them. None: no fields are known."""


class GrepRow(Struct, frozen=True):
    """One line of the answer: a matching line or a context line."""

    line: int
    match: bool
    parts: list[tuple[int, bytes]]
    """The parts of the line that are shown: the position of each part, and its bytes."""
    start: int
    """Position where the line begins; -1 for a context line whose beginning is not available."""
    end: int
    """Position where the line ends, before its LF; -1 if the end is not available."""
    more: bool = False
    """Whether the line has more matches near those shown. The row says so only if part of the line is left out."""
    over: int = -1
    """Position up to which the line was overwritten; the line's start, or -1, if nothing was."""
    hides_escapes: bool = False
    """Whether escape sequences are hidden."""
    hidden: tuple[Hidden, ...] = ()
    """Hidden ranges of the line (fields and encoded bytes), and what is shown in the place of each."""

    def text(self) -> str:
        """Returns the row's text, without a line end."""
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
    """Returns the rows of a hit: context lines before it, the matching line, and context lines after it."""
    line_end = _line_end(around)
    match_row = _match_row(around, line_end, detail)
    return [
        *_context_before(around, around.hit, detail),
        match_row,
        *(_context_after(around, line_end, detail) if line_end >= 0 and detail.context else []),
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
    low, high = _find_frame(around, stop)
    is_available = low >= around.at and (high < stop or line_end >= 0)
    hidden = _hidden_ranges(around, around.at, around.data[: stop - around.at], ends=line_end >= 0)
    if any(_is_inside(match.start, part, hidden) for part in hidden for match in hit.matches):
        hidden = ()
    if is_available and _count_visible(around, low, high, hidden) <= detail.line:
        spans = [Extent(low, high)]
    else:
        spans = _merge_extents([_extend_match(m, low, high, detail) for m in hit.matches])
    parts = [_cut_span(around, s.start, s.end, high) for s in spans]
    return GrepRow(hit.line, True, parts, hit.line_start, line_end, hit.more, low, around.is_terminal, hidden)


def _is_inside(at: int, part: Hidden, hidden: tuple[Hidden, ...]) -> bool:
    """Returns whether `part` must stay visible for a match that begins at `at`.

    That is so if the match begins inside encoded bytes, or in the first or the last hidden range.
    """
    is_blob = part[2].startswith(b"[")
    return part[0] + is_blob <= at < part[1] and (is_blob or part in {hidden[0], hidden[-1]})


def _hidden_ranges(around: Around, start: int, line: bytes, *, ends: bool) -> tuple[Hidden, ...]:
    """Returns the hidden ranges of a `line` that begins at `start`, each with what is shown in its place."""
    begins = start != around.at or start == around.hit.line_start
    ranges = hidden_parts(around.fields, line, begins=begins, ends=ends) if around.is_terminal else []
    return tuple((start + low, start + high, replacement) for low, high, replacement in ranges)


def _find_frame(around: Around, stop: int) -> tuple[int, int]:
    """Returns where the frame with a hit's matches begins and ends: the ends of the line if nothing is overwritten."""
    hit, data, base = around.hit, around.data, around.at
    low, high = hit.line_start, stop
    if around.is_terminal:
        first = data.rfind(b"\r", 0, hit.matches[0].start - base + 1)
        low = base + first + 1 if first >= 0 else low
        following = _FRAME_END.search(data, hit.matches[-1].end - base, stop - base)
        high = base + following.start() if following else stop
    return low, high


def _count_visible(around: Around, start: int, end: int, hidden: tuple[Hidden, ...]) -> int:
    data = show_parts(around.data[start - around.at : end - around.at], hidden, start)
    return len(without_escapes(data)) if around.is_terminal else len(data)


def _in_last_frame(around: Around) -> Around:
    """Returns the hit without the matches that the terminal overwrote before the frame with the last match."""
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


def _cut_span(around: Around, start: int, end: int, stop: int) -> tuple[int, bytes]:
    """Returns the bytes of a span, extended to whole characters."""
    low, high = max(0, start - around.at), min(end, stop) - around.at
    while not separates(around.data, low):
        low -= 1
    while high < stop - around.at and not separates(around.data, high):
        high += 1
    return around.at + low, around.data[low:high]


def _context_before(around: Around, hit: LineHit, detail: GrepDetail) -> list[GrepRow]:
    context = detail.context
    if not context or not around.before:
        return []
    pieces = around.before.split(b"\n")[:-1]
    out: list[GrepRow] = []
    end = hit.line_start - 1
    for number, piece in enumerate(reversed(pieces[-context:]), 1):
        start = end - len(piece)
        is_complete = around.begins or number < len(pieces)
        if is_complete:
            out.append(_context_row(around, hit.line - number, start, piece, end, detail))
        else:
            part = _clip_end(end, piece[-detail.beside :])
            out.append(GrepRow(hit.line - number, False, [part], -1, end, over=start, hides_escapes=around.is_terminal))
        end = start - 1
    return out[::-1]


def _context_after(around: Around, line_end: int, detail: GrepDetail) -> list[GrepRow]:
    data = around.data[line_end + 1 - around.at :]
    pieces = data.split(b"\n")
    if around.ends and not pieces[-1]:
        pieces.pop()
    out: list[GrepRow] = []
    start = line_end + 1
    for number, piece in enumerate(pieces[: detail.context], 1):
        is_complete = around.ends or number < len(pieces)
        if not is_complete and not piece:
            break
        end = start + len(piece) if is_complete else -1
        out.append(_context_row(around, around.hit.line + number, start, piece, end, detail))
        start += len(piece) + 1
    return out


def _context_row(around: Around, line: int, start: int, data: bytes, end: int, detail: GrepDetail) -> GrepRow:
    """Returns the row of a context line, shown from its beginning; `end` is -1 if its end is not available."""
    over = frame_start(data) if around.is_terminal and end >= 0 else 0
    hidden = _hidden_ranges(around, start, data, ends=end >= 0)
    data, width = data[over:], detail.beside
    if around.is_terminal:
        width = measure_shown_bytes(
            data, width, [(low - start - over, high - start - over, b"") for low, high, _ in hidden]
        )
    part = start + over, _clip_start(data, width)
    return GrepRow(line, False, [part], start, end, over=start + over, hides_escapes=around.is_terminal, hidden=hidden)


def _clip_start(data: bytes, width: int) -> bytes:
    """Returns at most `width` bytes from the beginning of a line, and never half a character."""
    return data if len(data) <= width else data[: whole_chars(data, width)]


def _clip_end(end: int, data: bytes) -> tuple[int, bytes]:
    """Returns the end of a line, as its position and bytes, without half a character at its beginning."""
    skip = next((n for n in range(min(4, len(data))) if data[n] & 0xC0 != 0x80), 0)  # noqa: PLR2004 - UTF-8
    return end - len(data) + skip, data[skip:]


class ShownHits(Struct, frozen=True):
    """The hits that fit the budget."""

    hits: list[LineHit]
    """The hits, each with the matches that are shown."""
    text: str
    tokens: int
    rows: list[GrepRow]
    limit: Cut | None


def compose(hits: list[Around], budget: ClipBudget, context: int, tokenizer: Tokenizer) -> ShownHits:
    """Returns as many hits as fit the budget: in whole lines while several fit, otherwise in shortened lines.

    If not even a shortened hit fits, the result has no hits.
    """
    hits = [_in_last_frame(around) for around in hits]
    best = ShownHits([], "", 0, [], None)
    # Rows get shorter until several hits fit: eight shortened lines say more than one whole line.
    for line, beside, around in _GENEROUS:
        detail = GrepDetail(line, beside, around, MATCH_BYTES, context, MAX_MATCHES)
        best = _fit(hits, budget, detail, tokenizer)
        if len(best.hits) >= min(len(hits), _SEVERAL_HITS):
            return best
    # Not even one hit fits: its context is dropped first, then the text around the match, then a part of the match.
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
    # Estimates decide how many hits are tried. Hits that are close together share lines, and each line is counted once.
    for sized in _measure_rows(hits, detail, tokenizer):
        for new in sized:
            old = table.get(new.row.line)
            if old is not None:
                row = _merge_rows(old.row, new.row)
                if row is old.row:
                    continue
                tokens -= old.tokens
                chars -= old.chars
                if row is not new.row:
                    text = row.text()
                    new = _Sized(row, tokenizer.count(text) + 1, len(text) + 1)  # noqa: PLW2901 - the merged row
            table[new.row.line] = new
            tokens += new.tokens
            chars += new.chars
        if tokens > budget.tokens or chars > budget.chars:
            limit = "max_tokens" if tokens > budget.tokens else "max_characters"
            break
        prefixes.append({line: entry.row for line, entry in table.items()})
    # The joined text is counted exactly, and the last hits are dropped until it fits.
    while True:
        text, shown_rows = _text(prefixes[-1], detail.context)
        exact = tokenizer.count(text)
        if (exact <= budget.tokens and len(text) <= budget.chars) or len(prefixes) == 1:
            return ShownHits([a.hit for a in hits[: len(prefixes) - 1]], text, exact, shown_rows, limit)
        limit = "max_tokens" if exact > budget.tokens else "max_characters"
        prefixes.pop()


class _Sized(Struct, frozen=True):
    """A row, and its size in tokens and characters, including its line end."""

    row: GrepRow
    tokens: int
    chars: int


def _measure_rows(hits: list[Around], detail: GrepDetail, tokenizer: Tokenizer) -> Iterator[list[_Sized]]:
    """Yields the rows of each hit with their sizes; the tokens of several hits are counted in one call."""
    source = iter(hits)
    while batch := [rows(around, detail) for around in islice(source, _COUNTED_HITS)]:
        texts = [f"{row.text()}\n" for of_hit in batch for row in of_hit]
        sizes = iter(zip(counts(texts, tokenizer), map(len, texts), strict=True))
        for of_hit in batch:
            yield [_Sized(row, *next(sizes)) for row in of_hit]


def _merge_rows(old: GrepRow, new: GrepRow) -> GrepRow:
    """Merges two rows of one line: a matching row replaces a context row, the parts of two matching rows join."""
    # A matching row is shown around its match, a context row from its beginning.
    if new.match and not old.match:
        return new
    if old.match and not new.match:
        return old
    if not new.match:
        return old if old.start >= 0 and old.end >= 0 else new
    parts = list(old.parts)
    # Both rows have matches in one long line: their parts are joined, and overlapping bytes appear once.
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
