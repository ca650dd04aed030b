"""Masks a search response for a model: fillers in its text view, where all ranges stay valid, and masked names."""

from typing import Final

from msgspec.structs import replace

from coatcheck.core.redact.filler import fill
from coatcheck.core.redact.mask import Mask
from coatcheck.core.redact.masked_artifact import sections_of
from coatcheck.core.search import ResponseLayout
from coatcheck.core.search.model import ProviderAnswer, SearchResponse, SearchResult
from coatcheck.core.search.view import ResultBody
from coatcheck.core.views.window import decode

_NAMES: Final = ("title", "url", "canonical_url", "snippet", "content", "date", "site", "author", "picture")


def laid_of(mask: Mask, laid: ResponseLayout) -> ResponseLayout:
    """Returns the response without its secrets."""
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
    texts = (response.query or "", *response.warnings, *response.failures, *response.unknown)
    clean = mask.lines(texts)
    warnings_end = 1 + len(response.warnings)
    failures_end = warnings_end + len(response.failures)
    return replace(
        response,
        query=clean[0] or None,
        warnings=clean[1:warnings_end],
        failures=clean[warnings_end:failures_end],
        unknown=clean[failures_end:],
        unread=mask.text(response.unread),
        pictures=tuple(_result(mask, result) for result in response.pictures),
        answers=tuple(_answer(mask, answer) for answer in response.answers),
        results=tuple(_result(mask, result) for result in response.results),
    )


def _answer(mask: Mask, answer: ProviderAnswer) -> ProviderAnswer:
    texts = (answer.text, answer.title, answer.url or "")
    clean = mask.lines(texts)
    return answer if clean == texts else replace(answer, text=clean[0], title=clean[1], url=clean[2] or None)


def _result(mask: Mask, result: SearchResult) -> SearchResult:
    texts = (*(getattr(result, name) or "" for name in _NAMES), *result.more)
    clean = mask.lines(texts)
    if clean == texts:
        return result
    changed = {
        name: new if getattr(result, name) is not None else None for name, new in zip(_NAMES, clean, strict=False)
    }
    return replace(result, **changed, more=clean[len(_NAMES) :])
