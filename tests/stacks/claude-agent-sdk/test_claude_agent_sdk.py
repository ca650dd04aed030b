"""Claude Agent SDK with the Claude Code that it brings: the real program, and a scripted model."""

import json
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    AgentDefinition,
    ClaudeAgentOptions,
    ResultMessage,
    ToolAnnotations,
    create_sdk_mcp_server,
    query,
    tool,
)

from coatcheck_client import Client
from coatcheck_client.integrations.claude_agent_sdk import with_coatcheck
from model_server import model_server
from scenario import LOG, NEEDLE, PICTURE, TOOLS, plan, saw_a_card
from more_tests import PageTests
from wire_formats import Call


def as_tool(name: str) -> Any:
    """A tool of an in-process server."""

    @tool(name, TOOLS[name].__doc__ or name, {}, ToolAnnotations(maxResultSizeChars=500_000))
    async def run(_arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": TOOLS[name]()}]}

    return run


@tool("get_pictured_log", "Get the log and a picture of it.", {})
async def get_pictured_log(_arguments: dict[str, Any]) -> dict[str, Any]:
    """A text and an image."""
    return {"content": [{"type": "text", "text": LOG}, {"type": "image", "data": PICTURE, "mimeType": "image/png"}]}


WORKERS: Any = [*map(as_tool, TOOLS), get_pictured_log]


class TestClaudeAgentSdk(PageTests):
    """Agents whose tools are in an MCP server in this process, and the host's own."""

    name = "claude-agent-sdk"
    package = "claude-agent-sdk"

    @pytest.fixture(autouse=True)
    def home(self, tmp_path: Path) -> Path:
        """Where the host keeps what it keeps, and works."""
        self.folder = tmp_path
        return tmp_path

    def variables(self, url: str) -> dict[str, str]:
        return environment(url, self.folder)

    def names(self) -> dict[str, Any]:
        return {"workers": create_sdk_mcp_server("workers", tools=WORKERS)}

    async def run(self, client: Client, url: str, mode: str, **options: Any) -> str:
        exempt = [f"mcp__workers__{one}" for one in options.pop("exempt_tools", ())]
        return await self.asked(with_coatcheck(self.given(url), client, exempt_tools=exempt, **options))

    def given(self, url: str, **more: Any) -> ClaudeAgentOptions:
        """Options without Coatcheck."""
        return ClaudeAgentOptions(
            model="claude-sonnet-4-5",
            mcp_servers={"workers": create_sdk_mcp_server("workers", tools=WORKERS)},
            allowed_tools=[*(f"mcp__workers__{one.name}" for one in WORKERS), "Bash", "Agent"],
            cwd=self.folder,
            setting_sources=[],
            env=environment(url, self.folder),
            **more,
        )

    async def asked(self, options: ClaudeAgentOptions) -> str:
        """The final answer of a run."""
        answer = ""
        async for message in query(prompt="With which code did request 1777 finish?", options=options):
            if isinstance(message, ResultMessage):
                answer = message.result or ""
        return answer

    async def test_a_sub_agent_has_cards(self, service_url: str, mode: str) -> None:
        task = {"description": "Find", "prompt": "Which?", "subagent_type": "operator", "run_in_background": False}
        operator = AgentDefinition("Has the log.", "Look.", ["mcp__workers__get_log", "mcp__coatcheck__read_artifact"])
        with model_server(plan([Call("Agent", task)])) as model, Client(service_url) as client:
            own = self.given(model.url, agents={"operator": operator})
            saw_a_card(model, await self.asked(with_coatcheck(own, client)))

    async def test_an_image_stays_beside_the_card(self, service_url: str, mode: str) -> None:
        with model_server(plan([Call("get_pictured_log", {})])) as model, Client(service_url) as client:
            assert NEEDLE in await self.run(client, model.url, mode)
        assert "[art_" in model.results[1][0]
        assert '"type": "image"' in json.dumps(model.bodies[1]["messages"])

    async def test_all_of_a_shell_s_output_is_stored_though_the_host_cuts_it(
        self, service_url: str, mode: str, tmp_path: Path
    ) -> None:
        (tmp_path / "log.txt").write_text(LOG)
        with model_server(plan([Call("Bash", {"command": "cat log.txt"})])) as model, Client(service_url) as client:
            assert NEEDLE in await self.run(client, model.url, mode)
        assert "[art_" in model.results[1][0]
        assert "persisted-output" not in model.results[1][0]


def environment(url: str, folder: Path) -> dict[str, str]:
    """What makes the host ask the model at a URL, and nothing else."""
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CONFIG_DIR": str(folder / "config"),
        "HOME": str(folder),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "MAX_MCP_OUTPUT_TOKENS": "1000000",
        "ENABLE_TOOL_SEARCH": "false",
    }
