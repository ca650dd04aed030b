"""Search an artifact with a regular expression, and show the matching lines within a token budget.

The time of a search is linear in the size of the payload, whatever the pattern. A search has bounded memory and a
deadline. The position that a scan had reached at the deadline is cached, so that a repeated call continues from there.
Nothing is stored except the record of the read.
"""

import re
from functools import cached_property
from itertools import groupby
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
from coatcheck.core.read_answer import DEFAULT_TOKENS, MAX_TEXT_CHARS, Section, View, check_budget, text_budget
from coatcheck.core.text.count import plural
from coatcheck.core.text.scan import PATTERN_BYTES
from coatcheck.core.text.visible_text import (
    Hidden,
    find_parts,
    find_shown_position,
    find_written_positions,
    plain_lines,
)
from coatcheck.core.views.clip import ClipBudget
from coatcheck.core.views.view import ViewName
from coatcheck.core.views.window import Extent, span
from coatcheck.reading.positions import at_byte, past_end_of, place_of
from coatcheck.reading.view import Reader, ViewReading
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.content import BLOCK_BYTES, Content
from coatcheck_client.contract.blobs import SHORTEST, rest_of

DEFAULT_LIMIT = 20
"""Maximum matches of an answer if the caller gives no limit; the declaration of the tool states the same number."""
MAX_LIMIT = 200
"""Highest limit of matches that a caller may give; the declaration of the tool states the same number."""
MAX_CONTEXT = 20
"""Maximum lines before and after a match; the declaration of the tool states the same number."""
MIN_TOKENS = 128
"""Minimum token budget of a call: the shortest form of one hit needs this many tokens."""
COUNT_ON_SECONDS = 0.5
"""Maximum seconds for which a scan keeps counting hits after a page is full, so that the answer has a `total`."""
_PATTERN_CACHE_BYTES = 512 * 1024
"""Size of the cache of compiled patterns: it holds up to 15 patterns, which take 120 MB at worst."""
_POSITION_CACHE_BYTES = 1024 * 1024
"""Size of the cache of positions that earlier scans reached: it holds about 1,000 positions."""
_PATTERN_CHARS = 200
"""Maximum characters of a pattern that a sentence repeats."""

_SURROUNDING_BYTES = 1024 * 1024
"""Bytes that are read additionally before and after the shown part of a line. Encoded bytes may reach into this part,
and an answer must know where they begin and end."""
UNDECODED = f"Lines over {PIECE_BYTES >> 20} MiB were searched as written, not decoded."
"""The end of the message of a search of decoded lines that finds nothing in lines that are too long to be decoded."""
_FOLDS = re.compile(r"\(\?[a-zA-Z]*i[a-zA-Z]*(?:-[a-zA-Z]+)?[:)]")
"""Matches a group of a pattern that sets the flag to ignore case."""
_ESCAPE = re.compile(r"\\[pP]\{[^}]*\}|\\x\{[^}]*\}|\\.|\[\[:\^?[a-z]+:\]\]|\(\?P?<\w+>|\(\?[a-zA-Z-]+")
"""Matches the parts of a pattern whose letters do not stand for letters, such as escapes and flags."""


class SearchQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of a search that a caller of the HTTP interface may give."""

    pattern: Annotated[
        str, Meta(min_length=1, max_length=1000, description="Regular expression (RE2).", examples=["error|fatal"])
    ]
    literal: Annotated[bool, Meta(description="Whether the pattern is literal text, not an expression.")] = False
    ignore_case: Annotated[bool, Meta(description="Whether to ignore upper and lower case.")] = False
    context: Annotated[int, Meta(ge=0, le=MAX_CONTEXT, description="Lines to show around a match.")] = 2
    offset: Annotated[int, Meta(ge=0, description="Matches to skip; `next.offset` of the previous answer.")] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Maximum number of matches to show.")] = DEFAULT_LIMIT
    section: Section | None = None
    """The only section that is searched and shown; lines and bytes are counted in the view. None: the whole view."""
    view: View | None = None
    """The view; None: the text view if a section is given, otherwise the raw view."""
    max_tokens: Annotated[int, text_budget(MIN_TOKENS)] = DEFAULT_TOKENS


class PatternSearchRequest(SearchQuery, frozen=True, kw_only=True):
    """A caller's request for a search."""

    from_line: int = 1
    """The line where the search begins, counted from 1 in the view. Hits are counted from that line on. If the line is
    before the section, the search begins with the first line of the section."""
    from_byte: int = 0
    """Bytes of line `from_line` to skip. If the line has no byte after them, the search begins on the next line."""
    plain: bool = False
    """Whether to search lines with their escapes decoded, as `plain_lines` does, instead of the lines as written. Lines
    over PIECE_BYTES are searched as written."""


class Match(Struct, frozen=True):
    """One match: its line, from 1, and its bytes."""

    line: int
    bytes: Extent


class SearchWindow(Struct, frozen=True):
    """A part of a line that is shown verbatim; of the text view, without escape sequences and fields."""

    line: int
    bytes: Extent
    match: bool
    """Whether the line matches; False: it is a line of context."""


class SearchNext(Struct, frozen=True):
    """How to see what follows: the same call with this offset."""

    offset: int
    """Number of hits to skip, if the search begins where this search began."""
    line: int
    """The line where the next hit may begin: with `line` and `byte` a search continues without counting hits."""
    byte: int
    """Bytes of `line` that have already been searched."""


class SearchAnswer(Struct, frozen=True, kw_only=True):
    """Matching lines, as grep shows them."""

    id: str
    view: ViewName
    section: SectionPart | None
    """The section that was searched; None: the whole view."""
    text: str
    message: str | None
    """A sentence that says why there is nothing to show; None: there are hits."""
    matches: list[Match]
    """The matches of the shown hits; at most 16 matches of one hit."""
    windows: list[SearchWindow]
    """The exact parts of the view that are shown, in order."""
    shown: int
    """Number of hits in `text`."""
    total: int | None
    """Number of hits in the view or section; a line of over 2,000 bytes may have several. None: the view or section was
    not scanned to the end."""
    at_least: int
    """Number of hits that were found so far."""
    tokens: int
    """Tokens of `text`."""
    complete: bool
    """Whether every hit from `offset` on is shown."""
    stopped: Literal["end", "limit", "max_tokens", "max_characters", "deadline"]
    """Why the text shows no further hit."""
    next: SearchNext | None
    """How to continue; None: every hit from `offset` on is shown."""


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
                `invalid_pattern`, `invalid_request`, `offset_past_end`, `integrity`; the errors of storage if a text
                view that was made for this call cannot be stored.
        """
        _check(ask)
        reading = await self._view(caller, number, view=ask.view, section=ask.section)
        answer = await self.of(reading, ask)
        details = {"pattern": ask.pattern, "literal": ask.literal, "ignore_case": ask.ignore_case}
        self._view.report_read(caller, reading, answer.tokens, "search", {**details, "offset": ask.offset or None})
        return answer

    async def of(self, reading: ViewReading, ask: PatternSearchRequest) -> SearchAnswer:
        """Searches a view that is open already; ignores the view and section that `ask` names.

        Raises:
            CoatcheckError: `invalid_pattern`, `invalid_request`, `offset_past_end`, `integrity`.
        """
        _check(ask)
        pattern = await self._compile_pattern(ask)
        begin = await _begin(reading, ask)
        if ask.plain and begin.byte > begin.line_start:
            begin = replace(begin, byte=find_shown_position(await self._parts(reading, begin.line_start), begin.byte))
        scan = await self._scan(reading, pattern, ask, begin)
        # Positions in decoded lines are translated to positions in the bytes as written.
        hits = await self._resolve_hits(reading, scan.hits) if ask.plain else scan.hits
        # The scan keeps only positions, and the lines are read afterwards: so memory stays bounded even if matches
        # are long.
        around = await _fetch(reading, hits, ask.context)
        budget = ClipBudget(ask.max_tokens, MAX_TEXT_CHARS)
        rendered_hits = await in_pool(self._pool, compose, around, budget, ask.context, self._tokenizer)
        at = _find_next(scan, len(rendered_hits.hits))
        if ask.plain and at.line_start < at.byte < reading.extent.end:
            parts = await self._parts(reading, at.line_start)
            at = replace(at, byte=find_written_positions(parts, (at.byte,), inside=True)[0])
        return await self.prepare_answer(reading, _answer(reading, ask, scan, rendered_hits, at), ask.max_tokens)

    async def check_pattern(self, ask: PatternSearchRequest) -> None:
        """Checks the pattern of a request without searching for it.

        Raises:
            CoatcheckError: `invalid_pattern`.
        """
        await self._compile_pattern(ask)

    async def _compile_pattern(self, ask: PatternSearchRequest) -> Pattern:
        key = (ask.pattern, ask.literal, ask.ignore_case)
        pattern = self._patterns.get(key)
        if pattern is None:
            pattern = await in_pool(
                self._pool, compile_pattern, ask.pattern, literal=ask.literal, ignore_case=ask.ignore_case
            )
            # Python does not count the memory of a compiled pattern, so `beside` adds it to the size of the cache.
            self._patterns.put(key, pattern, beside=PATTERN_BYTES)
        return pattern

    async def _scan(
        self, reading: ViewReading, pattern: Pattern, ask: PatternSearchRequest, begin: ScanPosition
    ) -> PatternScan:
        content, stop = reading.content, reading.extent.end
        # The key contains everything that decides where hits are. The limit and the budget decide only how many hits
        # are shown, so pages of different sizes share the positions.
        fields = reading.fields if ask.plain else None
        question = (content.blob.id, begin.byte, stop, ask.pattern, ask.literal, ask.ignore_case, ask.plain, fields)
        positions = self._scan_positions.get(question) or [begin]
        # The scan begins at the furthest cached position that is not behind the first hit of this page.
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
        line = mark.line_start if mark.byte > mark.line_start else scan.needs
        while not scan.is_done and scan.needs < stop:
            start = scan.needs  # at first one byte before the section, which a word boundary needs
            end = min(stop, (start // BLOCK_BYTES + 1) * BLOCK_BYTES)
            if ask.plain:
                block, decoded = await self._plain_block(reading, line, start, end)
                scan.undecoded = scan.undecoded or not decoded
                line = scan.needs + len(block) if block.endswith(b"\n") else line
            else:
                block = await content.read(start, end)
            await in_pool(self._pool, scan.feed, block)
        self._remember(question, positions, scan)
        return scan

    async def _plain_block(self, reading: ViewReading, line: int, start: int, end: int) -> tuple[bytes, bool]:
        """Returns about a block of lines from `start` on, and whether they are decoded.

        `start` is in the line that begins at `line`. If that is over PIECE_BYTES, only it is returned, as written.
        """
        content, stop = reading.content, reading.extent.end
        most = min(stop, line + PIECE_BYTES)
        for limit in dict.fromkeys((min(end, most), most)) if start < most else ():
            block = await content.read(line, limit)
            # Only whole lines are decoded: half of an escape would be decoded wrongly.
            size = len(block) if limit == stop else block.rfind(b"\n") + 1
            if size > start - line:
                begins = await _begins_line(content, line)
                block = await in_pool(self._pool, _read_lines, reading.fields, block[:size], begins=begins)
                return block[start - line :], True
        block = await content.read(start, end)
        return block[: block.find(b"\n") + 1 or len(block)], False

    async def _parts(self, reading: ViewReading, line: int) -> list[Hidden]:
        """Returns the parts that are replaced in the decoded form of the line that begins at `line`, in order.

        Positions are those of the view. A line over PIECE_BYTES has no such parts.
        """
        end = min(reading.extent.end, line + PIECE_BYTES)
        data, lf, _ = (await reading.content.read(line, end)).partition(b"\n")
        if not lf and end < reading.extent.end:
            return []
        begins = await _begins_line(reading.content, line)
        hidden = await in_pool(self._pool, _parts_of, reading.fields, data, begins=begins)
        return [(line + start, line + end, replacement) for start, end, replacement in hidden]

    async def _resolve_hits(self, reading: ViewReading, hits: list[LineHit]) -> list[LineHit]:
        """Returns hits in decoded lines with the positions of their matches in the bytes as they are written."""
        resolved_hits: list[LineHit] = []
        for line_start, hits_of_line in groupby(hits, lambda hit: hit.line_start):
            parts = await self._parts(reading, line_start)
            for hit in hits_of_line:
                extents = [Extent(*find_written_positions(parts, (match.start, match.end))) for match in hit.matches]
                resolved_hits.append(replace(hit, matches=extents))
        return resolved_hits

    def _remember(self, question: "_Question", positions: list[ScanPosition], scan: PatternScan) -> None:
        """Caches the positions where the page ended and where the deadline stopped the scan, if there are any."""
        new = [m for m in (scan.page_end, scan.mark() if scan.expired else None) if m is not None]
        if new:
            # The latest positions are kept, because callers page forwards.
            self._scan_positions.put(question, [*positions[-6:], *new])


_Question = tuple[str, int, int, str, bool, bool, bool, LineFields | None]
"""Key of the positions of a search: blob ID, begin and end of the search in bytes, pattern, the three flags, and the
fields that decoded lines lack."""


def _parts_of(fields: LineFields | None, data: bytes, *, begins: bool = True) -> list[Hidden]:
    return find_parts(data, hidden_parts(fields, data, begins=begins))


def _read_lines(fields: LineFields | None, data: bytes, *, begins: bool) -> bytes:
    return plain_lines(data, _parts_of(fields, data, begins=begins))


async def _begins_line(content: Content, byte: int) -> bool:
    return byte == 0 or await content.read(byte - 1, byte) == b"\n"


async def _begin(reading: ViewReading, ask: PatternSearchRequest) -> ScanPosition:
    """Returns the position where the search begins: at the beginning of a line, or inside a line."""
    content, extent = reading.content, reading.extent
    # If the line is before the view or section, the search begins where that begins, and `from_byte` does not count.
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
    # The line has at most `from_byte` bytes, for instance if its last match was at its end. The search continues with
    # the next line.
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
    """Reads the bytes around each hit, for as many hits as the longest possible answer could show."""
    reach, is_text_view = CONTEXT_BYTES * (context + 1), reading.view == "text"
    contexts: list[Around] = []
    # Bytes that the answer needs at least, and bytes that may still be read to find the ends of encoded bytes.
    needed_bytes, spare_bytes = 0, 8 * _SURROUNDING_BYTES
    for hit in hits:
        first, last = hit.matches[0].start, hit.matches[-1]
        # A line may have megabytes: only the bytes that a shortened row of the answer can show are read.
        at = max(hit.line_start, first - LINE_BYTES)
        end = min(reading.extent.end, min(last.end, last.start + MATCH_BYTES) + LINE_BYTES + reach)
        # An answer names encoded bytes by their beginning and their size, so both of their ends must be read.
        if is_text_view and spare_bytes > 0:
            low, high = max(hit.line_start, at - _SURROUNDING_BYTES), min(reading.extent.end, end + _SURROUNDING_BYTES)
            at = low if at > low and rest_of(await reading.read(at, at + SHORTEST)) == SHORTEST else at
            end = high if end < high and rest_of(await reading.read(end, end + SHORTEST)) == SHORTEST else end
            spare_bytes -= end - at
        data = await reading.read(at, end)
        before = await reading.read(hit.line_start - reach, hit.line_start) if context else b""
        ends, begins = end == reading.extent.end, hit.line_start - len(before) == reading.extent.start
        contexts.append(Around(hit, before, at, data, ends, begins, is_text_view, reading.fields))
        needed_bytes += min(len(data), last.start - first + 1)
        # A character has up to four bytes: beyond four times the characters of an answer, no hit can be shown.
        if needed_bytes > MAX_TEXT_CHARS * 4:
            break
    return contexts


def _answer(
    reading: ViewReading, ask: PatternSearchRequest, scan: PatternScan, rendered_hits: ShownHits, at: ScanPosition
) -> SearchAnswer:
    """Returns the answer with the hits that fit; a further search begins at `at`."""
    # Three reasons can end the text, and the first that applies counts: the budget, the limit of the page, the
    # deadline.
    is_complete = not scan.expired
    stopped: Literal["end", "limit", "max_tokens", "max_characters", "deadline"] = "end"
    if len(rendered_hits.hits) < len(scan.hits):
        stopped = rendered_hits.limit or "max_tokens"
    elif scan.page_end is not None and scan.count > ask.offset + ask.limit:
        stopped = "limit"
    elif not is_complete:
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
        total=scan.count if is_complete else None,
        at_least=scan.count,
        tokens=rendered_hits.tokens,
        complete=stopped == "end",
        stopped=stopped,
        next=None if stopped == "end" else SearchNext(ask.offset + len(hits), at.newlines + 1, at.byte - at.line_start),
    )


def _find_next(scan: PatternScan, shown_count: int) -> ScanPosition:
    """Returns where a further search begins: at the first hit that is not shown, or where the scan stopped."""
    if shown_count < len(scan.hits):
        hit = scan.hits[shown_count]
        # If the last shown hit is in the same line, the next search must begin after that hit, not at the line's start.
        same_line = shown_count > 0 and scan.hits[shown_count - 1].line == hit.line
        byte = hit.matches[0].start if same_line else hit.line_start
        return ScanPosition(byte=byte, newlines=hit.line - 1, line_start=hit.line_start)
    return scan.page_end or scan.mark()


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
    note = f" {UNDECODED}" if scan.undecoded else ""
    return f'No match for "{short_pattern}" in {lines}{_hint(ask, scan)}.{note}'


def _hint(ask: PatternSearchRequest, scan: PatternScan) -> str:
    """Returns advice on another pattern. If a line was searched in pieces, also says how long a match in it can be."""
    # If the pattern has no letters, ignoring case would change nothing.
    has_letters = any(c.isalpha() for c in (ask.pattern if ask.literal else _ESCAPE.sub("", ask.pattern)))
    ignores_case = ask.ignore_case or (not ask.literal and _FOLDS.search(ask.pattern) is not None)
    hint = "; try ignore_case" if has_letters and not ignores_case else ""
    if not ask.literal and wants_line_feed(ask.pattern):
        hint = ": a match stays within one line; search for the text of one line"
    if scan.in_pieces:
        hint += f" (in a line over {_binary(scan.piece)}, no match longer than {_binary(scan.overlap)} is found)"
    return hint


def _binary(size: int) -> str:
    return f"{size >> 20} MiB" if size >= PIECE_BYTES else f"{size >> 10} KiB"
