"""Search an artifact with a regular expression, and show the matching lines within a budget.

The search is linear in the payload, in bounded memory and with a deadline, whatever the pattern. What was scanned
before the deadline is remembered for a while, so that the same call gets further. Nothing changes except that the read
is noted.
"""

import re
from functools import cached_property
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from coatcheck.core.artifact import Caller, LineFields
from coatcheck.core.caches import BoundedCache
from coatcheck.core.errors import invalid_request
from coatcheck.core.grep.matcher import (
    PIECE_BYTES,
    LineHit,
    Pattern,
    PatternScan,
    ScanPosition,
    compile_pattern,
    wants_line_feed,
)
from coatcheck.core.grep.text_lines import CONTEXT_BYTES, LINE_BYTES, MATCH_BYTES, Around, ShownHits, compose
from coatcheck.core.outline.section_names import SectionPart
from coatcheck.core.parts.blobs import hidden_parts
from coatcheck.core.read_answer import DEFAULT_TOKENS, MAX_ARGUMENT_CHARS, Section, View, check_budget, text_budget
from coatcheck.core.text.count import plural
from coatcheck.core.text.scan import PATTERN_BYTES
from coatcheck.core.text.visible_text import Hidden, find_parts, find_written_positions, plain_lines
from coatcheck.core.views.clip import ClipBudget
from coatcheck.core.views.view import ViewName
from coatcheck.core.views.window import Extent, span
from coatcheck.reading.positions import at_byte, past_end_of, place_of
from coatcheck.reading.view import Reader, ViewReading
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.content import BLOCK_BYTES
from coatcheck_client.contract.blobs import SHORTEST, rest_of

DEFAULT_LIMIT = 20
"""Matches shown if the caller names no number, as the declared tool says."""
MAX_LIMIT = 200
"""Maximum matches of one answer, as the declared tool says."""
MAX_CONTEXT = 20
"""Maximum lines before and after a match, as the declared tool says."""
MIN_TOKENS = 128
"""Tokens that the shortest form of one hit needs."""
COUNT_ON_SECONDS = 0.5
"""Seconds for which counting goes on after a page is full, for `total`."""
_PATTERN_CACHE_BYTES = 512 * 1024
"""Size of the cache of compiled patterns: up to 15 of them, which take 120 MB at worst."""
_POSITION_CACHE_BYTES = 1024 * 1024
"""Size of the cache of places that earlier scans reached: about 1,000 of them."""
_PATTERN_CHARS = 200
"""Maximum characters of a pattern that a sentence repeats."""

_SURROUNDING_BYTES = 1024 * 1024
"""Bytes before and behind what is shown around a hit in which encoded bytes may begin and end."""
_FOLDS = re.compile(r"\(\?[a-zA-Z]*i[a-zA-Z]*(?:-[a-zA-Z]+)?[:)]")
"""Matches a group that already ignores case."""
_ESCAPE = re.compile(r"\\[pP]\{[^}]*\}|\\x\{[^}]*\}|\\.|\[\[:\^?[a-z]+:\]\]|\(\?P?<\w+>|\(\?[a-zA-Z-]+")
"""Matches letters of a pattern that stand for no letter."""


class SearchQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a caller of the HTTP interface says about a search."""

    pattern: Annotated[
        str, Meta(min_length=1, max_length=1000, description="Regular expression (RE2).", examples=["error|fatal"])
    ]
    literal: Annotated[bool, Meta(description="Whether the pattern is literal text, not an expression.")] = False
    ignore_case: Annotated[bool, Meta(description="Whether to ignore upper and lower case.")] = False
    context: Annotated[int, Meta(ge=0, le=MAX_CONTEXT, description="Lines to show around a match.")] = 2
    offset: Annotated[int, Meta(ge=0, description="Matches to skip; `next.offset` of the previous answer.")] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Maximum number of matches to show.")] = DEFAULT_LIMIT
    section: Section | None = None
    """Nothing outside it is searched or shown; lines and bytes count in the view."""
    view: View | None = None
    """None: text with a section, raw without."""
    max_tokens: Annotated[int, text_budget(MIN_TOKENS)] = DEFAULT_TOKENS


class PatternSearchRequest(SearchQuery, frozen=True, kw_only=True):
    """A caller's request for a search."""

    from_line: int = 1
    """The line where the search begins, counted from 1 in the view; hits are counted from there. A line before the
    section means its first."""
    from_byte: int = 0
    """Bytes of that line to skip; if it has no more than that, the search begins on the next line."""
    plain: bool = False
    """Whether lines are searched as a reader takes them (core/text/plain_lines) rather than as they are written."""


class Match(Struct, frozen=True):
    """One match: its line, from 1, and its bytes."""

    line: int
    bytes: Extent


class SearchWindow(Struct, frozen=True):
    """A part of a line that is shown verbatim; of the text view, without escape sequences and fields."""

    line: int
    bytes: Extent
    match: bool
    """False: context."""


class SearchNext(Struct, frozen=True):
    """How to see what follows: the same call with this offset."""

    offset: int
    """Hits to skip from the same beginning."""
    line: int
    """The line where the next hit may begin: another way to go on, without counting hits."""
    byte: int
    """Bytes of that line that have already been searched."""


class SearchAnswer(Struct, frozen=True, kw_only=True):
    """Matching lines, as grep shows them."""

    id: str
    view: ViewName
    section: SectionPart | None
    """The section that was searched; None: the whole view."""
    text: str
    message: str | None
    """A sentence if there is nothing to show."""
    matches: list[Match]
    """The matches of the shown hits; at most 16 for one hit."""
    windows: list[SearchWindow]
    """The exact parts of the view that are shown, in order."""
    shown: int
    """Number of hits in `text`."""
    total: int | None
    """Hits in the view or section (a line of over 2,000 bytes may have several); None when not all was scanned."""
    at_least: int
    """Number of hits that were found."""
    tokens: int
    """Of `text`."""
    complete: bool
    """Whether every hit from `offset` on is shown."""
    stopped: Literal["end", "limit", "max_tokens", "max_characters", "deadline"]
    """Why the text ends where it ends."""
    next: SearchNext | None
    """None: every hit is shown."""


class Search(Reader):
    """Searches an artifact for lines that match a pattern."""

    @cached_property
    def _patterns(self) -> BoundedCache[tuple[str, bool, bool], Pattern]:
        return BoundedCache("patterns", _PATTERN_CACHE_BYTES)

    @cached_property
    def _scan_positions(self) -> BoundedCache["_Question", list[ScanPosition]]:
        return BoundedCache("scan_positions", _POSITION_CACHE_BYTES)

    async def __call__(self, caller: Caller, number: int, ask: PatternSearchRequest) -> SearchAnswer:
        """Returns the hits from `ask.offset` on.

        Raises:
            CoatcheckError: `artifact_not_found`, `artifact_gone`, `section_not_found`, `view_not_available`,
                `invalid_pattern`, `invalid_request`, `offset_past_end`, `integrity`; what storage says when a text
                view that was made now cannot be kept.
        """
        _check(ask)
        reading = await self._view(caller, number, view=ask.view, section=ask.section)
        answer = await self.of(reading, ask)
        details = {"pattern": ask.pattern, "literal": ask.literal, "ignore_case": ask.ignore_case}
        self._view.report_read(caller, reading, answer.tokens, "search", {**details, "offset": ask.offset or None})
        return answer

    async def of(self, reading: ViewReading, ask: PatternSearchRequest) -> SearchAnswer:
        """Searches an open view; the view and section that `ask` names are ignored.

        Raises:
            CoatcheckError: as when calling.
        """
        _check(ask)
        pattern = await self._compile_pattern(ask)
        scan = await self._scan(reading, pattern, ask, await _begin(reading, ask))
        # The lines are fetched after the scan, which keeps positions only: memory stays bounded however long the
        # matches are.
        around = await _fetch(reading, scan.hits, ask.context)
        budget = ClipBudget(ask.max_tokens, MAX_ARGUMENT_CHARS)
        rendered_hits = await in_pool(self._pool, compose, around, budget, ask.context, self._tokenizer)
        return await self.prepare_answer(reading, _answer(reading, ask, scan, rendered_hits), ask.max_tokens)

    async def _compile_pattern(self, ask: PatternSearchRequest) -> Pattern:
        key = (ask.pattern, ask.literal, ask.ignore_case)
        pattern = self._patterns.get(key)
        if pattern is None:
            pattern = await in_pool(
                self._pool, compile_pattern, ask.pattern, literal=ask.literal, ignore_case=ask.ignore_case
            )
            # A compiled pattern takes memory outside Python's own count: `beside` adds it to the cache's sum.
            self._patterns.put(key, pattern, beside=PATTERN_BYTES)
        return pattern

    async def _scan(
        self, reading: ViewReading, pattern: Pattern, ask: PatternSearchRequest, begin: ScanPosition
    ) -> PatternScan:
        content, stop = reading.content, reading.extent.end
        # All that decides where hits are. The limit and the budget only decide how many are shown, so other pages share
        # the positions.
        question = (content.blob.id, begin.byte, stop, ask.pattern, ask.literal, ask.ignore_case, ask.plain)
        positions = self._scan_positions.get(question) or [begin]
        # The furthest position before which no hit of this page lies.
        mark = max((m for m in positions if m.hits <= ask.offset), key=lambda m: m.byte, default=begin)
        scan = PatternScan(
            pattern,
            stop,
            mark,
            skip=ask.offset,
            keep=ask.limit,
            clock=self._clock,
            deadline=self._clock() + self._patience,
            count_on=COUNT_ON_SECONDS,
        )
        while not scan.is_done and scan.needs < stop:
            start = scan.needs  # a byte before the section at first, which word boundaries look back at
            end = min(stop, (start // BLOCK_BYTES + 1) * BLOCK_BYTES)
            block = await (self._plain_block(reading, start, end) if ask.plain else content.read(start, end))
            await in_pool(self._pool, scan.feed, block)
        self._remember(question, positions, scan)
        # Hits were found in decoded lines: their positions are translated to the bytes as they are written.
        if ask.plain:
            scan.hits = [await self._resolve_hit(reading, hit) for hit in scan.hits]
        return scan

    async def _plain_block(self, reading: ViewReading, start: int, end: int) -> bytes:
        """Returns plain lines from `start` on, of about a block; a line of more than PIECE_BYTES as it is written."""
        content, stop = reading.content, reading.extent.end
        while True:
            block = await content.read(start, end)
            # A line may not be cut: an escape in two halves would be decoded wrongly.
            size = len(block) if end == stop else block.rfind(b"\n") + 1
            if size:
                return await in_pool(self._pool, _read_lines, reading.fields, block[:size], begins=start == 0)
            if end - start > PIECE_BYTES:
                return block
            end = min(stop, end + BLOCK_BYTES)

    async def _resolve_hit(self, reading: ViewReading, hit: LineHit) -> LineHit:
        """Returns a hit in plain lines as it is written."""
        first, last = hit.line_start, hit.matches[-1].end
        if last - first > PIECE_BYTES:
            return hit
        line = await reading.content.read(first, min(reading.extent.end, last + PIECE_BYTES))
        hidden_spans = await in_pool(self._pool, _parts_of, reading.fields, line.partition(b"\n")[0])
        parts = [(first + start, first + end, replacement) for start, end, replacement in hidden_spans]
        matches = [Extent(*find_written_positions(parts, (match.start, match.end))) for match in hit.matches]
        return replace(hit, matches=matches)

    def _remember(self, question: "_Question", positions: list[ScanPosition], scan: PatternScan) -> None:
        new = [m for m in (scan.page_end, scan.mark() if scan.expired else None) if m is not None]
        if new:
            # The latest positions are worth most, since callers page forwards.
            self._scan_positions.put(question, [*positions[-6:], *new])


_Question = tuple[str, int, int, str, bool, bool, bool]


def _parts_of(fields: LineFields | None, data: bytes, *, begins: bool = True) -> list[Hidden]:
    return find_parts(data, hidden_parts(fields, data, begins=begins))


def _read_lines(fields: LineFields | None, data: bytes, *, begins: bool) -> bytes:
    return plain_lines(data, _parts_of(fields, data, begins=begins))


async def _begin(reading: ViewReading, ask: PatternSearchRequest) -> ScanPosition:
    """Returns where the search begins: at a line or inside it."""
    content, extent = reading.content, reading.extent
    # At the beginning of what is read, or before it, which means the same; `from_byte` counts only within what is read.
    if ask.from_line <= reading.lines.first and (ask.from_line < reading.lines.first or not ask.from_byte):
        first = await at_byte(content, extent.start)
        return ScanPosition(0, first.byte, first.newlines, first.byte)
    requested_span = span("line", ask.from_line, None)
    line = await place_of(content, requested_span)
    if line is None or line.byte >= max(extent.end, 1):
        raise await past_end_of(reading, requested_span)
    if ask.from_byte == 0:
        return ScanPosition(0, line.byte, line.newlines, line.byte)
    inside = await at_byte(content, min(line.byte + ask.from_byte, content.size))
    if inside.newlines == line.newlines:
        return ScanPosition(0, inside.byte, line.newlines, line.byte)
    # `from_byte` exceeds the line, as after its last match: the search goes on with the next line.
    following = await place_of(content, span("line", ask.from_line + 1, None))
    end = following.byte if following else content.size
    return ScanPosition(0, end, line.newlines + 1, end)


def _check(ask: PatternSearchRequest) -> None:
    check_budget(ask.max_tokens, MIN_TOKENS)
    bounds = (("limit", ask.limit, 1, MAX_LIMIT), ("context", ask.context, 0, MAX_CONTEXT))
    for name, value, least, most in bounds:
        if not least <= value <= most:
            raise invalid_request(f"{name} must be {least} to {most}.", parameter=name)
    if not 0 <= ask.offset < 2**53:
        raise invalid_request(
            "offset is the number of matching lines to skip: 0 or the `next` of the last answer.", parameter="offset"
        )


async def _fetch(reading: ViewReading, hits: list[LineHit], context: int) -> list[Around]:
    """Fetches the bytes around each hit, for as many hits as the longest answer could show."""
    reach, is_text_view = CONTEXT_BYTES * (context + 1), reading.view == "text"
    out: list[Around] = []
    least, wide = 0, 8 * _SURROUNDING_BYTES
    for hit in hits:
        first, last = hit.matches[0].start, hit.matches[-1]
        # A line may have megabytes: only what a clipped row can show of it is read.
        at = max(hit.line_start, first - LINE_BYTES)
        end = min(reading.extent.end, min(last.end, last.start + MATCH_BYTES) + LINE_BYTES + reach)
        if is_text_view and wide > 0:  # what is encoded is named by its beginning, and with its size
            low, high = max(hit.line_start, at - _SURROUNDING_BYTES), min(reading.extent.end, end + _SURROUNDING_BYTES)
            at = low if at > low and rest_of(await reading.read(at, at + SHORTEST)) == SHORTEST else at
            end = high if end < high and rest_of(await reading.read(end, end + SHORTEST)) == SHORTEST else end
            wide -= end - at
        data = await reading.read(at, end)
        before = await reading.read(hit.line_start - reach, hit.line_start) if context else b""
        ends, begins = end == reading.extent.end, hit.line_start - len(before) == reading.extent.start
        out.append(Around(hit, before, at, data, ends, begins, is_text_view, reading.fields))
        least += min(len(data), last.start - first + 1)
        # Four times the characters of an answer, as a character has up to four bytes: later hits cannot be shown.
        if least > MAX_ARGUMENT_CHARS * 4:
            break
    return out


def _answer(
    reading: ViewReading, ask: PatternSearchRequest, scan: PatternScan, rendered_hits: ShownHits
) -> SearchAnswer:
    # The first of these reasons that applies ended the text: what is shown, the page, the time.
    over = not scan.expired
    stopped: Literal["end", "limit", "max_tokens", "max_characters", "deadline"] = "end"
    if len(rendered_hits.hits) < len(scan.hits):
        stopped = rendered_hits.limit or "max_tokens"
    elif scan.page_end is not None and scan.count > ask.offset + ask.limit:
        stopped = "limit"
    elif not over:
        stopped = "deadline" if scan.page_end is None else "limit"
    hits = rendered_hits.hits
    return SearchAnswer(
        id=reading.artifact.id,
        view=reading.view,
        section=reading.part,
        text=rendered_hits.text,
        message=None if hits else _nothing(reading, ask, scan),
        matches=[Match(h.line, m) for h in hits for m in h.matches],
        windows=[
            SearchWindow(r.line, Extent(at, at + len(data)), r.match)
            for r in rendered_hits.rows
            for at, data in r.parts
        ],
        shown=len(hits),
        total=scan.count if over else None,
        at_least=scan.count,
        tokens=rendered_hits.tokens,
        complete=stopped == "end",
        stopped=stopped,
        next=None if stopped == "end" else _next(ask, scan, len(hits)),
    )


def _next(ask: PatternSearchRequest, scan: PatternScan, shown_count: int) -> SearchNext:
    """Returns where the first hit that is not shown begins, or where the scan stopped."""
    if shown_count < len(scan.hits):
        hit = scan.hits[shown_count]
        # A second hit in the same line: the search must not begin at the line's start, or it would repeat the first.
        again = shown_count > 0 and scan.hits[shown_count - 1].line == hit.line
        return SearchNext(ask.offset + shown_count, hit.line, hit.matches[0].start - hit.line_start if again else 0)
    at = scan.page_end or scan.mark()
    return SearchNext(ask.offset + shown_count, at.newlines + 1, at.byte - at.line_start)


def _nothing(reading: ViewReading, ask: PatternSearchRequest, scan: PatternScan) -> str:
    lines = plural(reading.lines.last - reading.lines.first + 1, "line")
    if reading.section is not None:
        lines += f" of section {reading.section.name}"
    pattern = "".join(c if c.isprintable() else "\ufffd" for c in ask.pattern)
    short_pattern = pattern if len(pattern) <= _PATTERN_CHARS else pattern[:_PATTERN_CHARS] + "…"
    if scan.expired:
        return (
            f'No match for "{short_pattern}" yet: the search ran out of time. Retry the same call; it goes on '
            f"from there."
        )
    if scan.count:
        match = f"{scan.count:,} {'line matches' if scan.count == 1 else 'lines match'}"
        return f'Only {match} "{short_pattern}": offset {ask.offset:,} is past the last. Leave out offset.'
    if reading.extent.start == reading.extent.end:
        return f'No match for "{short_pattern}": {reading.name} is empty.'
    return f'No match for "{short_pattern}" in {lines}{_hint(ask, scan)}.'


def _hint(ask: PatternSearchRequest, scan: PatternScan) -> str:
    """Returns what to try next and, if a very long line was scanned in pieces, how long a match in it may be."""
    # Without a letter in the pattern, ignoring case would change nothing, and is no advice.
    sized = any(c.isalpha() for c in (ask.pattern if ask.literal else _ESCAPE.sub("", ask.pattern)))
    ignores_case = ask.ignore_case or (not ask.literal and _FOLDS.search(ask.pattern) is not None)
    hint = "; try ignore_case" if sized and not ignores_case else ""
    if not ask.literal and wants_line_feed(ask.pattern):
        hint = ": a match stays within one line; search for the text of one line"
    if scan.in_pieces:
        hint += f" (in a line over {_binary(scan.piece)}, no match longer than {_binary(scan.overlap)} is found)"
    return hint


def _binary(size: int) -> str:
    return f"{size >> 20} MiB" if size >= PIECE_BYTES else f"{size >> 10} KiB"
