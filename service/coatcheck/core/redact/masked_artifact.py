"""Masks everything that a model sees of artifacts: metadata and samples for cards, answers, search responses.

If the sample contains secrets, its facts are recognised again in the masked sample. Otherwise a title or a key that was
cut in the middle of a secret would show half of it. Lines and names are searched as well. Answers get markers in place
of fillers and stay within their bounds; in a search response, all ranges stay valid.
"""

from itertools import chain, islice
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.artifact import Artifact, DeclaredMetadata, DetectedMetadata, Marker, PayloadSample
from coatcheck.core.kinds import recognise
from coatcheck.core.redact.filler import DEL, PICTURE, fill, reveal
from coatcheck.core.redact.mask import Mask, MaskedSecrets, reveal_text
from coatcheck.core.search.model import SearchResponse
from coatcheck.core.search.view import ResponseLayout, ResultBody
from coatcheck.core.survey import Survey
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.view import TITLE_CHARS, Section
from coatcheck.core.views.window import decode

NAMES: Final = ("title", "url", "tool_name", "tool_call_id", "media_type", "command", "final_url", "content_type")
"""Fields of the declared metadata that may contain secrets, besides labels."""
_FETCH: Final = ("title", "url", "final_url", "content_type")
"""Fields of a PageFetch that may contain secrets."""


class MaskedArtifact(Struct, frozen=True):
    """The masked parts of an artifact, from which a card may be made."""

    declared: DeclaredMetadata
    facts: DetectedMetadata
    sample: PayloadSample
    survey: Survey | None
    masked: MaskedSecrets
    """The secrets that were masked in the sample and the survey."""


def mask_artifact(
    mask: Mask, declared: DeclaredMetadata, facts: DetectedMetadata, sample: PayloadSample, survey: Survey | None = None
) -> MaskedArtifact:
    """Returns the masked parts of a payload from which its card may be made; unchanged if there are no secrets."""
    masked_sample, masked, fragments = mask.sample(sample, () if survey is None else survey.fragments)
    if survey is not None and survey.has_values:  # a value may have half a secret, which no rule finds
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
    """Returns the facts, with a note for the card on what is masked."""
    if not masked.count:
        return facts
    note = f"{masked.sentence()} masked here"
    return replace(facts, redacted=f"{facts.redacted}; {note}" if facts.redacted else note)


def artifact_of(mask: Mask, artifact: Artifact) -> Artifact:
    """Returns an artifact with its metadata masked."""
    return replace(artifact, declared=mask_declared(mask, artifact.declared), facts=facts_of(mask, artifact.facts))


def mask_declared(mask: Mask, declared: DeclaredMetadata) -> DeclaredMetadata:
    """Returns the declared metadata, masked. The session is not masked, because it is an address."""
    return _mask_fields(mask, declared, NAMES, ("labels",))


S = TypeVar("S", bound=Struct)


def _mask_fields(mask: Mask, value: S, names: tuple[str, ...], lists: tuple[str, ...] = ()) -> S:
    """Returns a value with the fields `names` and the lists of texts `lists` masked.

    Returns `value` itself if these have no secrets.
    """
    tuples = {name: getattr(value, name) for name in lists}
    # All texts are searched in one call, which costs a single pass over the rules.
    texts = (*(getattr(value, name) or "" for name in names), *chain.from_iterable(tuples.values()))
    clean = mask.lines(texts)
    if clean == texts:
        return value
    rest = iter(clean)
    changed: dict[str, Any] = {name: next(rest) if getattr(value, name) else next(rest) or None for name in names}
    return replace(value, **changed, **{name: tuple(islice(rest, len(each))) for name, each in tuples.items()})


def facts_of(mask: Mask, facts: DetectedMetadata, *, hidden: bool = False) -> DetectedMetadata:
    """Returns the detected metadata, masked; `hidden`: it comes from a sample with fillers, which become markers."""
    # All texts are searched in one call, because each call costs a pass over every rule; then they are assigned again.
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
    """Returns the sections of a view with titles and addresses masked; their names come from the service."""
    texts = tuple(part for section in sections for part in (section.title, section.url or ""))
    # A title of maximum length was cut, perhaps inside a secret: its last word is removed.
    uncut = (t if len(t) < TITLE_CHARS else f"{t[: t.rfind(' ') + 1]}…" for t in texts[::2])
    clean = mask.lines(tuple(part for pair in zip(uncut, texts[1::2], strict=True) for part in pair))
    if clean == texts:
        return sections
    pairs = zip(sections, clean[::2], clean[1::2], strict=True)
    return tuple(replace(section, title=title, url=url or None) for section, title, url in pairs)


def reveal_answer(answer: S, mask: Mask, tokenizer: Tokenizer, tokens: int, chars: int) -> S:
    """Returns an answer with markers in every string, and with `text` within its limits of tokens and characters."""
    text = cast("str", getattr(answer, "text", ""))
    if not (DEL in text or PICTURE in text):
        return cast("S", _strings(answer, mask.names))
    shown_text, count = reveal_text(text, mask, tokenizer, tokens, chars)
    return cast("S", replace(cast("Struct", _strings(answer, mask.names)), text=shown_text, tokens=count))


def reveal_strings(answer: S, mask: Mask) -> S:
    """Returns an answer with markers in every string, for answers that have no limit of tokens."""
    return cast("S", _strings(answer, mask.names))


def _strings(value: Any, names: tuple[str, ...]) -> Any:  # noqa: ANN401, PLR0911 - any value of a wire struct
    """Returns a value with markers in every string, or the value itself if it contains no fillers."""
    if isinstance(value, str):
        return reveal(value, names) if type(value) is str else value
    if isinstance(value, msgspec.Raw):
        return _raw(value, names)
    if isinstance(value, Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        members = {name: _strings(each, names) for name, each in fields.items()}
        changed = {name: each for name, each in members.items() if each is not fields[name]}
        return replace(value, **changed) if changed else value
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        members = [_strings(each, names) for each in items]
        if all(new is old for new, old in zip(members, items, strict=True)):
            return cast("Any", value)
        return members if isinstance(value, list) else tuple(members)
    if isinstance(value, dict):
        mapping = cast("dict[Any, Any]", value)
        return {_strings(key, names): _strings(each, names) for key, each in mapping.items()}
    return value


def _raw(value: msgspec.Raw, names: tuple[str, ...]) -> msgspec.Raw:
    """Puts markers into raw JSON, which stays valid because fillers occur only inside strings."""
    data = bytes(value)
    if b"\x7f" not in data:
        return value
    return msgspec.Raw(reveal(data.decode("utf-8", "replace"), names).encode())


_NAMES: Final = ("title", "url", "canonical_url", "snippet", "content", "date", "site", "author", "picture")


def laid_of(mask: Mask, laid: ResponseLayout) -> ResponseLayout:
    """Returns a search response and its layout with secrets masked."""
    secrets = mask.find(laid.text)
    text = fill(laid.text, secrets) if secrets else laid.text
    return replace(
        laid,
        response=_response(mask, laid.response),
        text=text,
        sections=sections_of(mask, laid.sections),
        bodies=tuple(_body(body, text) for body in laid.bodies) if secrets else laid.bodies,
    )


def _body(body: ResultBody, text: bytes) -> ResultBody:
    data = text[body.place.byte : body.place.byte + len(body.data)]
    return body if data == body.data else replace(body, data=data, text=decode(data))


def _response(mask: Mask, response: SearchResponse) -> SearchResponse:
    masked = _mask_fields(mask, response, ("query",), ("warnings", "failures", "unknown"))
    return replace(
        masked,
        unread=mask.text(response.unread),
        pictures=tuple(_mask_fields(mask, result, _NAMES, ("more",)) for result in response.pictures),
        answers=tuple(_mask_fields(mask, answer, ("text", "title", "url")) for answer in response.answers),
        results=tuple(_mask_fields(mask, result, _NAMES, ("more",)) for result in response.results),
    )
