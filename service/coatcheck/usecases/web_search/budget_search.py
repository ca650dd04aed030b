"""Store the whole response of a web search, and return the part that a model should read, within a token budget.

Ingest stores the response as one artifact; the same response always has the same ID. The ranges of the answer refer to
the text view of this artifact, which is stored before the answer is returned. This module fetches no page and calls no
search provider.

Crash story: the same as for an ingest. The only other write is the text view, and any later read would make it again.
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
"""Name of the tool in a summary if the caller gives no name."""
_NONE: Final = SearchCounts(**dict.fromkeys(SearchCounts.__struct_fields__, 0))
"""Counts of an answer without results."""
_CHARS_PER_TOKEN: Final = 64
"""Maximum characters of an answer for each token of its budget, once readable marks have replaced masked secrets."""


class SearchResultsRequest(Struct, frozen=True, kw_only=True):
    """A caller's request to store the response of a web search and to shorten it."""

    declared: DeclaredMetadata = DeclaredMetadata()
    query: str = ""
    """The query of the search; empty: the query that the response names."""
    max_results: int | None = None
    """Maximum results that are shown; None: as a policy or the settings say."""
    max_tokens_per_result: int | None = None
    """Maximum tokens of one result; None: as a policy or the settings say."""
    max_total_tokens: int | None = None
    """Maximum tokens of the whole text; None: as a policy or the settings say."""
    allowed_domains: tuple[str, ...] = ()
    """The only domains whose results are shown; empty: every domain is allowed."""
    excluded_domains: tuple[str, ...] = ()
    """Domains whose results are not shown."""
    form: Form = "text"
    """The form of `content` in the answer: plain text, or the form that a provider's interface accepts."""
    across_session: bool = True
    """Whether to leave out results that the session has already had."""
    ttl: int | None | UnsetType = UNSET
    idle_ttl: int | None | UnsetType = UNSET
    pinned: bool = False
    turn: str | None = None
    """The caller's name for the turn, stored as the label `turn:…`; a policy may limit the searches of a turn. None:
    the search counts in no turn."""
    key: str | None = None
    """The idempotency key of the request; None: it has none."""
    notices: tuple[Notice, ...] = ()
    """Notices of changes that were necessary to accept the request; the answer passes them on to the caller."""


class AnswerTokens(Struct, frozen=True):
    """The tokens of the answer, and their limit."""

    tokens: int
    """Tokens of the answer's text."""
    cap: int
    """The value of `max_total_tokens` that was applied."""
    text: str
    """The two numbers as a text, such as `~1,234 of 8,192`."""


class SearchResultsAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a search response."""

    id: str | None
    """The artifact's ID; None: nothing was stored, because searches are disabled or their limit is reached."""
    stored: bool
    """Whether the response was stored; False: storage refused it, and a warning says why. The citations then consist of
    the names of sections only."""
    text: str
    """The text that a model reads in this turn."""
    tokens: int
    """Tokens of `text`."""
    payload: AnswerTokens
    content: str | list[dict[str, Any]]
    """The text in the requested form, to be used unchanged as the content of the tool result."""
    summary: SearchSummary
    """The text that replaces `text` in later turns."""
    provider: str
    """The search provider whose format the response has; `unknown` if the format is not recognised."""
    query: str
    results: tuple[ResultShown, ...]
    listed: tuple[ResultListed, ...]
    folded: tuple[FoldedResult, ...]
    """Results that are not shown because they repeat other results, or sources that the session has already had."""
    counts: SearchCounts
    unknown: tuple[str, ...]
    """Members of the response that are not empty and were not understood."""
    limits: SearchLimits
    warnings: tuple[Notice, ...]


class BudgetedSearch(Struct, frozen=True):
    """The answer, and whether the call created the artifact."""

    answer: SearchResultsAnswer
    created: bool


@dataclass(frozen=True, kw_only=True)
class SearchResults:
    """Stores the response of a web search, and returns the part that a model should read, within a token budget."""

    ingest: Ingest
    find: Find
    """Finds artifacts, including those that wait in the fallback buffer."""
    keep_text: KeepText
    sources: Sources
    """Finds the sources that a session has had from earlier searches and pages."""
    tokenizer: Tokenizer
    pool: Executor
    ledger: Ledger = field(default_factory=Ledger)
    redacting: RedactionPolicy
    rules: Callable[[], Rules] = lambda: NO_RULES
    switches: Switches = field(default_factory=Switches)
    """The switches of searches, each of which a policy may set otherwise."""
    limits: SearchLimits = field(default_factory=SearchLimits)
    """The limits that apply if neither the request nor a policy sets them."""

    async def __call__(self, caller: Caller, payload: bytes, ask: SearchResultsRequest) -> BudgetedSearch:
        """Stores the response of a search, and returns the part to read.

        If storage refuses the response, the answer says so in a warning, and no error is raised.

        Args:
            caller: the caller.
            payload: the body of the response, exactly as it is to be stored.
            ask: the declared metadata, the query and the limits.

        Raises:
            CoatcheckError: `invalid_request` for limits out of bounds and for names that are not domains; the errors of
                an ingest.
        """
        declared = replace(ask.declared, kind=SEARCH_RESPONSE)
        # Secrets are masked first, because an earlier search is recognised by the digest of its masked response.
        shape = self._shape(caller, ask)
        incoming = RedactedIngest(self.redacting, caller.namespace, declared, self.pool)
        payload = await incoming.whole(payload)
        refusal = await self._find_refusal(caller, ask, shape.switches, payload)
        if refusal is not None:
            return BudgetedSearch(_make_refusal(refusal, shape.limits, self.tokenizer, ask), created=False)
        parsed_response = await in_pool(self.pool, _read, payload)
        receipt = await self.ingest(caller, split_blocks(payload), _build_request(ask, parsed_response))
        notices = [*receipt.warnings]
        if incoming.notice is not None:
            notices.append(Notice("secrets_masked", incoming.notice))
        mask = self.redacting.mask(caller.namespace, declared)
        session_sources = SessionSources(())
        # Only a stored response can be cited by its ID, and compared with the earlier sources of the session.
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
        # The ingest has counted the tokens of a card, but the model gets this answer instead.
        if receipt.created and receipt.stored:
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

    async def _find_refusal(
        self, caller: Caller, ask: SearchResultsRequest, switches: Switches, payload: bytes
    ) -> Notice | None:
        """Returns the notice that says why a response is refused; None if it is accepted.

        A response that is already among the counted searches is accepted again, even if the limit is reached.
        """
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
            # A response that was accepted before passes: a retry after a lost answer must not count as another search.
            earlier_searches = await self.sources.searches(caller, session, label, most)
            if len(earlier_searches) >= most and all(each.measure.sha256 != digest for each in earlier_searches):
                return Notice(
                    "too_many_searches",
                    f"This {where} has made the {most} web searches that are allowed: this response was neither read "
                    "nor kept. Use what is known already.",
                )
        return None

    def _shape(self, caller: Caller, ask: SearchResultsRequest) -> "_Limits":
        """Returns the switches, limits and domains that apply to a request.

        Each limit comes from the request, or else from the most specific policy, or else from the settings. A domain is
        allowed only if both the request and the policy allow it.
        """
        default = self.limits
        policy = self.rules().of_payload(caller.namespace, ask.declared, SEARCH_RESPONSE)
        limits = SearchLimits(
            max_results=_first(ask.max_results, policy.search_max_results, default.max_results),
            max_tokens_per_result=_first(
                ask.max_tokens_per_result, policy.search_max_tokens_per_result, default.max_tokens_per_result
            ),
            max_total_tokens=_first(ask.max_total_tokens, policy.search_max_total_tokens, default.max_total_tokens),
        )
        policy_domains = Domains(
            value_or(policy.search_allowed_domains, ()), value_or(policy.search_excluded_domains, ())
        )
        return _Limits(
            policy.switches(self.switches),
            check_limits(limits),
            Domains(ask.allowed_domains, ask.excluded_domains, also=policy_domains),
        )

    async def _keep(
        self, caller: Caller, receipt: Receipt, parsed_response: "_Response", notices: list[Notice]
    ) -> Artifact | None:
        """Stores the text view of the response and remembers its sources; returns the artifact.

        Returns None if the artifact cannot be looked up at the moment; a notice then says why.
        """
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
        """Stores the text view of a response, unless the artifact already has one or is of another kind.

        Adds a notice if the artifact has another view than `view`, or is of another kind: the ranges of the answer are
        not valid for such an artifact.
        """
        text_view, kind = entry.text_view, entry.artifact.facts.kind
        is_search = spec_of(kind).text_view == "search_results"
        if text_view is None and is_search:
            text_view = await self.keep_text.keep(entry, view)
        # If the extractor and the size are equal, the ranges of this answer are also those of the stored view.
        same_view = text_view is not None and (text_view.view.extractor, text_view.view.measure.size) == (
            EXTRACTOR,
            len(view.text or b""),
        )
        if not same_view or not is_search:
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
        """Returns the sources that the session has had before.

        Returns none if there is no session or no artifact, or if the request does not want sources compared.
        """
        session = ask.declared.session
        if session is None or not ask.across_session or artifact is None:
            return SessionSources(())
        try:
            session_sources = await self.sources(caller, session, artifact)
        except CoatcheckError as error:
            if error.code not in REFUSALS:
                raise
            # Without the earlier sources the answer is still right, but may repeat them: a notice is enough.
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
        shape: "_Limits",
        parsed_response: "_Response",
        receipt: Receipt,
        earlier: tuple[EarlierSource, ...],
        notices: list[Notice],
        mask: Mask | None,
    ) -> SearchResultsAnswer:
        tokenizer = self.tokenizer
        # Secrets are masked before passages are chosen, so that no secret affects the choice. Further below, fillers
        # are replaced by readable marks, which may take more tokens, so the budget is then applied again.
        masked = parsed_response.laid if mask is None else laid_of(mask, parsed_response.laid)
        # Results of forbidden domains are left out before the budget is spent; the stored response keeps them.
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
        # The summary is made from the same results as the text.
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
            # The warnings come from the response with all domains: a search did not fail if all its results are
            # forbidden.
            warnings=(*notices, *_collect_notices(masked)),
        )


class _Limits(Struct, frozen=True):
    """The switches, limits and domains that apply to an answer."""

    switches: Switches
    limits: SearchLimits
    domains: Domains


def _first(requested: int | None, policy_limit: int | UnsetType, default: int) -> int:
    """Returns the requested limit, or else the limit of the policy, or else the default."""
    return requested if requested is not None else default if policy_limit is UNSET else policy_limit


class _Response(Struct, frozen=True):
    """A response after it was parsed, which is done once for all later steps."""

    laid: ResponseLayout
    """The response in the common form, laid out as text with a section for each result."""
    view: ExtractedText | None
    """The text view; None: the response has no results and no answers, and is treated like any other payload."""
    prints: tuple[bytes, ...]
    """A fingerprint of each result, by which repeated results are recognised."""


def _read(payload: bytes) -> _Response:
    laid = lay_out(normalise(payload))
    if not (laid.response.results or laid.response.answers):
        return _Response(laid, None, ())
    view = ExtractedText(text=laid.text, sections=laid.sections, extractor=EXTRACTOR, partial=laid.partial)
    return _Response(laid, view, fingerprints(laid))


def turn_label(turn: str) -> str:
    """Returns the label that the artifacts of a turn's searches get."""
    return f"turn:{turn}"


def _make_refusal(
    why: Notice, limits: SearchLimits, tokenizer: Tokenizer, ask: SearchResultsRequest
) -> SearchResultsAnswer:
    text = f"{MARK} {why.message}"
    # The answer has the same members as an ordinary answer, only empty, so callers need not distinguish the two.
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


def _build_request(ask: SearchResultsRequest, parsed_response: _Response) -> IngestRequest:
    """Returns the request of the ingest that stores a response. It requests no card, because nobody would read one."""
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
    """Returns notices of problems: those of the search itself, and those that occurred when its response was parsed."""
    response = laid.response
    notices = [Notice("search_response", each) for each in response.warnings]
    if response.failures and not response.results:
        notices.append(
            Notice(
                "search_failed",
                f"{'The search failed' if response.failed else 'No results'}: {'; '.join(response.failures)}",
            )
        )
    if response.unread:
        notices.append(
            Notice("not_understood", "The response was not understood: the text has an excerpt of it, without results.")
        )
    if not response.results:
        notices.append(
            Notice("no_results", "No results were found in the response. It is stored unchanged; read it by lines.")
        )
    return notices


def _describe_results(answer: SearchResultsAnswer) -> list[dict[str, str]]:
    """Returns the citations and titles of the shown results, for the log of events."""
    return [{"citation": each.citation, "title": each.title[:TITLE_CHARS]} for each in answer.results]
