"""CrewAI."""

import asyncio
from typing import Any

import pytest
from crewai import LLM, Agent, Crew, Process, Task
from crewai.tools import tool

from coatcheck_client import Client
from coatcheck_client.integrations.crewai import CoatcheckTool
from model_server import model_server
from scenario import LOG, NEEDLE, TOOLS, plan, saw_a_card
from more_tests import PageTests
from wire_formats import Call


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No telemetry, and no question about traces."""
    for name in ("CREWAI_DISABLE_TELEMETRY", "OTEL_SDK_DISABLED", "CREWAI_TESTING"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("CREWAI_TRACING_ENABLED", "false")
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def fresh(names: list[str]) -> list[Any]:
    """Tools of the framework."""
    return [tool(name)(TOOLS[name]) for name in names]


def made(url: str, tools: list[Any], *, stream: bool = False, role: str = "Operator") -> Agent:
    """An agent whose model is the server."""
    llm = LLM(model="openai/gpt-4.1", base_url=f"{url}/v1", api_key="none", stream=stream)
    return Agent(role=role, goal="Answer.", backstory="Knows the workers.", llm=llm, tools=tools)


def task(agent: Agent, **said: Any) -> Task:
    """The question."""
    return Task(description="Which code?", expected_output="A code.", agent=agent, **said)


class TestCrewAI(PageTests):
    """Crews over Chat Completions."""

    name = "crewai"
    package = "crewai"
    modes = ("async", "sync", "stream", "thread")

    async def run(self, client: Client, url: str, mode: str, **options: Any) -> str:
        agent = made(url, [*fresh(list(TOOLS)), CoatcheckTool(client, **options)], stream=mode == "stream")
        crew = Crew(agents=[agent], tasks=[task(agent)])
        if mode == "async":
            return (await crew.akickoff()).raw
        if mode == "thread":
            return (await crew.kickoff_async()).raw
        return (await asyncio.to_thread(crew.kickoff)).raw

    async def test_tools_of_a_task_have_cards(self, service_url: str) -> None:
        with model_server(plan()) as model, Client(service_url) as client:
            agent = made(model.url, [])
            asked = task(agent, tools=[*fresh(["get_log"]), CoatcheckTool(client)])
            saw_a_card(model, (await Crew(agents=[agent], tasks=[asked]).akickoff()).raw)

    async def test_an_agent_without_it_keeps_its_results(self, service_url: str) -> None:
        with model_server(plan()) as model, Client(service_url) as client:
            CoatcheckTool(client)
            agent = made(model.url, fresh(["get_log"]))
            answer = (await Crew(agents=[agent], tasks=[task(agent)]).akickoff()).raw
        assert NEEDLE in answer
        assert LOG.splitlines()[2_000] in model.results[1][0]

    async def test_a_result_that_is_the_answer_stays(self, service_url: str) -> None:
        with model_server(plan()) as model, Client(service_url) as client:
            (final,) = fresh(["get_log"])
            final.result_as_answer = True
            agent = made(model.url, [final, CoatcheckTool(client)])
            answer = (await Crew(agents=[agent], tasks=[task(agent)]).akickoff()).raw
        assert answer.strip() == LOG.strip()

    async def test_an_agent_alone_has_cards(self, service_url: str) -> None:
        with model_server(plan()) as model, Client(service_url) as client:
            agent = made(model.url, [*fresh(["get_log"]), CoatcheckTool(client)])
            saw_a_card(model, (await agent.kickoff_async("Which code?")).raw)

    async def test_a_sub_agent_has_cards_of_its_own(self, service_url: str) -> None:
        delegated = {"task": "Which code?", "context": "none", "coworker": "Operator"}
        with (
            model_server(plan([Call("delegate_work_to_coworker", delegated)])) as model,
            Client(service_url) as client,
        ):
            operator = made(model.url, [*fresh(["get_log"]), CoatcheckTool(client)])
            chief = made(model.url, [], role="Chief")
            crew = Crew(
                agents=[operator],
                tasks=[Task(description="Which code?", expected_output="A code.")],
                manager_agent=chief,
                process=Process.hierarchical,
            )
            saw_a_card(model, (await asyncio.to_thread(crew.kickoff)).raw)
