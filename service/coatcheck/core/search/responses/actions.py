"""What a provider's own web tool did, if its response says so: searched, opened a page, searched in one.

OpenAI's `web_search_call` items contain the action but no result's text. A history that keeps only actions gets one
short line for each, in the words that hosts show.
"""

from typing import Final

from coatcheck.core.search.responses.values import find_values, record_of, text_at, text_of
from coatcheck.core.search.shorten import ADDRESS, QUERY, short

_CALLS: Final = ("output[type=web_search_call]", "[type=web_search_call]")
_MOST: Final = 8
_SHOWN: Final = 3
"""Queries shown of one action."""


def actions_of(value: object) -> tuple[str, ...]:
    """Returns the actions in order, without duplicates; none if the response names none."""
    record = record_of(value)
    alone = record is not None and text_of(record.get("type")) == "web_search_call"
    calls = [value] if alone else [call for path in _CALLS for call in find_values(value, path)]
    lines = (_line(action) for call in calls for action in find_values(call, "action"))
    return tuple(dict.fromkeys(line for line in lines if line))[:_MOST]


def _line(action: object) -> str:
    queries = tuple(text for each in find_values(action, "queries[]") if (text := text_of(each)))
    url, pattern, query = (text_at(action, name) for name in ("url", "pattern", "query"))
    if not (url or query or queries):
        return ""
    return action_line(query, url=url, pattern=pattern, queries=queries)


def action_line(
    query: str | None = None, *, url: str | None = None, pattern: str | None = None, queries: tuple[str, ...] = ()
) -> str:
    """Returns what a web tool did, as hosts show it: `searched 'x'`, `opened https://…`, `'y' in https://…`."""
    if url:
        address = short(url, ADDRESS)
        return f"'{short(pattern, QUERY)}' in {address}" if pattern else f"opened {address}"
    searches = [each for each in dict.fromkeys((query or "", *queries)) if each.strip()]
    if not searches:
        return "searched the web"
    quoted_searches = ", ".join(f"'{short(each, QUERY)}'" for each in searches[:_SHOWN])
    return f"searched {quoted_searches}{f' and {len(searches) - _SHOWN} more' if len(searches) > _SHOWN else ''}"
