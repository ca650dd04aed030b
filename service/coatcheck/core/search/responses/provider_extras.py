"""Merges what four providers keep apart from their results: dates, excerpts, an abstract, actions."""

from typing import Final

from msgspec.structs import replace

from coatcheck.core.search.model import ProviderAnswer, SearchResponse, SearchResult
from coatcheck.core.search.responses.actions import actions_of
from coatcheck.core.search.responses.dates import iso
from coatcheck.core.search.responses.values import Record, find_values, items_of, record_of, text_at, text_of


def complete_response(response: SearchResponse, value: object) -> SearchResponse:
    """Returns the response including what is elsewhere in it."""
    if response.provider == "brave-llm-context":
        sources = next((record for each in find_values(value, "sources") if (record := record_of(each))), None) or {}
        return replace(response, results=tuple(_with_age(result, sources) for result in response.results))
    if response.provider == "openai":
        return replace(response, actions=actions_of(value))
    if response.provider == "gemini":
        return _with_supports(response, value)
    return _with_abstract(response, value) if response.provider == "duckduckgo" else response


def _with_age(result: SearchResult, sources: Record) -> SearchResult:
    """Returns a result with the age that Brave's context gives for its URL; the first unambiguous one counts."""
    about = record_of(sources.get(result.url or "")) or {}
    ages = [text for age in items_of(about.get("age")) or [about.get("age")] if (text := text_of(age))]
    if not ages or result.date:
        return result
    certain = next((age for age in ages if iso(age)), ages[0])
    site = result.site or text_of(about.get("hostname")) or None
    return replace(result, date=certain, date_iso=iso(certain), site=site)


_SUPPORTS: Final = ("candidates[].groundingMetadata.groundingSupports[]", "groundingMetadata.groundingSupports[]")


def _with_supports(response: SearchResponse, value: object) -> SearchResponse:
    """Returns results with the text that Gemini's answer took from them, its only one.

    A score is that of the best support.
    """
    texts: dict[int, list[str]] = {}
    scores: dict[int, float] = {}
    for support in (each for path in (*_SUPPORTS, "groundingSupports[]") for each in find_values(value, path)):
        segment = text_at(support, "segment.text")
        numbers = find_values(support, "groundingChunkIndices[]")
        confidence = find_values(support, "confidenceScores[]")
        for place, number in enumerate(numbers):
            if not isinstance(number, int) or isinstance(number, bool):
                continue
            if segment and segment not in texts.setdefault(number, []):
                texts[number].append(segment)
            sure = confidence[place] if place < len(confidence) else None
            if isinstance(sure, (int, float)) and not isinstance(sure, bool) and 0 <= sure <= 1:
                scores[number] = max(scores.get(number, 0.0), float(sure))
    results = tuple(
        replace(
            result,
            snippet=result.snippet or "\n".join(texts.get(result.rank - 1, ())),
            score=result.score if result.score is not None else scores.get(result.rank - 1),
        )
        for result in response.results
    )
    return replace(response, results=results)


def _with_abstract(response: SearchResponse, value: object) -> SearchResponse:
    text = text_at(value, "AbstractText", "Abstract")
    if not text:
        return response
    title, url = text_at(value, "Heading"), text_at(value, "AbstractURL") or None
    abstract = ProviderAnswer(kind="knowledge", text=text, title=title, url=url)
    return replace(response, answers=(abstract, *response.answers))
