"""Look up what a history refers to in the store: which artifacts can be read again, what to keep of its searches.

And how long the answers of searches may be, for meters: what each search's request said is in the log of events.

A search's summary is made from the stored response and the part of it that the history shows, so that a history always
has the same summary, however long ago the search was made. Nothing is stored and nothing is raised: what cannot be
looked up at the moment counts as absent, and stays in the history as it is.
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
"""References of one history that are looked up at the same time: chosen, not measured."""
_RESPONSE_BYTES: Final = 4 * 1024 * 1024
"""Maximum bytes of a search's response that are read again; the text of a larger one becomes a card like any output."""
_SUMMARY_CACHE_BYTES: Final = 4 * 1024 * 1024
"""Bytes of remembered summaries: about two thousand of them."""
_CAPPED_SEARCHES: Final = 32
"""Latest searches of a turn whose own limits are looked up: each takes a query."""
_EXAMINED_EVENTS: Final = 100
"""Latest events of a response that are examined for its search; all others are reads of it."""
_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")
_Key = tuple[str, SearchText, bool, bool]
"""Namespace, search, whether secrets are masked, whether little of it is kept."""


@dataclass(frozen=True, kw_only=True)
class LookUpReferences:
    """Looks up in the store what a history refers to."""

    find: Find
    """Has no fallback buffer: what waits in memory is not stored."""
    open_content: OpenContent
    tokenizer: Tokenizer
    pool: Executor
    events: ListEvents
    """The log of events, where a search's own limit is recorded."""
    redacting: RedactionPolicy
    rules: Callable[[], Rules] = lambda: NO_RULES
    max_total_tokens: int = SearchLimits().max_total_tokens
    """The limit of a search if neither its request nor a policy sets one."""
    switches: Switches = field(default_factory=Switches)
    """Those of searches where no policy decides."""
    _summaries: BoundedCache[_Key, str] = field(
        default_factory=lambda: BoundedCache("search_summaries", _SUMMARY_CACHE_BYTES), init=False
    )

    async def __call__(self, caller: Caller, references: HistoryReferences) -> KnownArtifacts:
        """Returns those references that exist for this caller."""

        async def summary(search: SearchText) -> str | None:
            return await self._summary(caller, search)

        # A fixed order, so that the same history makes the same look-ups whatever the order of a set.
        searches = sorted(references.searches, key=lambda one: (one.artifact_id, one.query, one.sections))
        readable = await self._readable(caller, references.reads)
        return KnownArtifacts(readable=readable, summaries=await _each(searches, summary))

    async def search_caps(self, caller: Caller, session: str | None, artifact_ids: list[str]) -> SearchCaps:
        """Returns the usual limit of searches in a session, and that of those whose responses these artifacts are."""
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
        # Where summaries are not kept, a history shows a shorter one.
        brief = not policy.switches(self.switches).keep_summary
        # Everything that changes the text is in the key; the payload behind an ID never changes.
        key = (caller.namespace, search, mask is not None, brief)
        summary = self._summaries.get(key)
        if summary is None:
            payload = await self.open_content(entry).read(0, _RESPONSE_BYTES)
            summary = await in_pool(self.pool, summarise_search, payload, search, self.tokenizer, mask, brief)
            self._summaries.put(key, summary)
        return summary


def _number(artifact_id: str) -> int | None:
    """Returns the number of an ID as a history quotes it; None if it is none."""
    try:
        return ids.parse(artifact_id)
    except CoatcheckError:
        return None


async def _each(
    items: Iterable[_Asked], answer: Callable[[_Asked], Awaitable[_Answer | None]]
) -> dict[_Asked, _Answer]:
    """Looks several up at a time; returns the answers that exist."""
    # One iterator for all workers: each takes the next item when it is free, so a slow look-up holds up nobody else.
    waiting = iter(items)
    answers: dict[_Asked, _Answer] = {}

    async def work() -> None:
        for one in waiting:
            try:
                got = await answer(one)
            except CoatcheckError as error:
                log.debug("a reference of a history is not known: %s", error.detail)
                continue
            if got is not None:
                answers[one] = got

    async with asyncio.TaskGroup() as group:
        for _ in range(_CONCURRENT_LOOKUPS):
            group.create_task(work())
    return answers


def summarise_search(
    payload: bytes, search: SearchText, tokenizer: Tokenizer, mask: Mask | None, brief: bool = False
) -> str:
    """Returns the text to keep for a search whose answer stands in a history."""
    laid = lay_out(normalise(payload))
    if mask is not None:
        laid = laid_of(mask, laid)
    # A history may show the query shortened. The stored response has all of it, if it is the same query.
    whole = laid.response.query or ""
    query = whole if short(whole, QUERY_CHARS) == search.query else search.query
    budgeted = _rebuild_shown(laid, search, query, tokenizer)
    summary = summarise(budgeted, laid, tokenizer, brief=brief)
    return (summary if mask is None else reveal_strings(summary, mask)).text


def _rebuild_shown(laid: ResponseLayout, search: SearchText, query: str, tokenizer: Tokenizer) -> Budgeted:
    """Returns the response as shown: the same results, with the passages that the default limits give each."""

    def cut(limits: SearchLimits) -> Budgeted:
        return budget_search(laid, tokenizer, query=query, artifact_id=search.artifact_id, limits=limits)

    # First as the default limits would have shown it: that is right unless the search had limits of its own.
    budgeted = cut(SearchLimits(max_results=min(max(search.result_count, 1), MAX_SHOWN_RESULTS)))
    if not search.sections or {one.section for one in budgeted.shown_results} == set(search.sections):
        return budgeted
    # The search had other limits: with the widest ones every result that it can have shown is there to choose from.
    everything = cut(SearchLimits(max_results=MAX_SHOWN_RESULTS, max_total_tokens=MAX_TOTAL_TOKENS))
    results = tuple(one for one in everything.shown_results if one.section in search.sections)
    if not results:
        return budgeted
    return replace(everything, shown_results=results, counts=replace(everything.counts, shown=len(results)))
