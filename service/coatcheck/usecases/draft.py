"""What an ingest knows of a payload before its commit: its identity, its sizes, what it is, and the card of that.

Everything here runs in worker threads. Handing over between threads costs a small payload more than the work itself
on some machines, so that all of it is one hand-over: the draft is announced on the way, and the card is cut while
the catalogue commits.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeVar

from coatcheck.core import card, ids
from coatcheck.core.artifact import Artifact, Facts, Measure, Said, Sample
from coatcheck.core.card import Card, Text
from coatcheck.core.intake import Intake
from coatcheck.core.kinds import recognise
from coatcheck.core.kinds.cutter import Plan
from coatcheck.core.tokens import Tokenizer

T = TypeVar("T")
Seen = tuple[Facts, Sample, Plan]
"""What `look` sees."""


@dataclass(frozen=True)
class Draft:
    """An artifact before its commit."""

    id: str
    identity: bytes
    said: Said
    measure: Measure
    facts: Facts
    sample: Sample
    plan: Plan
    text: Text | None = None
    """The text view that the card is cut from."""


@dataclass(frozen=True)
class Cut:
    """A card, its text and that text's tokens."""

    card: Card
    text: str
    tokens: int


def counted_beside(pool: Executor, intake: Intake, last: bytes, work: Callable[[], T]) -> T:
    """Answer `work()`; the intake's tokens are counted meanwhile by another thread, or after it when none is free.

    Counting leaves the interpreter to others. It never waits for a thread that waits for it.
    """
    counting = pool.submit(intake.count, last)
    try:
        return work()
    finally:
        if counting.cancel():
            intake.count(last)
        else:
            counting.result()


def look(intake: Intake, said: Said) -> Seen:
    """Everything a card needs but the sizes; after the intake's `end`."""
    sample = intake.sample()
    facts = recognise(sample, said)
    return facts, sample, card.plan(sample, facts)


def drafted(namespace: str, said: Said, measure: Measure, seen: Seen, text: Text | None = None) -> Draft:
    """The draft of a payload, with the ID that it will have unless another payload has it already."""
    identity = ids.identity(namespace, said.session, said.tool_call_id, measure.sha256)
    return Draft(ids.render(ids.number(identity)), identity, said, measure, *seen, text)


def redrafted(artifact: Artifact, sample: Sample, text: Text | None = None) -> Draft:
    """What is there already, as a draft: what was said of it first stays."""
    a = artifact
    identity = ids.identity(a.namespace, a.said.session, a.said.tool_call_id, a.measure.sha256)
    return Draft(a.id, identity, a.said, a.measure, a.facts, sample, card.plan(sample, a.facts), text)


def cut(draft: Draft, *, budget: int, query: str | None, tokenizer: Tokenizer, stored: bool = True) -> Cut:
    """The card of a draft; not `stored`, it says that nothing more can be read."""
    d = draft
    made = card.cut(
        d.id,
        d.said,
        d.measure,
        d.facts,
        d.sample,
        budget=budget,
        query=query,
        tokenizer=tokenizer,
        planned=d.plan,
        text=d.text,
        stored=stored,
    )
    return Cut(*made)
