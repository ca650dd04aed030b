"""Whatever fails, a model gets text and an agent's call does not raise: every integration before every faulty server.

Integrations with frameworks that are not installed here share what is tested; their own tests are in `tests/stacks`.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage

from cli.terminal import call
from client.servers import FAULTS, answering, refusal
from coatcheck_client import AsyncClient, Client, Retries
from coatcheck_client.integrations.anthropic import with_coatcheck
from coatcheck_client.integrations.langchain import CoatcheckMiddleware
from coatcheck_client.integrations.langchain.reading import read_tool
from coatcheck_client.integrations.mcp_wrap.proxy import Proxy, WrapOptions
from coatcheck_client.integrations.tool_outputs import ToolOutputs, read_payload
from support.service import Service, serving

Options = Mapping[str, Any]
SECRET: Final = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"
LOG: Final = f"token={SECRET}\n" + "".join(f"line {n} of the log\n" for n in range(3_000)) + "the last line"
PARTS: Final[list[Any]] = [{"type": "text", "text": LOG}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]


def quickly(name: str) -> dict[str, Any]:
    return {"deadline": 0.5 if name == "silent" else 30, "retries": Retries(attempts=1)}


def outputs(client: Client, options: Options) -> ToolOutputs:
    return ToolOutputs(client, **cast("Any", options))


async def put(url: str, options: Options, client: Options) -> object:
    async with AsyncClient(url, **client) as opened:
        return (await opened.put(LOG, **cast("Any", {"on_unreachable": "original", **options}))).text


async def carder(url: str, options: Options, client: Options) -> object:
    with Client(url, **client) as opened:
        return opened.carder(**options)(LOG, tool_name="build")


async def text(url: str, options: Options, client: Options) -> object:
    with Client(url, **client) as opened:
        return outputs(opened, options).card(LOG, "build")


async def parts(url: str, options: Options, client: Options) -> object:
    with Client(url, **client) as opened:
        return await outputs(opened, options).acard(PARTS, "build", "call_1", "session")


async def value(url: str, options: Options, client: Options) -> object:
    with Client(url, **client) as opened:
        return outputs(opened, options).card({"lines": LOG.splitlines()}, "build")


async def langchain(url: str, options: Options, client: Options) -> object:
    with Client(url, **client) as opened:
        return carded_message(CoatcheckMiddleware(opened, **options), ToolMessage(PARTS, tool_call_id="call_1")).content


def carded_message(middleware: CoatcheckMiddleware, message: ToolMessage) -> ToolMessage:
    asked = SimpleNamespace(tool_call={"name": "build", "id": "call_1"}, runtime=None, state={})
    return cast("ToolMessage", middleware.wrap_tool_call(cast("ToolCallRequest", asked), lambda _: message))


async def anthropic(url: str, options: Options, client: Options) -> object:
    from anthropic import beta_tool  # noqa: PLC0415 - takes seconds

    @beta_tool
    def build() -> str:
        """Build."""
        return LOG

    with Client(url, **client) as opened:
        return with_coatcheck([build], opened, **cast("Any", options))[0].call({})


async def mcp_wrap(url: str, _: Options, client: Options) -> object:
    result = {"content": [{"type": "text", "text": LOG}], "structuredContent": {"log": LOG}}
    (answer,) = await passed(url, client, {"result": result})
    return answer["result"]


async def passed(url: str, client: Options, *answers: Any, **options: Any) -> list[Any]:  # noqa: ANN401 - JSON
    """What a host is given when a server answers calls of a tool with these messages."""
    got: list[Any] = []

    async def to_host(line: bytes) -> None:
        got.append(json.loads(line))

    async def to_server(_: bytes) -> None:
        return

    async with AsyncClient(url, **client) as opened:
        proxy = Proxy(opened, WrapOptions(**options), to_host=to_host, to_server=to_server)
        for number, answer in enumerate(answers):
            method = answer.get("method", "tools/call")
            asked = {"id": number, "method": method, "params": answer.get("params", {"name": "build"})}
            await proxy.take_host_line(json.dumps(asked).encode())
            if "result" in answer:
                await proxy.take_server_line(json.dumps({"id": number, "result": answer["result"]}).encode())
        await proxy.drained()
    return got


Convert = Callable[[str, Options, Options], Awaitable[object]]
CONVERSIONS: Final[dict[str, Convert]] = {
    one.__name__: one for one in (put, carder, text, parts, value, langchain, anthropic, mcp_wrap)
}


@pytest.mark.parametrize("name", FAULTS)
async def test_whatever_fails_the_model_gets_the_original(name: str) -> None:
    with FAULTS[name]() as url:
        for conversion, convert in CONVERSIONS.items():
            shown = json.dumps(await convert(url, {}, quickly(name)))
            assert "line 1500 of the log" in shown, conversion
            assert "the last line" in shown, conversion


@pytest.mark.parametrize("name", FAULTS)
async def test_whatever_fails_who_asks_for_the_ends_gets_both(name: str) -> None:
    with FAULTS[name]() as url:
        for conversion, convert in CONVERSIONS.items():
            if convert is mcp_wrap:
                continue
            shown = json.dumps(await convert(url, {"on_unreachable": "ends"}, quickly(name)), ensure_ascii=False)
            assert "NOT STORED" in shown, conversion
            assert "¦ left out: about" in shown, conversion
            assert "line 0 of the log" in shown, conversion
            assert "the last line" in shown, conversion
            assert len(shown) < 3_000, conversion


async def test_what_was_refused_for_a_secret_is_withheld_by_all() -> None:
    with answering(422, refusal("secret_refused")) as seen:
        for conversion, convert in CONVERSIONS.items():
            for options in ({}, {"on_unreachable": "ends"}):
                shown = json.dumps(await convert(seen.url, options, {}))
                assert SECRET not in shown, conversion
                assert "withheld: the service refused to keep them" in shown, conversion


async def test_without_a_fault_all_give_cards(service: Service) -> None:
    for conversion, convert in CONVERSIONS.items():
        shown = json.dumps(await convert(service.url, {}, {}))
        assert "[art_" in shown, conversion
        assert "line 1500 of the log" not in shown, conversion


@pytest.mark.parametrize("name", FAULTS)
async def test_whatever_fails_a_read_is_answered_with_a_sentence(name: str) -> None:
    read: dict[str, Any] = {"artifact_id": "art_482913077564201876"}
    with FAULTS[name]() as url, Client(url, **quickly(name)) as client:
        answers = [client.read_artifact(**read), read_tool(client).invoke(read)]
        call_ = {"method": "tools/call", "params": {"name": "read_artifact", "arguments": read}}
        (answer,) = await passed(url, quickly(name), call_)
    answers.append(answer["result"]["content"][0]["text"])
    assert all(one.startswith("The store of tool outputs cannot answer now") for one in answers), answers


@pytest.mark.parametrize("name", FAULTS)
def test_whatever_fails_the_hook_leaves_the_output_to_the_host(name: str) -> None:
    if name == "silent":  # the command waits ten seconds, which tests/stacks does
        return
    event = {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": {"stdout": LOG}}
    with FAULTS[name]() as url:
        ended = call("hook", "claude-code", "--url", url, stdin=json.dumps(event).encode())
    assert (ended.code, ended.out) == (0, b"")
    assert ended.err == "" or "the tool's output stays as it is: " in ended.err


@pytest.mark.parametrize("event", [b"", b"[1]", b"7", b"[" * 100_000, b"\xff", b'{"tool_response": 7}'])
def test_an_event_that_is_none_disturbs_no_host(service: Service, event: bytes) -> None:
    ended = call("hook", "claude-code", "--url", service.url, stdin=event)
    assert (ended.code, ended.out) == (0, b"")


# ---------------------------------------------------------------------------------------------- failures of our own


@dataclass(frozen=True)
class Frozen:
    """A part that cannot be changed."""

    text: str
    type: str = "text"


class Untouchable(dict[str, Any]):
    """A part whose members cannot be listed."""

    def items(self) -> Any:  # noqa: ANN401
        raise TypeError("not these")


async def test_where_a_card_cannot_be_placed_it_is_shown_alone(service: Service) -> None:
    message = ToolMessage.model_construct(
        content=[{"type": "text", "text": LOG}, Untouchable(type="image")], tool_call_id="call_1"
    )
    with Client(service.url) as client, answering(422, refusal("secret_refused")) as seen, Client(seen.url) as refused:
        for opened, begins in ((client, "[art_"), (refused, "[")):
            shown = [
                ToolOutputs(opened).card([Frozen(LOG)], "build"),
                carded_message(CoatcheckMiddleware(opened), message).content,
            ]
            for one in shown:
                assert str(one).startswith(begins)
                assert SECRET not in str(one) or opened is client


def test_a_payload_that_cannot_be_read_is_none(caplog: pytest.LogCaptureFixture) -> None:
    assert read_payload(lambda: "text", "build") == "text"
    assert read_payload(lambda: json.dumps({(1, 2): 3}), "build") is None
    assert "the result of build stays as it is: TypeError" in caplog.text


async def test_messages_that_the_wrapper_does_not_understand_pass(service: Service) -> None:
    strange: list[Any] = [{"tools": 7}, {"tools": [7]}, {"content": 7, "log": LOG}, {"content": ["x", LOG]}, "text", 7]
    answers: list[Any] = [{"method": "tools/list", "result": one} for one in strange]
    answers += [{"result": one} for one in strange]
    got = await passed(service.url, {}, *answers)
    assert sorted(json.dumps(one["result"]) for one in got) == sorted(json.dumps(one["result"]) for one in answers)


@pytest.mark.parametrize("params", [{"name": "read_artifact", "arguments": 7}, {"name": "read_artifact", "_meta": []}])
async def test_a_read_with_arguments_that_are_none_is_answered(service: Service, params: dict[str, Any]) -> None:
    (answer,) = await passed(service.url, {}, {"params": params})
    assert answer["result"]["isError"]


async def test_structured_content_that_is_kept_is_withheld_with_the_text(service: Service) -> None:
    result = {"content": [{"type": "text", "text": LOG}], "structuredContent": {"log": LOG}}
    with answering(422, refusal("secret_refused")) as seen:
        (answer,) = await passed(seen.url, {}, {"result": result}, output_schemas=True)
    assert (SECRET in json.dumps(answer), answer["result"]["isError"]) == (False, True)
    (answer,) = await passed(service.url, {}, {"result": result}, output_schemas=True)
    assert answer["result"]["structuredContent"] == {"log": LOG}


# ---------------------------------------------------------------------------------------------- a real refusal


def test_a_hook_and_a_compaction_withhold_what_the_policy_refuses(tmp_path: Path) -> None:
    event = {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": {"stdout": LOG, "stderr": ""}}
    asked = {"id": "c1", "type": "function", "function": {"name": "build", "arguments": "{}"}}
    history = [
        {"role": "user", "content": "Build."},
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "c1", "content": LOG},
    ]
    for redaction, withheld in (("refuse", True), ("off", False)):
        with serving(tmp_path / redaction, redaction=redaction) as running, Client(running.url) as client:
            answer = client.answer_hook(event)
            compacted = client.compact({"messages": history}, policy={"protect": "none"})
        shown = answer["hookSpecificOutput"]["updatedToolOutput"]["stdout"], compacted.body["messages"][2]["content"]
        for one in shown:
            assert one.startswith("[art_") is not withheld
            assert ("withheld: the service refused to keep them" in one) is withheld
            assert not withheld or SECRET not in one
        assert ("secret_refused" in {warning.code for warning in compacted.warnings}) is withheld
