"""LangChain, LangGraph and deepagents."""

import asyncio
import base64
import re
from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import StructuredTool, ToolException, tool
from langchain_openai import ChatOpenAI
from langchain_tavily import TavilySearch
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from coatcheck_client import Client, Retries
from coatcheck_client.integrations.langchain import CoatcheckMiddleware
from model_server import model_server
from page import block
from scenario import LOG, NEEDLE, PICTURE, TOOLS, failing, plan, saw_a_card, sees_cards
from search_server import CODE, QUERY, check_requests, fetched, search_server
from more_tests import PageTests
from wire_formats import Call

ASKED = {"messages": [{"role": "user", "content": "Which code?"}]}
IMAGE = {"type": "image", "base64": PICTURE, "mime_type": "image/png"}


def fail() -> str:
    """Get the log of a worker that is not there."""
    raise ToolException("no such worker")


def get_pictured_log() -> list[Any]:
    """Get the log and a picture of it."""
    return [{"type": "text", "text": LOG}, IMAGE]


def get_picture() -> list[Any]:
    """Get a picture of the log."""
    return [IMAGE]


FAIL = StructuredTool.from_function(fail, handle_tool_error=True)
ALL = [TOOLS["get_log"], TOOLS["get_old_log"], TOOLS["get_status"], FAIL, get_pictured_log, get_picture]


def openai(url: str) -> BaseChatModel:
    """The model, over Chat Completions."""
    return ChatOpenAI(model="stub", base_url=f"{url}/v1", api_key="none", max_retries=0)


def anthropic(url: str) -> BaseChatModel:
    """The model, over Messages."""
    return ChatAnthropic(model="claude-stub", base_url=url, api_key="none", max_retries=0)


def graph(model: BaseChatModel, coatcheck: CoatcheckMiddleware) -> Any:
    """A graph of LangGraph's own nodes, without `create_agent`."""
    tools = [*ALL, *coatcheck.tools]
    bound = model.bind_tools(tools)

    async def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    made = StateGraph(MessagesState)
    made.add_node("ask", ask)
    made.add_node(
        "tools",
        ToolNode(tools, wrap_tool_call=coatcheck.wrap_tool_call, awrap_tool_call=coatcheck.awrap_tool_call),
    )
    made.add_edge(START, "ask")
    made.add_conditional_edges("ask", tools_condition)
    made.add_edge("tools", "ask")
    return made.compile()


class TestLangChain(PageTests):
    """Agents of `create_agent`, and a graph."""

    name = "langchain"
    package = "langchain"
    modes = ("async", "sync", "stream", "anthropic", "langgraph")

    async def run(self, client: Client, url: str, mode: str, **options: Any) -> str:
        return str((await self.messages(client, url, mode, **options))[-1].text)

    async def messages(self, client: Client, url: str, mode: str, **options: Any) -> list[BaseMessage]:
        """All messages of a run."""
        coatcheck = CoatcheckMiddleware(client, **options)
        model = anthropic(url) if mode == "anthropic" else openai(url)
        agent = graph(model, coatcheck) if mode == "langgraph" else create_agent(model, ALL, middleware=[coatcheck])
        if mode == "sync":
            return (await asyncio.to_thread(agent.invoke, ASKED))["messages"]
        if mode == "stream":
            state: dict[str, Any] = {}
            async for way, said in agent.astream(ASKED, stream_mode=["messages", "values"]):
                state = said if way == "values" else state
            return state["messages"]
        return (await agent.ainvoke(ASKED))["messages"]

    @pytest.mark.parametrize("provider", ["async", "anthropic"])
    async def test_an_image_stays_beside_the_card_and_its_bytes_are_stored(
        self, service_url: str, provider: str
    ) -> None:
        with model_server(plan([Call("get_pictured_log", {})])) as model, Client(service_url) as client:
            messages = await self.messages(client, model.url, provider)
            (kept,) = [one.artifact for one in messages if isinstance(one, ToolMessage) and one.name != "read_artifact"]
            assert client.content(kept["artifact_id"]).decode() == LOG
            assert [client.content(one) for one in kept["images"]] == [base64.b64decode(PICTURE)]
        assert NEEDLE in messages[-1].text
        assert "art_" in model.results[1][0]
        assert PICTURE in model.results[1][0]
        assert LOG.splitlines()[2_000] not in model.results[1][0]

    async def test_an_image_alone_stays_and_its_bytes_are_stored(self, service_url: str) -> None:
        with model_server(plan([Call("get_picture", {})])) as model, Client(service_url) as client:
            messages = await self.messages(client, model.url, "anthropic")
            (kept,) = [one for one in messages if isinstance(one, ToolMessage)]
            assert kept.content == [IMAGE]
            assert [client.content(one) for one in kept.artifact["images"]] == [base64.b64decode(PICTURE)]
        assert PICTURE in model.results[1][0]

    async def test_an_error_that_ends_a_run_still_does(self, service_url: str) -> None:
        with model_server(plan([Call("fail", {})])) as model, Client(service_url) as client:
            agent = create_agent(openai(model.url), [TOOLS["fail"]], middleware=[CoatcheckMiddleware(client)])
            with pytest.raises(ValueError, match="no such worker"):
                await agent.ainvoke(ASKED)


@pytest.mark.parametrize("shape", ["tavily", "brave", "ddgs"])
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_search_is_passages_in_its_turn_and_a_summary_after_it(
    service_url: str, shape: str, wire: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-none")
    with search_server() as provider, model_server(plan()) as model, Client(service_url) as client:

        @tool
        def duckduckgo_search(query: str) -> str:
            """Search the web."""
            assert query == QUERY
            return fetched(provider, shape)

        tavily = TavilySearch(max_results=10, include_raw_content=True, api_base_url=provider)
        search = tavily if shape == "tavily" else duckduckgo_search
        model.plan.first = [[Call(search.name, {"query": QUERY})]]
        model.plan.needle, model.plan.pattern = re.compile(r"is code ([0-9a-f]{10})"), "opens gate seven"
        made = anthropic(model.url) if wire == "anthropic" else openai(model.url)
        agent = create_agent(made, [search], middleware=[CoatcheckMiddleware(client)])
        first = await agent.ainvoke({"messages": [("user", "Which code?")]})
        model.plan.needle = re.compile(r"never ([0-9])")
        await agent.ainvoke({"messages": [*first["messages"], ("user", "And gate eight?")]})
    assert CODE in first["messages"][-1].text
    check_requests(model.results[1:], later=1)


class TestDeepAgents:
    """Agents of `create_deep_agent`, which keeps results of 20,000 tokens in files of its own."""

    async def test_a_card_is_read_on_and_no_file_is_made(self, service_url: str) -> None:
        with model_server(plan()) as model, Client(service_url) as client:
            agent = create_deep_agent(openai(model.url), ALL, middleware=[CoatcheckMiddleware(client)])
            done = await agent.ainvoke(ASKED)
            sees_cards(model, done["messages"][-1].text, client)
        assert not done.get("files")

    @pytest.mark.parametrize("how", ["stopped", "hanging", "refusing"])
    async def test_the_original_goes_into_the_framework_s_own_file(self, how: str) -> None:
        fast = {"deadline": 0.5, "retries": Retries(attempts=1)}
        with failing(how) as url, model_server(plan()) as model, Client(url, **fast) as client:
            agent = create_deep_agent(openai(model.url), ALL, middleware=[CoatcheckMiddleware(client)])
            done = await agent.ainvoke(ASKED)
        assert "art_" not in model.results[1][0]
        (file,) = done["files"].values()
        assert NEEDLE in str(file["content"])

    @pytest.mark.parametrize("kind", ["isolated", "fork"])
    @pytest.mark.filterwarnings("ignore:.*forked subagents.*")
    async def test_a_sub_agent_has_cards(self, service_url: str, kind: str) -> None:
        given = {"description": "Which code?", "subagent_type": "operator"}
        with (
            model_server(plan([Call("get_status", {})], [Call("task", given)])) as model,
            Client(service_url) as client,
        ):
            model.plan.inner = [[Call("get_log", {})]] * (1 if kind == "isolated" else 2)
            coatcheck = CoatcheckMiddleware(client)
            operator: Any = {"name": "operator", "description": "Has the log.", "system_prompt": "Look."}
            operator |= {"tools": [TOOLS["get_log"]], "mode": kind}
            agent = create_deep_agent(
                openai(model.url), [TOOLS["get_status"]], middleware=[coatcheck], subagents=[operator]
            )
            saw_a_card(model, (await agent.ainvoke(ASKED))["messages"][-1].text)

    async def test_the_sub_agent_that_the_framework_adds_has_cards_as_the_page_has_it(
        self, service_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        given = {"description": "Which code?", "subagent_type": "general-purpose"}
        with model_server(plan([Call("task", given)])) as model, block("langchain", 3) as written:
            monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
            monkeypatch.setenv("OPENAI_API_KEY", "none")
            monkeypatch.setenv("COATCHECK_URL", service_url)
            names: dict[str, Any] = {**TOOLS, "CoatcheckMiddleware": CoatcheckMiddleware}
            exec(compile(written.text, "langchain.md", "exec"), names)  # noqa: S102
            saw_a_card(model, (await names["agent"].ainvoke(ASKED))["messages"][-1].text)
