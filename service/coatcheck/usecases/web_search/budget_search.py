"""Take a web search's response, keep it whole, and return what the model should read of it within a budget.

Ingest stores the response as one artifact (the same response always has the same ID). Its text view, which every range
of the answer refers to, is kept before the answer is returned. No page is fetched and no provider is called.

Crash story: that of an ingest. The only other write is the view, which any read would make identically.
"""

import hashlib
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Caller, DeclaredMetadata
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.kinds.spec import SEARCH_RESPONSE, spec_of
from coatcheck.core.policies.policy import NO_RULES, Rules, value_or
from coatcheck.core.redact.mask import Mask
from coatcheck.core.redact.masked_artifact import laid_of, reveal_answer, reveal_strings
from coatcheck.core.search.budget import budget_search
from coatcheck.core.search.budget_model import (
    ResultListed,
    ResultShown,
    SearchCounts,
    anthropic_result,
    results_listed,
    results_shown,
)
from coatcheck.core.search.fold import Domains, EarlierSource, FoldedResult, fingerprints
from coatcheck.core.search.model import UNKNOWN, SearchLimits, Switches, check_limits
from coatcheck.core.search.responses.normalise import normalise
from coatcheck.core.search.summary import SearchSummary, summarise
from coatcheck.core.search.view import EXTRACTOR, ResponseLayout, lay_out
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.view import TITLE_CHARS, ExtractedText
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.reading.sources import SessionSources, Sources, query_of, sources_of
from coatcheck.runtime.circuit_breaker import REFUSALS
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.find import Find
from coatcheck.storing.ingest_request import IngestRequest, Receipt
from coatcheck.storing.keep_text import KeepText
from coatcheck.storing.ledger import Ledger
from coatcheck.storing.redaction import RedactedIngest, RedactionPolicy
from coatcheck.storing.upload_session import split_blocks
from coatcheck.usecases.payloads.ingest import Ingest
from coatcheck_client.contract.answers import Notice
from coatcheck_client.contract.inert import MARK

Form = Literal["text", "anthropic", "openai"]
TOOL: Final = "web_search"
"""The tool's name in a summary if the caller gives none."""
_NONE: Final = SearchCounts(**dict.fromkeys(SearchCounts.__struct_fields__, 0))
"""Counts of an answer without results."""
_CHARS_PER_TOKEN: Final = 64
"""Maximum characters that a token may stand for."""


class SearchResultsRequest(Struct, frozen=True, kw_only=True):
    """A caller's request about a response."""

    declared: DeclaredMetadata = DeclaredMetadata()
    query: str = ""
    """What was searched for; empty: what the provider says it was."""
    max_results: int | None = None
    """None, here and in the two fields below: as the policy or the settings say."""
    max_tokens_per_result: int | None = None
    max_total_tokens: int | None = None
    allowed_domains: tuple[str, ...] = ()
    """Empty: every site is allowed."""
    excluded_domains: tuple[str, ...] = ()
    form: Form = "text"
    """The form of `content` in the answer: plain text, or what a provider's interface takes."""
    across_session: bool = True
    """Whether to fold what the session already has."""
    ttl: int | None | UnsetType = UNSET
    idle_ttl: int | None | UnsetType = UNSET
    pinned: bool = False
    turn: str | None = None
    """The caller's name for the turn, in which searches may be limited; kept as the label `turn:…`."""
    key: str | None = None
    notices: tuple[Notice, ...] = ()


class AnswerTokens(Struct, frozen=True):
    """Tokens and sizes of the answer."""

    tokens: int
    """Of the text."""
    cap: int
    """`max_total_tokens` as applied."""
    text: str
    """`~1,234 of 8,192`."""


class SearchResultsAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a search response."""

    id: str | None
    """None: searches are off, or there were too many, and nothing was kept."""
    stored: bool
    """False: storage refused the response, as a warning says; citations name sections alone."""
    text: str
    """The text that a model reads this turn."""
    tokens: int
    """Of `text`."""
    payload: AnswerTokens
    content: str | list[dict[str, Any]]
    """The text in the form that the request asked for: exactly what to use as the tool result's content."""
    summary: SearchSummary
    """The text to keep for later turns, in place of `text`."""
    provider: str
    """The provider by whose form the response was read; `unknown` if it has none."""
    query: str
    results: tuple[ResultShown, ...]
    listed: tuple[ResultListed, ...]
    folded: tuple[FoldedResult, ...]
    """Results that repeat others, or what the session has already."""
    counts: SearchCounts
    unknown: tuple[str, ...]
    """Members of the response that hold something and were not understood."""
    limits: SearchLimits
    warnings: tuple[Notice, ...]


class BudgetedSearch(Struct, frozen=True):
    """The answer, and whether its artifact is new."""

    answer: SearchResultsAnswer
    created: bool


@dataclass(frozen=True, kw_only=True)
class SearchResults:
    """Stores a web search's response and returns what to read of it within a budget."""

    ingest: Ingest
    find: Find
    """Also finds what waits in the fallback buffer."""
    keep_text: KeepText
    sources: Sources
    """What the session has had from earlier searches and pages."""
    tokenizer: Tokenizer
    pool: Executor
    ledger: Ledger = field(default_factory=Ledger)
    redacting: RedactionPolicy
    rules: Callable[[], Rules] = lambda: NO_RULES
    switches: Switches = field(default_factory=Switches)
    """Where no policy decides."""
    limits: SearchLimits = field(default_factory=SearchLimits)
    """The limits if neither the request nor a policy sets one."""

    async def __call__(self, caller: Caller, payload: bytes, ask: SearchResultsRequest) -> BudgetedSearch:
        """Stores a response and returns what to read of it; if storage does not take it, the answer says so.

        Args:
            caller: the caller.
            payload: the response's body, exactly as it should be kept.
            ask: what is declared of it, and the limits.

        Raises:
            CoatcheckError: `invalid_request` for limits out of bounds and for names that are not domains; ingest's
                errors.
        """
        declared = replace(ask.declared, kind=SEARCH_RESPONSE)
        # Masking comes first: a response that was taken before is recognised by the digest of its masked bytes.
        shape = self._shape(caller, ask)
        incoming = RedactedIngest(self.redacting, caller.namespace, declared, self.pool)
        payload = await incoming.whole(payload)
        untaken = await self._untaken(caller, ask, shape.switches, payload)
        if untaken is not None:
            return BudgetedSearch(_untaken_answer(untaken, shape.limits, self.tokenizer, ask), created=False)
        parsed_response = await in_pool(self.pool, _read, payload)
        receipt = await self.ingest(caller, split_blocks(payload), _build_request(ask, parsed_response))
        notices = [*receipt.warnings]
        if incoming.notice is not None:
            notices.append(Notice("secrets_masked", incoming.notice))
        mask = self.redacting.mask(caller.namespace, declared)
        session_sources = SessionSources(())
        # Only a stored response can be cited by ID, and compared with the session's earlier ones.
        if receipt.stored:
            artifact = await self._keep(caller, receipt, parsed_response, notices)
            session_sources = await self._find_known_sources(caller, ask, artifact, notices)
        cap = shape.limits.max_total_tokens
        answer = await in_pool(
            self.pool,
            self._make_answer,
            ask,
            shape,
            parsed_response,
            receipt,
            session_sources.sources,
            notices,
            mask,
        )
        if receipt.created and receipt.stored:  # its ingest counted a card, which nobody reads
            self.ledger.gave(caller.namespace, ask.declared.session, answer.tokens - receipt.tokens)
        self.ledger.log(
            caller,
            ask.declared.session,
            "web_search",
            answer.tokens,
            artifact=ids.parse(receipt.id) if receipt.stored else None,
            before=receipt.card.tokens.count,
            details={
                "query": answer.query,
                "provider": answer.provider,
                "cap": cap,
                "results": _describe_results(answer),
            },
        )
        return BudgetedSearch(answer, receipt.created)

    async def _untaken(
        self, caller: Caller, ask: SearchResultsRequest, switches: Switches, payload: bytes
    ) -> Notice | None:
        """Returns why a response is not taken; None if it is. One that was taken before is taken again."""
        if not switches.enabled:
            return Notice(
                "search_disabled", "Web search is switched off here: this response was neither read nor kept."
            )
        session, digest = ask.declared.session, hashlib.sha256(payload).digest()
        limits: list[tuple[str, int | None, str | None]] = [("session", switches.max_searches, None)]
        if ask.turn is not None:
            limits.append(("turn", switches.max_searches_per_turn, turn_label(ask.turn)))
        for where, most, label in limits:
            if most is None or session is None:
                continue
            # A response that was taken before passes: a retry after a lost answer must not count as one more search.
            earlier_searches = await self.sources.searches(caller, session, label, most)
            if len(earlier_searches) >= most and all(each.measure.sha256 != digest for each in earlier_searches):
                return Notice(
                    "too_many_searches",
                    f"This {where} has made the {most} web searches that are allowed: this response was neither read "
                    "nor kept. Use what is known already.",
                )
        return None

    def _shape(self, caller: Caller, ask: SearchResultsRequest) -> "_Shape":
        """Returns the request's limits, else the most specific policy's, else the settings'; sites that all allow."""
        otherwise = self.limits
        policy = self.rules().of_payload(caller.namespace, ask.declared, SEARCH_RESPONSE)
        limits = SearchLimits(
            max_results=_first(ask.max_results, policy.search_max_results, otherwise.max_results),
            max_tokens_per_result=_first(
                ask.max_tokens_per_result, policy.search_max_tokens_per_result, otherwise.max_tokens_per_result
            ),
            max_total_tokens=_first(ask.max_total_tokens, policy.search_max_total_tokens, otherwise.max_total_tokens),
        )
        policy_domains = Domains(
            value_or(policy.search_allowed_domains, ()), value_or(policy.search_excluded_domains, ())
        )
        return _Shape(
            policy.switches(self.switches),
            check_limits(limits),
            Domains(ask.allowed_domains, ask.excluded_domains, also=policy_domains),
        )

    async def _keep(
        self, caller: Caller, receipt: Receipt, parsed_response: "_Read", notices: list[Notice]
    ) -> Artifact | None:
        """Returns the artifact, with its text view kept as laid out; None if it cannot be looked up."""
        try:
            entry = await self.find(caller, ids.parse(receipt.id), with_bytes=True, with_view=True, with_receipt=True)
            if parsed_response.view is not None:
                await self._view_kept(entry, parsed_response.view, notices)
                self.sources.remember(
                    entry.artifact,
                    sources_of(receipt.id, parsed_response.laid, parsed_response.prints, query_of(entry)),
                )
        except CoatcheckError as error:
            if error.code not in REFUSALS:
                raise
            notices.append(Notice(str(error.code), error.detail))
            return None
        return entry.artifact

    async def _view_kept(self, entry: FoundArtifact, view: ExtractedText, notices: list[Notice]) -> None:
        """Keeps the view, unless the artifact is stored as another kind or has a view of another release."""
        text_view, kind = entry.text_view, entry.artifact.facts.kind
        laid_out = spec_of(kind).text_view == "search_results"
        if text_view is None and laid_out:
            text_view = await self.keep_text.keep(entry, view)
        # Equal extractor and size mean that ranges of this answer are those of the kept view.
        ours = text_view is not None and (text_view.view.extractor, text_view.view.measure.size) == (
            EXTRACTOR,
            len(view.text or b""),
        )
        if not ours or not laid_out:
            notices.append(
                Notice(
                    "kind_conflict",
                    f"The same payload is stored as {kind}, or with another view: sections and ranges of this answer "
                    f"cannot be read back. Read {entry.artifact.id} without a section.",
                )
            )

    async def _find_known_sources(
        self, caller: Caller, ask: SearchResultsRequest, artifact: Artifact | None, notices: list[Notice]
    ) -> SessionSources:
        session = ask.declared.session
        if session is None or not ask.across_session or artifact is None:
            return SessionSources(())
        try:
            session_sources = await self.sources(caller, session, artifact)
        except CoatcheckError as error:
            if error.code not in REFUSALS:
                raise
            # Without them the answer only repeats more: that is worth a notice, not an error.
            session_sources = SessionSources((), partial=True)
        if session_sources.partial:
            notices.append(
                Notice(
                    "session_partly_examined",
                    "Not all earlier sources of the session were examined: the text may repeat some of them.",
                )
            )
        return session_sources

    def _make_answer(
        self,
        ask: SearchResultsRequest,
        shape: "_Shape",
        parsed_response: "_Read",
        receipt: Receipt,
        earlier: tuple[EarlierSource, ...],
        notices: list[Notice],
        mask: Mask | None,
    ) -> SearchResultsAnswer:
        tokenizer = self.tokenizer
        # Secrets are masked before anything is chosen, so that none decides what is shown. Their marks become readable
        # only below, which may cost tokens, so the budget is applied again.
        masked = parsed_response.laid if mask is None else laid_of(mask, parsed_response.laid)
        # Sites are filtered before the budget is spent; the stored response keeps all of them.
        laid = shape.domains.within(masked)
        budgeted = budget_search(
            laid,
            tokenizer,
            query=ask.query,
            artifact_id=receipt.id if receipt.stored else None,
            limits=shape.limits,
            earlier=earlier,
            prints=parsed_response.prints,
            domains=shape.domains,
        )
        cap = shape.limits.max_total_tokens
        if mask is not None:
            budgeted = reveal_answer(budgeted, mask, tokenizer, cap, cap * _CHARS_PER_TOKEN)
        # The summary is made of the same choice as the text.
        tool, brief = ask.declared.tool_name or TOOL, not shape.switches.keep_summary
        summary = summarise(budgeted, laid, tokenizer, tool=tool, brief=brief)
        if mask is not None:
            summary = reveal_strings(summary, mask)
        return SearchResultsAnswer(
            id=receipt.id,
            stored=receipt.stored,
            text=budgeted.text,
            tokens=budgeted.tokens,
            payload=AnswerTokens(budgeted.tokens, cap, f"~{budgeted.tokens:,} of {cap:,}"),
            content=anthropic_result(budgeted, tokenizer) if ask.form == "anthropic" else budgeted.text,
            summary=summary,
            provider=laid.response.provider,
            query=budgeted.query,
            results=results_shown(budgeted),
            listed=results_listed(budgeted),
            folded=budgeted.folds,
            counts=budgeted.counts,
            unknown=laid.response.unknown,
            limits=shape.limits,
            # From the response before sites were left out: a search whose results are all forbidden did not fail.
            warnings=(*notices, *_collect_notices(masked)),
        )


class _Shape(Struct, frozen=True):
    """The limits of an answer."""

    switches: Switches
    limits: SearchLimits
    domains: Domains


def _first(requested: int | None, policy_limit: int | UnsetType, otherwise: int) -> int:
    """Returns the first of these that is given."""
    return requested if requested is not None else otherwise if policy_limit is UNSET else policy_limit


class _Read(Struct, frozen=True):
    """A response as it was read, once for all that is done with it."""

    laid: ResponseLayout
    """The response in the common form, laid out as text with a section for each result."""
    view: ExtractedText | None
    """None if nothing was found: the payload is then recognised like any other."""
    prints: tuple[bytes, ...]
    """A fingerprint for each result, by which repeats are recognised."""


def _read(payload: bytes) -> _Read:
    laid = lay_out(normalise(payload))
    if not (laid.response.results or laid.response.answers):
        return _Read(laid, None, ())
    view = ExtractedText(text=laid.text, sections=laid.sections, extractor=EXTRACTOR, partial=laid.partial)
    return _Read(laid, view, fingerprints(laid))


def turn_label(turn: str) -> str:
    """Returns the label of a turn's searches."""
    return f"turn:{turn}"


def _untaken_answer(
    why: Notice, limits: SearchLimits, tokenizer: Tokenizer, ask: SearchResultsRequest
) -> SearchResultsAnswer:
    text = f"{MARK} {why.message}"
    # It has every member of an ordinary answer, empty: callers need not distinguish the two.
    tokens, cap, tool, none = tokenizer.count(text), limits.max_total_tokens, ask.declared.tool_name or TOOL, _NONE
    return SearchResultsAnswer(
        id=None,
        stored=False,
        text=text,
        tokens=tokens,
        payload=AnswerTokens(tokens, cap, f"~{tokens:,} of {cap:,}"),
        content=[{"type": "text", "text": text}] if ask.form == "anthropic" else text,
        summary=SearchSummary(
            tool=tool,
            action="",
            query=ask.query,
            answers=(),
            summary=(),
            citations=(),
            counts=none,
            text=text,
            token_estimate=tokens,
        ),
        provider=UNKNOWN,
        query=ask.query,
        results=(),
        listed=(),
        folded=(),
        counts=none,
        unknown=(),
        limits=limits,
        warnings=(why,),
    )


def _build_request(ask: SearchResultsRequest, parsed_response: _Read) -> IngestRequest:
    """Returns an ingest's request. Nobody reads its card."""
    return IngestRequest(
        declared=replace(
            ask.declared,
            kind=None if parsed_response.view is None else SEARCH_RESPONSE,
            labels=ask.declared.labels if ask.turn is None else (*ask.declared.labels, turn_label(ask.turn)),
        ),
        extracted=parsed_response.view,
        with_card=False,
        query=ask.query or None,
        ttl=ask.ttl,
        idle_ttl=ask.idle_ttl,
        pinned=ask.pinned,
        key=ask.key,
        notices=ask.notices,
    )


def _collect_notices(laid: ResponseLayout) -> list[Notice]:
    """Returns what went wrong with the search or with reading its response."""
    response = laid.response
    out = [Notice("search_response", each) for each in response.warnings]
    if response.failures and not response.results:
        out.append(
            Notice(
                "search_failed",
                f"{'The search failed' if response.failed else 'No results'}: {'; '.join(response.failures)}",
            )
        )
    if response.unread:
        out.append(
            Notice("not_understood", "The response was not understood: the text has an excerpt of it, without results.")
        )
    if not response.results:
        out.append(
            Notice("no_results", "No results were found in the response. It is stored unchanged; read it by lines.")
        )
    return out


def _describe_results(answer: SearchResultsAnswer) -> list[dict[str, str]]:
    """Returns the shown results, as they are logged."""
    return [{"citation": each.citation, "title": each.title[:TITLE_CHARS]} for each in answer.results]
