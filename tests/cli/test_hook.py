"""`hook claude-code` as Claude Code runs it: an event on standard input, an answer or nothing on standard output."""

import json
from pathlib import Path
from typing import Any

from cli.terminal import Ended, call
from support.service import Service

JSON = {"content-type": "application/json"}
LOG = "".join(f"line {n} of the log\n" for n in range(20_000))


def event(response: Any, tool_name: str = "Bash") -> bytes:  # noqa: ANN401 - JSON
    said = {"hook_event_name": "PostToolUse", "tool_name": tool_name, "tool_response": response, "tool_use_id": "t1"}
    return json.dumps(said).encode()


def ask(url: str, said: bytes, *options: str) -> Ended:
    return call("hook", "claude-code", "--url", url, *options, stdin=said)


def cut(path: Path) -> dict[str, Any]:
    """An output as the host hands it over when it is too long for it."""
    return {
        "stdout": LOG[:30_000],
        "stderr": "",
        "interrupted": False,
        "persistedOutputPath": str(path),
        "persistedOutputSize": len(LOG),
    }


def test_an_output_that_the_host_has_cut_is_stored_whole_and_its_file_is_not_named_any_more(
    service: Service, tmp_path: Path
) -> None:
    file = tmp_path / "output.txt"
    file.write_text(LOG)
    ended = ask(service.url, event(cut(file)), "--card-tokens", "200", "--label", "hooked")
    assert (ended.code, ended.err) == (0, "")
    got = json.loads(ended.out)["hookSpecificOutput"]["updatedToolOutput"]
    assert got == {"stdout": got["stdout"], "stderr": "", "interrupted": False}
    assert service.content(got["stdout"][1:23]) == LOG.encode()
    assert service.get(f"/v1/artifacts/{got['stdout'][1:23]}")["artifact"]["labels"] == ["hooked"]


def test_an_output_whose_file_is_gone_stays_with_the_host(service: Service, tmp_path: Path) -> None:
    assert ask(service.url, event(cut(tmp_path / "none"))) == Ended(0, b"", "")


def test_other_outputs_are_answered_as_the_address_answers_them(service: Service) -> None:
    response = {"stdout": LOG, "stderr": "", "interrupted": False}
    printed = json.loads(ask(service.url, event(response)).out)
    assert printed == service.client.post("/v1/hooks/claude-code", content=event(response), headers=JSON).json()
    assert ask(service.url, event({"stdout": "fine", "stderr": "", "interrupted": False})) == Ended(0, b"", "")


def test_a_wrong_option_does_not_disturb_the_host(service: Service) -> None:
    ended = ask(service.url, event({"stdout": LOG}), "--card-tokens", "x")
    assert (ended.code, ended.out) == (1, b"")
    assert "'x' is not a valid integer" in ended.err


def test_nothing_that_goes_wrong_costs_the_host_anything(service: Service) -> None:
    for url, said in (("http://127.0.0.1:1", event({"stdout": LOG})), (service.url, b"no JSON")):
        ended = ask(url, said)
        assert (ended.code, ended.out) == (0, b"")
        assert "stays as it is" in ended.err
    ended = ask("ftp://nowhere", event({"stdout": LOG}))
    assert (ended.code, ended.out) == (1, b"")
