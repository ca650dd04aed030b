"""Show the passages of an artifact that best answer a query, within a budget.

One pass goes over the content, in bounded memory and with a deadline; a closer look at the parts that it found follows.
If the deadline came first, the scan is kept for a while, so that the same call continues it. Nothing changes except
that the read is noted.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from msgspec import Struct

from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code, invalid_request
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.outline.section_names import SectionPart
from coatcheck.core.parts.blobs import blank_blobs, blank_unseen
from coatcheck.core.passages import (
    CONCISE,
    FILL,
    DocumentPart,
    Passage,
    PassageScanner,
    PassageText,
    Ranking,
    Terms,
    TermWeights,
    compose,
    coverage,
    earlier_first,
    regions,
    terms_of,
    weigh,
)
from coatcheck.core.passages import (
    MAX_CHARS as QUERY_CHARS,
)
from coatcheck.core.read_answer import DEFAULT_TOKENS, MAX_ARGUMENT_CHARS, SearchedBytes, check_budget, text_instead
from coatcheck.core.text.count import plural
from coatcheck.core.text.excerpt import fit_text
from coatcheck.core.text.visible_text import find_parts, plain_lines
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.clip import ClipBudget
from coatcheck.core.views.view import ViewName
from coatcheck.core.views.window import Extent, Position
from coatcheck.reading.view import Reader, ViewReading
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.content import BLOCK_BYTES
from coatcheck_client.contract.inert import MARK, one_line

MIN_TOKENS = 128
"""Tokens that one window needs."""
_MEMORY_BYTES = 4 * BLOCK_BYTES
"""Content up to this size is kept in memory while it is searched; parts of larger content are read a second time."""
_PAUSED_SCANS = 8
"""Number of kept scans that a deadline interrupted: at most 2 MB each."""
_CONCURRENT_READS = 8
"""Reads of parts that run at the same time, since a store over the network makes each wait."""
_RESPONSE_GRAIN_BYTES = 640
"""Bytes, some 150 tokens, of a search response that are chosen together: all of it was found by such a query, so that a
single sentence with the words says little."""
_ANSWERING_SHARE = 0.25
"""Share of a query's weight that the best place must have, if only what answers it is to be shown: of 669 questions
about texts that answer them 97 % have it, of 669 about other texts of the same kinds a third."""
_NAMED_TERMS = 6
"""Terms that a sentence names: chosen, not measured; the others are counted."""
_TERM_CHARS = 32
"""Characters of a term that a sentence shows; longer ones are cut."""


class PassagesAnswer(Struct, frozen=True, kw_only=True):
    """The passages that best answer a query, best first."""

    id: str
    view: ViewName
    section: SectionPart | None
    """The section that was looked at; None: the whole view. Windows are positions in the view in either case."""
    text: str
    """The text for a model: each passage verbatim under a line that says where it stands, with the name of its
    section or the line above that introduces it."""
    tokens: int
    """Of `text`."""
    windows: list[Passage]
    terms: list[str]
    """Terms that were found, folded: lower case, without accents."""
    missing: list[str]
    """Terms that were not found."""
    searched: SearchedBytes
    partial: bool
    """Whether only part of the artifact was looked at."""
    stopped: Literal["end", "deadline", "frequent"]
    """`frequent`: the only words there are stand everywhere; nothing further on could be told from the beginning."""
    notices: list[str]
    """Sentences for the caller about what was not done."""


class FindPassages(Reader):
    """Finds the passages of an artifact that best answer a query."""

    @cached_property
    def _paused_scanners(self) -> dict["_Question", PassageScanner]:
        return {}

    async def __call__(
        self,
        caller: Caller,
        number: int,
        *,
        query: str,
        max_tokens: int = DEFAULT_TOKENS,
        view: str | None = None,
        section: str | None = None,
    ) -> PassagesAnswer:
        """Returns passages of a view or section for a query: up to `max_tokens` (128 to 8,000) and 30,000 characters.

        Raises:
            CoatcheckError: `artifact_not_found`, `artifact_gone`, `view_not_available`, `section_not_found`,
                `not_text`, `invalid_request`, `integrity`; storage's errors if a newly made text view
                cannot be kept.
        """
        check_budget(max_tokens, MIN_TOKENS)
        reading = await self._view(caller, number, view=view, section=section)
        answer = await self.of(reading, query, max_tokens)
        self._view.report_read(caller, reading, answer.tokens, "passages", {"query": query})
        return answer

    async def of(self, reading: ViewReading, query: str, max_tokens: int, *, concise: bool = False) -> PassagesAnswer:
        """Finds passages in an open view. `concise` leaves out passages far worse than the best.

        Raises:
            CoatcheckError: as when calling.
        """
        check_budget(max_tokens, MIN_TOKENS)
        if reading.binary:
            raise CoatcheckError(
                Code.NOT_TEXT,
                f"{reading.artifact.id} is not text and has no passages. {text_instead(reading.artifact)}"
                "Read its bytes with unit=byte for a hexadecimal dump.",
            )
        terms = terms_of(query)
        if not terms.terms:
            raise invalid_request("The query is blank: say in words what to look for.", parameter="query")
        part = _Kept(reading)
        looking = _Looking(part, terms, ClipBudget(max_tokens, MAX_ARGUMENT_CHARS), self._tokenizer, concise=concise)
        scanner, passage_text = await self._scan(part, query, looking)
        if passage_text is None:
            passage_text = await in_pool(self._pool, looking.make_text, await _parts(part, looking.extents))
        if scanner.end < part.size and not scanner.full:
            self._pause(part.question(query), scanner)
        answer = _answer(reading, terms, looking.weights, scanner, part.size, passage_text, looking.notices)
        return await self.prepare_answer(reading, answer, max_tokens)

    async def _scan(self, part: "_Kept", query: str, looking: "_Looking") -> tuple[PassageScanner, PassageText | None]:
        """Scans the content until its end or the deadline, and reads the next block while it scans one.

        Also returns what is shown, if everything that this needs is at hand.
        """
        # Taken out while it is used: a second call with the same query must not feed the same scanner.
        paused = self._paused_scanners.pop(part.question(query), None)
        deadline = self._clock() + self._patience
        at = 0 if paused is None else paused.fed
        block = await part.block(at)
        scanner = paused
        while True:
            at += len(block)
            ends = at >= part.size
            scan_step = in_pool(self._pool, looking.feed_block, scanner, block, last=ends)
            if ends:
                return await scan_step
            # The store and a processor work at the same time: a large artifact takes as long as the slower of the two.
            block, (scanner, _) = await asyncio.gather(part.block(at), scan_step)
            if not block or scanner.full or self._clock() >= deadline:
                return scanner, await in_pool(self._pool, looking.at_hand, scanner)

    def _pause(self, key: "_Question", scanner: PassageScanner) -> None:
        self._paused_scanners[key] = scanner
        # The oldest goes first, as a dictionary keeps the order in which its keys were added.
        while len(self._paused_scanners) > _PAUSED_SCANS:
            del self._paused_scanners[next(iter(self._paused_scanners))]


_Question = tuple[str, int, int, str]
"""Blob (with a suffix where secrets are masked), start and size of the part, and the query."""


class _Kept:
    """The part that is looked at, counted from its own beginning; the blocks of a small part stay in memory."""

    def __init__(self, reading: ViewReading) -> None:
        self.reading = reading
        self._start = reading.extent.start
        self.size = reading.extent.end - reading.extent.start
        self._keeps = self.size <= _MEMORY_BYTES
        self._blocks: dict[int, bytes] = {}

    def question(self, query: str) -> _Question:
        """Returns a key for this query of exactly these bytes."""
        return self.reading.content.blob.id, self._start, self.size, query

    async def block(self, at: int) -> bytes:
        """Returns the block at a byte of the part, a multiple of the block size; empty at the end."""
        data = await self.reading.read(self._start + at, self._start + at + BLOCK_BYTES)
        if self._keeps:
            self._blocks[at] = data
        return data

    async def part(self, extent: Extent) -> DocumentPart:
        """Returns a range of the part, and where in the view it begins."""
        begin = self._begin(extent)
        return self._after(begin, extent, await self.reading.content.read(begin.byte, self._start + extent.end))

    def at_hand(self, extent: Extent) -> DocumentPart | None:
        """Returns the part if its blocks are cached."""
        begin = self._begin(extent)
        data = self._read_held(begin.byte - self._start, extent.end)
        return None if data is None else self._after(begin, extent, data)

    def _begin(self, extent: Extent) -> Position:
        """Returns where the frame begins in which a range begins."""
        # Lines and characters are counted per frame, so counting starts where a frame does.
        index = self.reading.content.index
        frame = (self._start + extent.start) // index.frame_size
        return Position(frame * index.frame_size, index.newlines_before(frame), index.chars_before(frame))

    def _after(self, begin: Position, extent: Extent, data: bytes) -> DocumentPart:
        skip = self._start + extent.start - begin.byte
        return DocumentPart(begin.after(data[:skip]), data[skip:])

    def _read_held(self, start: int, end: int) -> bytes | None:
        """Returns these bytes of the part if all of them are in memory."""
        if start < 0:
            return None
        first, last = start // BLOCK_BYTES * BLOCK_BYTES, (end - 1) // BLOCK_BYTES * BLOCK_BYTES
        blocks = [self._blocks.get(at) for at in range(first, last + 1, BLOCK_BYTES)]
        if any(block is None for block in blocks):
            return None
        return b"".join(block for block in blocks if block)[start - first : end - first]


def _read_plain(data: bytes) -> bytes:
    """Returns lines of JSON or of cells with escapes as what they stand for, and without encoded bytes."""
    data = blank_blobs(data)
    return plain_lines(data, find_parts(data))


async def _parts(part: _Kept, extents: list[Extent]) -> list[DocumentPart]:
    out: list[DocumentPart] = []
    for at in range(0, len(extents), _CONCURRENT_READS):
        out += await asyncio.gather(*(part.part(place) for place in extents[at : at + _CONCURRENT_READS]))
    return out


class _Looking:
    """A closer look at what a scan found, in worker threads: in one go if everything is in memory."""

    def __init__(self, part: _Kept, terms: Terms, budget: ClipBudget, tokenizer: Tokenizer, *, concise: bool) -> None:
        self._part = part
        self._concise = concise
        self._terms = terms
        self._budget = budget
        self._tokenizer = tokenizer
        self.weights = TermWeights((), ())
        self.extents: list[Extent] = []
        self.notices: list[str] = []
        fields = part.reading.fields
        # Escapes in JSON and in cells would hide words from the scan, so it sees such lines decoded.
        is_escaped = fields is not None and bool(fields.member or fields.delimiter)
        is_escaped = is_escaped or spec_of(part.reading.artifact.facts.kind).paths
        self._seen = _read_plain if is_escaped else None
        self._counts: dict[int, int] = {}
        """How often each term was found, by its number."""
        self._is_answered = True

    def feed_block(
        self, scanner: PassageScanner | None, block: bytes, *, last: bool
    ) -> tuple[PassageScanner, PassageText | None]:
        """A scanner that has seen the block as well, and after the `last` one what is shown, if that is `at_hand`.

        Where there is no scanner a new one, whose patterns take time to compile.
        """
        scanner = scanner or PassageScanner(self._terms.terms, to_visible=self._seen or blank_unseen)
        scanner.feed(block, last=last)
        return scanner, self.at_hand(scanner) if last else None

    def at_hand(self, scanner: PassageScanner) -> PassageText | None:
        """Returns what is shown; None if parts at `extents` must be read first."""
        hits = scanner.hits()
        self.weights = weigh(hits, self._terms.terms)
        self.extents = regions(hits, self.weights, self._part.size)
        self.notices = _notices(self._terms, hits.end, self._part.size, full=scanner.full)
        self._counts = dict(Counter(hits.terms.tolist()))
        self._is_answered = not self._concise or coverage(hits, self.weights, self._terms.terms) >= _ANSWERING_SHARE
        parts = [self._part.at_hand(place) for place in self.extents]
        whole = [part for part in parts if part is not None]
        return self.make_text(whole) if len(whole) == len(parts) else None

    def make_text(self, parts: list[DocumentPart]) -> PassageText:
        """Returns what is shown of the parts."""
        reading, terms, tokenizer = self._part.reading, self._terms, self._tokenizer
        missing = _render_terms(terms, self.weights.missing, grams=False)
        notes = [f"Not found: {missing}."] if missing else []
        spec = spec_of(reading.artifact.facts.kind)
        page = reading.view == "raw" and spec.markup
        ranking = Ranking(terms.terms, self.weights).of_parts(parts, page=page, to_visible=self._seen) if parts else []
        # A list of search results was ranked by its sender: of two passages that rank alike, the earlier comes first.
        lists_results = spec.lists_results(reading.artifact.declared.tool_name)
        if not (self._is_answered or lists_results):
            return self._nothing()
        passage_text = compose(
            earlier_first(ranking, reading.content.size) if lists_results else ranking,
            parts,
            reading.extent,
            self._budget,
            tokenizer,
            " ".join([*notes, *self.notices]),
            floor=CONCISE if self._concise else 0.0 if lists_results else FILL,
            grain=_RESPONSE_GRAIN_BYTES if lists_results else 0,
            sections=reading.sections if reading.section is None else (),
            fields=reading.fields,
        )
        return passage_text if passage_text.passages else self._nothing()

    def _nothing(self) -> PassageText:
        """Returns a sentence that says that nothing was found and what to try instead."""
        reading, terms, tokenizer = self._part.reading, self._terms, self._tokenizer
        if not self._part.size:
            text = fit_text(f"{MARK} No passage: {reading.name} is empty.", self._budget.tokens, tokenizer)
            return PassageText(text, tokenizer.count(text), [])
        lines = plural(reading.lines.last - reading.lines.first + 1, "line")
        if reading.section is not None:
            lines += f" of section {reading.section.name}"
        present_terms = tuple(number for number in range(len(terms.terms)) if number in self._counts)
        # To say that nothing was found would be wrong: some of the words are there, but no passage has enough of them.
        if present_terms and not self._is_answered:
            counts = _render_terms(terms, present_terms, grams=True, counts=self._counts)
            statement = f"No passage in {lines} answers this: of its words there are only {counts}."
        else:
            every = _render_terms(terms, tuple(range(len(terms.terms))), grams=True)
            statement = f"No passage in {lines} has any of: {every}."
        advice = " ".join(self.notices) or 'Try other words, or pattern="…" to search it.'
        text = fit_text(f"{MARK} {statement} {advice}", self._budget.tokens, tokenizer)
        return PassageText(text, tokenizer.count(text), [])


def _render_terms(
    terms: Terms, numbers: tuple[int, ...], *, grams: bool, counts: Mapping[int, int] | None = None
) -> str:
    """Returns terms as a sentence names them: not too many, none that is part of a named one, with their counts."""
    without = {"part"} if grams else {"part", "gram"}
    words = [
        f"{_render_term(terms.terms[number].text)}{'' if counts is None else f' ({counts[number]:,})'}"
        for number in numbers
        if terms.terms[number].role not in without
    ]
    more = f" and {len(words) - _NAMED_TERMS} more" if len(words) > _NAMED_TERMS else ""
    return ", ".join(words[:_NAMED_TERMS]) + more


def _render_term(term: str) -> str:
    text = one_line(term[: _TERM_CHARS + 1])
    return text if len(text) <= _TERM_CHARS else text[:_TERM_CHARS] + "…"


def _notices(terms: Terms, end: int, size: int, *, full: bool) -> list[str]:
    out: list[str] = []
    if terms.excess:
        out.append(f"Only the first {len(terms.terms)} words of the query were looked for: ask for less at once.")
    elif terms.is_truncated:
        out.append(f"Only the first {QUERY_CHARS:,} characters of the query were looked at: ask for less at once.")
    if end < size and full:
        out.append(f"These words are everywhere: only {end:,} of {size:,} bytes were looked at. Use rarer words.")
    elif end < size:
        out.append(f"Time ran out at byte {end:,} of {size:,}: retry the same call, it goes on from there.")
    return out


def _answer(
    reading: ViewReading,
    terms: Terms,
    weights: TermWeights,
    scanner: PassageScanner,
    size: int,
    passage_text: PassageText,
    notices: list[str],
) -> PassagesAnswer:
    missing = set(weights.missing)
    # `full` ends a scan early on purpose; only the deadline leaves something for the same call to go on with.
    over = scanner.end >= size
    return PassagesAnswer(
        id=reading.artifact.id,
        view=reading.view,
        section=reading.part,
        text=passage_text.text,
        tokens=passage_text.tokens,
        windows=passage_text.passages,
        terms=[term.text for number, term in enumerate(terms.terms) if number not in missing],
        missing=[term.text for number, term in enumerate(terms.terms) if number in missing],
        searched=SearchedBytes(scanner.end, size),
        partial=not over,
        stopped="end" if over else "frequent" if scanner.full else "deadline",
        notices=notices,
    )
