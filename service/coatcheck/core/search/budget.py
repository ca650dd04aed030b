"""Fits a search response to a budget: the text that a model reads this turn, and counts of everything left out.

The steps: fold duplicates, order the results (`order_results`), take `max_results` of them, split the tokens among
these by need, cut passages, list the other results by title and address, and spend the remaining tokens on a snippet
for each listed result. The steps work with estimates; therefore the whole text and each result's block are counted at
the end, and shrink until they are within the limits. Pure: the same response, query, limits and earlier sources always
give the same bytes.
"""

from dataclasses import dataclass
from typing import Final, final

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.passages import Term, terms_of
from coatcheck.core.passages.scan import TermFinder
from coatcheck.core.search import frame
from coatcheck.core.search.boilerplate import Asked, Ranges, ResultText, find_boilerplate
from coatcheck.core.search.budget_model import Budgeted, NamedResult, SearchCounts, ShownResult
from coatcheck.core.search.fold import DistinctResults, Domains, EarlierSource, unfold
from coatcheck.core.search.frame import CachingTokenizer, order_results, words_of
from coatcheck.core.search.model import SearchLimits, SearchResult, check_limits, host_of, section_name, shares, short
from coatcheck.core.search.passages import CutText, PassageCutter, beginning
from coatcheck.core.search.view import ResponseLayout, ResultBody
from coatcheck.core.text.excerpt import fit_text
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.window import decode
from coatcheck_client.contract.inert import inert

_ANSWER_TOKENS: Final = 400
"""Maximum tokens of one of the provider's own answers; all answers together get at most a quarter of the total."""
_ANSWER_CHARS: Final = 8_000
"""Maximum characters of an answer that are looked at: `_ANSWER_TOKENS` are shorter, unless they are mostly blanks."""
_MAX_ANSWERS: Final = 3
"""Maximum answers of the provider that are shown. Chosen, not measured."""
_LIST_SHARE: Final = 0.4
"""Share of the total that the titles and addresses of listed results may take. They are listed because hosts refuse to
fetch an address that did not appear in the conversation. Chosen, not measured."""
_BRIEF_LIST_SHARE: Final = 0.5
"""Share that titles and addresses may take of a total below `_BRIEF_TOKENS`. It is larger, since titles and addresses
are not shorter if the total is small."""
_HEAD_SHARE: Final = 0.5
"""Share of a result's tokens that the line above it may take."""
_SLACK_TOKENS: Final = 8
"""Tokens by which joined lines may cost more than the sum of the single lines."""
_LAST_LINES_TOKENS: Final = 56
"""Tokens reserved for the lines that say what is left out and how to continue."""
_BRIEF_TOKENS: Final = 1_000
"""Total tokens below which our own lines are as short as possible."""
_MAX_ATTEMPTS: Final = 8
"""Attempts to fit. Each aims lower than the one before, by the tokens that were too many; after the last one the text
is cut. Chosen, not measured."""
_BYTES_PER_TOKEN: Final = 8
"""Bytes per token of a result's share, above which its text is not counted: it needs the whole share in any case."""
_SNIPPET_TOKENS: Final = 64
"""Maximum tokens of the snippet of a listed result."""
_SNIPPET_SHARE: Final = 0.3
"""With a total below `_BRIEF_TOKENS`: a listed result's share of the tokens, relative to that of a shown result."""
_MIN_SNIPPET_TOKENS: Final = 20
"""Tokens below which the share of a listed result is not reserved, since it would be too small for a snippet."""
_MAX_PICTURES: Final = 12
"""Maximum pictures that are listed; the line above them gives the number of all pictures. Chosen, not measured."""
_MAX_LISTED: Final = 100
"""Maximum number of listed results."""
_TOKENS_PER_RESULT: Final = 110
"""Tokens of the total per shown result: with fewer, a result would be an address and a few words."""
_MIN_PASSAGE_TOKENS: Final = 24
"""Tokens of passages below which a result is only listed instead of shown."""


def budget_search(
    laid: ResponseLayout,
    tokenizer: Tokenizer,
    *,
    query: str = "",
    artifact_id: str | None = None,
    limits: SearchLimits = SearchLimits(),  # noqa: B008 - frozen
    earlier: tuple[EarlierSource, ...] = (),
    prints: tuple[bytes, ...] | None = None,
    domains: Domains | None = None,
) -> Budgeted:
    """Cuts a response to its limits.

    Args:
        laid: the response as its text view; every range refers to this view.
        tokenizer: counts tokens.
        query: the text that was searched for; if empty, the query that the provider reports.
        artifact_id: the ID under which the response is stored; None if it is not stored.
        limits: hard limits, in tokens of `tokenizer`.
        earlier: sources that the session already has.
        prints: the `fingerprints` of the results' texts; None computes them.
        domains: which sites may be shown; results of other sites are counted as excluded.

    Raises:
        CoatcheckError: `invalid_request` for limits out of bounds.
    """
    query = query if query.strip() else laid.response.query or ""
    terms = terms_of(words_of(query)).terms
    finder = TermFinder(terms) if terms else None
    distinct = unfold(laid, earlier, prints, domains, query, finder)
    counted = CachingTokenizer(tokenizer)
    return _Budgeting(laid, counted, query, artifact_id, check_limits(limits), distinct, terms, finder).run()


class _Draft(Struct):
    """A result that is going to be shown."""

    place: int
    head: str
    head_tokens: int
    need: int
    excerpt: CutText


@final
@dataclass
class _Budgeting:
    """One response that is fitted to a budget.

    The fields are the arguments of `budget_search`, and values that follow from them.
    """

    laid: ResponseLayout
    tokenizer: CachingTokenizer
    query: str
    artifact_id: str | None
    limits: SearchLimits
    distinct: DistinctResults
    terms: tuple[Term, ...]
    finder: TermFinder | None

    def __post_init__(self) -> None:
        self._passages = PassageCutter(
            self.terms, self.finder, self.tokenizer, shows_positions=self.limits.max_total_tokens >= _BRIEF_TOKENS
        )
        self._order = order_results(self.laid, self.distinct.indices, self.query, self.finder)
        self._boilerplate = self._find_boilerplate()
        own = {section_name(place) for place in range(len(self.laid.bodies))}
        self._known = [int(fold.section[1:]) - 1 for fold in self.distinct.folds if fold.into not in own]
        """Indices of the results that were folded into an earlier source of the session."""

    def run(self) -> Budgeted:
        # The sum of the lines' tokens is an estimate: a joined text has other tokens. Each attempt therefore aims lower
        # than the one before, by the tokens that were too many.
        total = aim = self.limits.max_total_tokens
        for _ in range(_MAX_ATTEMPTS):
            output = self._make_budgeted(aim)
            if output.tokens <= total:
                return output
            aim -= output.tokens - total + 1
        # If even our own lines do not fit, as with a long query in 128 tokens, the text is cut and no result counts as
        # shown.
        output = self._make_budgeted(0)
        return _without_blocks(output, fit_text(output.text, total, self.tokenizer), self.tokenizer)

    # ------------------------------------------------------------------------------------------------ one attempt

    def _make_budgeted(self, total: int) -> Budgeted:
        response = self.laid.response
        # Choose the shown results: fewer than requested if each would only get an address and a few words.
        selection = self._order[: min(self.limits.max_results, max(1, total // _TOKENS_PER_RESULT))]
        brief = total < _BRIEF_TOKENS
        before = [self._first_line(len(selection), brief=brief)]
        before += [frame.warning_line(warning) for warning in response.warnings[:3]]
        # Then the lines that are always included, in this order: our first lines, answers, addresses of the listed
        # results. Passages get the remaining tokens: a missing address cannot be fetched, while a missing passage can
        # be read back.
        answers = self._answers(total // 4)
        list_room = int(total * (_BRIEF_LIST_SHARE if brief else _LIST_SHARE))
        title_results, lines = self._list_results(self._order[len(selection) :], list_room)
        above = [frame.list_line(len(lines))] if lines and not brief else []
        earlier_results, known_lines = self._list_results(
            self._known, list_room - sum(map(self._cost, [*above, *lines]))
        )
        folds = [frame.folds_line(self.distinct.folds)] if self.distinct.folds else []
        pictures = [] if brief else self._pictures(list_room // 4)
        ours = [*before, *answers, *above, *folds, *pictures]
        fixed = sum(map(self._cost, (*ours, *lines, *known_lines))) + (_SLACK_TOKENS if brief else _LAST_LINES_TOKENS)
        # Then the texts. With a small total, tokens for the snippets of listed results are reserved first, because none
        # would be left for them.
        drafts = self._drafts(
            selection, total - fixed - (_snippets(total - fixed, selection, title_results) if brief else 0)
        )
        shown_results = [self._make_shown_result(draft) for draft in drafts]
        # Results without tokens for their line are not shown, so their number is known only now.
        before[0] = ours[0] = self._first_line(len(shown_results), brief=brief)
        # Omissions are counted only now, since a result without tokens for its line is not shown either.
        unlisted = len(self._order) - len(shown_results) - len(title_results)
        counts = self._counts(shown_results, len(title_results), unlisted, len(answers) // 2)
        omissions = frame.render_omissions_line(
            counts.cut_chars,
            counts.chars_of_shown,
            counts.boilerplate_chars,
            unlisted,
            counts.excluded,
            counts.answers - counts.answers_shown,
        )
        last = [*([omissions] if omissions and not brief else []), *([] if brief else self._next(shown_results))]
        named_results = [*title_results, *earlier_results]
        # Tokens that the passages did not use go to snippets of the listed results.
        room = self._room(total, [*ours, *lines, *known_lines, *last], shown_results) if named_results else 0
        lines = self._with_snippets(named_results, [*lines, *known_lines], room)
        unread = self._unread(total - fixed) if response.unread else []
        before = [*before, *answers, *unread]
        after = [*above, *lines[: len(title_results)], *folds, *lines[len(title_results) :], *pictures, *last]
        text = "\n".join([*before, *(each.block for each in shown_results), *after])
        return Budgeted(
            text=text,
            tokens=self.tokenizer.count(text),
            limits=self.limits,
            query=self.query,
            artifact_id=self.artifact_id,
            shown_results=tuple(shown_results),
            title_results=tuple(title_results),
            folds=self.distinct.folds,
            earlier_results=tuple(earlier_results),
            counts=counts,
            warnings=self.laid.response.warnings,
            before="\n".join(before),
            after="\n".join(after),
        )

    def _room(self, total: int, lines: list[str], shown_results: list[ShownResult]) -> int:
        """Returns the tokens left for snippets. The number is an estimate if there is enough for all snippets."""
        spare = total - sum(map(self._cost, lines)) - sum(each.tokens + 1 for each in shown_results) - _SLACK_TOKENS
        # The joined text is only counted if the exact number matters.
        if spare >= len(lines) * (_SNIPPET_TOKENS + _SLACK_TOKENS):
            return spare
        return total - self._cost("\n".join([*lines, *(each.block for each in shown_results)]))

    def _first_line(self, shown_count: int, *, brief: bool) -> str:
        return frame.first_line(self.query, self.laid.response, shown_count, self.artifact_id, brief=brief)

    def _answers(self, room: int) -> list[str]:
        """Returns the provider's own answers, each under a line that marks it as the provider's."""
        out: list[str] = []
        response = self.laid.response
        for answer in response.answers[:_MAX_ANSWERS]:
            line = frame.answer_line(response.provider, answer)
            limit = min(_ANSWER_TOKENS, room) - self._cost(line) - 2
            text = answer.text.strip()
            text = text if len(text) <= _ANSWER_CHARS else f"{text[:_ANSWER_CHARS].rstrip()}…"
            text = fit_text(inert(text), limit, self.tokenizer) if limit >= _MIN_PASSAGE_TOKENS else ""
            if text:
                out += [line, text]
                room -= self._cost(line) + self._cost(text)
        return out

    def _unread(self, room: int) -> list[str]:
        """Returns an excerpt of a response whose format was not recognised, under a line that introduces it."""
        limit = min(self.limits.max_tokens_per_result, room) - self._cost(frame.unread_line())
        text = fit_text(inert(self.laid.response.unread), limit, self.tokenizer) if limit > 0 else ""
        return [frame.unread_line(), text] if text else []

    def _pictures(self, room: int) -> list[str]:
        """Returns lines with the addresses of the pictures beside the results, as many as `room` tokens allow."""
        lines: list[str] = []
        for each in self.laid.response.pictures[:_MAX_PICTURES]:
            line = frame.render_result_line("", each)
            room -= self._cost(line)
            if room < 0:
                break
            lines.append(line)
        return [frame.pictures_line(len(self.laid.response.pictures)), *lines] if lines else []

    def _list_results(self, indices: list[int], room: int) -> tuple[list[NamedResult], list[str]]:
        """Returns the results to list by title and address, as many as fit into `room` tokens, and their lines."""
        out: list[NamedResult] = []
        lines: list[str] = []
        whole = sum(
            self._cost(frame.render_result_line(section_name(place), self._result(place)))
            # Titles are shortened before addresses are dropped: all results with short titles help more than a few with
            # long ones.
            for place in indices[:_MAX_LISTED]
        )
        for place in indices[:_MAX_LISTED]:
            result = self._result(place)
            title = result.title if whole <= room else short(result.title, 40) if result.url else result.title
            line = frame.render_result_line(section_name(place), replace(result, title=title))
            room -= self._cost(line)
            if room < 0:
                break
            lines.append(line)
            citation, fingerprint = self._citation(place), self.distinct.fingerprints[place]
            out.append(
                NamedResult(section=section_name(place), citation=citation, result=result, fingerprint=fingerprint)
            )
        return out, lines

    def _with_snippets(self, named_results: list[NamedResult], lines: list[str], room: int) -> list[str]:
        """Returns each line with a snippet under it, as far as `room` tokens allow."""
        out: list[str] = []
        for remaining, each, line in zip(range(len(named_results), 0, -1), named_results, lines, strict=True):
            # Each result gets an equal part of the remaining tokens. If that is too little for a readable snippet, the
            # first results get one each until nothing remains.
            limit = min(_SNIPPET_TOKENS, max(room // remaining, min(room, _MIN_PASSAGE_TOKENS)))
            place = each.result.rank - 1
            text = (
                self._passages.snippet(self._body(place), self._boilerplate[place], limit - 3)
                if limit >= _MIN_PASSAGE_TOKENS
                else ""
            )
            out.append(f"{line}\n  {text}" if text else line)
            room -= self._cost(f"  {text}") if text else 0
        return out

    # ------------------------------------------------------------------------------------------------ results

    def _drafts(self, indices: list[int], room: int) -> list[_Draft]:
        """Returns the results, each cut to its share of `room`; unused tokens of a result go to the next ones."""
        limit = self.limits.max_tokens_per_result
        drafts = [self._draft(place, min(limit, max(room, 0))) for place in indices]
        spare = 0
        # In the order shown: a result can use the tokens that better results did not need.
        for draft, share in zip(drafts, shares([min(draft.need, limit) for draft in drafts], room), strict=True):
            allowed = min(limit, share + spare)
            # A long title would leave no tokens for the text.
            if allowed < draft.need and draft.head_tokens > allowed * _HEAD_SHARE:
                draft.head = self._shorter_head(draft.place, allowed)
                draft.head_tokens = self._cost(draft.head)
            spare += share - self._fill(draft, allowed)
        return [draft for draft in drafts if draft.head]

    def _draft(self, place: int, limit: int) -> _Draft:
        head = frame.result_line(section_name(place), self._result(place), self.distinct.also.get(place))
        cost = self._cost(head)
        body = self._body(place)
        # A text with too many bytes certainly needs its whole share, so it is not counted.
        need = limit + 1
        if len(body.data) <= limit * _BYTES_PER_TOKEN:
            text = self.tokenizer.count(inert(body.text))
            # An eighth more than the text itself, because passages add lines of their own.
            need = cost + (max(text * 9 // 8 + 2 * _SLACK_TOKENS, _MIN_PASSAGE_TOKENS) if text else 0)
        return _Draft(place, head, cost, need, CutText("", 0, (), whole=not body.text))

    def _shorter_head(self, place: int, limit: int) -> str:
        """Returns a shorter line for a result: its title is shortened, then dropped; last, its address is cut."""
        result = self._result(place)
        heads = [frame.result_line(section_name(place), replace(result, title=short(result.title, 48), date=None))]
        heads.append(frame.result_line(section_name(place), replace(result, title="", date=None)))
        fitting = (
            head for head, share in zip(heads, (_HEAD_SHARE, 1.0), strict=True) if self._cost(head) <= limit * share
        )
        return next(fitting, None) or fit_text(heads[-1], limit, self.tokenizer)

    def _fill(self, draft: _Draft, allowed: int) -> int:
        """Gives a result its passages; returns the tokens of the result's whole block."""
        room = allowed - draft.head_tokens
        while room >= _MIN_PASSAGE_TOKENS:
            draft.excerpt = self._passages.cut(self._body(draft.place), self._boilerplate[draft.place], room)
            tokens = self.tokenizer.count(_block(draft))
            if tokens <= allowed:
                return tokens
            # Joined, the line and the passages can take more tokens than the sum of both.
            room -= tokens - allowed
        draft.excerpt = CutText("", 0, (), whole=not self._body(draft.place).text)
        return draft.head_tokens

    def _make_shown_result(self, draft: _Draft) -> ShownResult:
        body = self._body(draft.place)
        block = _block(draft)
        shown_chars = sum(quote.chars.end - quote.chars.start for quote in draft.excerpt.quotes)
        # Boilerplate inside a passage counts as shown, so that the three numbers add up to the length of the text.
        hidden = sum(len(decode(body.data[start:end])) for start, end in self._boilerplate[draft.place])
        return ShownResult(
            section=section_name(draft.place),
            citation=self._citation(draft.place),
            result=self._result(draft.place),
            block=block,
            tokens=self.tokenizer.count(block),
            quotes=draft.excerpt.quotes,
            whole=draft.excerpt.whole,
            chars=len(body.text),
            shown_chars=shown_chars,
            boilerplate_chars=min(hidden, len(body.text) - shown_chars),
            also=self.distinct.also.get(draft.place),
            fingerprint=self.distinct.fingerprints[draft.place],
        )

    # ------------------------------------------------------------------------------------------------ small things

    def _counts(self, shown_results: list[ShownResult], listed_count: int, unlisted: int, answers: int) -> SearchCounts:
        chars = sum(each.chars for each in shown_results)
        shown_chars = sum(each.shown_chars for each in shown_results)
        hidden = sum(each.boilerplate_chars for each in shown_results)
        return SearchCounts(
            results=len(self.laid.response.results),
            shown=len(shown_results),
            listed=listed_count,
            unlisted=unlisted,
            folded=len(self.distinct.folds),
            # Every result is in exactly one group: see `SearchCounts` for the sum.
            excluded=len(self.laid.bodies) - len(self.distinct.indices) - len(self.distinct.folds),
            answers=len(self.laid.response.answers),
            answers_shown=answers,
            chars=sum(len(body.text) for body in self.laid.bodies),
            chars_of_shown=chars,
            shown_chars=shown_chars,
            cut_chars=chars - shown_chars - hidden,
            boilerplate_chars=hidden,
        )

    def _next(self, shown_results: list[ShownResult]) -> list[str]:
        """Returns a line with the call that reads more: the rest of a cut result, else a result that is only listed."""
        if self.artifact_id is None:
            return []
        if self.laid.response.unread:
            return [frame.next_line(self.artifact_id, None)]
        # A cut result comes before a listed one: the model knows already that the cut result is relevant.
        sections = [each.section for each in shown_results if not each.whole]
        sections += map(section_name, self._order[len(shown_results) :])
        return [frame.next_line(self.artifact_id, section) for section in sections[:1]]

    def _find_boilerplate(self) -> list[Ranges]:
        """Returns the boilerplate of each result's text, by the result's index.

        Of a listed result, only the beginning of the text is searched. A folded or excluded result has an empty list.
        """
        # Repetitions are found by comparing all texts. Texts of listed results must therefore take part, but only the
        # beginnings, from which snippets are made.
        shown_indices = set(self._order[: self.limits.max_results])
        pages = [
            ResultText(
                self._body(place).data if place in shown_indices else beginning(self._body(place)),
                host_of(self._result(place).canonical_url),
            )
            for place in self.distinct.indices
        ]
        finder = self.finder
        matches_query: Asked | None = finder and (lambda data, start, end: finder.next(data, start, end) is not None)
        ranges = dict(zip(self.distinct.indices, find_boilerplate(pages, matches_query), strict=True))
        return [ranges.get(place, []) for place in range(len(self.laid.bodies))]

    def _result(self, place: int) -> SearchResult:
        return self.laid.response.results[place]

    def _body(self, place: int) -> ResultBody:
        return self.laid.bodies[place]

    def _citation(self, place: int) -> str:
        return f"{self.artifact_id}#{section_name(place)}" if self.artifact_id else section_name(place)

    def _cost(self, line: str) -> int:
        return self.tokenizer.count(f"\n{line}")


def _snippets(room: int, indices: list[int], title_results: list[NamedResult]) -> int:
    """Returns the tokens of `room` that are reserved for the snippets of listed results."""
    parts = len(title_results) * _SNIPPET_SHARE
    # Each listed result counts as `_SNIPPET_SHARE` of a shown one.
    reserve = int(max(room, 0) * parts / (len(indices) + parts)) if parts else 0
    return reserve if reserve >= len(title_results) * _MIN_SNIPPET_TOKENS else 0


def _block(draft: _Draft) -> str:
    return f"{draft.head}\n{draft.excerpt.text}" if draft.excerpt.text else draft.head


def _without_blocks(output: Budgeted, text: str, tokenizer: Tokenizer) -> Budgeted:
    """Returns a search that shows no result. Its whole text is `text`: as much of our own lines as fits."""
    nothing = ("shown", "listed", "answers_shown", "chars_of_shown", "shown_chars", "cut_chars", "boilerplate_chars")
    unlisted = output.counts.results - output.counts.folded - output.counts.excluded
    counts = replace(output.counts, **dict.fromkeys(nothing, 0), unlisted=unlisted)
    return replace(
        output,
        text=text,
        tokens=tokenizer.count(text),
        shown_results=(),
        title_results=(),
        earlier_results=(),
        counts=counts,
        before=text,
        after="",
    )
