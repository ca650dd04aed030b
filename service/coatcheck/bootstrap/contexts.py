"""What serves contexts: compaction, measuring, and the sessions' accounts."""

import secrets
from dataclasses import dataclass

from coatcheck.core.context import Counts
from coatcheck.ports.session_accounts import SessionAccounts
from coatcheck.usecases.accounts import NoteAccounts, TellUsage
from coatcheck.usecases.card_text import CardText
from coatcheck.usecases.carded import CardedPlaces, StoreAndCard
from coatcheck.usecases.compact import Compact, CompactPlaces
from coatcheck.usecases.find import Find
from coatcheck.usecases.ingest import Ingest
from coatcheck.usecases.ingest_places import IngestPlaces
from coatcheck.usecases.measure import MeasureContext, MeasurePlaces


@dataclass(frozen=True)
class Contexts:
    """The verbs, and what writes the accounts down."""

    compact: Compact
    measure: MeasureContext
    tell_usage: TellUsage
    note: NoteAccounts


def contexts(
    accounts: SessionAccounts, ingest: Ingest, places: IngestPlaces, card_text: CardText | None, stored: Find
) -> Contexts:
    """The verbs; `stored` finds only what is stored, not what waits in memory."""
    counts, ledger, pool = Counts(), places.ledger, places.pool
    note = NoteAccounts(accounts, ledger, places.clock, _random_number)
    step = StoreAndCard(CardedPlaces(ingest=ingest, places=places, find=stored, card_text=card_text))
    return Contexts(
        compact=Compact(CompactPlaces(store=step, tokenizer=places.tokenizer, pool=pool, ledger=ledger, counts=counts)),
        measure=MeasureContext(MeasurePlaces(tokenizer=places.tokenizer, pool=pool, ledger=ledger, counts=counts)),
        tell_usage=TellUsage(accounts, note),
        note=note,
    )


def _random_number() -> int:
    return secrets.randbits(62)
