"""Builds the draft of an artifact, which is all that an ingest knows before its commit, and renders its card.

A draft contains identity, sizes and detected metadata. The functions here are pure and may run in any thread:
`work_placement.py` decides where they run.
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
"""The result of `look`: detected metadata, sample and survey of the text; the number of the engine that detected them;
and the decoded text, or None if the payload's bytes are the text. The engine UNDESCRIBED means that the metadata has
only what lists show."""


@dataclass(frozen=True)
class Draft:
    """An artifact before its commit."""

    # The ID and the identity depend only on namespace, session, tool call ID and digest, so they are known before
    # anything is stored.
    id: str
    identity: bytes
    """The digest from which `id` is derived. It tells apart two artifacts whose derived numbers are equal."""
    declared: DeclaredMetadata
    measure: Measure
    facts: DetectedMetadata
    """The detected metadata. If the policy masks secrets, they are masked in it once the policy is known."""
    sample: PayloadSample
    """The two ends of the payload, or all of it. If the payload is encoded, these are the ends of its decoded text."""
    survey: Survey | None = None
    """Survey of the part between the two ends, for a payload that is too large for the sample; otherwise None."""
    engine: int = ENGINE
    """Number of the engine that detected `facts`; UNDESCRIBED: `facts` lacks details that a card would show."""
    text: CardSource | None = None
    """The text view from which the card is cut; None: the card is cut from the payload."""
    namespace: str = ""
    """The namespace whose policies apply."""
    masked_draft: "MaskedDraft | None" = None
    """The draft as a model may see it, with secrets masked; None: not determined yet, or nothing is masked."""
    terms: GivenCard | None = None
    """The budget and the query for which the card is cut; None: not determined yet."""


@dataclass(frozen=True)
class RenderedCard:
    """A card, and the text that the model reads: the card's text, or the whole payload."""

    card: Card
    text: str
    tokens: int
    """Number of tokens of `text`."""
    facts: DetectedMetadata | None = None
    """The detected metadata with secrets masked; None: nothing is masked."""
    inline: bool = False
    """Whether `text` is the whole payload."""
    same_as: str | None = None
    """The artifact to whose card `text` refers, instead of being a card itself; None: it does not refer to one."""
    budget: int | None = None
    """The maximum of `tokens`; None: no card was cut."""


def look(
    encoder: PayloadEncoder,
    declared: DeclaredMetadata,
    earlier: EarlierRun | None = None,
    gets_card: Callable[[Measure, Kind], bool] | None = None,
) -> Seen:
    """Returns everything that a card needs, or less if no card will be cut. Call it after `encoder.end`.

    Args:
        encoder: the payload.
        declared: the metadata that the caller declared.
        earlier: the run with which the payload is compared; None: it is not compared.
        gets_card: returns whether a card is cut from a payload of this size and kind; None: a card is always cut.
    """
    # Tokens are counted first. They decide whether a card is cut, which decides how much must be recognised.
    encoder.count()
    opened_payload = encoder.open(declared.media_type)
    text_source = encoder if opened_payload is None else opened_payload[1]
    # An encoded payload is described by its decoded text, but `measure` has the sizes of the bytes that were sent.
    sample = text_source.sample()
    survey = text_source.survey()
    measure = encoder.measure()

    # The result is cached, because the steps below ask twice about the same kind, and each answer resolves a policy.
    @cache
    def is_described(kind: Kind) -> bool:
        return earlier is not None or spec_of(kind).names or gets_card is None or gets_card(measure, kind)

    if (
        opened_payload is not None and opened_payload[0].is_envelope
    ):  # the caller declared the media type of the envelope, not of the text in it
        declared = structs.replace(declared, media_type=None)
    facts = recognise(sample, declared, survey, fields=text_source.fields(), gets_card=is_described)
    text = None
    if opened_payload is not None:
        # The details of a page fetch stand in the envelope around the text, and the sample contains only the text.
        if opened_payload[0].is_envelope and (payload := encoder.payload) is not None:
            around = PayloadProbe(PayloadSample(payload, b"", len(payload)), declared)
            facts = structs.replace(facts, fetch=find_fetch(around))
        facts = facts.of_form(opened_payload[0], declared)
        m = text_source.measure()
        sizes = ViewMeasure(size=m.size, lines=m.lines, chars=m.chars, tokens=m.tokens)
        text = card.text_of(sample, sizes, (), OPENED)
    # A survey of a payload that is not text means nothing, so the comparison below must not see it.
    if not spec_of(facts.kind).readable:
        survey = None
    if earlier is not None:
        facts = compare_runs(facts, earlier, sample, survey, measure, reveal=reveal)
    return facts, sample, survey, ENGINE if is_described(facts.kind) else UNDESCRIBED, text


def make_draft(
    namespace: str, declared: DeclaredMetadata, measure: Measure, findings: Seen, view: CardSource | None = None
) -> Draft:
    """Returns the draft of a payload, with the ID that it will get unless another artifact has that ID already.

    `view` is the text view from which the card is cut; None: the card is cut from the text in `findings`, if any.
    """
    identity = ids.identity(namespace, declared.session, declared.tool_call_id, measure.sha256)
    facts, sample, survey, engine, text = findings
    number = ids.number(identity)
    return Draft(
        ids.render(number), identity, declared, measure, facts, sample, survey, engine, view or text, namespace
    )


def remake_draft(
    artifact: Artifact, sample: PayloadSample, text: CardSource | None = None, survey: Survey | None = None
) -> Draft:
    """Returns a stored artifact, with its present declaration, as a draft from which this engine can cut a card.

    If another engine detected the metadata, this engine detects it again. It keeps the kind, and the fields that were
    determined only when the artifact was created: the comparison with an earlier run, and the redacted secrets.
    """
    a = artifact
    identity = ids.identity(a.namespace, a.declared.session, a.declared.tool_call_id, a.measure.sha256)
    # The stored bytes of an encoded payload are not its text, in which metadata is detected.
    if a.facts.form is not None and text is not None:
        sample = text.sample
    draft = Draft(a.id, identity, a.declared, a.measure, a.facts, sample, survey, a.engine, text, a.namespace)
    return draft if a.engine in {ENGINE, UNDESCRIBED} else _recognise_facts(draft)


def _recognise_facts(draft: Draft) -> Draft:
    """Returns a draft with the metadata that this engine detects, but with its former kind."""
    d = draft
    # The stored kind is passed as the declared one. So a newer engine refines the metadata but never changes the kind,
    # on which views and citations depend.
    declared = structs.replace(d.declared, kind=d.facts.kind)
    facts = recognise(d.sample, declared, d.survey, fields=find_fields(d.sample.head)).keeping_first_time_fields(
        d.facts
    )
    return dataclass_replace(d, facts=facts.of_form(d.facts.form, declared), engine=ENGINE)


def describe_form(artifact: Artifact, head: bytes) -> DetectedMetadata | None:
    """Returns the detected metadata of the text that is encoded in an artifact's payload.

    `head` is the beginning of the payload, or all of it. Returns None if the payload's bytes are the text.
    """
    a = artifact
    form = find_form(PayloadSample(head, b"", a.measure.size), a.declared.media_type)
    if form is None:
        return None
    text = open_payload(form, head)[:SAMPLE_BYTES]
    declared = structs.replace(a.declared, media_type=None) if form.is_envelope else a.declared
    # If only the head was decoded, the size of the text is unknown. A size above that of the sample says that the
    # sample is not the whole text.
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
    """Returns a draft's card, or two lines that refer to an earlier card of the same bytes.

    Args:
        draft: the artifact whose card is cut.
        budget: maximum tokens of the card.
        query: what the agent looks for, by which the excerpts are chosen; None: there is no query.
        tokenizer: counts the tokens.
        is_stored: whether the payload can be read later; if not, the card says so.
        tools: whether the model has tools to read on; if not, the card names none.
        mask: hides secrets; None: nothing is masked.
        earlier: ID of an artifact with the same bytes, to whose card two lines refer if they fit; None: a card is cut.
    """
    d = prepare(draft, mask)
    inputs = replace(_inputs(d, budget, tokenizer), query=query, is_stored=is_stored, tools=tools)
    # If the budget is too small even for the two lines, `repeat` returns None and a card is cut.
    lines = None if earlier is None else repeat(inputs, earlier)
    plain_facts = None if d.masked_draft is None else d.masked_draft.plain
    same_as = None if lines is None else earlier
    return RenderedCard(*(lines or card.cut(inputs)), plain_facts, same_as=same_as, budget=budget)


def budget_of(draft: Draft, policy: Policy, usual: int, *, tokenizer: Tokenizer, mask: Mask | None) -> int:
    """Returns the token budget of a draft's card, for callers that specify none.

    The policy may set a number, or say that the payload decides; then `choose_budget` chooses a number that fits the
    payload. If the policy says neither, `usual` is used in the same way.
    """
    budget = value_or(policy.card_tokens, usual)
    return budget if isinstance(budget, int) else choose_budget(_inputs(prepare(draft, mask), usual, tokenizer))


def prepare(draft: Draft, mask: Mask | None) -> Draft:
    """Returns a draft with the metadata that this engine detects, and with its masked copy if there is a mask.

    Neither is determined again if the draft already has it.
    """
    d = draft if draft.engine == ENGINE else _recognise_facts(draft)
    masked_copy = (
        None
        if mask is None
        else d.masked_draft or make_masked_draft(mask, d.declared, d.facts, d.sample, d.survey, d.text)
    )
    return d if masked_copy is d.masked_draft else dataclass_replace(d, masked_draft=masked_copy)


def _inputs(draft: Draft, budget: int, tokenizer: Tokenizer) -> CardInput:
    """Returns the inputs from which the card of a prepared draft is cut, without a query."""
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
    """The parts of a draft from which a card is cut, with secrets masked."""

    declared: DeclaredMetadata
    facts: DetectedMetadata
    """The detected metadata, with a line that says which secrets are masked."""
    plain: DetectedMetadata
    """The detected metadata without that line."""
    sample: PayloadSample
    survey: Survey | None
    text: CardSource | None
    secrets: bool
    """Whether the payload's sample contains secrets."""


def make_masked_draft(
    mask: Mask,
    declared: DeclaredMetadata,
    facts: DetectedMetadata,
    sample: PayloadSample,
    survey: Survey | None,
    text: CardSource | None,
) -> MaskedDraft:
    """Returns the draft of a payload as a model may see it. A line of its card says which secrets are masked."""
    v = mask_artifact(mask, declared, facts, sample, survey)
    masked = v.masked
    # The card shows the text view, so its line about secrets must count those in the view, not those in the payload.
    if text is not None:
        masked_sample, masked, _ = mask.sample(text.sample)
        text = replace(text, sample=masked_sample)
    return MaskedDraft(
        v.declared, note_masked(v.facts, masked), v.facts, v.sample, v.survey, text, bool(v.masked.count)
    )


def uncut(draft: Draft) -> Card:
    """Returns a card with names and sizes but without text, for callers that do not read the text of cards."""
    d = draft
    visible_draft = d.masked_draft or d
    return card.make_bare_card(d.id, visible_draft.declared, d.measure, visible_draft.facts)


def is_whole(measure: Measure, kind: Kind) -> bool:
    """Returns whether a payload is complete, readable text whose tokens are all counted."""
    spec = spec_of(kind)
    return (
        measure.tokens.exact and not measure.dropped and measure.utf8 and spec.readable and spec.text_view != "document"
    )


def may_repeat(draft: Draft) -> bool:
    """Returns whether two lines that refer to an earlier card may stand for the draft's card.

    They may if the payload is complete text, is not compared with an earlier run, and is longer than the two lines.
    """
    d = draft
    sizes = d.measure if d.text is None else d.text.measure
    readable = d.text is not None or spec_of(d.facts.kind).readable
    return readable and not d.measure.dropped and d.facts.novelty is None and sizes.tokens.count > SMALLEST


def whole_text(draft: Draft, mask: Mask | None, tokenizer: Tokenizer) -> tuple[str, int] | None:
    """Returns the whole text of a payload as a model may read it, and its number of tokens.

    Returns None if the payload is not text, or not all of it is in memory.
    """
    d = draft
    form, text = d.facts.form, d.text
    # If an encoded payload was only decoded in part, the part must not be taken for the whole text.
    if form is not None and (text is None or not text.is_surveyed or d.measure.dropped):
        return None
    tokens = d.measure.tokens if form is None or text is None else text.measure.tokens
    if not (d.sample.whole and tokens.exact and (form is not None or is_whole(d.measure, d.facts.kind))):
        return None
    if mask is None or d.masked_draft is None or not d.masked_draft.secrets:
        return d.sample.head.decode(), tokens.count
    # Readable markers replace the fillers and have other lengths, so tokens are counted again.
    text = mask.reveal(d.masked_draft.sample.head.decode("utf-8", "replace"))
    return text, tokenizer.count(text)


def policy_of(rules: Rules, draft: Draft) -> Policy:
    """Returns the policy that administrators' rules set for a payload."""
    return rules.of_payload(draft.namespace, draft.declared, draft.facts.kind)
