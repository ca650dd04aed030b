"""What an ingest knows of a payload before its commit: its identity, its sizes, what it is, and the card of that.

Everything here runs in worker threads. Handing over between threads costs a small payload more than the work itself
on some machines, so that all of it is one hand-over: the draft is announced on the way, and the card is cut while
the catalogue commits.
"""

from dataclasses import dataclass

from msgspec.structs import replace

from coatcheck.core import card, ids
from coatcheck.core.artifact import ENGINE, Artifact, Facts, Measure, Said, Sample
from coatcheck.core.card import Card, Text
from coatcheck.core.intake import Intake
from coatcheck.core.kinds import recognise
from coatcheck.core.kinds.cutter import Plan
from coatcheck.core.policy import NOTHING, Policy, Rules
from coatcheck.core.redact.mask import Mask
from coatcheck.core.redact.veil import noted, veiled
from coatcheck.core.tokens import Tokenizer

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
    namespace: str = ""
    veil: "Behind | None" = None
    """The same as a model may see it, where that is known."""


@dataclass(frozen=True)
class Cut:
    """A card, its text and that text's tokens."""

    card: Card
    text: str
    tokens: int
    inline: str | None = None
    """The payload itself with its secrets masked, where there are any and all of it is at hand."""
    inline_tokens: int = 0
    facts: Facts | None = None
    """What was recognised, as a model may see it; None: as it is."""


def look(intake: Intake, said: Said) -> Seen:
    """Everything a card needs; after the intake's `end`."""
    intake.count()
    sample = intake.sample()
    facts = recognise(sample, said)
    return facts, sample, card.plan(sample, facts)


def drafted(namespace: str, said: Said, measure: Measure, seen: Seen, text: Text | None = None) -> Draft:
    """The draft of a payload, with the ID that it will have unless another payload has it already."""
    identity = ids.identity(namespace, said.session, said.tool_call_id, measure.sha256)
    return Draft(ids.render(ids.number(identity)), identity, said, measure, *seen, text, namespace)


def redrafted(artifact: Artifact, sample: Sample, text: Text | None = None) -> Draft:
    """What is there already, as a draft: what was said of it first stays."""
    a = artifact
    identity = ids.identity(a.namespace, a.said.session, a.said.tool_call_id, a.measure.sha256)
    plan = card.plan(sample, a.facts)
    return Draft(a.id, identity, a.said, a.measure, a.facts, sample, plan, text, a.namespace)


def cut(
    draft: Draft,
    *,
    budget: int,
    query: str | None,
    tokenizer: Tokenizer,
    stored: bool = True,
    mask: Mask | None = None,
) -> Cut:
    """The card of a draft; not `stored`, it says that nothing more can be read."""
    d = draft
    veil = None if mask is None else d.veil or behind(mask, d.said, d.facts, d.sample, d.text)
    made = card.cut(
        d.id,
        d.said if veil is None else veil.said,
        d.measure,
        d.facts if veil is None else veil.facts,
        d.sample if veil is None else veil.sample,
        budget=budget,
        query=query,
        tokenizer=tokenizer,
        planned=d.plan if veil is None else None,
        text=d.text if veil is None else veil.text,
        stored=stored,
    )
    inline = None if veil is None or mask is None else _inline(mask, veil)
    count = 0 if inline is None else tokenizer.count(inline)
    return Cut(*made, inline, count, None if veil is None else veil.plain)


@dataclass(frozen=True)
class Behind:
    """What a card is cut from where secrets are masked."""

    said: Said
    facts: Facts
    """With a line for the card that says what is masked."""
    plain: Facts
    """Without it."""
    sample: Sample
    text: Text | None
    secrets: bool
    """Whether there are any in the sample."""


def behind(mask: Mask, said: Said, facts: Facts, sample: Sample, text: Text | None) -> Behind:
    """The same of a payload as a model may see it; a line of the card says what is masked."""
    v = veiled(mask, said, facts, sample)
    masked = v.masked
    if text is not None:
        shown, masked = mask.sample(text.sample)
        text = replace(text, sample=shown)
    return Behind(v.said, noted(v.facts, masked), v.facts, v.sample, text, bool(v.masked.count))


def _inline(mask: Mask, veil: Behind) -> str | None:
    if not veil.secrets or not veil.sample.whole:
        return None
    return mask.reveal(veil.sample.head.decode("utf-8", "replace"))


def uncut(draft: Draft) -> Cut:
    """In the place of a card that nobody reads: the numbers alone, without a text."""
    m = draft.measure
    made = Card(
        id=draft.id, kind=draft.facts.kind, size=m.size, chars=m.chars, lines=m.lines, tokens=m.tokens, engine=ENGINE
    )
    return Cut(made, "", 0)


def policy_of(rules: Rules, draft: Draft) -> Policy:
    """What administrators have decided for a payload."""
    said = draft.said
    if not rules:
        return NOTHING
    return rules.effective(
        draft.namespace,
        session=said.session,
        kind=draft.facts.kind,
        tool_name=said.tool_name,
        labels=said.labels,
    )
