"""The client, the middleware and the hook at a service that asks for keys."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage

from cli.terminal import call, run
from coatcheck_client import Client, ServiceError
from coatcheck_client.integrations.langchain import CoatcheckMiddleware
from support.service import Service, serving

LOG = "".join(f"line {n} of the log\n" for n in range(3_000))


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """A service with one key, which may ingest and read."""
    data: Path = tmp_path_factory.mktemp("keyed")
    with serving(data):
        pass
    made = run("key", "create", "agent", "--scope", "ingest", "--scope", "read", "--data", str(data), "--json")
    assert made.code == 0, made.err
    with serving(data) as service:
        yield service, json.loads(made.out)["key"]


def test_a_key_opens_what_it_may_and_nothing_else(keyed: tuple[Service, str]) -> None:
    service, key = keyed
    with Client(service.url, key=key) as client:
        receipt = client.put(LOG)
        assert client.read(receipt.id, limit=1).text == "line 0 of the log\n"
        with pytest.raises(ServiceError) as refused:
            client.delete(receipt.id)
        assert (refused.value.code, refused.value.status) == ("forbidden", 403)


def test_a_missing_or_wrong_key_is_told_in_the_receipt_and_raised_elsewhere(keyed: tuple[Service, str]) -> None:
    service, key = keyed
    for wrong in (None, key[:-1] + ("0" if key[-1] != "0" else "1")):
        with Client(service.url, key=wrong) as client:
            receipt = client.put(LOG)
            assert (receipt.stored, receipt.warnings[0].code) == (False, "unauthenticated")
            with pytest.raises(ServiceError) as refused:
                client.artifacts()
        assert (refused.value.code, refused.value.status) == ("unauthenticated", 401)


def test_an_agent_with_a_wrong_key_goes_on_with_what_its_tools_answer(keyed: tuple[Service, str]) -> None:
    service, key = keyed
    for presented, begins in ((None, LOG[:9]), (key, "[art_")):
        with Client(service.url, key=presented) as client:
            asked = ToolCallRequest(
                tool_call={"name": "build", "args": {}, "id": "c", "type": "tool_call"},
                tool=None,
                state={},
                runtime=None,  # type: ignore[arg-type]
            )
            got = CoatcheckMiddleware(client).wrap_tool_call(asked, lambda _: ToolMessage(LOG, tool_call_id="c"))
        assert isinstance(got, ToolMessage)
        assert str(got.content).startswith(begins)


def test_a_hook_needs_a_key_that_may_ingest(keyed: tuple[Service, str]) -> None:
    service, key = keyed
    event = {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": {"stdout": LOG}}
    assert service.client.post("/v1/hooks/claude-code", json=event).status_code == 401
    answered = service.client.post("/v1/hooks/claude-code", json=event, headers={"authorization": f"Bearer {key}"})
    assert answered.json()["hookSpecificOutput"]["updatedToolOutput"]["stdout"].startswith("[art_")
    without = call("hook", "claude-code", "--url", service.url, stdin=json.dumps(event).encode())
    assert (without.code, without.out, "unauthenticated" in without.err) == (0, b"", True)
    given = call("hook", "claude-code", "--url", service.url, "--key", key, stdin=json.dumps(event).encode())
    assert json.loads(given.out) == answered.json()
