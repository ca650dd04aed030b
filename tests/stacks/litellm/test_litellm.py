"""A real LiteLLM proxy, and clients behind it that have no `read_artifact`."""

import asyncio
import contextlib
import io
import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from litellm.caching.in_memory_cache import InMemoryCache
from anthropic import AnthropicError
from openai import AsyncOpenAI, OpenAIError

import clients
from coatcheck_client import Client
from coatcheck_client.integrations.litellm.answers import answer_text, found_texts, shown_texts
from coatcheck_client.integrations.litellm.formats import FORMATS
from coatcheck_client.integrations.litellm.messages import is_worth_asking, results_of
from coatcheck_client.integrations.litellm.unseen import Conversation, Unseen, keep, put_back
from model_server import model_server
from proxies import KEY, Proxy, proxy
from page import block
from scenario import LOG, NEEDLE, PICTURE, TOOLS, failing, plan, record, sees_originals
from search_server import CODE, QUERY, SHAPES, check_requests
from stack_tests import StackTests
from wire_formats import Call

WAYS: dict[str, Any] = {
    "chat": clients.chat,
    "chat-sync": clients.chat_sync,
    "chat-stream": partial(clients.chat, stream=True),
    "messages": clients.messages,
    "messages-stream": partial(clients.messages, stream=True),
    "responses": clients.responses,
    "responses-stream": partial(clients.responses, stream=True),
}


@pytest.fixture(scope="module")
def usual(service_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with proxy(tmp_path_factory.mktemp("usual"), f"Client({service_url!r}, session='litellm')") as running:
        yield running


@pytest.fixture(scope="module")
def exempting(service_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("exempting")
    with proxy(folder, f"Client({service_url!r})", exempt_tools=["get_log"]) as running:
        yield running


@pytest.fixture(scope="module")
def blocking(service_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("blocking")
    with proxy(folder, f"Client({service_url!r}, session='litellm')", citations="block") as running:
        yield running


async def asked(
    proxy: Proxy, way: str, url: str, tools: Any = TOOLS, seen: list[Any] | None = None, **model: str
) -> str:
    """The answer that a client of the proxy gets, from the model at this address."""
    proxy.relay.target = url
    run, kept = WAYS[way], [] if seen is None else seen
    if way == "chat-sync":
        return await asyncio.to_thread(run, proxy.url, KEY, tools, kept, **model)
    return await run(proxy.url, KEY, tools, kept, **model)


class TestLiteLLM(StackTests):
    """Each interface of the proxy."""

    name = "litellm"
    package = "litellm"
    modes = tuple(WAYS)

    @pytest.fixture(autouse=True)
    def proxies(self, usual: Proxy, exempting: Proxy) -> None:
        self.usual, self.exempting = usual, exempting

    async def run(self, client: Client, url: str, mode: str, **options: Any) -> str:
        return await asked(self.exempting if options else self.usual, mode, url)

    @pytest.mark.parametrize("how", ["stopped", "hanging", "refusing"])
    async def test_an_agent_goes_on_with_the_original(self, service_url: str, how: str, tmp_path: Path) -> None:
        with failing(how) as url:
            client = f"Client({url!r}, deadline=0.5, retries=Retries(attempts=1))"
            with proxy(tmp_path, client) as running:
                for way in WAYS:
                    with model_server(plan()) as model:
                        sees_originals(model, await asked(running, way, model.url))
                        if how == "refusing" and way == self.modes[0]:
                            with Client(service_url) as counting:
                                record(self.name, self.framework(), model, counting, "originals")

    async def test_a_client_sees_no_read_and_the_tokens_of_all_requests(self, mode: str) -> None:
        seen: list[Any] = []
        before = len(self.usual.logged())
        with model_server(plan()) as model:
            await asked(self.usual, mode, model.url, seen=seen)
        assert [names(answer) for answer in seen] == [["get_log"], []]
        if mode != "messages-stream":  # LiteLLM streams the last request's
            assert [tokens(answer) for answer in seen] == [2, 4]
        for _ in range(50):  # it logs in the background
            if len(self.usual.logged()) - before >= 3:
                break
            await asyncio.sleep(0.1)
        assert [one["tokens"] for one in self.usual.logged()[before:]] == [2, 2, 2]

    async def test_a_read_beside_a_call_of_the_client_is_answered_with_it(self, service_url: str, mode: str) -> None:
        seen: list[Any] = []
        together = [Call("get_status", {}), reading(service_url, mode)]
        with model_server(plan([Call("get_log", {})], together)) as model:
            answer = await asked(self.usual, mode, model.url, seen=seen)
        assert NEEDLE in answer
        assert [names(one) for one in seen] == [["get_log"], ["get_status"], []]
        assert len(model.bodies) == 3
        assert sorted(result[:4] for result in model.results[2]) == ["7 wo", "[art", "[art"]

    async def test_what_was_read_before_a_call_of_the_client_is_there_after_it(
        self, service_url: str, mode: str
    ) -> None:
        seen: list[Any] = []
        read = [reading(service_url, mode)]
        with model_server(plan([Call("get_log", {})], read, [Call("get_status", {})])) as model:
            answer = await asked(self.usual, mode, model.url, seen=seen)
        assert NEEDLE in answer
        assert [names(one) for one in seen] == [["get_log"], ["get_status"], []]
        assert len(model.bodies) == 4
        assert NEEDLE in model.results[3][1]
        assert model.results[3][2] == "7 workers run."

    @pytest.mark.parametrize("beside", [False, True])
    async def test_a_model_of_another_provider_is_answered(self, service_url: str, beside: bool, mode: str) -> None:
        other = "gpt-stub" if mode.startswith("messages") else "claude-stub"
        seen: list[Any] = []
        turns = [[Call("get_log", {})]]
        if beside:
            read = reading(service_url, "messages" if other == "claude-stub" else "chat")
            turns.append([Call("get_status", {}), read])
        with model_server(plan(*turns)) as model:
            assert NEEDLE in await asked(self.usual, mode, model.url, seen=seen, model=other)
        assert [names(one) for one in seen] == [["get_log"], *([["get_status"]] if beside else []), []]

    async def test_a_model_that_only_reads_is_stopped(self, service_url: str, mode: str) -> None:
        seen: list[Any] = []
        read = reading(service_url, mode)
        read.arguments["pattern"] = "no such line"
        with model_server(plan([Call("get_log", {})], *[[read]] * 20)) as model:
            await asked(self.usual, mode, model.url, seen=seen)
        assert [names(one) for one in seen] == [["get_log"], []]
        assert len(model.bodies) == 2 + 12
        assert "none" in json.dumps(model.bodies[-1]["tool_choice"])
        assert "tool_choice" not in model.bodies[-2] or "none" not in json.dumps(model.bodies[-2]["tool_choice"])

    async def test_a_read_is_no_answer_when_the_request_after_it_fails(self, service_url: str, mode: str) -> None:
        seen: list[Any] = []
        turns = [[Call("get_log", {})], [reading(service_url, mode)], [Call("no_such_tool", {})]]  # refused with 400
        with model_server(plan(*turns)) as model, pytest.raises((OpenAIError, AnthropicError, RuntimeError)):
            await asked(self.usual, mode, model.url, seen=seen)
        assert [names(one) for one in seen] == [["get_log"]]

    async def test_a_client_that_has_the_tool_answers_its_calls(self, mode: str) -> None:
        tools = {**TOOLS, "read_artifact": lambda: "read by the client"}
        seen: list[Any] = []
        with model_server(plan([Call("read_artifact", {"artifact_id": "art_1"})], [Call("get_log", {})])) as model:
            answer = await asked(self.usual, mode, model.url, tools, seen)
        assert NEEDLE in answer
        assert [names(one) for one in seen] == [["read_artifact"], ["get_log"], []]
        assert model.results[1] == ["read by the client"]

    async def test_a_search_is_passages_in_its_turn(self, mode: str) -> None:
        tools = {"web_search": lambda: json.dumps(SHAPES["/search"])}
        with model_server(plan([Call("web_search", {})])) as model:
            model.plan.needle = re.compile(r"is code ([0-9a-f]{10})")
            assert CODE in await asked(self.usual, mode, model.url, tools)
        check_requests(model.results[1:], later=1)

    async def test_a_search_is_its_summary_after_its_turn(self) -> None:
        function = {"name": "web_search", "arguments": json.dumps({"query": QUERY})}
        history: list[Any] = [
            {"role": "user", "content": "Which code?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": json.dumps(SHAPES["/ddgs"])},
            {"role": "assistant", "content": "It is known."},
            {"role": "user", "content": "And gate eight?"},
        ]
        with model_server(plan([Call("get_status", {})])) as model:
            self.usual.relay.target = model.url
            tool: Any = {"type": "function", "function": {"name": "get_status", "parameters": clients.SCHEMA}}
            async with AsyncOpenAI(base_url=f"{self.usual.url}/v1", api_key=KEY, max_retries=0) as client:
                await client.chat.completions.create(model="gpt-stub", messages=history, tools=[tool])
        check_requests(model.results[:1], later=0)

    async def test_a_request_with_no_card_but_a_marker_offers_the_read(self) -> None:
        function = {"name": "write_file", "arguments": json.dumps({"path": "log.txt", "content": LOG})}
        history: list[Any] = [
            {"role": "user", "content": "Write it."},
            {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": "c1", "content": "ok"},
            {"role": "user", "content": clients.ASKED},
        ]
        with model_server(plan()) as model:
            self.usual.relay.target = model.url
            async with AsyncOpenAI(base_url=f"{self.usual.url}/v1", api_key=KEY, max_retries=0) as client:
                await client.chat.completions.create(model="gpt-stub", messages=history)
        assert "omitted from history" in json.dumps(model.bodies[0]["messages"])
        assert model.offered[0] == ["read_artifact"]

    async def test_an_answer_that_cites_without_a_source_is_blocked_or_reported(
        self, blocking: Proxy, mode: str
    ) -> None:
        invented = plan()
        address = f"https://nowhere.example.org/{mode}"
        invented.answer = f"The code is {{}}, see {address}: \u201cno worker of mode {mode} ever finished it\u201d."
        with model_server(invented) as model:
            if mode.endswith("stream"):
                assert address in await asked(blocking, mode, model.url)
            else:
                with pytest.raises((OpenAIError, AnthropicError)) as refused:
                    await asked(blocking, mode, model.url)
                said = str(refused.value)
                assert "422" in said
                assert f"URL '{address}' stands in no source" in said
                assert f"no worker of mode {mode} ever finished it' stands in no source" in said
        for _ in range(100):  # it logs in the background
            if address in (logged := blocking.output()):
                break
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        assert f"URL '{address}' stands in no source" in logged
        # LiteLLM logs the answer with each read, and the proxy what it refuses.
        assert blocking.output().count(f"'{address}' stands") == 1 + (not mode.endswith("stream"))

    async def test_an_answer_that_cites_what_was_read_is_not_blocked(self, blocking: Proxy, mode: str) -> None:
        cited = plan()
        address = f"https://example.org/{mode}/{NEEDLE}"
        cited.answer = (
            f"It says \u201cfinished request 1777 with code {{0}}\u201d, see https://example.org/{mode}/{{0}}."
        )
        tools = {"get_log": lambda: re.sub(r"code (\w+)", rf"code \1 of https://example.org/{mode}/\1", LOG)}
        with model_server(cited) as model:
            assert f"with code {NEEDLE}" in await asked(blocking, mode, model.url, tools)
        assert model.results[1][0].startswith("[art_")
        assert address not in model.results[1][0]
        assert address in model.results[2][1]
        await asyncio.sleep(1)
        assert address not in blocking.output()

    async def test_an_image_stays_beside_the_card(self, mode: str) -> None:
        parts = PARTS[mode.partition("-")[0]]
        with model_server(plan()) as model:
            assert NEEDLE in await asked(self.usual, mode, model.url, {"get_log": lambda: parts})
        sent = json.dumps(model.bodies[1])
        assert "[art_" in sent
        assert PICTURE in sent
        assert LOG.splitlines()[2_000] not in sent


PARTS: dict[str, Any] = {
    "chat": [
        {"type": "text", "text": LOG},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}},
    ],
    "messages": [
        {"type": "text", "text": LOG},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
    ],
    "responses": [
        {"type": "input_text", "text": LOG},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"},
    ],
}


def reading(service_url: str, mode: str) -> Call:
    """The call that reads the wanted line of the log that a conversation's first call returns."""
    with Client(service_url, session="litellm") as client:
        call_id = "toolu_1_0" if mode.startswith("messages") else "call_1_0"
        artifact_id = client.put(LOG, tool_name="get_log", tool_call_id=call_id).id
    return Call("read_artifact", {"artifact_id": artifact_id, "pattern": plan().pattern})


def names(answer: Any) -> list[str]:
    """The tools that an answer calls."""
    if hasattr(answer, "choices"):
        return [one.function.name for one in answer.choices[0].message.tool_calls or ()]
    parts = answer.content if hasattr(answer, "content") else answer.output
    return [one.name for one in parts if one.type in {"tool_use", "function_call"}]


def tokens(answer: Any) -> int:
    """The tokens that an answer says it took."""
    return getattr(answer.usage, "total_tokens", None) or answer.usage.input_tokens + answer.usage.output_tokens


async def test_streams_pass_piece_by_piece_until_there_is_a_card(usual: Proxy) -> None:
    asked_for: Any = {"model": "gpt-stub", "messages": [{"role": "user", "content": clients.ASKED}], "stream": True}
    with model_server(plan()) as model:
        usual.relay.target = model.url
        async with AsyncOpenAI(base_url=f"{usual.url}/v1", api_key=KEY) as client:
            tools: Any = [{"type": "function", "function": {"name": "get_log", "parameters": clients.SCHEMA}}]
            stream = await client.chat.completions.create(**asked_for, tools=tools)
            parts = [part async for part in stream]
    assert model.bodies[0]["stream"]
    assert model.offered == [["get_log"]]
    assert len(parts) > 1


async def test_a_conversation_that_the_provider_keeps_is_read_on(usual: Proxy) -> None:
    tools: Any = [{"type": "function", "name": "get_log", "parameters": clients.SCHEMA}]
    with model_server(plan()) as model:
        usual.relay.target = model.url
        async with AsyncOpenAI(base_url=f"{usual.url}/v1", api_key=KEY) as client:
            asked_for: Any = {"model": "gpt-stub", "tools": tools}
            first = await client.responses.create(**asked_for, input=[{"role": "user", "content": clients.ASKED}])
            call: Any = first.output[0]
            output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": LOG}
            last = await client.responses.create(**asked_for, previous_response_id=first.id, input=[output])
    assert NEEDLE in last.output_text
    assert model.results[1][0].startswith("[art_")


@pytest.mark.parametrize("limit", [{"max_tokens": 5_000}, {"argument_tokens": 64}, {"media": "placeholder"}])
def test_what_a_policy_limits_besides_outputs_is_worth_asking_for(limit: dict[str, Any]) -> None:
    function = {"name": "write_file", "arguments": json.dumps({"path": "a", "content": LOG[:400]})}
    messages: list[Any] = [
        {"role": "user", "content": LOG},
        {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]
    assert is_worth_asking(messages, limit)
    assert not is_worth_asking(messages, {"protect": "none", "max_tokens": None, "media": "keep"})


async def test_what_one_client_reads_is_put_into_no_other_conversation() -> None:
    cache, form = InMemoryCache(), FORMATS["acompletion"]
    said = [{"role": "user", "content": "Which?"}]
    call = {"id": "get_log:0", "type": "function", "function": {"name": "get_log", "arguments": "{}"}}
    turn = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "get_log:0", "content": "."}]
    read = {"id": "r", "type": "function", "function": {"name": "read_artifact", "arguments": "{}"}}
    told = {"role": "tool", "tool_call_id": "r", "content": "secret"}
    before = Conversation("key", said).digest
    await keep(cache, form, before, ["get_log:0"], Unseen([], [read], [told]))

    async def found(key: str, messages: list[Any]) -> bool:
        return "secret" in repr(await put_back(cache, form, Conversation(key, messages)))

    assert await found("key", [*said, *turn])
    assert await found("key", [*said, *turn, *said])
    assert not await found("other", [*said, *turn])
    assert not await found("key", [{"role": "user", "content": "What?"}, *turn])


def test_what_a_provider_s_own_tools_find_was_shown_and_what_the_model_says_was_not() -> None:
    found = {"type": "web_search_tool_result", "content": [{"type": "web_search_result", "url": "https://a.example"}]}
    marked = {"type": "output_text", "text": "x", "annotations": [{"type": "url_citation", "url": "https://b.example"}]}
    talk: list[Any] = [
        {"role": "user", "content": "asked"},
        {"role": "assistant", "content": [{"type": "text", "text": "said"}, found]},
        {"type": "function_call", "name": "get", "arguments": "called"},
        {"type": "function_call_output", "call_id": "1", "output": "https://c.example"},
    ]
    assert {"asked", "https://a.example", "https://c.example"} <= set(shown_texts(talk))
    assert not {"said", "called"} & set(shown_texts(talk))
    answer = {"content": [{"type": "text", "text": "one"}, found, {"type": "text", "text": " answer"}]}
    assert (answer_text(answer), "https://a.example" in found_texts(answer)) == ("one answer", True)
    assert "https://b.example" in found_texts({"output": [{"type": "message", "content": [marked]}]})
    assert answer_text({"content": [*answer["content"], {"type": "tool_use", "name": "get"}]}) == ""
    assert answer_text({"data": [{"embedding": [0.1]}]}) == ""
    assert answer_text({"content": [{"type": ["tool_use"]}, {"type": "text", "text": "one"}]}) == "one"
    assert FORMATS["aresponses"].calls_of({"type": ["function_call"]}) == []
    assert results_of([{"role": "tool", "tool_call_id": ["1"], "content": "text"}]) == []


async def test_the_blocks_of_the_page(service_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COATCHECK_URL", service_url)
    with block("litellm", 2) as callback, block("litellm", 3) as config, block("litellm", 5) as agent:
        files = {callback.said: callback.text, config.said: config.text}
        with model_server(plan()) as model, proxy(tmp_path, files=files) as running:
            running.relay.target = model.url
            text = agent.text.replace("http://127.0.0.1:4000", running.url).replace("sk-your-key", KEY)
            printed = await asyncio.to_thread(run, text, get_log=TOOLS["get_log"])
        assert NEEDLE in printed
        assert "[art_" in model.results[1][0]
    for number in (6, 7):
        with block("litellm", number) as other:
            run(callback.text + other.text)


def run(text: str, **given: object) -> str:
    """Runs a script; returns what it printed."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(text, "litellm.md", "exec"), {"__name__": "__main__", **given})  # noqa: S102
    return output.getvalue()
