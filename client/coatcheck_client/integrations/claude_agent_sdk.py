"""Claude Agent SDK: `pip install "coatcheck-client[claude-agent-sdk]"`.

from coatcheck_client.integrations.claude_agent_sdk import with_coatcheck

query(prompt=..., options=with_coatcheck(ClaudeAgentOptions(...)))
"""

# ruff: noqa: ANN401 - the SDK's hooks have no types where the SDK is not installed
# pyright: basic, reportMissingImports=false, reportPrivateImportUsage=false

import asyncio
import dataclasses
import logging
from collections.abc import Collection
from typing import Any, Final

from coatcheck_client import Client, declarations
from coatcheck_client.contract.json_values import is_among
from coatcheck_client.fallback import limits_of
from coatcheck_client.integrations.claude_code_event import whole_event
from coatcheck_client.integrations.extras import NeededExtra
from coatcheck_client.integrations.tool_outputs import answer_read

with NeededExtra("claude-agent-sdk"):
    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, create_sdk_mcp_server, tool

log = logging.getLogger(__name__)

_SERVER: Final = "coatcheck"


def with_coatcheck(
    options: ClaudeAgentOptions | None = None,
    client: Client | None = None,
    *,
    max_tokens: int = 1_000,
    exempt_tools: Collection[str] = (),
) -> ClaudeAgentOptions:
    """Returns options with a hook that puts cards in place of bulky results, and an MCP server with `read_artifact`.

    The agent may call `read_artifact` without asking for permission.

    Args:
        options: the agent's options, which are not changed; their `mcp_servers` must be a dictionary.
        client: the client to use; None for one with `COATCHECK_URL` and `COATCHECK_KEY`, or the local defaults.
        max_tokens: maximum tokens of a text that stays as it is; a longer one becomes a card of at most 600 tokens.
        exempt_tools: names of tools whose results stay as they are, as the host spells them (`mcp__workers__get_log`).

    Raises:
        TypeError: `mcp_servers` is the path of a file, so that no server can be added.
    """
    given = options or ClaudeAgentOptions()
    if not isinstance(given.mcp_servers, dict):
        raise TypeError("Give mcp_servers as a dictionary: read_artifact is added to them.")
    used = client or Client()
    limits: Any = limits_of(max_tokens)

    async def after_tool_use(event: Any, _call: str | None, _context: Any) -> Any:
        if is_among(event.get("tool_name"), exempt_tools):
            return {}
        try:
            return await asyncio.to_thread(lambda: used.answer_hook(whole_event(event), **limits))
        except Exception as e:  # noqa: BLE001 - a failure must not stop the agent
            log.warning("the result of %s stays as it is: %s: %s", event.get("tool_name"), type(e).__name__, e)
            return {}

    hooks: Any = dict(given.hooks or {})
    hooks["PostToolUse"] = [*hooks.get("PostToolUse", ()), HookMatcher(hooks=[after_tool_use])]
    server = create_sdk_mcp_server(_SERVER, tools=[_read_tool(used)])
    return dataclasses.replace(
        given,
        hooks=hooks,
        mcp_servers={**given.mcp_servers, _SERVER: server},
        allowed_tools=[*given.allowed_tools, f"mcp__{_SERVER}__read_artifact"],
    )


def _read_tool(client: Client) -> Any:
    (declared,) = declarations("json-schema")

    @tool(declared["name"], declared["description"], declared["parameters"])
    async def read(arguments: dict[str, Any]) -> dict[str, Any]:
        text = await asyncio.to_thread(answer_read, client, arguments)
        return {"content": [{"type": "text", "text": text}]}

    return read
