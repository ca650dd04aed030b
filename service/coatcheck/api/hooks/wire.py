"""What hosts' hooks say and are answered: the query of the address, and the event as far as it is looked at."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from coatcheck.api.parameters import CardTokens, InlineTokens, Labels, Ttl


class HookQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of a hook's address."""

    card_tokens: CardTokens | None = None
    inline_tokens: InlineTokens | None = None
    labels: Labels = ()
    ttl: Ttl | UnsetType = UNSET


class ClaudeCodeEvent(Struct, kw_only=True):
    """The members of a PostToolUse event that matter here; a host sends more, and they are passed over."""

    hook_event_name: Annotated[str, Meta(examples=["PostToolUse"])]
    tool_name: Annotated[str, Meta(examples=["Bash"])]
    tool_response: Any
    tool_input: Any = None
    session_id: str | None = None
    tool_use_id: str | None = None


class HookOutput(Struct, kw_only=True, rename="camel", omit_defaults=True):
    """What replaces the tool's output."""

    hook_event_name: Annotated[str, Meta(examples=["PostToolUse"])]
    updated_tool_output: Annotated[Any, Meta(description="The response with cards, in the tool's own shape.")]
    updated_mcp_tool_output: Annotated[
        Any | UnsetType,
        Meta(description="The same for MCP tools, under the name that earlier releases know."),
    ] = UNSET


class HookAnswer(Struct, kw_only=True, rename="camel", omit_defaults=True):
    """A hook's output; an empty object changes nothing."""

    hook_specific_output: HookOutput | UnsetType = UNSET
