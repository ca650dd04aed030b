"""Show the passages of an artifact that best answer a query, within a token budget.

A scanner first searches the whole content for the query's terms, in bounded memory and until a deadline. Then the
passages of the best regions are ranked. If the deadline ends the scan early, the scanner is kept for a while, and a
call with the same query continues the scan. Nothing is stored except the record of the read.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from msgspec import Struct

from coatcheck.core.artifact import Caller, Kind, LineFields
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
from coatcheck.core.read_answer import DEFAULT_TOKENS, MAX_TEXT_CHARS, SearchedBytes, check_budget, text_instead
from coatcheck.core.text.count import plural
from coatcheck.core.text.excerpt import fit_text
from coatcheck.core.text.visible_text import decode_in_place, find_parts
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.clip import ClipBudget
from coatcheck.core.views.view import ViewName
from coatcheck.core.views.window import Extent, Position
from coatcheck.reading.view import Reader, ViewReading
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.content import BLOCK_BYTES
from coatcheck_client.contract.inert import MARK, one_line

MIN_TOKENS = 128
"""Minimum token budget of a call: one passage needs this many tokens."""
_MEMORY_BYTES = 4 * BLOCK_BYTES
"""Maximum bytes of content that stay in memory during a search. If the content is larger, the regions that the answer
shows are read a second time."""
_PAUSED_SCANS = 8
"""Maximum number of interrupted scanners that are kept; each takes at most 2 MB."""
_CONCURRENT_READS = 8
"""Maximum regions that are read at the same time, because each read from a store over the network has to wait."""
_RESPONSE_GRAIN_BYTES = 640
"""Bytes of a web search's response that are chosen together, about 150 tokens. A single sentence with the query's words
says little there, because the whole response was found by such a query."""
_ANSWERING_SHARE = 0.25
"""Share of the query's weight that the best region must reach; otherwise a concise answer shows no passage. Measured:
97 % of 669 questions reach this share in a text that answers them, and a third of the 669 also reach it in a text of
the same kind that does not answer them."""
_NAMED_TERMS = 6
"""Maximum terms that a sentence names; of the other terms it gives only the number. Chosen, not measured."""
_TERM_CHARS = 32
"""Maximum characters of a term that a sentence shows; longer terms are cut."""


class PassagesAnswer(Struct, frozen=True, kw_only=True):
    """The passages that best answer a query, best first."""

    id: str
    view: ViewName
    section: SectionPart | None
    """The section that was searched; None: the whole view. Windows are positions in the view in either case."""
    text: str
    """The text for a model: each passage verbatim under a line that says where it stands, with the name of its
    section or the line above that introduces it."""
    tokens: int
    """Tokens of `text`."""
    windows: list[Passage]
    terms: list[str]
    """Terms that were found, folded: lower case, without accents."""
    missing: list[str]
    """Terms that were not found."""
    searched: SearchedBytes
    partial: bool
    """Whether only a part of the view or section was searched."""
    stopped: Literal["end", "deadline", "frequent"]
    """Why the search ended. `frequent`: the words of the query that were found occur everywhere, so that a search of
    the rest would show nothing new."""
    notices: list[str]
    """Sentences for the caller about parts of the query or of the view that were not searched."""


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
        """Returns the passages of a view or section that best answer a query, in at most 30,000 characters.

        Args:
            caller: the caller.
            number: number of the artifact.
            query: the words to look for.
            max_tokens: token budget of the text, 128 to 8,000.
            view: the view; None: the text view if a section is given, otherwise the raw view.
            section: name of the section; None: the whole view.

        Raises:
            CoatcheckError: `artifact_not_found`, `artifact_gone`, `view_not_available`, `section_not_found`,
                `not_text`, `invalid_request`, `integrity`; the errors of storage if a text view that was made for this
                call cannot be stored.
        """
        check_budget(max_tokens, MIN_TOKENS)
        reading = await self._view(caller, number, view=view, section=section)
        answer = await self.of(reading, query, max_tokens)
        self._view.report_read(caller, reading, answer.tokens, "passages", {"query": query})
        return answer

    async def of(self, reading: ViewReading, query: str, max_tokens: int, *, concise: bool = False) -> PassagesAnswer:
        """Finds passages in an open view. `concise` leaves out passages that are far worse than the best passage.

        Raises:
            CoatcheckError: `not_text`, `invalid_request`, `integrity`.
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
        part = _Part(reading)
        choice = _Choice(part, terms, ClipBudget(max_tokens, MAX_TEXT_CHARS), self._tokenizer, concise=concise)
        scanner, passage_text = await self._scan(part, query, choice)
        if passage_text is None:
            passage_text = await in_pool(self._pool, choice.make_text, await _parts(part, choice.extents))
        if scanner.end < part.size and not scanner.full:
            self._pause(part.question(query), scanner)
        answer = _answer(reading, terms, choice.weights, scanner, part.size, passage_text, choice.notices)
        return await self.prepare_answer(reading, answer, max_tokens)

    async def _scan(self, part: "_Part", query: str, choice: "_Choice") -> tuple[PassageScanner, PassageText | None]:
        """Scans the content until its end, the deadline, or until the scanner is full; reads ahead by one block.

        Returns the scanner, and also the text of the answer if all regions that the text needs are in memory; otherwise
        None.
        """
        # The scanner is removed from the kept ones: a second call with the same query must not feed the same scanner.
        paused = self._paused_scanners.pop(part.question(query), None)
        deadline = self._clock() + self._patience
        at = 0 if paused is None else paused.fed
        block = await part.block(at)
        scanner = paused
        while True:
            at += len(block)
            ends = at >= part.size
            scan_step = in_pool(self._pool, choice.feed_block, scanner, block, last=ends)
            if ends:
                return await scan_step
            # Reading and scanning run at the same time: a large artifact takes as long as the slower of the two.
            block, (scanner, _) = await asyncio.gather(part.block(at), scan_step)
            if not block or scanner.full or self._clock() >= deadline:
                return scanner, await in_pool(self._pool, choice.at_hand, scanner)

    def _pause(self, key: "_Question", scanner: PassageScanner) -> None:
        self._paused_scanners[key] = scanner
        # A dictionary keeps the order in which keys were added, so the first key is that of the oldest scanner.
        while len(self._paused_scanners) > _PAUSED_SCANS:
            del self._paused_scanners[next(iter(self._paused_scanners))]


_Question = tuple[str, int, int, str, LineFields | None, Kind]
"""Key of a kept scanner: blob ID (with a suffix if secrets are masked), start and size of the searched part, query, and
what decides whether lines are decoded: their fields and the kind."""


class _Part:
    """The view or section that is searched, with offsets from its beginning. The blocks of a small part are kept."""

    def __init__(self, reading: ViewReading) -> None:
        self.reading = reading
        self._start = reading.extent.start
        self.size = reading.extent.end - reading.extent.start
        self._keeps = self.size <= _MEMORY_BYTES
        self._blocks: dict[int, bytes] = {}

    def question(self, query: str) -> _Question:
        """Returns the key of the scanner that searches exactly these bytes for a query."""
        reading = self.reading
        kind = reading.artifact.facts.kind
        return reading.content.blob.id, self._start, self.size, query, reading.fields, kind

    async def block(self, at: int) -> bytes:
        """Returns the block that begins at byte `at` of the part, a multiple of the block size; empty at the end."""
        data = await self.reading.read(self._start + at, self._start + at + BLOCK_BYTES)
        if self._keeps:
            self._blocks[at] = data
        return data

    async def part(self, extent: Extent) -> DocumentPart:
        """Reads a range of the part; returns its bytes, and the position in the view where the range begins."""
        begin = self._begin(extent)
        return self._after(begin, extent, await self.reading.content.read(begin.byte, self._start + extent.end))

    def at_hand(self, extent: Extent) -> DocumentPart | None:
        """Returns a range of the part, like `part`, if its blocks are in memory; otherwise None."""
        begin = self._begin(extent)
        data = self._read_held(begin.byte - self._start, extent.end)
        return None if data is None else self._after(begin, extent, data)

    def _begin(self, extent: Extent) -> Position:
        """Returns the position where the frame begins in which a range begins."""
        # The index knows lines and characters only at the beginning of a frame, so they are counted from there.
        index = self.reading.content.index
        frame = (self._start + extent.start) // index.frame_size
        return Position(frame * index.frame_size, index.newlines_before(frame), index.chars_before(frame))

    def _after(self, begin: Position, extent: Extent, data: bytes) -> DocumentPart:
        skip = self._start + extent.start - begin.byte
        return DocumentPart(begin.after(data[:skip]), data[skip:])

    def _read_held(self, start: int, end: int) -> bytes | None:
        """Returns the bytes from `start` to `end` of the part if all of them are in memory; otherwise None."""
        if start < 0:
            return None
        first, last = start // BLOCK_BYTES * BLOCK_BYTES, (end - 1) // BLOCK_BYTES * BLOCK_BYTES
        blocks = [self._blocks.get(at) for at in range(first, last + 1, BLOCK_BYTES)]
        if any(block is None for block in blocks):
            return None
        return b"".join(block for block in blocks if block)[start - first : end - first]


def _read_plain(data: bytes) -> bytes:
    """Returns text with the escapes of JSON or of table cells decoded in place, and with encoded bytes blanked out."""
    data = blank_blobs(data)
    return decode_in_place(data, find_parts(data))


async def _parts(part: _Part, extents: list[Extent]) -> list[DocumentPart]:
    parts: list[DocumentPart] = []
    for at in range(0, len(extents), _CONCURRENT_READS):
        parts += await asyncio.gather(*(part.part(extent) for extent in extents[at : at + _CONCURRENT_READS]))
    return parts


class _Choice:
    """Ranks the regions that a scan found, and makes the text of the answer from them. Runs in worker threads.

    If all regions are in memory, the last step of the scan also makes the text, which saves a change of threads.
    """

    def __init__(self, part: _Part, terms: Terms, budget: ClipBudget, tokenizer: Tokenizer, *, concise: bool) -> None:
        self._part = part
        self._concise = concise
        self._terms = terms
        self._budget = budget
        self._tokenizer = tokenizer
        self.weights = TermWeights((), ())
        self.extents: list[Extent] = []
        self.notices: list[str] = []
        fields = part.reading.fields
        # Escapes in JSON and in table cells would hide words from the scan, so the scan gets such lines decoded.
        is_escaped = fields is not None and bool(fields.member or fields.delimiter)
        is_escaped = is_escaped or spec_of(part.reading.artifact.facts.kind).paths
        self._seen = _read_plain if is_escaped else None
        self._counts: dict[int, str] = {}
        """How often each term that was found occurs, by the term's number."""
        self._is_answered = True

    def feed_block(
        self, scanner: PassageScanner | None, block: bytes, *, last: bool
    ) -> tuple[PassageScanner, PassageText | None]:
        """Feeds a block to the scanner; returns the scanner, and after the `last` block the text of the answer.

        If no scanner is given, this creates one, which takes time because its patterns are compiled. The text is None
        if regions must be read first.
        """
        scanner = scanner or PassageScanner(self._terms.terms, to_visible=self._seen or blank_unseen)
        scanner.feed(block, last=last)
        return scanner, self.at_hand(scanner) if last else None

    def at_hand(self, scanner: PassageScanner) -> PassageText | None:
        """Finds the regions to show; returns the text of the answer, or None if `extents` must be read first."""
        hits = scanner.hits()
        self.weights = weigh(hits, self._terms.terms)
        self.extents = regions(hits, self.weights, self._part.size)
        self.notices = _notices(self._terms, hits.end, self._part.size, full=scanner.full)
        counts: Counter[int] = Counter(hits.terms.tolist())
        self._counts = {number: f"{count:,}" for number, count in counts.items()}
        self._counts |= dict.fromkeys(hits.everywhere.difference(self.weights.missing), "everywhere")
        self._is_answered = not self._concise or coverage(hits, self.weights, self._terms.terms) >= _ANSWERING_SHARE
        parts = [self._part.at_hand(extent) for extent in self.extents]
        present_parts = [part for part in parts if part is not None]
        return self.make_text(present_parts) if len(present_parts) == len(parts) else None

    def make_text(self, parts: list[DocumentPart]) -> PassageText:
        """Returns the text of the answer: the best passages of the parts, or a sentence if none is good enough."""
        reading, terms, tokenizer = self._part.reading, self._terms, self._tokenizer
        missing = _render_terms(terms, self.weights.missing, grams=False)
        notes = [f"Not found: {missing}."] if missing else []
        spec = spec_of(reading.artifact.facts.kind)
        page = reading.view == "raw" and spec.markup
        ranking = Ranking(terms.terms, self.weights).of_parts(parts, page=page, to_visible=self._seen) if parts else []
        # The sender has ranked a list of search results, so of two passages that rank alike, the earlier comes first.
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
        """Returns a sentence that says that no passage was found, and suggests another query."""
        reading, terms, tokenizer = self._part.reading, self._terms, self._tokenizer
        if not self._part.size:
            text = fit_text(f"{MARK} No passage: {reading.name} is empty.", self._budget.tokens, tokenizer)
            return PassageText(text, tokenizer.count(text), [])
        lines = plural(reading.lines.last - reading.lines.first + 1, "line")
        if reading.section is not None:
            lines += f" of section {reading.section.name}"
        present_terms = tuple(number for number in range(len(terms.terms)) if number in self._counts)
        # If some words were found but no passage has enough of them, the sentence must not say that nothing was found.
        if present_terms and (not self._is_answered or "everywhere" in self._counts.values()):
            counts = _render_terms(terms, present_terms, grams=True, counts=self._counts)
            statement = f"No passage in {lines} answers this: of its words there are only {counts}."
        else:
            every = _render_terms(terms, tuple(range(len(terms.terms))), grams=True)
            statement = f"No passage in {lines} has any of: {every}."
        advice = " ".join(self.notices) or 'Try other words, or pattern="…" to search it.'
        text = fit_text(f"{MARK} {statement} {advice}", self._budget.tokens, tokenizer)
        return PassageText(text, tokenizer.count(text), [])


def _render_terms(
    terms: Terms, numbers: tuple[int, ...], *, grams: bool, counts: Mapping[int, str] | None = None
) -> str:
    """Returns a list of terms for a sentence: at most `_NAMED_TERMS` terms, with their counts if given.

    Parts of identifiers that are listed themselves are left out, and without `grams` also the n-grams of words.
    """
    wholes = [terms.terms[number].text for number in numbers if terms.terms[number].role == "whole"]
    words = [
        f"{_render_term(terms.terms[number].text)}{'' if counts is None else f' ({counts[number]})'}"
        for number in numbers
        if (grams or terms.terms[number].role != "gram")
        and not (terms.terms[number].role == "part" and any(terms.terms[number].text in whole for whole in wholes))
    ]
    more = f" and {len(words) - _NAMED_TERMS} more" if len(words) > _NAMED_TERMS else ""
    return ", ".join(words[:_NAMED_TERMS]) + more


def _render_term(term: str) -> str:
    text = one_line(term[: _TERM_CHARS + 1])
    return text if len(text) <= _TERM_CHARS else text[:_TERM_CHARS] + "…"


def _notices(terms: Terms, end: int, size: int, *, full: bool) -> list[str]:
    notices: list[str] = []
    if terms.excess:
        notices.append(f"Only the first {len(terms.terms)} words of the query were looked for: ask for less at once.")
    elif terms.is_truncated:
        notices.append(f"Only the first {QUERY_CHARS:,} characters of the query were looked at: ask for less at once.")
    if end < size and full:
        notices.append(f"These words are everywhere: only {end:,} of {size:,} bytes were looked at. Use rarer words.")
    elif end < size:
        notices.append(f"Time ran out at byte {end:,} of {size:,}: retry the same call, it goes on from there.")
    return notices


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
    # A scan that ended at the deadline can be continued by the same call; a scan that ended as `full` cannot.
    is_complete = scanner.end >= size
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
        partial=not is_complete,
        stopped="end" if is_complete else "frequent" if scanner.full else "deadline",
        notices=notices,
    )
