"""Claude Code without a terminal, with the settings of examples/claude-code: the program that the SDK brings."""

import json
import os
import subprocess
from pathlib import Path

import claude_agent_sdk
import pytest

from model_server import ModelServer, model_server
from scenario import LOG, NEEDLE, ROOT, WANTED, failing, plan
from wire_formats import Call

CLAUDE = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
EXAMPLE = ROOT / "examples" / "claude-code"
ADDRESS = "http://127.0.0.1:8321"


def answered(folder: Path, model: ModelServer, service: str, *, command: bool = False) -> str:
    """The final answer of a run in a project that has the example's files, and a log."""
    settings = json.loads((EXAMPLE / "settings.json").read_text().replace(ADDRESS, service))
    if command:
        written = f"{os.environ['COATCHECK_STACKS_COMMAND']} hook claude-code"
        settings["hooks"]["PostToolUse"][0]["hooks"] = [{"type": "command", "command": written}]
    (folder / ".claude").mkdir()
    (folder / ".claude" / "settings.json").write_text(json.dumps(settings))
    (folder / ".mcp.json").write_text((EXAMPLE / ".mcp.json").read_text().replace(ADDRESS, service))
    (folder / "log.txt").write_text(LOG)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "CLAUDE_CONFIG_DIR": str(folder / "config"),
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",
        "COATCHECK_URL": service,
    }
    asked = [CLAUDE, "-p", "Which code did request 1777 have?", "--allowedTools", "Bash,Grep,mcp__coatcheck"]
    done = subprocess.run(
        asked, env=env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


SHELL = Call("Bash", {"command": "cat log.txt"})
LINES = Call("Grep", {"pattern": "request", "path": "log.txt", "output_mode": "content", "head_limit": 0})
PART = Call("Bash", {"command": "head -200 log.txt"})


@pytest.mark.parametrize("command", [False, True], ids=["http", "command"])
def test_the_settings_make_cards_and_the_model_reads_on(service_url: str, tmp_path: Path, *, command: bool) -> None:
    with model_server(plan([PART], [LINES])) as model:
        assert NEEDLE in answered(tmp_path, model, service_url, command=command)
    assert all(one.startswith("[art_") for one in model.results[2])


@pytest.mark.parametrize("command", [False, True], ids=["http", "command"])
def test_only_the_command_sees_what_the_host_has_cut(service_url: str, tmp_path: Path, *, command: bool) -> None:
    with model_server(plan([PART], [SHELL])) as model:
        answer = answered(tmp_path, model, service_url, command=command)
    assert (NEEDLE in answer) is command
    assert ("persisted-output" in model.results[2][1]) is not command


@pytest.mark.parametrize("command", [False, True], ids=["http", "command"])
@pytest.mark.parametrize("how", ["stopped", "hanging", "refusing"])
def test_the_original_goes_through_in_an_outage(how: str, tmp_path: Path, *, command: bool) -> None:
    lines = LOG.splitlines()[WANTED - 50 : WANTED + 50]
    part = Call("Bash", {"command": f"sed -n {WANTED - 49},{WANTED + 50}p log.txt"})
    with failing(how) as service, model_server(plan([part])) as model:
        assert NEEDLE in answered(tmp_path, model, service, command=command)
    assert "\n".join(lines) in model.results[1][0]
    assert len(model.results) == 2, "the model had reason to read on"
