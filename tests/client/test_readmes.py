"""What the pages show of the client runs as it stands, with a service and without."""

import re
from pathlib import Path
from typing import Any

import pytest

from support.service import Service

ROOT = Path(__file__).parents[2]
LOG = "".join(f"line {n} of the log\n" for n in range(3_000))
SNIPPET = re.compile(r"^```python\n(from coatcheck_client import Client\n.*?)^```", re.MULTILINE | re.DOTALL)
SNIPPETS = [
    (page, code) for page in ("README.md", "client/README.md") for code in SNIPPET.findall((ROOT / page).read_text())
]


@pytest.mark.parametrize(("page", "code"), SNIPPETS)
@pytest.mark.parametrize("away", [False, True])
def test_a_snippet_runs_also_in_an_outage(
    page: str, code: str, away: bool, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COATCHECK_URL", "http://127.0.0.1:1" if away else service.url)
    known: dict[str, Any] = {"output": LOG}
    exec(compile(code, page, "exec"), known)  # noqa: S102 - that is what the page tells people to do
    known["coatcheck"].close()
    shown: str = known["tool_result"]
    assert shown.startswith("[art_") is not away
    assert "line 2999 of the log" in shown
    assert ("cannot answer now" in known["more"]) is away if "more" in known else True


def test_there_are_snippets() -> None:
    assert {page for page, _ in SNIPPETS} == {"README.md", "client/README.md"}
    assert len(SNIPPETS) >= 3
