"""Executes `list_artifacts`: a page of what is stored, one line each."""

from concurrent.futures import Executor

from coatcheck.core.artifact import Artifact, Caller, Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.text.plural import plural
from coatcheck.core.tokens import Tokenizer
from coatcheck.ports.catalog import ArtifactFilter
from coatcheck.tools.answers import AnswerText, ToolAnswer, clip_notes, fit_answer, plain
from coatcheck.tools.arguments import ListArguments
from coatcheck.usecases.payloads.browse import Browse
from coatcheck_client.contract.inert import one_line
from coatcheck_client.contract.tools import DEFAULT_LISTED, MAX_LISTED

_NAME = 80
"""Maximum characters of a name from outside."""
_LEAST = 1


class ListArtifacts:
    """The tool `list_artifacts`."""

    def __init__(self, browse: Browse, tokenizer: Tokenizer, pool: Executor) -> None:
        self._browse = browse
        self._tokenizer = tokenizer
        self._pool = pool

    async def __call__(self, caller: Caller, arguments: ListArguments, tokens: int) -> ToolAnswer:
        """Returns a page, newest first, in at most `tokens` tokens.

        Raises:
            CoatcheckError: whatever the list raises; `invalid_request` for an unknown kind.
        """
        where = ArtifactFilter(
            session=arguments.session,
            kind=_kind(arguments.kind),
            tool_name=arguments.tool_name,
            url=None,
            label=arguments.label,
        )
        limit = max(1, min(DEFAULT_LISTED if arguments.limit is None else arguments.limit, MAX_LISTED))

        async def attempt(budget: int) -> AnswerText:
            size = max(1, min(limit, budget // 40))
            page = await self._browse(caller, where, arguments.cursor, size, query=arguments.query)
            lines = [_line(artifact) for artifact in page.items]
            count = f"{plural(len(lines), 'artifact')}, newest first."
            first = count if lines else _nothing(arguments, page.partial)
            on = f' There are more: cursor="{page.next}".' if page.next else ""
            last = f"({first}{on}{''.join(f' {note}' for note in clip_notes(arguments.notes))})"
            return plain("\n".join([*lines, last]))

        got = await fit_answer(attempt, tokens, self._tokenizer, self._pool, least=_LEAST)
        if got is None:
            raise CoatcheckError(Code.INVALID_REQUEST, "The list does not fit into an answer. Ask for fewer: limit=1.")
        return ToolAnswer(text=got[0], tokens=got[1])


def _nothing(arguments: ListArguments, partial: bool) -> str:
    if partial:
        return "Nothing found yet; the newest artifacts are being indexed: retry the same call."
    if arguments.query is not None:
        return "No matching artifact contains all words of the query; try fewer or other words."
    return "No stored artifact matches."


def _kind(word: str | None) -> Kind | None:
    if word is None:
        return None
    try:
        return Kind(word.strip().lower().replace(" ", "_").replace("-", "_"))
    except ValueError:
        kind_names = ", ".join(kind.value for kind in Kind)
        raise CoatcheckError(Code.INVALID_REQUEST, f"There is no such kind. The kinds are {kind_names}.") from None


def _line(artifact: Artifact) -> str:
    declared, facts, measure = artifact.declared, artifact.facts, artifact.measure
    fetch = facts.fetch_of(declared)
    status = f"HTTP {fetch.status}" if fetch.has_failed else ""
    name = one_line((declared.title or facts.title or declared.url or facts.url or declared.command or "")[: _NAME * 2])
    name = name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
    lines = f"{plural(measure.lines, 'line')}, {plural(measure.size, 'byte')}"
    tool = one_line((declared.tool_name or "")[:_NAME])
    when = artifact.created_at.strftime("%Y-%m-%d %H:%M UTC")
    return " · ".join(part for part in (artifact.id, facts.kind.value, status, name, lines, tool, when) if part)
