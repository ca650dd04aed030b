"""A payload with what others say of it, and its card as the service would cut it."""

from collections.abc import Callable
from typing import NamedTuple

from coatcheck.adapters.extract.documents import extract_document
from coatcheck.core.artifact import DeclaredMetadata, DetectedMetadata, Kind
from coatcheck.core.card import Card, cut, may_show_text, shows_text, text_of
from coatcheck.core.card.model import CardInput
from coatcheck.core.extract import extract_text
from coatcheck.core.kinds import recognise
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.read_answer import view_inputs
from coatcheck.core.views.view import ExtractedText, ViewMeasure
from core.sample_payloads import ARTIFACT, TOKENIZER, measure_of, sample_of, survey_of

Oracle = Callable[[str], bool]
"""Whether a line is one that this oracle understands. Raises AssertionError for one that it does, and that is false."""
_SECONDS = 20.0
_LOOKED_AT = 64 * 1024


class Case(NamedTuple):
    """What is posted, and who knows what is true of it."""

    data: bytes
    oracles: tuple[Oracle, ...] = ()
    said: DeclaredMetadata = DeclaredMetadata()
    kinds: tuple[Kind, ...] = ()
    """What it may be taken for; empty: anything."""
    document: object = None
    """The JSON that it is."""


class Shown(NamedTuple):
    """A card with all that it was cut from."""

    case: Case
    facts: DetectedMetadata
    card: Card
    text: str
    view: bytes
    """What excerpts are of."""
    extracted: ExtractedText | None


def shown(case: Case, budget: int, query: str | None = None) -> Shown:
    """The card of a case, cut from its text view where the service would."""
    data, said = case.data, case.said
    sample, survey = sample_of(data), survey_of(data)
    facts = recognise(sample, said, survey)
    extracted = _extracted(data, said, facts)
    view = text = None
    if extracted is not None and extracted.text is not None and shows_text(facts, len(data), extracted.extractor):
        view = extracted.text
        m = measure_of(view)
        sizes = ViewMeasure(size=m.size, lines=m.lines, chars=m.chars, tokens=m.tokens)
        text = text_of(sample_of(view), sizes, extracted.sections, extracted.extractor)
    card, told, count = cut(
        CardInput(
            ARTIFACT,
            said,
            measure_of(data),
            facts,
            sample,
            budget=budget,
            query=query,
            tokenizer=TOKENIZER,
            survey=survey,
            text=text,
        )
    )
    assert count <= budget
    return Shown(case, facts, card, told, data if view is None else view, extracted if view is not None else None)


def _extracted(data: bytes, said: DeclaredMetadata, facts: DetectedMetadata) -> ExtractedText | None:
    spec = spec_of(facts.kind)
    if not may_show_text(facts, len(data)) or (spec.shows_view is not None and not spec.shows_view(data[:_LOOKED_AT])):
        return None
    if spec.text_view == "document":
        return extract_document(data, _SECONDS)
    told = view_inputs(said, facts)
    return extract_text(spec.text_view, told.media_type, told.source, data)
