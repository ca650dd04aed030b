"""LlamaIndex."""

import base64
import json
from typing import Any

import pytest
from llama_index.core import SummaryIndex
from llama_index.core.agent.workflow import (
    AgentStream,
    AgentWorkflow,
    BaseWorkflowAgent,
    CodeActAgent,
    FunctionAgent,
    ReActAgent,
)
from llama_index.core.base.llms.types import CompletionResponse, CompletionResponseGen, LLMMetadata
from llama_index.core.bridge.pydantic import Field
from llama_index.core.llms import CustomLLM, ImageBlock, TextBlock
from llama_index.core.objects import ObjectIndex
from llama_index.core.tools import BaseTool, FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.workflow import Context
from llama_index.llms.openai import OpenAI, OpenAIResponses

from coatcheck_client import Client
from coatcheck_client.integrations.llama_index import with_coatcheck
from model_server import model_server
from scenario import LOG, NEEDLE, PICTURE, TOOLS, plan, saw_a_card
from more_tests import PageTests
from wire_formats import Call


async def get_log_in_context(ctx: Context) -> str:
    """Get the log, and count."""
    await ctx.store.set("calls", 1 + await ctx.store.get("calls", default=0))
    return LOG


def get_rows() -> dict[str, Any]:
    """Get the log as rows."""
    return {"lines": LOG.splitlines()}


def get_pictured_log() -> list[TextBlock | ImageBlock]:
    """Get the log in two parts around a picture of it."""
    image = ImageBlock(image=base64.b64decode(PICTURE), image_mimetype="image/png")
    return [TextBlock(text=LOG), image, TextBlock(text=LOG)]


class OldLog(BaseTool):
    """A tool that is not a function, and knows no event loop."""

    @property
    def metadata(self) -> ToolMetadata:
        return ToolMetadata("Get the log.", "get_log_of_old")

    def __call__(self, input: Any = None) -> ToolOutput:
        return ToolOutput("get_log_of_old", LOG, raw_input={}, raw_output=LOG)


MORE = [get_log_in_context, get_rows, get_pictured_log]


def model_at(url: str, kind: type[Any] = OpenAI) -> Any:
    """A model that is the server; its name is one that the framework knows."""
    return kind("gpt-4.1", api_base=f"{url}/v1", api_key="none", max_retries=0)


def made(url: str, tools: list[Any], **said: Any) -> FunctionAgent:
    """An agent whose model is the server."""
    return FunctionAgent(tools=tools, llm=model_at(url), **said)


async def asked(agent: BaseWorkflowAgent | AgentWorkflow, mode: str = "async") -> str:
    """The final answer of a run."""
    handler = agent.run("Which code?")
    if mode == "stream":
        return "".join([one.delta async for one in handler.stream_events() if isinstance(one, AgentStream)])
    return str(await handler)


class TestLlamaIndex(PageTests):
    """Agents over Chat Completions."""

    name = "llama-index"
    package = "llama-index-core"
    modes = ("async", "stream")

    def variables(self, url: str) -> dict[str, str]:
        return {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": "none"}

    async def run(self, client: Client, url: str, mode: str, **options: Any) -> str:
        agent = made(url, [*TOOLS.values(), *MORE], streaming=mode == "stream")
        return await asked(with_coatcheck(agent, client, **options), mode)

    @pytest.mark.parametrize("name", [one.__name__ for one in MORE])
    async def test_results_of_any_kind_become_cards(self, service_url: str, name: str, mode: str) -> None:
        with model_server(plan([Call(name, {})])) as model, Client(service_url) as client:
            saw_a_card(model, await self.run(client, model.url, mode))
        assert model.results[1][0].count("[art_") == 1

    async def test_images_stay_behind_a_card(self, service_url: str, mode: str) -> None:
        with model_server(plan([Call("get_pictured_log", {})])) as model, Client(service_url) as client:
            responses = model_at(model.url, OpenAIResponses)  # over Chat Completions the framework sends no images
            agent = FunctionAgent(tools=[get_pictured_log], llm=responses, streaming=mode == "stream")
            saw_a_card(model, await asked(with_coatcheck(agent, client), mode))
        assert PICTURE in json.dumps(model.bodies[1])


async def test_a_tool_without_an_event_loop_has_cards(service_url: str) -> None:
    with model_server(plan([Call("get_log_of_old", {"input": "all"})])) as model, Client(service_url) as client:
        saw_a_card(model, await asked(with_coatcheck(made(model.url, [OldLog()]), client)))


async def test_tools_that_are_retrieved_have_cards(service_url: str) -> None:
    tools = ObjectIndex.from_objects([FunctionTool.from_defaults(TOOLS["get_log"])], index_cls=SummaryIndex)
    with model_server(plan()) as model, Client(service_url) as client:
        agent = with_coatcheck(made(model.url, [], tool_retriever=tools.as_retriever()), client)
        saw_a_card(model, await asked(agent))


async def test_what_goes_to_the_user_stays_and_the_caller_s_tools_too(service_url: str) -> None:
    show = FunctionTool.from_defaults(TOOLS["get_log"], return_direct=True)
    given = [show]
    with model_server(plan()) as model, Client(service_url) as client:
        assert LOG in await asked(with_coatcheck(made(model.url, given), client))
    assert given == [show]
    assert show().content == LOG


async def test_agents_of_a_workflow_have_cards(service_url: str) -> None:
    handoff = Call("handoff", {"to_agent": "operator", "reason": "It knows the log."})
    with model_server(plan([handoff], [Call("get_log", {})])) as model, Client(service_url) as client:
        first = with_coatcheck(made(model.url, [TOOLS["get_status"]], name="first", description="Asks."), client)
        operator = with_coatcheck(made(model.url, [TOOLS["get_log"]], name="operator", description="Knows."), client)
        saw_a_card(model, await asked(AgentWorkflow([first, operator], root_agent="first")))


async def test_a_wrong_call_of_read_artifact_is_answered(service_url: str) -> None:
    first = [Call("read_artifact", {"where": "here"})], [Call("get_log", {})]
    with model_server(plan(*first)) as model, Client(service_url) as client:
        saw_a_card(model, await asked(with_coatcheck(made(model.url, [TOOLS["get_log"]]), client)))
    assert "where" in model.results[1][0]


class Thinker(CustomLLM):
    """A model of text: it calls get_log, reads the artifact of which it sees the ID, and answers with what it read."""

    seen: list[str] = Field(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="thinker")

    def complete(self, prompt: str, *_: Any, **__: Any) -> CompletionResponse:
        self.seen.append(prompt)
        _, _, card = prompt.partition("[art_")
        if not card:
            return CompletionResponse(text="Thought: I look.\nAction: get_log\nAction Input: {}\n")
        if NEEDLE in prompt:
            return CompletionResponse(text=f"Thought: I know.\nAnswer: {NEEDLE}")
        arguments = json.dumps({"artifact_id": f"art_{card[:18]}", "pattern": "request 1777 with"})
        return CompletionResponse(text=f"Thought: I read.\nAction: read_artifact\nAction Input: {arguments}\n")

    def stream_complete(self, prompt: str, *_: Any, **__: Any) -> CompletionResponseGen:
        yield self.complete(prompt)


async def test_an_agent_that_reasons_in_text_has_cards(service_url: str) -> None:
    model = Thinker()
    with Client(service_url) as client:
        agent = with_coatcheck(ReActAgent(tools=[TOOLS["get_log"]], llm=model, streaming=False), client)
        assert NEEDLE in await asked(agent)
    assert len(model.seen) == 3
    assert all(LOG.splitlines()[2_000] not in one for one in model.seen)


def test_an_agent_that_calls_tools_in_code_is_refused() -> None:
    with pytest.raises(TypeError, match="read_artifact"):
        with_coatcheck(CodeActAgent(print, tools=[TOOLS["get_log"]], llm=Thinker()))
