"""Builds the use cases of contexts: compaction, measuring, and the sessions' accounts."""

import secrets
from dataclasses import dataclass

from coatcheck.core.context import CountCache
from coatcheck.core.search import Limits
from coatcheck.core.search.limits import Switches
from coatcheck.ports.session_accounts import SessionAccounts
from coatcheck.storing.card_text import CardText
from coatcheck.storing.content import OpenContent
from coatcheck.storing.find import Find
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.storing.session_names import SessionNames
from coatcheck.upkeep.note_accounts import NoteAccounts
from coatcheck.usecases.context.compact_context import Compact, CompactDeps
from coatcheck.usecases.context.look_up_references import LookUpDeps, LookUpReferences
from coatcheck.usecases.context.measure_context import MeasureContext, MeasureDeps
from coatcheck.usecases.context.show_session_usage import ShowSessionUsage
from coatcheck.usecases.operations.list_events import ListEvents
from coatcheck.usecases.payloads.find_or_ingest import FindOrIngest, FindOrIngestDeps
from coatcheck.usecases.payloads.ingest import Ingest


@dataclass(frozen=True)
class Contexts:
    """The use cases for model requests, and what writes the sessions' accounts."""

    compact: Compact
    measure: MeasureContext
    tell_usage: ShowSessionUsage
    events: ListEvents
    note: NoteAccounts


def contexts(
    accounts: SessionAccounts,
    ingest: Ingest,
    deps: IngestDeps,
    card_text: CardText | None,
    find: Find,
    open_content: OpenContent,
    session_names: SessionNames | None = None,
    switches: Switches = Switches(),  # noqa: B008 - frozen
    search_limits: Limits = Limits(),  # noqa: B008 - frozen
) -> Contexts:
    """Returns the use cases; `find` finds only what is stored, not what waits in memory.

    `switches` and `search_limits` are those of web searches where no policy decides.
    """
    counts, ledger, pool = CountCache(), deps.ledger, deps.pool
    note = NoteAccounts(accounts, ledger, deps.clock, _random_number)
    step = FindOrIngest(FindOrIngestDeps(ingest=ingest, deps=deps, find=find, card_text=card_text))
    events = ListEvents(accounts, note, deps.redacting, session_names)
    look_up = LookUpReferences(
        LookUpDeps(
            find=find,
            open_content=open_content,
            tokenizer=deps.tokenizer,
            pool=pool,
            events=events,
            redacting=deps.redacting,
            rules=deps.rules,
            switches=switches,
            max_total_tokens=search_limits.max_total_tokens,
        )
    )
    return Contexts(
        compact=Compact(
            CompactDeps(store=step, look_up=look_up, tokenizer=deps.tokenizer, pool=pool, ledger=ledger, counts=counts)
        ),
        measure=MeasureContext(
            MeasureDeps(tokenizer=deps.tokenizer, pool=pool, look_up=look_up, ledger=ledger, counts=counts)
        ),
        tell_usage=ShowSessionUsage(accounts, note, session_names),
        events=events,
        note=note,
    )


def _random_number() -> int:
    return secrets.randbits(62)
