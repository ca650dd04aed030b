"""Recognises a web search's response by the name of the tool that returned it, or by its form. Pure."""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, cast

import msgspec

from coatcheck_client.contract.cards import is_card

SEARCH_RESPONSE: Final = "search_response"
"""The kind to declare for a web search's response if the name of its tool does not show that it is one."""
_ENGINES: Final = "bing|brave|ddgs?|duckduckgo|exa|firecrawl|google|jina|kagi|linkup|perplexity|tavily|you"
"""Search engines, as alternatives in a regular expression."""
_NAME: Final = re.compile(
    r"(?:web|internet|online)search|search(?:the)?(?:web|internet|online)"
    rf"|(?:{_ENGINES})(?:news)?(?:search|results|answer)|ddgs|searxng|serpapi|serper|\$web"
)
"""Searched in a tool's name in lower case, without separators. Matches a search of the web, or by an engine that
searches nothing else."""
_NO_WORD: Final = re.compile(r"[^a-z0-9$]+")
_QUERIES: Final = frozenset(
    {"query", "q", "queries", "search_query", "searchquery", "searchparameters", "search_parameters"}
)
"""Names of members, in lower case, in which search providers repeat the query."""
_ASKED: Final = ("query", "q", "search_query", "search_term", "objective", "question", "queries")
"""Names of arguments, in lower case, in which calls of search tools contain the query; the most usual first."""
_LONGEST_QUERY: Final = 4_000
"""Maximum characters of a query, the same as the service's."""
_ADDRESSES: Final = ("url", "link", "href", "uri")
_TITLES: Final = ("title", "name")
_EXAMINED: Final = 10
"""Maximum records of a list that are examined."""
_LARGEST: Final = 8 * 1024 * 1024
"""Maximum characters of JSON whose form is examined, because that takes decoding all of it."""


def is_search_tool(name: object) -> bool:
    """Returns whether a tool's name shows that it searches the web: `web_search`, `mcp__tavily__tavily-search`."""
    return isinstance(name, str) and _NAME.search(_NO_WORD.sub("", name.lower())) is not None


def is_search(text: str, tool_name: str | None, kind: str | None = None) -> bool:
    """Returns whether a payload is a web search's response.

    The declared kind decides, or else the tool's name, or else the form: an object that repeats a query and has a list
    of records, most of which have a title and an address. Few other APIs have this form. A card is never a response.

    Args:
        text: the payload.
        tool_name: the name of the tool that returned it.
        kind: the declared kind; any kind other than `search_response` means that it is not a web search's response.
    """
    if is_card(text):
        return False
    if kind is not None:
        return kind == SEARCH_RESPONSE
    return is_search_tool(tool_name) or _has_form(text)


def query_of(arguments: object) -> str | None:
    """Returns the query of a search tool's call from its arguments or their JSON; None if no argument contains it."""
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments)
        except (ValueError, RecursionError):  # no JSON, or half of a surrogate pair
            return None
    given = _lower(arguments)
    value: Any = next((one for name in _ASKED if (one := given.get(name))), None)
    first: object = next(iter(cast("list[object]", value)), None) if isinstance(value, list) else value
    return first[:_LONGEST_QUERY] if isinstance(first, str) and first.strip() else None


def search_fields(tool_name: str, arguments: object, search_tools: Collection[str] = ()) -> dict[str, str]:
    """Returns what to declare for a call's result because its tool searches the web; empty for other tools.

    Args:
        tool_name: the tool's name.
        arguments: the arguments of the call, or their JSON.
        search_tools: names of further tools that search the web; their results get the kind `search_response`.
    """
    known = tool_name in search_tools
    if not known and not is_search_tool(tool_name):
        return {}
    query = query_of(arguments)
    return {**({"kind": SEARCH_RESPONSE} if known else {}), **({"query": query} if query else {})}


def payload_text(value: object) -> str | None:
    """Returns the text of a payload: itself, the texts of its parts, or its JSON.

    None for bytes that are not UTF-8, and for what JSON cannot represent.
    """
    if isinstance(value, str):
        return value
    try:
        if isinstance(value, bytes):
            return value.decode()
        parts = [_lower(one) for one in cast("list[object]", value)] if isinstance(value, list) else []
        if parts and all(isinstance(one.get("text"), str) for one in parts):
            return "\n".join(one["text"] for one in parts)
        return msgspec.json.encode(value).decode()
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError):
        return None


def _has_form(text: str) -> bool:
    if not text[:64].lstrip("\ufeff \t\r\n").startswith("{") or "http" not in text or len(text) > _LARGEST:
        return False
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    members = _lower(value)
    if not any(members.get(name) for name in _QUERIES):
        return False
    inner = [one for member in members.values() for one in _lower(member).values()]
    return any(map(_are_results, [*members.values(), *inner]))


def _lower(value: object) -> dict[str, Any]:
    """Returns the members of an object by their names in lower case; none for any other value."""
    members = cast("Mapping[Any, Any]", value if isinstance(value, Mapping) else {})
    return {str(name).lower(): one for name, one in members.items()}


def _are_results(value: object) -> bool:
    if not isinstance(value, list):
        return False
    records = [_lower(one) for one in cast("list[object]", value)[:_EXAMINED]]
    good = [one for one in records if any(map(one.get, _TITLES)) and any(_is_web(one.get(name)) for name in _ADDRESSES)]
    return len(good) * 2 > min(len(cast("list[object]", value)), _EXAMINED)


def _is_web(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("http://", "https://"))
