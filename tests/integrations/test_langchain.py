"""The LangChain middleware in agents of the installed framework, with a scripted model and a running service."""

import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

import pytest
from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType] - the framework's types
from langchain.agents.middleware.types import ModelRequest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from coatcheck_client import Client, Retries
from coatcheck_client.integrations.langchain import CoatcheckMiddleware, history, results
from integrations.agents import LOG, NOBODY, PICTURE, TOOLS, Script
from support.service import Service

Json = Any


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.url) as opened:
        yield opened


Run = Callable[..., Awaitable[list[BaseMessage]]]


@pytest.fixture(params=["invoke", "ainvoke"])
def run(request: pytest.FixtureRequest) -> Run:
    """An agent's run from one prompt, waiting or on an event loop; answers the messages of its state."""

    async def go(model: Script, *middleware: CoatcheckMiddleware, thread: str | None = None) -> list[BaseMessage]:
        saver = None if thread is None else InMemorySaver()
        agent = cast("Any", create_agent(model, TOOLS, middleware=middleware, checkpointer=saver))
        config = {"configurable": {"thread_id": thread}} if thread else {}
        asked = {"messages": [HumanMessage("go", id="prompt")]}
        done = agent.invoke(asked, config) if request.param == "invoke" else await agent.ainvoke(asked, config)
        messages: list[BaseMessage] = done["messages"]
        return messages

    return go


def result(messages: list[BaseMessage]) -> ToolMessage:
    (found,) = [message for message in messages if isinstance(message, ToolMessage)]
    return found


def stored(client: Client, message: ToolMessage) -> bytes:
    artifact = cast("dict[str, str]", message.artifact)
    return client.content(artifact["artifact_id"])


async def test_a_bulky_result_becomes_a_card_and_a_small_one_stays(run: Run, client: Client) -> None:
    messages = await run(Script(calls=[("build", {})]), CoatcheckMiddleware(client, session="lc"))
    card = result(messages)
    assert str(card.content).startswith("[art_")
    assert "line 7999 of the log" in str(card.content)
    assert stored(client, card) == LOG.encode()
    known = client.describe(card.artifact["artifact_id"]).artifact
    assert (known.tool_name, known.tool_call_id, known.session) == ("build", "call_0", "lc")
    messages = await run(Script(calls=[("small", {})]), CoatcheckMiddleware(client))
    assert (result(messages).content, result(messages).artifact) == ("fine", None)


async def test_a_payload_belongs_to_the_thread_of_the_agent(run: Run, client: Client) -> None:
    messages = await run(Script(calls=[("build", {})]), CoatcheckMiddleware(client), thread="thread-7")
    assert client.describe(result(messages).artifact["artifact_id"]).artifact.session == "thread-7"


async def test_what_a_tool_keeps_for_the_program_stays(run: Run, client: Client) -> None:
    card = result(await run(Script(calls=[("with_artifact", {})]), CoatcheckMiddleware(client)))
    assert str(card.content).startswith("[art_")
    assert (card.artifact, card.status, card.name) == ({"lines": 8_000}, "success", "with_artifact")


async def test_of_content_blocks_the_texts_become_one_card_and_the_picture_stays(run: Run, client: Client) -> None:
    card = result(await run(Script(calls=[("blocks", {})]), CoatcheckMiddleware(client)))
    first, second = cast("list[dict[str, Any]]", card.content)
    assert (first["type"], second) == ("text", PICTURE)
    assert first["text"].startswith("[art_")
    assert stored(client, card) == f"{LOG}the end".encode()


async def test_a_command_keeps_everything_but_the_text(run: Run, client: Client) -> None:
    messages = await run(Script(calls=[("command", {})]), CoatcheckMiddleware(client))
    card = result(messages)
    assert (str(card.content)[:5], card.tool_call_id) == ("[art_", "call_0")
    assert [message.content for message in messages if message.id == "hint"] == ["mind the log"]


async def test_an_error_stays_an_error(run: Run, client: Client) -> None:
    card = result(await run(Script(calls=[("broken", {})]), CoatcheckMiddleware(client)))
    assert (str(card.content)[:5], card.status) == ("[art_", "error")


async def test_the_model_is_offered_the_tool_that_cards_name_and_its_answers_stay(run: Run, client: Client) -> None:
    artifact_id = client.put(LOG).id
    asked = {"artifact_id": artifact_id, "offset": 100, "limit": 1_500}
    model = Script(calls=[("read_artifact", asked), ("small", {})])
    messages = await run(model, CoatcheckMiddleware(client))
    assert [one.name for one in model.offered if one.name == "read_artifact"] == ["read_artifact"] * 3
    read = messages[2]
    assert isinstance(read, ToolMessage)
    assert str(read.content).startswith(f"[{artifact_id} · ")
    assert len(str(read.content)) > 10_000
    assert model.seen[-1][2].content == read.content
    wrong = Script(calls=[("read_artifact", {"artifact_id": "art_1"})])
    assert result(await run(wrong, CoatcheckMiddleware(client))).status == "error"


async def test_exempt_tools_and_a_host_with_its_own_read_tool_are_left_alone(run: Run, client: Client) -> None:
    middleware = CoatcheckMiddleware(client, exempt_tools=["build", "write_file"], offer_read=False)
    model = Script(calls=[("build", {}), ("write_file", {"path": "a", "content": LOG})])
    messages = await run(model, middleware)
    assert messages[2].content == LOG
    assert model.seen[-1][2].content == LOG
    assert cast("AIMessage", model.seen[-1][3]).tool_calls[0]["args"]["content"] == LOG
    assert "read_artifact" not in {one.name for one in model.offered}


async def test_a_written_file_leaves_the_requests_and_stays_in_the_state(run: Run, client: Client) -> None:
    reports: list[Any] = []
    model = Script(calls=[("write_file", {"path": "a.txt", "content": LOG}), ("small", {}), ("small", {})])
    messages = await run(model, CoatcheckMiddleware(client, on_report=reports.append))
    for request in model.seen[1:]:
        args = cast("AIMessage", request[1]).tool_calls[0]["args"]
        assert args["path"] == "a.txt"
        assert args["content"].startswith(f"[… {len(LOG):,} characters of a.txt, stored as art_")
        assert LOG not in json.dumps([message.model_dump() for message in request], default=str)
    assert [request[:3] for request in model.seen[2:]] == [model.seen[1][:3]] * 2, "a prefix never changes"
    assert cast("AIMessage", messages[1]).tool_calls[0]["args"]["content"] == LOG
    assert {change["to"] for change in reports[0]["changes"]} == {"marker"}
    assert client.content(reports[0]["changes"][0]["artifact_id"]) == LOG.encode()


def test_what_compaction_leaves_out_is_told_and_everything_else_is_the_same_object(client: Client) -> None:
    given: list[BaseMessage] = []
    for n in range(40):
        given.append(HumanMessage(f"question {n} " + "about something " * 60, id=f"h{n}"))
        given.append(AIMessage(f"answer {n} " + "with words " * 90, id=f"a{n}"))
    given.append(HumanMessage("the last one", id="last"))
    sent = history.raws(given)
    done = client.compact({"messages": sent}, format="langchain", policy={"max_tokens": 4_000})
    got = history.restored(given, sent, done.body["messages"])
    assert done.report["omitted_now"] > 0
    assert len(got) == len(given) - done.report["omitted_now"] + 1
    kept = [message for message in got if any(message is one for one in given)]
    (notice,) = [message for message in got if message not in kept]
    assert isinstance(notice, HumanMessage)
    assert [message.id for message in kept] == [message.id for message in given if message in kept]
    assert got[-1] is given[-1]


def test_searches_of_finished_turns_leave_the_requests_and_reads_stay(client: Client) -> None:
    ref = str(client.put(LOG, tool_name="build", inline_tokens=0).id)
    read = client.call({"name": "read_artifact", "arguments": {"artifact_id": ref, "limit": 200}})["text"]
    found: Json = {"results": [{"title": "T", "url": "https://e.org", "content": "The Moon draws the sea. " * 900}]}
    search = client.search_results(found, query="moon")
    given: list[BaseMessage] = [HumanMessage("look", id="h1")]
    for number, (name, text) in enumerate([("read_artifact", read), ("web_search", str(search.text))]):
        call = {"name": name, "args": {"artifact_id": ref}, "id": f"c{number}"}
        given.append(AIMessage("", tool_calls=[call], id=f"a{number}"))
        given.append(ToolMessage(text, tool_call_id=f"c{number}", name=name, id=f"t{number}"))
    given += [AIMessage("Seen.", id="a9"), HumanMessage("and now?", id="h2")]
    assert history.is_worth_asking(given[:3], {}), "what was read is worth asking for, though it is ours"
    assert results.payload(cast("ToolMessage", given[4]), 100) is None, "the answer of a search is no payload"
    sent = history.raws(given)
    got = history.restored(given, sent, client.compact({"messages": sent}, format="langchain").body["messages"])
    assert [message.id for message in got] == [message.id for message in given]
    assert got[2].content == read, "what the agent dug out stays while the window is not at stake"
    assert got[4].content == search.summary["text"]


async def test_a_service_that_is_away_never_breaks_the_agent(run: Run) -> None:
    with Client(NOBODY, retries=Retries(attempts=1)) as away:
        calls: list[tuple[str, dict[str, Any]]] = [
            ("build", {}),
            ("write_file", {"path": "a", "content": LOG}),
            ("read_artifact", {"artifact_id": "art_1"}),
        ]
        messages = await run(Script(calls=calls), CoatcheckMiddleware(away))
    assert messages[-1].content == "done"
    assert (messages[2].content, cast("ToolMessage", messages[2]).artifact) == (LOG, None)
    read = cast("ToolMessage", messages[6])
    assert (read.status, "cannot answer now [unreachable]" in str(read.content)) == ("error", True)


async def test_who_asks_for_it_gets_the_ends_while_the_service_is_away(run: Run) -> None:
    with Client(NOBODY, retries=Retries(attempts=1)) as away:
        messages = await run(Script(calls=[("build", {})]), CoatcheckMiddleware(away, on_unreachable="ends"))
    assert str(messages[2].content).startswith("[NOT STORED (unreachable)")
    assert cast("ToolMessage", messages[2]).artifact == {"artifact_id": None, "stored": False}


def test_messages_that_are_no_json_are_sent_as_they_are(client: Client) -> None:
    class Odd(AIMessage):
        """A message that cannot be written."""

        def model_dump(self, **_: Json) -> dict[str, Any]:
            raise TypeError("not JSON")

    middleware = CoatcheckMiddleware(client)
    odd = Odd(content="", tool_calls=[{"name": "write_file", "args": {"content": LOG}, "id": "c", "type": "tool_call"}])
    request = ModelRequest(
        model=Script(calls=[]), messages=[HumanMessage("x"), odd, ToolMessage("ok", tool_call_id="c")]
    )
    got: list[Any] = []
    middleware.wrap_model_call(request, cast("Any", got.append))
    assert got == [request]
