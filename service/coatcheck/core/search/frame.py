"""Our own lines around the results: each begins with a mark that no outside text can have.

Texts of a provider or a page in them (titles, addresses, dates) are inert and on one line.
"""

from typing import Final

from coatcheck.core.search.fold import Fold
from coatcheck.core.search.model import UNKNOWN, ProviderAnswer, SearchResponse, SearchResult
from coatcheck.core.search.shorten import ADDRESS, QUERY, short
from coatcheck_client.contract.inert import MARK

_TITLE: Final = 160
_FOLDS: Final = 12
"""Maximum number of folded results that are named."""
_LABELS: Final = {
    "answer": "answer",
    "knowledge": "knowledge panel",
    "question": "related question",
    "commentary": "note",
}


def first_line(query: str, response: SearchResponse, shown: int, artifact_id: str | None, *, brief: bool) -> str:
    """Returns the line that says what this is, and where all of it is stored."""
    count = len(response.results)
    results = f"{count} {'result' if count == 1 else 'results'}"
    if brief:
        return (
            f"{MARK} {results}, {shown} shown; all in {artifact_id}" if artifact_id else f"{MARK} {results}; not stored"
        )
    of = f' for "{short(query, QUERY)}"' if query.strip() else ""
    by = "" if response.provider == UNKNOWN else f" by {response.provider}"
    how = f"{results}{of}{by}, {shown} shown"
    if artifact_id is None:
        return f"{MARK} Search: {how}. Not stored: cannot be read back."
    cite = f"; cite as {artifact_id}#r1" if count else ""
    return f"{MARK} Search: {how}. Stored outside this conversation as {artifact_id}{cite}"


def result_line(section: str, result: SearchResult, also: str | None = None) -> str:
    """Returns the line above a result's text."""
    about = [short(each, _TITLE) for each in (result.date or "",) if each]
    other = [f"other text of this page: {also}"] if also else []
    return f"{MARK} {listed_line(section, result)}{''.join(f' | {each}' for each in (*about, *other))}"


def listed_line(section: str, result: SearchResult) -> str:
    """Returns the line with title and address of a result."""
    title = short(result.title, _TITLE)
    address = short(result.url or "", ADDRESS)
    return " ".join(each for each in (section, title, "|" if title and address else "", address) if each)


def answer_line(provider: str, answer: ProviderAnswer) -> str:
    """Returns the line above a provider's own answer."""
    whose = "Provider's" if provider == UNKNOWN else f"{provider}'s"
    more = [short(each, ADDRESS) for each in (answer.title, answer.url or "") if each]
    return f"{MARK} {whose} own {_LABELS[answer.kind]}, not a source{''.join(f' | {each}' for each in more)}"


def list_line(count: int) -> str:
    """Returns the line above the results that are not shown."""
    return f"{MARK} {count} more, by title and address:"


def folds_line(folds: tuple[Fold, ...]) -> str:
    """Returns the line that says which results duplicate which."""
    told = [
        f"{fold.section} is {'already stored as ' if fold.into.startswith('art_') else ''}{fold.into} "
        f"({'same page' if fold.why == 'url' else 'same text'})"
        for fold in folds[:_FOLDS]
    ]
    more = f" and {len(folds) - _FOLDS} more" if len(folds) > _FOLDS else ""
    return f"{MARK} Not shown twice: {'; '.join(told)}{more}"


def left_line(left: int, chars: int, furniture: int, unlisted: int, excluded: int) -> str:
    """Returns the line on what is missing of shown results, in characters, and how many results are not listed."""
    parts: list[str] = []
    if left:
        parts.append(f"{left:,} of {chars:,} characters of the shown results")
    if furniture:
        parts.append(f"{furniture:,} characters of menus, notices and repeats")
    if unlisted:
        parts.append(f"{unlisted} {'result' if unlisted == 1 else 'results'}")
    if excluded:
        parts.append(f"{excluded} of sites that the request excludes")
    return f"{MARK} Left out: {', '.join(parts)}" if parts else ""


def next_line(artifact_id: str, section: str) -> str:
    """Returns the literal call with which to read on."""
    return f'{MARK} Next: read_artifact(artifact_id="{artifact_id}", section="{section}", query="…")'


def warning_line(warning: str) -> str:
    """Returns a line with a warning."""
    return f"{MARK} {short(warning, 300)}"
