"""Optional parameters of the client's methods, with the names that the OpenAPI document uses."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

View = Literal["raw", "text"]
"""The views of an artifact: the payload itself, and its readable text."""


class ReadParameters(TypedDict, total=False):
    """Optional parameters of a read."""

    unit: Literal["line", "char", "byte", "token"]
    offset: int
    limit: int
    section: str
    view: View
    cursor: str | None
    max_tokens: int


class SearchParameters(TypedDict, total=False):
    """Optional parameters of a search in an artifact."""

    literal: bool
    ignore_case: bool
    context: int
    offset: int
    limit: int
    section: str
    view: View
    max_tokens: int


class PassageParameters(TypedDict, total=False):
    """Optional parameters of a search for passages."""

    section: str
    view: View
    max_tokens: int


class ValueParameters(TypedDict, total=False):
    """Optional parameters of reading values by path."""

    fields: str
    limit: int
    cursor: str | None
    max_tokens: int


class OutlineParameters(TypedDict, total=False):
    """Optional parameters of an outline."""

    section: str
    offset: int | None
    limit: int
    max_tokens: int


class ListParameters(TypedDict, total=False):
    """Optional parameters of listing artifacts."""

    session: str
    kind: str
    tool_name: str
    url: str
    status: int
    final_url: str
    label: str
    created_after: str
    created_before: str
    q: str
    cursor: str | None
    limit: int


class SearchResultsParameters(TypedDict, total=False):
    """Optional parameters of storing a web search's response."""

    query: str | None
    session: str | None
    tool_name: str | None
    tool_call_id: str | None
    url: str | None
    labels: Sequence[str]
    turn: str | None
    max_results: int | None
    max_tokens_per_result: int | None
    max_total_tokens: int | None
    allowed_domains: Sequence[str]
    excluded_domains: Sequence[str]
    format: Literal["text", "openai", "anthropic"]
    across_session: bool
    ttl: int | str | None
    idle_ttl: int | str | None
    pin: bool


class HookParameters(TypedDict, total=False):
    """Optional parameters of answering the hook of a host."""

    card_tokens: int | None
    inline_tokens: int | None
    labels: Sequence[str]
    ttl: int | str | None


class MeasureParameters(TypedDict, total=False):
    """Optional parameters of measuring a context."""

    format: str | None
    session: str | None
    policy: Mapping[str, Any]
    window: Mapping[str, Any] | None
    usage: Mapping[str, Any] | int | None
    covers: int | None
    transient_tokens: int
    persisted_tokens: int
    compact_percent: int
    outputs_stay: bool | None


class CompactParameters(TypedDict, total=False):
    """Optional parameters of a compaction. If `format` is left out, the service detects it."""

    format: str | None
    session: str | None
    policy: Mapping[str, Any]
    window: Mapping[str, Any] | None
    usage: Mapping[str, Any] | int | None
    covers: int | None
    transient_tokens: int
    persisted_tokens: int
    compact_percent: int
    labels: Sequence[str]
    ttl: int | str | None
    idle_ttl: int | str | None
    pin: bool
    repair: bool
    tools: Literal["read_artifact", "none"] | None
