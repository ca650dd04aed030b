"""Compares an output with an earlier one of the same command: once, when it is stored, for all its cards."""

from msgspec.structs import replace

from coatcheck.core.artifact import DetectedMetadata, EarlierRun, Measure, PayloadSample
from coatcheck.core.card.excerpts import regions_of
from coatcheck.core.card.render import plural
from coatcheck.core.choose.novelty import novelty
from coatcheck.core.choose.units import Units
from coatcheck.core.survey.survey import Survey, unpack_survey


def compared(
    facts: DetectedMetadata, earlier: EarlierRun, sample: PayloadSample, survey: Survey | None, measure: Measure
) -> DetectedMetadata:
    """Returns the facts including what is new since an earlier run, and a line for the card that says how much.

    Lines are counted if both outputs are available in full; of larger ones, only what is available is compared.
    """
    if earlier.sha256 == measure.sha256:
        return replace(facts, comparison=(f"Same as {earlier.id}, byte for byte.",))
    kept = None if earlier.survey is None else unpack_survey(earlier.survey)
    before = Units(regions_of(earlier.sample, earlier.lines, () if kept is None else kept.fragments))
    now = Units(regions_of(sample, measure.lines, () if survey is None else survey.fragments))
    found = novelty(now, before)
    counts = ""
    if sample.whole and earlier.sample.whole:
        counts = f": {plural(found.lines, 'line')} new, {plural(found.gone, 'line')} of it gone, numbers aside"
    return replace(facts, novelty=found, comparison=(f"Compared with {earlier.id}{counts}",))
