"""Look up the stored artifacts that a history refers to, and make the summaries of the history's web searches.

Also looks up how long the answers of web searches were allowed to be, which the meters of the context need. The log of
events records the limit that applied to each search.

The summary of a search is made from the stored response and from the part of the response that the history shows. So
the same history always gets the same summary, however long ago the search was made. Nothing is stored, and no error of
the store is raised: a reference that cannot be looked up at the moment counts as absent and stays in the history
unchanged.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Final, TypeVar

from msgspec.structs import replace

from coatcheck.core import ids
from coatcheck.core.artifact import Caller
from coatcheck.core.caches import BoundedCache
from coatcheck.core.context.measure import SearchCaps
from coatcheck.core.context.references import HistoryReferences, KnownArtifacts
from coatcheck.core.context.signs import SearchText
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.kinds.spec import SEARCH_RESPONSE, spec_of
from coatcheck.core.policies.policy import NO_RULES, Rules, value_or
from coatcheck.core.redact.mask import Mask
from coatcheck.core.redact.masked_artifact import laid_of, reveal_strings
from coatcheck.core.search.budget import budget_search
from coatcheck.core.search.budget_model import Budgeted
from coatcheck.core.search.model import MAX_SHOWN_RESULTS, MAX_TOTAL_TOKENS, QUERY_CHARS, SearchLimits, Switches, short
from coatcheck.core.search.responses.normalise import normalise
from coatcheck.core.search.summary import summarise
from coatcheck.core.search.view import ResponseLayout, lay_out
from coatcheck.core.tokens import Tokenizer
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.content import OpenContent
from coatcheck.storing.find import Find
from coatcheck.storing.redaction import RedactionPolicy
from coatcheck.usecases.operations.show_overview import ListEvents

log = logging.getLogger(__name__)

_CONCURRENT_LOOKUPS: Final = 8
"""Maximum references of one history that are looked up at the same time: chosen, not measured."""
_RESPONSE_BYTES: Final = 4 * 1024 * 1024
"""Maximum bytes of a search's response from which a summary is made. The text of a larger response is replaced by a
card, like any output."""
_SUMMARY_CACHE_BYTES: Final = 4 * 1024 * 1024
"""Maximum bytes of cached summaries, which is about two thousand summaries."""
_CAPPED_SEARCHES: Final = 32
"""How many of a turn's latest searches have their own limits looked up; each look-up takes one query."""
_EXAMINED_EVENTS: Final = 100
"""How many of the latest events of a stored response are read to find the event of its search. The other events of a
response are reads."""
_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")
_Key = tuple[str, SearchText, bool, bool]
"""Key of a cached summary: namespace, search, whether secrets are masked, and whether the summary is a brief one."""


@dataclass(frozen=True, kw_only=True)
class LookUpReferences:
    """Looks up the artifacts and web searches that a history refers to."""

    find: Find
    """Finds artifacts, without the fallback buffer: a payload that waits in memory does not count as stored."""
    open_content: OpenContent
    tokenizer: Tokenizer
    pool: Executor
    events: ListEvents
    """Lists the log of events, which records the limit that applied to each search."""
    redacting: RedactionPolicy
    rules: Callable[[], Rules] = lambda: NO_RULES
    max_total_tokens: int = SearchLimits().max_total_tokens
    """Maximum tokens of a search's answer if neither the request nor a policy sets a limit."""
    switches: Switches = field(default_factory=Switches)
    """The switches of searches, each of which a policy may set otherwise."""
    _summaries: BoundedCache[_Key, str] = field(
        default_factory=lambda: BoundedCache("search_summaries", _SUMMARY_CACHE_BYTES), init=False
    )

    async def __call__(self, caller: Caller, references: HistoryReferences) -> KnownArtifacts:
        """Returns the references that exist for this caller: readable artifacts, and summaries of searches."""

        async def summary(search: SearchText) -> str | None:
            return await self._summary(caller, search)

        # The searches are sorted, because the order of a set varies: the same history must make the same look-ups.
        searches = sorted(references.searches, key=lambda search: (search.artifact_id, search.query, search.sections))
        readable = await self._readable(caller, references.reads)
        return KnownArtifacts(readable=readable, summaries=await _each(searches, summary))

    async def search_caps(self, caller: Caller, session: str | None, artifact_ids: list[str]) -> SearchCaps:
        """Returns the usual limit of a search's answer in a session, and the limits that given searches really had.

        Args:
            caller: the caller.
            session: the session; None: no session.
            artifact_ids: IDs of the stored responses of the given searches, latest last.
        """
        policy = self.rules().effective(caller.namespace, session=session, kind=SEARCH_RESPONSE)

        async def cap(artifact_id: str) -> int | None:
            page = await self.events(caller, artifact=ids.parse(artifact_id), limit=_EXAMINED_EVENTS)
            return next((each.details.get("cap") for each in page.events if each.action == "web_search"), None)

        usual = value_or(policy.search_max_total_tokens, self.max_total_tokens)
        return SearchCaps(usual, await _each(dict.fromkeys(artifact_ids[-_CAPPED_SEARCHES:]), cap))

    async def _readable(self, caller: Caller, artifact_ids: Collection[str]) -> frozenset[str]:
        numbers = [number for each in artifact_ids if (number := _number(each)) is not None]
        try:
            live = await self.find.live(caller, numbers)
        except CoatcheckError as error:
            log.debug("what a history has read is not known: %s", error.detail)
            return frozenset()
        return frozenset(artifact.id for artifact in live.values())

    async def _summary(self, caller: Caller, search: SearchText) -> str | None:
        entry = await self.find(caller, ids.parse(search.artifact_id), with_bytes=True)
        artifact = entry.artifact
        if spec_of(artifact.facts.kind).source != "response" or artifact.measure.size > _RESPONSE_BYTES:
            return None
        mask = self.redacting.mask_of(artifact)
        policy = self.rules().of_payload(artifact.namespace, artifact.declared, artifact.facts.kind)
        # If the policy does not keep summaries in histories, the history shows a shorter summary.
        brief = not policy.switches(self.switches).keep_summary
        # The key contains everything that affects the text of a summary; the payload of an artifact never changes.
        key = (caller.namespace, search, mask is not None, brief)
        summary = self._summaries.get(key)
        if summary is None:
            payload = await self.open_content(entry).read(0, _RESPONSE_BYTES)
            summary = await in_pool(self.pool, summarise_search, payload, search, self.tokenizer, mask, brief)
            self._summaries.put(key, summary)
        return summary


def _number(artifact_id: str) -> int | None:
    """Returns the number of an artifact ID that a history quotes; None if the text is not an artifact ID."""
    try:
        return ids.parse(artifact_id)
    except CoatcheckError:
        return None


async def _each(items: Iterable[_Item], answer: Callable[[_Item], Awaitable[_Answer | None]]) -> dict[_Item, _Answer]:
    """Looks up all items, several at a time; returns the answers that are not None, by item.

    An item whose look-up raises an error is left out.
    """
    # All workers share one iterator. A worker takes the next item when it is free, so a slow look-up delays no other.
    waiting = iter(items)
    answers: dict[_Item, _Answer] = {}

    async def work() -> None:
        for item in waiting:
            try:
                result = await answer(item)
            except CoatcheckError as error:
                log.debug("a reference of a history is not known: %s", error.detail)
                continue
            if result is not None:
                answers[item] = result

    async with asyncio.TaskGroup() as group:
        for _ in range(_CONCURRENT_LOOKUPS):
            group.create_task(work())
    return answers


def summarise_search(
    payload: bytes, search: SearchText, tokenizer: Tokenizer, mask: Mask | None, brief: bool = False
) -> str:
    """Returns the summary that replaces the answer of a search in a history.

    Args:
        payload: the stored response of the search.
        search: the search as the history shows it.
        tokenizer: counts tokens.
        mask: masks the secrets of the response; None: nothing is masked.
        brief: whether the summary is a single line.
    """
    laid = lay_out(normalise(payload))
    if mask is not None:
        laid = laid_of(mask, laid)
    # A history may show a shortened query. If the query in the stored response has this short form, it is used whole.
    stored_query = laid.response.query or ""
    query = stored_query if short(stored_query, QUERY_CHARS) == search.query else search.query
    budgeted = _rebuild_shown(laid, search, query, tokenizer)
    summary = summarise(budgeted, laid, tokenizer, brief=brief)
    return (summary if mask is None else reveal_strings(summary, mask)).text


def _rebuild_shown(laid: ResponseLayout, search: SearchText, query: str, tokenizer: Tokenizer) -> Budgeted:
    """Returns the response as the history shows it: the same results, each with passages by the default limits."""

    def cut(limits: SearchLimits) -> Budgeted:
        return budget_search(laid, tokenizer, query=query, artifact_id=search.artifact_id, limits=limits)

    # The default limits are tried first: they give the shown results unless the search had limits of its own.
    budgeted = cut(SearchLimits(max_results=min(max(search.result_count, 1), MAX_SHOWN_RESULTS)))
    if not search.sections or {result.section for result in budgeted.shown_results} == set(search.sections):
        return budgeted
    # The search had other limits. The widest limits give every result that it can have shown; the shown ones are kept.
    everything = cut(SearchLimits(max_results=MAX_SHOWN_RESULTS, max_total_tokens=MAX_TOTAL_TOKENS))
    results = tuple(result for result in everything.shown_results if result.section in search.sections)
    if not results:
        return budgeted
    return replace(everything, shown_results=results, counts=replace(everything.counts, shown=len(results)))
