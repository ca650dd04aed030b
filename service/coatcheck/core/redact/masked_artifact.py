"""Masks an artifact for a model: its declared and detected metadata, and its sample.

If the sample contains secrets, its facts are recognised again in the masked sample: a title or a key that was cut in
the middle of a secret would otherwise show half of it. Lines and names are searched as well.
"""

from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.artifact import Artifact, DeclaredMetadata, DetectedMetadata, Marker, PayloadSample
from coatcheck.core.kinds import recognise
from coatcheck.core.redact.mask import Mask, MaskedSecrets
from coatcheck.core.survey.survey import Survey
from coatcheck.core.views.view import TITLE_CHARS, Section

NAMES: Final = ("title", "url", "tool_name", "tool_call_id", "media_type", "command", "final_url", "content_type")
"""Declared texts that may contain secrets, besides labels."""
_FETCH: Final = ("title", "url", "final_url", "content_type")
"""Such texts of a PageFetch."""


class MaskedArtifact(Struct, frozen=True):
    """An artifact from which a card may be cut."""

    declared: DeclaredMetadata
    facts: DetectedMetadata
    sample: PayloadSample
    survey: Survey | None
    masked: MaskedSecrets
    """What is masked in the sample and the survey."""


def mask_artifact(
    mask: Mask, declared: DeclaredMetadata, facts: DetectedMetadata, sample: PayloadSample, survey: Survey | None = None
) -> MaskedArtifact:
    """Returns what a payload's card may be cut from; without secrets, everything is unchanged."""
    masked_sample, masked, fragments = mask.sample(sample, () if survey is None else survey.fragments)
    if survey is not None and survey.has_values:  # half a secret in a value could not be recognised
        shape = tuple(line for line in facts.shape if line not in survey.facts)
        facts = replace(facts, shape=shape, path=None if facts.path == survey.path else facts.path)
        survey = replace(survey, facts=(), path=None)
    survey = None if survey is None else replace(survey, fragments=fragments)
    clean = mask_declared(mask, declared)
    if masked.count:
        again = recognise(masked_sample, replace(clean, kind=facts.kind), survey, fields=facts.fields)
        facts = replace(again.keeping_first_time_fields(facts), kind=facts.kind).of_form(facts.form, clean)
    return MaskedArtifact(clean, facts_of(mask, facts, hidden=bool(masked.count)), masked_sample, survey, masked)


def note_masked(facts: DetectedMetadata, masked: MaskedSecrets) -> DetectedMetadata:
    """Returns the facts with a line for the card that says what is masked."""
    if not masked.count:
        return facts
    note = f"{masked.sentence()} masked here"
    return replace(facts, redacted=f"{facts.redacted}; {note}" if facts.redacted else note)


def artifact_of(mask: Mask, artifact: Artifact) -> Artifact:
    """Returns an artifact with its names masked."""
    return replace(artifact, declared=mask_declared(mask, artifact.declared), facts=facts_of(mask, artifact.facts))


def mask_declared(mask: Mask, declared: DeclaredMetadata) -> DeclaredMetadata:
    """Returns the declared metadata, masked. The session stays, as it is an address."""
    values = tuple(getattr(declared, name) or "" for name in NAMES)
    clean = mask.lines((*values, *declared.labels))
    if clean == (*values, *declared.labels):
        return declared
    changed = {name: new or None for name, new in zip(NAMES, clean, strict=False)}
    return replace(declared, **changed, labels=clean[len(NAMES) :])


def facts_of(mask: Mask, facts: DetectedMetadata, *, hidden: bool = False) -> DetectedMetadata:
    """Returns the detected metadata, masked; `hidden` says whether it comes from a sample with fillers."""
    names = ("title", "url", "media_type", "language")
    values = tuple(getattr(facts, name) or "" for name in names)
    fetch = tuple(getattr(facts.fetch, name, None) or "" for name in _FETCH)
    markers = tuple(part for marker in facts.markers for part in (marker.name, marker.value))
    fields = () if facts.fields is None else facts.fields.names
    texts = (*values, *fetch, *facts.shape, *facts.sections, *facts.comparison, *markers, *fields)
    clean = tuple(map(mask.reveal, texts)) if hidden else texts
    clean = mask.lines(clean)
    if clean == texts:
        return facts
    rest = iter(clean)
    clean_values, fetch, shape, sections, comparison, parts, fields = (
        tuple(islice(rest, len(each)))
        for each in (names, fetch, facts.shape, facts.sections, facts.comparison, markers, fields)
    )
    return replace(
        facts,
        **{name: new or None for name, new in zip(names, clean_values, strict=True)},
        fetch=facts.fetch
        and replace(facts.fetch, **{name: new or None for name, new in zip(_FETCH, fetch, strict=True)}),
        shape=shape,
        sections=sections,
        comparison=comparison,
        fields=None if facts.fields is None else replace(facts.fields, names=fields),
        markers=tuple(Marker(name, value) for name, value in zip(parts[::2], parts[1::2], strict=True)),
    )


def sections_of(mask: Mask, sections: tuple[Section, ...]) -> tuple[Section, ...]:
    """Returns the sections of a view with titles and addresses masked; their names are our own."""
    texts = tuple(part for section in sections for part in (section.title, section.url or ""))
    # A title is cut at a length, perhaps inside a secret: the last word of such a one goes.
    uncut = (t if len(t) < TITLE_CHARS else f"{t[: t.rfind(' ') + 1]}…" for t in texts[::2])
    clean = mask.lines(tuple(part for pair in zip(uncut, texts[1::2], strict=True) for part in pair))
    if clean == texts:
        return sections
    pairs = zip(sections, clean[::2], clean[1::2], strict=True)
    return tuple(replace(section, title=title, url=url or None) for section, title, url in pairs)
