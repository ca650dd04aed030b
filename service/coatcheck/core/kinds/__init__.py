"""Recognises what a payload is, and what can be said about it at once.

`recognise` runs once, when a payload is stored, on a bounded sample; cards at any budget are made from its result. It
never raises because of a payload's content.
"""

from collections.abc import Callable

from coatcheck.core.artifact import DeclaredMetadata, DetectedMetadata, Kind, PayloadSample
from coatcheck.core.kinds.classify import classify
from coatcheck.core.kinds.description import NOTHING, PayloadProbe
from coatcheck.core.kinds.markers import find_markers
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.survey.survey import Survey


def recognise(
    sample: PayloadSample,
    declared: DeclaredMetadata,
    survey: Survey | None = None,
    *,
    carded: Callable[[Kind], bool] = lambda _: True,
) -> DetectedMetadata:
    """Returns what a card needs to know about a payload besides its excerpts.

    Args:
        sample: the payload's ends, or all of it.
        declared: what the caller declared about it.
        survey: what every byte says, if the sample is not all of it.
        carded: returns whether a card will be cut if the payload is of this kind; otherwise recognition takes half the
            time, and leaves out everything that only a card shows.
    """
    payload = PayloadProbe(sample, declared, survey)
    kind = classify(payload)
    spec = spec_of(kind)
    described = spec.describe(payload) if spec.names or carded(kind) else NOTHING
    tallied = survey.facts if survey is not None and spec.readable else ()
    return DetectedMetadata(
        kind=kind,
        media_type=described.media_type or declared.media_type,
        title=described.title,
        url=described.url,
        language=described.language,
        markers=find_markers(sample) if spec.readable and sample.size else (),
        shape=(*tallied, *described.facts),
        path=described.path,
        sections=tuple([title for title, _, _ in described.parts]),
        section_lines=tuple([(first, count) for _, first, count in described.parts]),
        document=described.document,
    )
