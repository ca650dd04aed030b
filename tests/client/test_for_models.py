"""What every integration needs: a function that makes cards, the declared tool as a function, what is a card."""

import inspect
import json
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from client.transports import Scripted, answers, refuses
from coatcheck_client import AsyncClient, Client, Retries, declarations, is_card
from coatcheck_client.contract.tools import READ
from coatcheck_client.integrations.tool_outputs import ToolOutputs
from coatcheck_client.results import Artifact
from support.service import Service, serving

LOG = "".join(f"{n:05d} step {n * 7919 % 1000} took {n % 97} ms\n" for n in range(4000))
AWAY = "http://127.0.0.1:1"


class AgentText(str):
    """Text of a framework's own type."""

    __slots__ = ()


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.url) as opened:
        yield opened


# ---------------------------------------------------------------------------------------------- cards


async def test_a_carder_makes_cards_of_long_text_and_returns_everything_else_as_it_is(service: Service) -> None:
    small = AgentText("exit code 0")
    with Client(service.url) as here:
        card = here.carder(max_tokens=300, session="carding")
        made = card(LOG, tool_name="make", tool_call_id="c1")
        (stored,) = here.each_artifact(session="carding")
        assert (stored.tool_name, stored.tool_call_id) == ("make", "c1")
        assert here.read_artifact(stored.id, offset=2, limit=1).splitlines()[1] == LOG.splitlines()[1]
        answer = here.read_artifact(stored.id, limit=2_000)
        for same in (small, made, answer, None, 7, [LOG], LOG.encode()):
            assert card(cast("str", same)) is same
        assert card(LOG, tool_name="mcp__coatcheck__read_artifact") is LOG
        assert len(list(here.each_artifact(session="carding"))) == 1
    async with AsyncClient(service.url) as there:
        assert await there.carder(max_tokens=300, session="carding")(LOG, tool_name="make", tool_call_id="c1") == made
    assert is_card(made)
    assert is_card(answer)
    assert not is_card(LOG)


@pytest.mark.parametrize("budget", [64, 200, 1_000, 5_000])
def test_what_a_carder_returns_keeps_its_budget(client: Client, budget: int) -> None:
    for length in (50, 900, 4_000):
        text = "".join(f"line {n} of it\n" for n in range(length))
        made = client.carder(max_tokens=budget)(text)
        if made is not text:
            assert client.put(made, inline_tokens=100_000).tokens <= budget


@pytest.mark.parametrize("budget", [-1, 0, 50, 63, 150_000])
def test_a_budget_beyond_the_service_s_bounds_makes_cards_too(client: Client, budget: int) -> None:
    text = LOG * (1 + 1_500_000 // len(LOG))
    for made in (client.carder(max_tokens=budget)(text), ToolOutputs(client, max_tokens=budget).card(text, "make")):
        assert made.startswith("[art_")
        assert client.put(made, inline_tokens=100_000).tokens <= max(64, min(budget, 600))


def test_a_carder_never_raises_and_returns_the_original_or_its_ends_in_an_outage() -> None:
    opened = Client(AWAY, transport=Scripted(refuses), retries=Retries(attempts=1))
    assert opened.carder()(LOG) is LOG
    ends = opened.carder(max_tokens=400, on_unreachable="ends")(LOG)
    assert ends.startswith("[NOT STORED (unreachable)")
    assert is_card(ends)
    refused = answers(422, json.dumps({"code": "secret_refused", "detail": "A secret."}).encode())
    withheld = Client(AWAY, transport=Scripted(refused)).carder()(LOG)
    assert ("withheld" in withheld, "step" in withheld) == (True, False)


# ---------------------------------------------------------------------------------------------- the tool


def test_the_tool_is_a_function_with_the_parameters_and_the_words_of_its_declaration() -> None:
    with Client(AWAY) as here:
        made = inspect.signature(here.read_artifact)
        assert list(made.parameters) == [one.name for one in READ.parameters]
        types = {str: "string", int: "integer", bool: "boolean"}
        hints = typing.get_type_hints(here.read_artifact)
        assert hints.pop("return") is str
        for one in READ.parameters:
            said = {types[kind] for kind in typing.get_args(hints[one.name]) or (hints[one.name],) if kind in types}
            assert said == set(one.types), one.name
            assert (made.parameters[one.name].default is inspect.Parameter.empty) == one.required
        doc = inspect.getdoc(here.read_artifact) or ""
        assert doc.startswith(READ.description)
        assert all(f"    {one.name}: {one.description}" in doc for one in READ.parameters)
        assert here.read_artifact.__name__ == READ.name
    assert inspect.iscoroutinefunction(AsyncClient(AWAY).read_artifact)


@pytest.mark.parametrize("form", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_its_schema_is_there_in_each_provider_s_form_without_a_service(service: Service, form: Any) -> None:  # noqa: ANN401
    assert declarations(form) == service.get("/v1/tools", format=form)["tools"]


async def test_the_tool_answers_text_whatever_happens(service: Service) -> None:
    with Client(service.url) as here:
        artifact_id = here.put(LOG).id
        assert "02345 step" in here.read_artifact(artifact_id, pattern="^02345 ", context=0)
        assert "art_" in here.read_artifact("no such thing")
        assert here.read_artifact(cast("Any", None), pattern=cast("Any", object()))
    async with AsyncClient(service.url) as there:
        assert "02345 step" in await there.read_artifact(artifact_id, pattern="^02345 ", context=0)
        away = AsyncClient(AWAY, transport=Scripted(refuses), retries=Retries(attempts=1))
        assert "cannot answer now [unreachable]" in await away.read_artifact(artifact_id)


# ---------------------------------------------------------------------------------------------- lists


async def test_lists_are_iterated_through_all_their_pages(service: Service) -> None:
    with Client(service.url, session="iterated") as here:
        ids = [here.put(f"payload {n}").id for n in range(7)]
        found: Iterator[Artifact] = here.each_artifact(session="iterated", limit=2)
        assert [one.id for one in found] == ids[::-1]
        assert next(here.each_artifact(session="iterated", limit=2)).id == ids[-1]
    async with AsyncClient(service.url) as there:
        assert [one.id async for one in there.each_artifact(session="iterated", limit=3)] == ids[::-1]


# ---------------------------------------------------------------------------------------------- administration


def test_administration_has_a_method_for_each_of_its_routes(tmp_path: Path) -> None:
    with serving(tmp_path) as own, Client(own.url) as client:
        _administer(client)


def _administer(client: Client) -> None:
    admin = client.admin
    assert admin.create_namespace("team")["name"] == "team"
    assert "team" in {one["name"] for one in admin.namespaces()}
    assert admin.disable_namespace("team")["disabled_at"]
    admin.disable_namespace("team", disabled=False)
    admin.set_policy({"ttl": "7d"}, namespace="team", kind="log")
    assert admin.policies(namespace="team")["items"]
    assert admin.effective_policy(namespace="team", kind="log")
    assert len(admin.policy_history(namespace="team", kind="log")["versions"]) == 1
    admin.remove_policy(namespace="team", kind="log")
    receipt = client.put(LOG, session="held")
    hold = admin.place_hold("case 7", namespace="default", session="held")
    assert [one["id"] for one in admin.holds(namespace="default")] == [hold["id"]]
    admin.release_hold(hold["id"])
    plan = admin.plan_retention("session", namespace="default", session="held")
    run = admin.apply_retention(plan["digest"], confirm=True)
    assert admin.retention_run(run["id"])["id"] == run["id"]
    assert run["id"] in {one["id"] for one in admin.retention_runs()}
    assert admin.undo_retention(run=run["id"])
    assert client.content(receipt.id) == LOG.encode()
    assert admin.schedule_job("expire", paused=True)["paused"] is True
    admin.schedule_job("expire", paused=False)
    assert admin.retention_status()["jobs"]
    assert {one["namespace"] for one in admin.usage()} >= {"default"}
    assert any(one["action"] == "policy.set" for one in admin.audit(namespace="team"))
    client.put(LOG, session="emptied")
    assert admin.empty_namespace("default")


def test_every_route_of_administration_is_reached_by_a_method(service: Service) -> None:
    """By the paths that stand in the module, since every method sends exactly one."""
    from coatcheck_client import administration  # noqa: PLC0415 - only here

    source = inspect.getsource(administration)
    for path in service.get("/v1/openapi.json")["paths"]:
        if path.startswith("/v1/admin/"):
            assert path.removeprefix("/v1/admin/").partition("/{")[0] in source, path
