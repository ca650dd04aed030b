"""Summarises a search for later turns: a few verbatim sentences with their citations, and the sources.

Sentences are chosen from the passages that were shown, ranked as the passages were. The best sentence of each result
comes first, then the best of the others, up to `MAX_POINTS`; no sentence repeats another. No text is invented: every
sentence is an exact range of a result's text, and `verify` finds it there. The tokens of the whole text are counted,
and stay within the limit.
"""

# ruff: noqa: RUF001 - punctuation of other scripts

import re
from collections import Counter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.passages import PassageScanner, Ranking, terms_of, weigh
from coatcheck.core.passages.units import units
from coatcheck.core.search.budget_model import Budgeted, NamedResult, SearchCounts, ShownResult
from coatcheck.core.search.frame import outcome_of
from coatcheck.core.search.model import ADDRESS_CHARS, LINE_CHARS, REASON_CHARS, SearchResponse, escape_citations, short
from coatcheck.core.search.responses.markup import action_line
from coatcheck.core.search.view import ResponseLayout, ResultBody
from coatcheck.core.text.excerpt import fit_text
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.window import Extent, Window, decode, window
from coatcheck_client.contract.inert import MARK, one_line

MAX_POINTS: Final = 6
"""Maximum number of quoted sentences."""
SUMMARY_TOKENS: Final = 768
"""Default maximum tokens of the text that stays."""
_MIN_SENTENCE_CHARS: Final = 24
"""Minimum characters of a sentence worth quoting; half as many in Chinese, Japanese and Korean."""
_REPEATED_SHARE: Final = 0.5
"""A sentence is a repetition if more than this share of its words occurs in earlier sentences."""
_FRAGMENT_WEIGHT: Final = 0.7
"""Factor of the rating of a sentence that has no end or was cut."""
_MIN_WORTH_SHARE: Final = 0.3
"""Share of the best sentence's rating, below which a result gets no second sentence."""
_ANSWER_CHARS: Final = 280
"""Maximum characters of one answer of the provider: about 70 tokens of the summary, which includes the first two
answers. Chosen, not measured."""
_BEGINNING_CHARS: Final = 240
"""Maximum characters that are shown of a response whose format was not recognised."""
_TITLE_CHARS: Final = (60, 30, 16, 1)
"""Maximum characters of the titles of listed results. If the text is too long, the next smaller number is tried before
anything is dropped; 1 leaves out the title."""
_PREFIX: Final = re.compile(r"(?:[-*+•>|]+\s+|\d{1,3}[.)]\s+|#{1,6}\s+)+")
_LINK_ONLY: Final = re.compile(r"\W{0,8}\[[^\]\n]{0,400}\]\([^()\n]{0,2000}\)\W{0,8}")
_NO_LETTERS: Final = bytes(code for code in range(128) if not chr(code).isalpha())
_END: Final = re.compile(r"[.!?。！？؟।…][\"'”’»)\]』」）*_]*$")
_WORD: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{1,2}|\w+")
_WIDE: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


class SummarySentence(Struct, frozen=True, kw_only=True):
    """One sentence, verbatim."""

    text: str
    """The sentence as it is in the result's text; it must be made inert before it is shown."""
    citation: str
    """Citation of the result, such as `art_…#r1`."""
    chars: Extent
    """Range of the sentence in the result's text, in characters."""
    bytes: Extent
    view: Window
    """Range of the sentence in the text view of the response."""


class SummarySource(Struct, frozen=True, kw_only=True):
    """A result, as it is named later."""

    title: str
    url: str
    note: str
    """Facts that help to judge the result: its date, or that only its title was seen."""
    source: str
    """Citation of the result, such as `art_…#r1`."""


class SearchSummary(Struct, frozen=True, kw_only=True):
    """What to persist of a search for later turns."""

    tool: str
    action: str
    """`searched 'x'`, or the provider's description of what its own tool did."""
    query: str
    answers: tuple[str, ...]
    """The provider's own answers, each shortened to one line."""
    summary: tuple[SummarySentence, ...]
    citations: tuple[SummarySource, ...]
    counts: SearchCounts
    text: str
    """The whole summary as a model reads it in later turns."""
    token_estimate: int
    """Tokens of `text`, exact in the encoding of the tokenizer that was given."""


def summarise(
    output: Budgeted,
    laid: ResponseLayout,
    tokenizer: Tokenizer,
    *,
    tool: str = "web_search",
    max_tokens: int = SUMMARY_TOKENS,
    brief: bool = False,
) -> SearchSummary:
    """Returns a summary of what was shown, in at most `max_tokens`; the least useful parts are dropped first.

    If `brief`, the summary has only what was done and the first source, by whose citation everything else can be read.
    """
    # Sentences come from the passages that were shown, so that nothing is quoted that the model did not see.
    points = _points(output, laid)
    sources = [_source(each, "") for each in output.shown_results]
    read_count = len(sources)
    sources += [_source(each, "title only") for each in output.title_results]
    sources += [_source(each, "found before") for each in output.earlier_results]
    answers = [short(answer.text, _ANSWER_CHARS) for answer in laid.response.answers[:2]]
    # The provider's actions say more than the query, but only if the query is the one that the provider reports.
    actions = laid.response.actions if output.query in {"", laid.response.query or ""} else ()
    action = "; ".join(actions) or action_line(output.query)
    head = action if actions and not output.counts.results else f"{action}: {_came_of(output, laid.response)}"
    # Over the limit, the least useful parts go first, in this order: long titles of listed sources, second sentences of
    # a result, listed sources, answers.
    titles = iter(_TITLE_CHARS)
    source_count = len(sources)
    if brief:
        points, answers, sources = [], [], sources[:1]
    size: int | None = None
    while True:
        text = _text(head, points, sources, answers, read_count, size, source_count - len(sources), output.artifact_id)
        if tokenizer.count(text) <= max_tokens or not (points or sources or answers):
            break
        if size := next(titles, 0):
            continue
        if len(points) > max(
            read_count, 1
        ):  # the best sentence of each result, and every address, before more sentences
            points.remove(_last_of_many(points))
        elif len(sources) > read_count:
            sources.pop()
        elif answers:
            answers.pop()
        else:
            (points if len(points) > 1 or not sources else sources).pop()
    # A query alone may be longer than the limit.
    text = fit_text(text, max_tokens, tokenizer)
    return SearchSummary(
        tool=tool,
        action=action,
        query=output.query,
        answers=tuple(answers),
        summary=tuple(points),
        citations=tuple(sources),
        counts=output.counts,
        text=text,
        token_estimate=tokenizer.count(text),
    )


def _last_of_many(points: list[SummarySentence]) -> SummarySentence:
    """Returns the last sentence of a result that has several; if no result has several, the last sentence."""
    counts = Counter(point.citation for point in points)
    return next((point for point in reversed(points) if counts[point.citation] > 1), points[-1])


def _came_of(output: Budgeted, response: SearchResponse) -> str:
    """Returns the outcome of a search: how much was found and read, what failed, and where the response is stored."""
    out = outcome_of(response)
    if response.results:
        out = f"{out}, {output.counts.shown} read"
    if not response.failed and response.failures:
        out = "; ".join((out, *(short(each, REASON_CHARS) for each in response.failures[:2])))
    if response.unread:
        out = f"{out}; it begins: {short(response.unread, _BEGINNING_CHARS)}"
    # A citation names the artifact as well, where there is one.
    has_source = output.shown_results or output.title_results or output.earlier_results
    return out if has_source or not output.artifact_id else f"{out}; stored as {output.artifact_id}"


def _source(each: ShownResult | NamedResult, note: str) -> SummarySource:
    about = ", ".join(part for part in (short(each.result.date or "", 40), note) if part)
    return SummarySource(
        title=short(each.result.title, LINE_CHARS),
        url=short(each.result.url or "", ADDRESS_CHARS),
        note=about,
        source=each.citation,
    )


def _text(
    head: str,
    points: list[SummarySentence],
    sources: list[SummarySource],
    answers: list[str],
    read_count: int,
    title_chars: int | None,
    dropped_count: int,
    artifact_id: str | None,
) -> str:
    """Returns the text to persist.

    Args:
        head: what was done, and its outcome.
        points: the sentences to quote.
        sources: the sources whose text was shown, then the others.
        answers: the provider's own answers.
        read_count: number of sources whose text was shown; each of them has a line with its citation.
        title_chars: maximum characters of the titles of the other sources, which then have shorter lines with only the
            name of the section; None gives all sources equal lines.
        dropped_count: number of sources that were left out.
        artifact_id: the ID of the artifact that stores the response; None if it is not stored.
    """
    lines = [f"{MARK} {head}"]
    lines += [f"{MARK} the provider's own answer: {escape_citations(answer)}" for answer in answers]
    lines += [f"- {escape_citations(one_line(point.text))} [{point.citation}]" for point in points]
    whole = len(sources) if title_chars is None else read_count
    if sources[:whole]:
        lines.append(f"{MARK} sources")
        lines += [f"{source.source} {_render_source(source, None)}" for source in sources[:whole]]
    if sources[whole:]:
        lines.append(f"{MARK} others{f', sections of {artifact_id}' if artifact_id else ''}")
        lines += [
            f"{source.source.rpartition('#')[2]} {_render_source(source, title_chars)}" for source in sources[whole:]
        ]
    if dropped_count:
        lines.append(f"{MARK} {dropped_count} more{f' in {artifact_id}' if artifact_id else ''}")
    return "\n".join(lines)


def _render_source(source: SummarySource, size: int | None) -> str:
    """Returns a source's title, cut to `size` characters, and its address; if `size` is None, the note as well."""
    title = source.title if size is None or not source.url else short(source.title, size) if size > 1 else ""
    note = f" ({source.note})" if source.note and size is None else ""
    return f"{' | '.join(each for each in (title, source.url) if each)}{note}"


# ------------------------------------------------------------------------------------------------------- sentences


class _Sentence(Struct, frozen=True):
    owner: int
    """Index of the shown result."""
    start: int
    end: int
    """End of the sentence; `start` and `end` are byte offsets in the result's text."""
    text: str
    worth: float


def _points(output: Budgeted, laid: ResponseLayout) -> list[SummarySentence]:
    """Returns the sentences to quote: results in the order shown, the sentences of one result together."""
    bodies = [laid.bodies[each.result.rank - 1] for each in output.shown_results]
    top_sentences = _choose_sentences(_sentences(output, bodies), len(bodies))
    top_sentences.sort(key=lambda each: (each.owner, each.start))
    return [_point(each, output.shown_results[each.owner], bodies[each.owner]) for each in top_sentences]


def _sentences(output: Budgeted, bodies: list[ResultBody]) -> list[_Sentence]:
    """Returns all sentences in the shown passages, each with its rating."""
    out: list[_Sentence] = []
    for owner, (result, body) in enumerate(zip(output.shown_results, bodies, strict=True)):
        for quote in result.quotes:
            ranges = units(body.data[quote.bytes.start : quote.bytes.end], quote.bytes.start)
            sentences = (_sentence(owner, body.data, start, end) for start, end in ranges)
            out += [sentence for sentence in sentences if sentence is not None]
    scores = _scores([each.text for each in out], output.query)
    return [
        replace(each, worth=each.worth * (score or 0.001 / (number + 1)))
        for number, (each, score) in enumerate(zip(out, scores, strict=True))
    ]


def _sentence(owner: int, data: bytes, start: int, end: int) -> _Sentence | None:
    """Returns a sentence without list marks before it and blanks around it; None for a unit that is no sentence.

    Headings, menus, code, tables and fragments are no sentences.
    """
    raw = decode(data[start:end])
    text = raw.strip()
    if text.startswith(("#", "```", "|", "{", "<")) or _LINK_ONLY.fullmatch(text):
        return None
    lead = len(raw) - len(raw.lstrip())
    # The position must stay exact, so list marks are skipped, not replaced.
    match = _PREFIX.match(text)
    skip = lead + (match.end() if match else 0)
    sentence_text = raw[skip:].rstrip(" \t\r\n\\")
    letters = (
        len(sentence_text.encode().translate(None, _NO_LETTERS))
        if sentence_text.isascii()
        else sum(map(str.isalpha, sentence_text))
    )
    least = _MIN_SENTENCE_CHARS // 2 if _WIDE.search(sentence_text) else _MIN_SENTENCE_CHARS
    if len(sentence_text) < least or letters * 2 < len(sentence_text) or "\ufffd" in sentence_text:
        return None
    begin = start + len(raw[:skip].encode())
    worth = 1.0 if _END.search(sentence_text) else _FRAGMENT_WEIGHT
    return _Sentence(owner, begin, begin + len(sentence_text.encode()), sentence_text, worth)


def _scores(texts: list[str], query: str) -> list[float]:
    """Returns how well each text answers the query; zeros if the query has no terms or none of them occurs."""
    terms = terms_of(query).terms
    if not terms or not texts:
        return [0.0] * len(texts)
    scanner = PassageScanner(terms)
    scanner.feed("\n".join(texts).encode("utf-8", "replace"), last=True)
    return Ranking(terms, weigh(scanner.hits(), terms)).of_texts_apart(texts)


def _choose_sentences(sentences: list[_Sentence], results: int) -> list[_Sentence]:
    """Returns the best sentence of each result, then the best of the rest, without sentences that repeat others."""
    order = sorted(sentences, key=lambda each: (-each.worth, each.owner, each.start))
    out: list[_Sentence] = []
    quoted: set[str] = set()
    words_of: dict[str, set[str]] = {}

    def take(candidates: list[_Sentence]) -> bool:
        for each in candidates:
            words = words_of.get(each.text)
            if words is None:
                words = words_of[each.text] = set(_WORD.findall(each.text.casefold()))
            if (
                len(out) < MAX_POINTS
                and (not quoted or len(words & quoted) <= _REPEATED_SHARE * len(words))
                and each not in out
            ):
                out.append(each)
                quoted.update(words)
                return True
        return False

    # One sentence of each result comes first: six of the first result would hide whether others agree or contradict.
    for owner in range(results):
        take([each for each in order if each.owner == owner])
    # Then the best of all results; a much worse sentence is not added only to fill the summary.
    best = order[0].worth if order else 0.0
    good = [each for each in order if each.worth >= _MIN_WORTH_SHARE * best]
    while len(out) < MAX_POINTS and take(good):
        pass
    return out


def _point(sentence: _Sentence, result: ShownResult, body: ResultBody) -> SummarySentence:
    first = body.place.after(body.data[: sentence.start])
    data = body.data[sentence.start : sentence.end]
    where = window(first, first.after(data), ends_line=False)
    return SummarySentence(
        text=sentence.text,
        citation=result.citation,
        chars=Extent(where.chars.start - body.place.chars, where.chars.end - body.place.chars),
        bytes=Extent(sentence.start, sentence.end),
        view=where,
    )
