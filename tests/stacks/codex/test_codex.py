"""Codex: the real program, without a terminal, with an MCP server behind `coatcheck mcp-wrap` and a scripted model."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from coatcheck_client import Client
from model_server import model_server
from page import block
from scenario import LOG, NEEDLE, plan, saw_a_card
from more_tests import PictureTests
from wire_formats import Call

HERE = Path(__file__).parent
HOME = Path(sys.executable).parents[1]
"""The environment, into which the commands of the page have installed the program."""
APPROVED = 'default_tools_approval_mode = "approve"\n'


@pytest.fixture(scope="module")
def codex() -> Path:
    """The program."""
    return HOME / "bin" / "codex"


def config(model: str, service: str, server: str, *options: str, limit: int = 200_000) -> str:
    """A `config.toml`: the scripted model, and a server as the page has it, with what runs here in its place.

    Args:
        model: URL of the model server.
        service: URL of Coatcheck.
        server: the piece of the page.
        options: of `coatcheck mcp-wrap`.
        limit: tokens of a tool's result, from which on the host cuts it.
    """
    written = tomllib.loads(server)["mcp_servers"]["workers"]
    assert (written["command"], written["args"][0]) == ("coatcheck", "mcp-wrap")
    at = written["args"].index("--")
    assert written["args"][at + 1 :] == ["python", "workers.py"]
    variables = {**written["env"], "COATCHECK_URL": service, "PYTHONPATH": os.environ["PYTHONPATH"]}
    values = {**written, "args": [*written["args"][:at], *options, "--", "python", str(HERE / "workers.py")]}
    del values["env"]
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    return "\n".join(
        [
            'model = "stub"',
            'model_provider = "stub"',
            f"tool_output_token_limit = {limit}",
            "[model_providers.stub]",
            'name = "stub"',
            f'base_url = "{model}/v1"',
            'wire_api = "responses"',
            "[mcp_servers.workers]",
            *lines,
            "[mcp_servers.workers.env]",
            *(f"{name} = {json.dumps(value)}" for name, value in variables.items()),
        ]
    )


def answered(codex: Path, folder: Path, written: str, *options: str) -> str:
    """The final answer of a run of the program with this `config.toml`, which it must know every member of."""
    (folder / "config.toml").write_text(written)
    command = [codex, "exec", "--strict-config", "--skip-git-repo-check", *options, "Which code did request 1777 have?"]
    env = {"PATH": f"{HOME / 'bin'}:{os.environ['PATH']}", "HOME": str(folder), "CODEX_HOME": str(folder)}
    done = subprocess.run(
        command, env=env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestCodex(PictureTests):
    """Agents whose tools are in an MCP server, which `coatcheck mcp-wrap` starts."""

    name = "codex"
    package = "@openai/codex"
    error = "Error executing tool fail"

    @pytest.fixture(autouse=True)
    def installed(self, codex: Path, tmp_path: Path) -> None:
        """The program, and where it keeps what it keeps."""
        self.codex, self.folder = codex, tmp_path

    def framework(self) -> str:
        manifest = json.loads((HOME / "lib" / "node_modules" / self.package / "package.json").read_text())
        return f"{self.package} {manifest['version']}"

    async def run(self, client: Client, url: str, mode: str, **options: Any) -> str:
        exempt = [part for tool in options.pop("exempt_tools", ()) for part in ("--exempt", tool)]
        assert not options
        service = client._setup.url
        with block("codex", 2) as server:
            return answered(self.codex, self.folder, config(url, service, server.text, *exempt))


def test_only_read_artifact_needs_no_approval(service_url: str, codex: Path, tmp_path: Path) -> None:
    with block("codex", 2) as page:
        server = page.text
    assert APPROVED in server
    first = [Call("get_log", {})], [Call("read_artifact", {"artifact_id": "art_000000000000000000"})]
    with model_server(plan(*first)) as model:
        answered(codex, tmp_path, config(model.url, service_url, server.replace(APPROVED, "")))
    assert "requires approval" in model.results[2][0]
    assert "requires approval" not in model.results[2][1]
    assert "art_000000000000000000" in model.results[2][1]


def test_without_cards_the_host_cuts_what_is_long(codex: Path, tmp_path: Path) -> None:
    with model_server(plan()) as model, block("codex", 2) as server:
        answer = answered(codex, tmp_path, config(model.url, "http://127.0.0.1:1", server.text, limit=10_000))
    assert NEEDLE not in answer
    assert LOG.splitlines()[0] in model.results[1][0]
    assert len(model.results[1][0]) < len(LOG) // 2


def test_an_exempt_tool_is_left_alone_as_the_page_has_it(service_url: str, codex: Path, tmp_path: Path) -> None:
    with block("codex", 4) as page:
        server = page.text.replace('"--exempt", "get_status"', '"--exempt", "get_log"')  # its results are long
    assert "get_log" in server
    with model_server(plan()) as model:
        assert NEEDLE in answered(codex, tmp_path, config(model.url, service_url, server))
    assert LOG.splitlines()[-1] in model.results[1][0]


def test_a_sub_agent_has_cards(service_url: str, codex: Path, tmp_path: Path) -> None:
    wait = Call("wait_agent", lambda results: {"targets": [json.loads(results[-1])["agent_id"]], "timeout_ms": 60_000})
    first = [Call("spawn_agent", {"message": "Which code?"})], [wait]
    with model_server(plan(*first)) as model, block("codex", 2) as server:
        saw_a_card(model, answered(codex, tmp_path, config(model.url, service_url, server.text)))


def test_what_all_servers_stored_is_read_by_one_as_the_page_has_it(
    service_url: str, codex: Path, tmp_path: Path
) -> None:
    with model_server(plan()) as model, block("codex", 2) as server, block("codex", 3) as reader:
        (address,) = tomllib.loads(reader.text)["mcp_servers"]["coatcheck"]["env"].values()
        more = reader.text.replace(address, service_url)
        toml = config(model.url, service_url, server.text, "--no-read-tool") + f"\n{more}"
        saw_a_card(model, answered(codex, tmp_path, toml))
    assert [one for one in model.offered[0] if "read_artifact" in one] == ["mcp__coatcheck.read_artifact"]


@pytest.mark.parametrize("member", ["updatedToolOutput", "updatedMCPToolOutput"])
def test_a_hook_cannot_replace_a_result(service_url: str, codex: Path, tmp_path: Path, member: str) -> None:
    answer = {"hookSpecificOutput": {"hookEventName": "PostToolUse", member: "replaced"}}
    written = f"echo '{json.dumps(answer)}'; touch {tmp_path}/ran"
    hook = f'\n[[hooks.PostToolUse]]\n[[hooks.PostToolUse.hooks]]\ntype = "command"\ncommand = {json.dumps(written)}\n'
    with model_server(plan()) as model, block("codex", 2) as server:
        toml = config(model.url, service_url, server.text) + hook
        answered(codex, tmp_path, toml, "--dangerously-bypass-hook-trust")
    assert (tmp_path / "ran").exists()
    assert "[art_" in model.results[1][0]
    assert "replaced" not in model.results[1][0]
