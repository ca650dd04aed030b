"""What an agent saves, what summarisers are given and what sub-agents inherit: no raw output and no written file."""

import json
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from deepagents import create_deep_agent  # pyright: ignore[reportUnknownVariableType] - the framework's types
from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType] - the framework's types
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from coatcheck_client import Client, Retries
from coatcheck_client.integrations.langchain import CoatcheckMiddleware
from integrations.agents import LOG, NOBODY, TOOLS, Script
from support.service import Service

RAW = "line 4321 of the log"
"""In the middle of every raw output and every written file, and on no card."""
FILE = LOG.replace("log", "report")
WRITTEN = "line 4321 of the report"


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.url) as opened:
        yield opened


def told(messages: Any) -> str:  # noqa: ANN401 - messages of any sort
    return json.dumps([one.model_dump() for one in messages], default=str)


def saved(saver: InMemorySaver, thread: str) -> str:
    """Everything that the last checkpoint of a thread holds."""
    kept = saver.get_tuple({"configurable": {"thread_id": thread}})
    assert kept is not None
    return told(kept.checkpoint["channel_values"]["messages"])


def agent(model: Script, saver: InMemorySaver, *middleware: Any) -> Any:  # noqa: ANN401 - the framework's types
    return create_agent(model, TOOLS, middleware=middleware, checkpointer=saver)


def saved_after(model: Script, thread: str, *middleware: Any) -> str:  # noqa: ANN401 - as above
    """Everything that the last checkpoint of a run holds."""
    saver = InMemorySaver()
    asked = {"messages": [HumanMessage("go")]}
    agent(model, saver, *middleware).invoke(asked, {"configurable": {"thread_id": thread}})
    return saved(saver, thread)


def with_sub_agent(parent: Script, child: Script, *middleware: Any, kind: str = "helper", **more: Any) -> Any:  # noqa: ANN401 - as above
    """An agent that may ask another one, which has a prompt of its own unless `more` says so."""
    helper = {"name": kind, "description": "helps", "model": child, **(more or {"system_prompt": "Help."})}
    build = [one for one in TOOLS if one.name == "build"]
    return cast("Callable[..., Any]", create_deep_agent)(parent, build, middleware=middleware, subagents=[helper])


@pytest.mark.parametrize("waiting", [True, False], ids=["invoke", "ainvoke"])
async def test_a_written_file_is_saved_as_a_marker_and_can_be_put_back(client: Client, *, waiting: bool) -> None:
    saver = InMemorySaver()
    model = Script(calls=[("write_file", {"path": "a.txt", "content": FILE}), ("small", {})])
    made = agent(model, saver, CoatcheckMiddleware(client, compact_state=True))
    config = {"configurable": {"thread_id": f"state-{waiting}"}}
    asked = {"messages": [HumanMessage("go", id="prompt")]}
    done = made.invoke(asked, config) if waiting else await made.ainvoke(asked, config)
    messages: list[BaseMessage] = done["messages"]
    assert [one.type for one in messages] == ["human", "ai", "tool", "ai", "tool", "ai"]
    assert WRITTEN not in saved(saver, f"state-{waiting}")
    args = cast("AIMessage", messages[1]).tool_calls[0]["args"]
    assert args["path"] == "a.txt"
    artifact = args["content"].partition("stored as ")[2].partition(";")[0]
    assert client.content(artifact) == FILE.encode()
    assert client.describe(artifact).artifact.session == f"state-{waiting}"
    assert model.seen[1][:3] == messages[:3]


def test_without_it_the_state_keeps_the_file(client: Client) -> None:
    model = Script(calls=[("write_file", {"path": "a.txt", "content": FILE})])
    assert WRITTEN in saved_after(model, "kept", CoatcheckMiddleware(client))
    assert WRITTEN not in told(model.seen[-1])


def test_several_files_of_one_step_and_every_copy_of_them_become_markers(client: Client) -> None:
    calls = [{"path": f"{n}.txt", "content": FILE + str(n)} for n in range(3)]
    first = AIMessage(
        "",
        id="several",
        tool_calls=[
            {"name": "write_file", "args": args, "id": f"w{n}", "type": "tool_call"} for n, args in enumerate(calls)
        ],
        additional_kwargs={
            "tool_calls": [
                {"id": f"w{n}", "type": "function", "function": {"name": "write_file", "arguments": json.dumps(args)}}
                for n, args in enumerate(calls)
            ]
        },
    )
    state = saved_after(Script(calls=[], first=first), "several", CoatcheckMiddleware(client, compact_state=True))
    assert WRITTEN not in state
    assert state.count("omitted from history, do not copy") == 6


def test_a_failed_call_and_a_service_that_is_away_leave_the_state_alone(client: Client) -> None:
    model = Script(calls=[("failing_write_file", {"content": FILE})])
    policy = {"arguments": [{"tools": ["failing_write_file"], "fields": ["content"]}]}
    assert WRITTEN in saved_after(model, "failed", CoatcheckMiddleware(client, compact_state=True, policy=policy))
    with Client(NOBODY, retries=Retries(attempts=1)) as away:
        model = Script(calls=[("write_file", {"path": "a", "content": FILE})])
        assert WRITTEN in saved_after(model, "away", CoatcheckMiddleware(away, compact_state=True))


@pytest.mark.parametrize("ours_first", [True, False], ids=["ours before", "ours after"])
def test_a_summariser_is_given_cards_and_markers(client: Client, *, ours_first: bool) -> None:
    given: list[list[BaseMessage]] = []

    def summarise(messages: Any) -> str:  # noqa: ANN401 - the framework's types
        given.append(list(messages))
        return "The log was built and a report written."

    summary = SummarizationMiddleware(
        Script(calls=[]),
        trigger=("messages", 3),
        keep=("messages", 1),
        trim_tokens_to_summarize=None,
        summarizer=summarise,
    )
    ours = CoatcheckMiddleware(client, session="summary", compact_state=True)
    calls: list[tuple[str, dict[str, Any]]] = [("write_file", {"path": "a", "content": FILE}), ("build", {})]
    model = Script(calls=[*calls, ("write_file", {"path": "b", "content": FILE}), ("small", {})], count=True)
    made = create_agent(model, TOOLS, middleware=[ours, summary] if ours_first else [summary, ours])
    done = cast("Any", made).invoke({"messages": [HumanMessage("go")]})
    assert done["messages"][-1].content == "done"
    assert len(given) >= 2
    prompt = told([message for messages in given for message in messages])
    assert "omitted from history, do not copy" in prompt
    assert "[art_" in prompt
    assert RAW not in prompt
    assert WRITTEN not in prompt


@pytest.mark.parametrize("waiting", [True, False], ids=["invoke", "ainvoke"])
@pytest.mark.parametrize("tool", ["write_file", "failing_write_file"])
@pytest.mark.parametrize("ours", [True, False], ids=["with", "without"])
async def test_a_summariser_s_prompt_is_bounded_and_the_state_keeps_the_file(
    client: Client, tool: str, *, ours: bool, waiting: bool
) -> None:
    summariser = Script(calls=[])
    summary = SummarizationMiddleware(
        summariser, trigger=("messages", 3), keep=("messages", 1), trim_tokens_to_summarize=None
    )
    saver = InMemorySaver()
    model = Script(calls=[(tool, {"path": "a", "content": FILE}), ("small", {})], count=True)
    middleware = [summary, CoatcheckMiddleware(client, session="bounded")] if ours else [summary]
    made = agent(model, saver, *middleware)
    thread = {"configurable": {"thread_id": f"bounded {tool} {ours} {waiting}"}}
    # Stopped between the call and the summary, a run goes on from what was saved, as in another process.
    made.invoke({"messages": [HumanMessage("go")]}, thread, interrupt_after=["tools"])
    written = saved(saver, thread["configurable"]["thread_id"])
    assert WRITTEN in written
    _ = made.invoke(None, thread) if waiting else await made.ainvoke(None, thread)
    prompts = "".join(str(one.content) for request in summariser.seen for one in request)
    assert summariser.seen
    lines = [line for line in FILE.splitlines() if line in prompts]
    assert (sum(map(len, lines)) <= 2_000) == ours
    assert ("omitted from history, do not copy" in prompts) == ours


@pytest.mark.parametrize("kind", ["helper", "general-purpose"])
@pytest.mark.parametrize("ours", [True, False], ids=["with", "without"])
async def test_a_sub_agent_without_middleware_of_its_own_inherits_it(client: Client, kind: str, *, ours: bool) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("write_file", {"file_path": "/a.txt", "content": FILE}),
        ("build", {}),
        ("build", {}),
    ]
    child = Script(calls=calls, count=True)
    asked = ("task", {"description": "Look at it.", "subagent_type": kind})
    parent = Script(calls=[asked], count=True)
    middleware = [CoatcheckMiddleware(client, session="parent")] if ours else []
    done = await with_sub_agent(parent, child, *middleware, kind=kind).ainvoke({"messages": [HumanMessage("go")]})
    assert done["messages"][-1].content == "done"
    assert len(child.seen) == 4
    assert (WRITTEN in told(child.seen[-1])) == (not ours)
    assert ("[art_" in told(child.seen[-1])) == ours
    assert (len(told(child.seen[-1])) < 20_000) == ours
    offered = {str(getattr(one, "name", one)) for one in child.offered}
    assert ("read_artifact" in offered) == ours


def test_a_sub_agent_reads_on_with_the_tool_that_its_cards_name(client: Client) -> None:
    stored = client.put(LOG, session="other").id
    child = Script(calls=[("build", {}), ("read_artifact", {"artifact_id": stored, "pattern": RAW})], count=True)
    parent = Script(calls=[("task", {"description": "Look.", "subagent_type": "helper"})], count=True)
    with_sub_agent(parent, child, CoatcheckMiddleware(client)).invoke({"messages": [HumanMessage("go")]})
    assert RAW not in told(child.seen[1])
    assert RAW in told(child.seen[2])


@pytest.mark.filterwarnings("ignore:.*forked subagents.*is in beta")
@pytest.mark.parametrize("mode", ["fork", "isolated"])
def test_a_sub_agent_of_deepagents_inherits_no_raw_file_and_no_raw_output(client: Client, mode: str) -> None:
    child = Script(calls=[("build", {})], count=True)
    parent = Script(
        calls=[
            ("write_file", {"file_path": "/a.txt", "content": FILE}),
            ("build", {}),
            ("task", {"description": "Look at it.", "subagent_type": "helper"}),
        ]
    )
    more: dict[str, Any] = {"mode": mode}
    if mode == "isolated":
        more |= {"system_prompt": "Help.", "middleware": [CoatcheckMiddleware(client, session="child")]}
    ours = CoatcheckMiddleware(client, session=mode, compact_state=True)
    done = with_sub_agent(parent, child, ours, **more).invoke({"messages": [HumanMessage("go")]})
    assert done["messages"][-1].content == "done"
    assert [one.name for one in done["messages"] if isinstance(one, ToolMessage)] == ["write_file", "build", "task"]
    assert len(child.seen) == 2
    for request in [*child.seen, *parent.seen]:
        assert RAW not in told(request)
        assert WRITTEN not in told(request)
    inherited = told(child.seen[0])
    assert ("[art_" in inherited, "omitted from history, do not copy" in inherited) == (mode == "fork",) * 2
    assert "[art_" in told(child.seen[1])
