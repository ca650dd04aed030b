"""Recognises what a payload is, and what can be said about it at once.

`recognise` runs once, when a payload is stored, on a bounded sample; cards at any budget are made from its result. It
never raises because of a payload's content.
"""

from collections.abc import Callable

from coatcheck.core.artifact import DeclaredMetadata, DetectedMetadata, Kind, LineFields, PayloadSample
from coatcheck.core.kinds.classify import classify
from coatcheck.core.kinds.description import NOTHING, PayloadProbe, find_markers
from coatcheck.core.kinds.page import find_fetch
from coatcheck.core.kinds.spec import FILES, JSON, ROWS, TEXTS, spec_of
from coatcheck.core.parts.blobs import read_lines
from coatcheck.core.parts.fields import hidden_fields
from coatcheck.core.structure import find_document
from coatcheck.core.survey import Survey


def recognise(
    sample: PayloadSample,
    declared: DeclaredMetadata,
    survey: Survey | None = None,
    *,
    fields: LineFields | None = None,
    gets_card: Callable[[Kind], bool] = lambda _: True,
) -> DetectedMetadata:
    """Returns what a card needs to know about a payload besides its excerpts.

    Args:
        sample: the payload's ends, or all of it.
        declared: what the caller declared about it.
        survey: what every byte says, if the sample is not all of it.
        fields: those of its lines, if it has any: what is recognised are their messages.
        gets_card: returns whether a card will be cut if the payload is of this kind; otherwise recognition takes half
            the time, and leaves out everything that only a card shows.
    """
    payload = PayloadProbe(sample, declared, survey)
    kind, fetch = classify(payload), find_fetch(payload)
    fields = fields if spec_of(kind).has_fields and declared.kind in {None, kind} else None
    if fields is not None and kind in ROWS and not hidden_fields(fields, sample.head[: sample.head.find(b"\n") + 1]):
        fields = fields if fields.member or fields.delimiter else None  # below a header, times are a column
    if fields is not None:
        lines, sample = sample, _messages(sample, fields)
        payload = PayloadProbe(sample, declared, survey, lines)
        of_messages = classify(payload)
        # Messages of a program may read like prose or code; times and levels in front tell that they are its output.
        kind = kind if of_messages in FILES and kind not in FILES | ROWS else of_messages
    json_at = find_document(sample.head) if sample.whole and kind in TEXTS and declared.kind in {None, JSON} else None
    if json_at is not None:
        kind, document = JSON, sample.head[slice(*json_at)]
        payload = PayloadProbe(PayloadSample(document, b"", len(document)), declared)
    spec = spec_of(kind)
    described = spec.describe(payload) if spec.names or gets_card(kind) else NOTHING
    tallied = survey.facts if survey is not None and spec.readable else ()
    return DetectedMetadata(
        kind=kind,
        fields=fields,
        json_at=json_at,
        media_type=described.media_type or declared.media_type,
        title=described.title,
        url=described.url,
        language=described.language,
        markers=find_markers(sample) if spec.readable and sample.size else (),
        shape=(*described.lead, *tallied, *_around(sample.head, json_at), *described.facts),
        path=described.path,
        sections=tuple([title for title, _, _ in described.parts]),
        section_lines=tuple([(first, count) for _, first, count in described.parts]),
        document=described.document,
    ).of_fetch(fetch, declared)


def _messages(sample: PayloadSample, fields: LineFields) -> PayloadSample:
    head, tail = read_lines(fields, sample.head), read_lines(fields, sample.tail, begins=False)
    return PayloadSample(head, tail, len(head) if sample.whole else sample.size)


def _around(text: bytes, json_at: tuple[int, int] | None) -> tuple[str, ...]:
    """Returns a line that tells where the document is in its text."""
    if json_at is None:
        return ()
    first, last = text.count(b"\n", 0, json_at[0]) + 1, text.count(b"\n", 0, json_at[1]) + 1
    lines = f"lines {first} to {last}" if last > first else f"line {first}"
    return (f"A JSON document in {lines}, with other text around it; paths are those of the document",)
