"""What an ingest knows about a payload before its commit: identity, sizes, detected metadata and card.

Pure: `work_placement.py` decides where it runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace as dataclass_replace
from functools import cache

from msgspec import structs
from msgspec.structs import replace

from coatcheck.core import card, ids
from coatcheck.core.artifact import (
    ENGINE,
    SAMPLE_BYTES,
    UNDESCRIBED,
    Artifact,
    DeclaredMetadata,
    DetectedMetadata,
    EarlierRun,
    GivenCard,
    Kind,
    Measure,
    PayloadSample,
)
from coatcheck.core.card import Card, CardSource
from coatcheck.core.card.compose import SMALLEST, choose_budget, repeat
from coatcheck.core.card.model import CardInput
from coatcheck.core.choose.novelty import compare_runs
from coatcheck.core.encoding.payload_encoder import PayloadEncoder
from coatcheck.core.kinds import recognise
from coatcheck.core.kinds.description import PayloadProbe
from coatcheck.core.kinds.page import find_fetch
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.parts.fields import find_fields
from coatcheck.core.parts.form import find_form, open_payload
from coatcheck.core.policies.policy import Policy, Rules, value_or
from coatcheck.core.redact.filler import reveal
from coatcheck.core.redact.mask import Mask
from coatcheck.core.redact.masked_artifact import mask_artifact, note_masked
from coatcheck.core.survey import Survey
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.view import OPENED, ViewMeasure

Seen = tuple[DetectedMetadata, PayloadSample, Survey | None, int, CardSource | None]
"""The result of `look`: facts, sample and survey of the text, the engine that produced them (UNDESCRIBED: they are only
what lists show), and the text itself if it is not the payload's bytes."""


@dataclass(frozen=True)
class Draft:
    """An artifact before its commit."""

    # The ID and the identity depend only on namespace, session, tool call ID and digest: they are right before anything
    # is stored.
    id: str
    identity: bytes
    """What `id` is derived from; tells apart two artifacts whose derived numbers are equal."""
    declared: DeclaredMetadata
    measure: Measure
    facts: DetectedMetadata
    """What was detected; with secrets masked once a policy wants it."""
    sample: PayloadSample
    """The two ends of the payload, or all of it; of its text, if the payload is encoded."""
    survey: Survey | None = None
    """Survey of what lies between the ends of a payload that is too large for the sample."""
    engine: int = ENGINE
    """The engine that recognised the facts; UNDESCRIBED: a card would show more."""
    text: CardSource | None = None
    """The text view that the card is cut from."""
    namespace: str = ""
    """Whose policies decide."""
    masked_draft: "MaskedDraft | None" = None
    """What a model may see, with secrets masked; None: not determined yet, or nothing is masked."""
    terms: GivenCard | None = None
    """What its card is cut for; None: not determined yet."""


@dataclass(frozen=True)
class RenderedCard:
    """A card, and what the model reads: the card's text, or the whole payload."""

    card: Card
    text: str
    tokens: int
    """Of `text`."""
    facts: DetectedMetadata | None = None
    """Detected metadata as a model may see it; None: unmasked."""
    inline: bool = False
    """Whether `text` is the payload."""
    same_as: str | None = None
    """The artifact whose card `text` refers to, instead of being one."""
    budget: int | None = None
    """The maximum of `tokens`; None: no card was cut."""


def look(
    encoder: PayloadEncoder,
    declared: DeclaredMetadata,
    earlier: EarlierRun | None = None,
    gets_card: Callable[[Measure, Kind], bool] | None = None,
) -> Seen:
    """Returns everything that a card needs, or less if none will be cut. Call it after `encoder.end`.

    Args:
        encoder: the payload.
        declared: what its caller declared.
        earlier: the run that it is compared with, if there is one.
        gets_card: returns whether a card is cut of a payload of this size and kind; None: it is.
    """
    # Tokens first: whether a card is cut depends on them, and on that what is worth recognising.
    encoder.count()
    opened_payload = encoder.open(declared.media_type)
    text_source = encoder if opened_payload is None else opened_payload[1]
    # An opened payload is described by its text; the sizes below stay those of the bytes that were sent.
    sample = text_source.sample()
    survey = text_source.survey()
    measure = encoder.measure()

    # Recognition and the last line both want the answer for the same kind, and each one resolves a policy.
    @cache
    def is_described(kind: Kind) -> bool:
        return earlier is not None or spec_of(kind).names or gets_card is None or gets_card(measure, kind)

    if (
        opened_payload is not None and opened_payload[0].is_envelope
    ):  # the declared type is that of what is around the text
        declared = structs.replace(declared, media_type=None)
    facts = recognise(sample, declared, survey, fields=text_source.fields(), gets_card=is_described)
    text = None
    if opened_payload is not None:
        # Fetch details stand in the envelope around the text, which the sample no longer shows.
        if opened_payload[0].is_envelope and (payload := encoder.payload) is not None:
            around = PayloadProbe(PayloadSample(payload, b"", len(payload)), declared)
            facts = structs.replace(facts, fetch=find_fetch(around))
        facts = facts.of_form(opened_payload[0], declared)
        m = text_source.measure()
        sizes = ViewMeasure(size=m.size, lines=m.lines, chars=m.chars, tokens=m.tokens)
        text = card.text_of(sample, sizes, (), OPENED)
    # Kinds that are not text have nothing to survey; the comparison below must not see a meaningless one.
    if not spec_of(facts.kind).readable:
        survey = None
    if earlier is not None:
        facts = compare_runs(facts, earlier, sample, survey, measure, reveal=reveal)
    return facts, sample, survey, ENGINE if is_described(facts.kind) else UNDESCRIBED, text


def make_draft(
    namespace: str, declared: DeclaredMetadata, measure: Measure, findings: Seen, view: CardSource | None = None
) -> Draft:
    """Returns the draft of a payload, with the ID that it will get unless another payload has it already."""
    identity = ids.identity(namespace, declared.session, declared.tool_call_id, measure.sha256)
    facts, sample, survey, engine, text = findings
    number = ids.number(identity)
    return Draft(
        ids.render(number), identity, declared, measure, facts, sample, survey, engine, view or text, namespace
    )


def remake_draft(
    artifact: Artifact, sample: PayloadSample, text: CardSource | None = None, survey: Survey | None = None
) -> Draft:
    """Returns a stored artifact as a draft, as it is declared now, for this engine to cut a card from.

    Facts that another engine recognised are recognised again, except the kind and what was determined only when the
    artifact was created: its comparison with an earlier one, and what was redacted.
    """
    a = artifact
    identity = ids.identity(a.namespace, a.declared.session, a.declared.tool_call_id, a.measure.sha256)
    # The stored bytes are encoded: facts were recognised in the text, and so must be again.
    if a.facts.form is not None and text is not None:
        sample = text.sample
    draft = Draft(a.id, identity, a.declared, a.measure, a.facts, sample, survey, a.engine, text, a.namespace)
    return draft if a.engine in {ENGINE, UNDESCRIBED} else _recognise_facts(draft)


def _recognise_facts(draft: Draft) -> Draft:
    """Returns a draft with the facts that this engine recognises."""
    d = draft
    # The stored kind is declared here, so a newer engine refines the facts but never changes the kind: views and
    # citations depend on it.
    declared = structs.replace(d.declared, kind=d.facts.kind)
    facts = recognise(d.sample, declared, d.survey, fields=find_fields(d.sample.head)).keeping_first_time_fields(
        d.facts
    )
    return dataclass_replace(d, facts=facts.of_form(d.facts.form, declared), engine=ENGINE)


def describe_form(artifact: Artifact, head: bytes) -> DetectedMetadata | None:
    """Returns the detected metadata of the text in an artifact's payload, given its beginning or all of it.

    None if the payload's bytes are its text.
    """
    a = artifact
    form = find_form(PayloadSample(head, b"", a.measure.size), a.declared.media_type)
    if form is None:
        return None
    text = open_payload(form, head)[:SAMPLE_BYTES]
    declared = structs.replace(a.declared, media_type=None) if form.is_envelope else a.declared
    # The text's size is unknown when only the head was opened. One more byte than the sample keeps it from passing for
    # whole.
    is_whole = len(head) == a.measure.size
    sample = PayloadSample(text, b"", len(text) if is_whole else max(a.measure.size, len(text) + 1))
    return (
        recognise(sample, declared, None, fields=find_fields(text))
        .keeping_first_time_fields(a.facts)
        .of_form(form, declared)
    )


def cut(
    draft: Draft,
    *,
    budget: int,
    query: str | None,
    tokenizer: Tokenizer,
    is_stored: bool = True,
    tools: bool = True,
    mask: Mask | None = None,
    earlier: str | None = None,
) -> RenderedCard:
    """Returns a draft's card; unless `is_stored` it says that nothing can be read back; without `tools` it names none.

    Given `earlier`, the ID of an artifact of the same bytes, it returns the two lines that stand for its card, if
    they fit.
    """
    d = prepare(draft, mask)
    inputs = replace(_inputs(d, budget, tokenizer), query=query, is_stored=is_stored, tools=tools)
    # The two lines need room, too: where the budget is too small for them, `repeat` returns None and a card is cut.
    lines = None if earlier is None else repeat(inputs, earlier)
    plain_facts = None if d.masked_draft is None else d.masked_draft.plain
    same_as = None if lines is None else earlier
    return RenderedCard(*(lines or card.cut(inputs)), plain_facts, same_as=same_as, budget=budget)


def budget_of(draft: Draft, policy: Policy, usual: int, *, tokenizer: Tokenizer, mask: Mask | None) -> int:
    """Returns the token budget of a draft's card if the caller specifies none.

    That is what the policy says, or what the payload itself asks for if the policy says so, or else the `usual` one.
    """
    budget = value_or(policy.card_tokens, usual)
    return budget if isinstance(budget, int) else choose_budget(_inputs(prepare(draft, mask), usual, tokenizer))


def prepare(draft: Draft, mask: Mask | None) -> Draft:
    """Returns a draft with what this engine recognises and what a model may see of it, both determined only once."""
    d = draft if draft.engine == ENGINE else _recognise_facts(draft)
    masked_copy = (
        None
        if mask is None
        else d.masked_draft or make_masked_draft(mask, d.declared, d.facts, d.sample, d.survey, d.text)
    )
    return d if masked_copy is d.masked_draft else dataclass_replace(d, masked_draft=masked_copy)


def _inputs(draft: Draft, budget: int, tokenizer: Tokenizer) -> CardInput:
    """Returns what a card of a prepared draft is made of, without a query."""
    d = draft.masked_draft or draft
    return CardInput(
        draft.id,
        d.declared,
        draft.measure,
        d.facts,
        d.sample,
        budget=budget,
        tokenizer=tokenizer,
        survey=d.survey,
        text=d.text,
    )


@dataclass(frozen=True)
class MaskedDraft:
    """What a card is cut from when secrets are masked."""

    declared: DeclaredMetadata
    facts: DetectedMetadata
    """The facts, with a line that tells what is masked."""
    plain: DetectedMetadata
    """The facts without that line."""
    sample: PayloadSample
    survey: Survey | None
    text: CardSource | None
    secrets: bool
    """Whether the sample contains any."""


def make_masked_draft(
    mask: Mask,
    declared: DeclaredMetadata,
    facts: DetectedMetadata,
    sample: PayloadSample,
    survey: Survey | None,
    text: CardSource | None,
) -> MaskedDraft:
    """Returns the draft of a payload as a model may see it; a line of the card tells what is masked."""
    v = mask_artifact(mask, declared, facts, sample, survey)
    masked = v.masked
    # The card shows the text view, so the line about secrets must count those of the view and not of the payload.
    if text is not None:
        masked_sample, masked, _ = mask.sample(text.sample)
        text = replace(text, sample=masked_sample)
    return MaskedDraft(
        v.declared, note_masked(v.facts, masked), v.facts, v.sample, v.survey, text, bool(v.masked.count)
    )


def uncut(draft: Draft) -> Card:
    """Returns a card without text, only names and sizes, for callers that read none."""
    d = draft
    visible_draft = d.masked_draft or d
    return card.make_bare_card(d.id, visible_draft.declared, d.measure, visible_draft.facts)


def is_whole(measure: Measure, kind: Kind) -> bool:
    """Returns whether a payload can be read as it is, with nothing dropped and all tokens counted."""
    spec = spec_of(kind)
    return (
        measure.tokens.exact and not measure.dropped and measure.utf8 and spec.readable and spec.text_view != "document"
    )


def may_repeat(draft: Draft) -> bool:
    """Returns whether two lines may stand for the draft's card: it is text, complete, and longer than they are."""
    d = draft
    sizes = d.measure if d.text is None else d.text.measure
    readable = d.text is not None or spec_of(d.facts.kind).readable
    return readable and not d.measure.dropped and d.facts.novelty is None and sizes.tokens.count > SMALLEST


def whole_text(draft: Draft, mask: Mask | None, tokenizer: Tokenizer) -> tuple[str, int] | None:
    """Returns a whole payload as a model may read it, and its tokens; None if it is not text or not all in memory."""
    d = draft
    form, text = d.facts.form, d.text
    # The text of an encoded payload must have been decoded completely: part of it would pass for all.
    if form is not None and (text is None or not text.is_surveyed or d.measure.dropped):
        return None
    tokens = d.measure.tokens if form is None or text is None else text.measure.tokens
    if not (d.sample.whole and tokens.exact and (form is not None or is_whole(d.measure, d.facts.kind))):
        return None
    if mask is None or d.masked_draft is None or not d.masked_draft.secrets:
        return d.sample.head.decode(), tokens.count
    # Fillers become readable markers of another length, so tokens are counted again.
    text = mask.reveal(d.masked_draft.sample.head.decode("utf-8", "replace"))
    return text, tokenizer.count(text)


def policy_of(rules: Rules, draft: Draft) -> Policy:
    """Returns what administrators decided for a payload."""
    return rules.of_payload(draft.namespace, draft.declared, draft.facts.kind)
