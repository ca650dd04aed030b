"""The examples run as they are written, against a running service."""

import re
import subprocess
import sys
from pathlib import Path

from support.service import Service

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_langchain_example_runs(service: Service) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "langchain" / "agent.py"), service.url],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    answer, sizes = done.stdout.splitlines()
    assert answer.endswith("[07654] ERROR module_190: undefined symbol shim_init")
    large, sent = (int(number) for number in re.findall(r"\d+", sizes))
    assert large > 500_000
    assert sent < 8_000
    assert service.get("/v1/artifacts", session="example-1")["items"]


def test_the_example_with_a_sub_agent_and_a_summariser_runs(service: Service) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "langchain" / "deep_agent.py"), service.url],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    large, child, summariser = (int(number) for number in re.findall(r"\d+", done.stdout))
    assert large > 500_000
    assert 500 < child < 8_000
    assert 500 < summariser < 8_000
