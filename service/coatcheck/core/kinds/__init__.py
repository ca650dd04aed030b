"""Recognises the kind of a payload, and detects its metadata.

`recognise` runs once, when a payload is stored, on a bounded sample. Cards of every budget are made from its result. It
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
from coatcheck_client.contract.inert import one_line


def recognise(
    sample: PayloadSample,
    declared: DeclaredMetadata,
    survey: Survey | None = None,
    *,
    fields: LineFields | None = None,
    gets_card: Callable[[Kind], bool] = lambda _: True,
) -> DetectedMetadata:
    """Returns the metadata that a card needs beside its excerpts.

    Args:
        sample: both ends of the payload, or all of it.
        declared: the metadata that the caller declared.
        survey: the survey of the payload; None if the sample is the whole payload.
        fields: the fields of the payload's lines, so that only their messages are examined; None: there are none.
        gets_card: returns whether a card will be cut if the payload is of this kind. If not, recognition takes half the
            time, and leaves out all metadata that only a card shows.
    """
    payload = PayloadProbe(sample, declared, survey)
    kind, fetch = classify(payload), find_fetch(payload)
    fields = fields if spec_of(kind).has_fields and declared.kind in {None, kind} else None
    if fields is not None and kind in ROWS and not hidden_fields(fields, sample.head[: sample.head.find(b"\n") + 1]):
        fields = fields if fields.member or fields.delimiter else None  # below a table's header, times are data
    if fields is not None:
        lines, sample = sample, _messages(sample, fields)
        payload = PayloadProbe(sample, declared, survey, lines)
        of_messages = classify(payload)
        # A program's messages may read like prose or code. The times and levels in front show that they are output.
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
        # A path is used as it is, or not at all: made inert, it would select something else.
        path=described.path if one_line(described.path or "") == described.path else None,
        sections=tuple([title for title, _, _ in described.parts]),
        section_lines=tuple([(first, count) for _, first, count in described.parts]),
        document=described.document,
    ).of_fetch(fetch, declared)


def _messages(sample: PayloadSample, fields: LineFields) -> PayloadSample:
    head, tail = read_lines(fields, sample.head), read_lines(fields, sample.tail, begins=False)
    return PayloadSample(head, tail, len(head) if sample.whole else sample.size)


def _around(text: bytes, json_at: tuple[int, int] | None) -> tuple[str, ...]:
    """Returns a line that says in which lines of the text the JSON document is; empty if there is none."""
    if json_at is None:
        return ()
    first, last = text.count(b"\n", 0, json_at[0]) + 1, text.count(b"\n", 0, json_at[1]) + 1
    lines = f"lines {first} to {last}" if last > first else f"line {first}"
    return (f"A JSON document in {lines}, with other text around it; paths are those of the document",)
