"""Web searches in the client and its integrations: passages this turn, the summary after it, raw pages never."""

import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType] - the framework's types
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from cli.terminal import call
from coatcheck_client import Client, is_card
from coatcheck_client.contract.searches import is_search, is_search_tool, query_of
from coatcheck_client.integrations.langchain import CoatcheckMiddleware
from coatcheck_client.integrations.tool_outputs import ToolOutputs
from integrations.agents import NOBODY, Script
from integrations.wrapped import WRAP, host, text_of
from support.service import Service

Json = Any
WORDS = ["anchor", "basin", "cliff", "dune", "estuary", "fjord", "gulf", "harbour", "inlet", "jetty", "kelp", "lagoon"]


def page(number: int) -> str:
    """A page of 60 KB of its own words about tides."""
    rng = random.Random(number)
    lines = (f"{' '.join(rng.choices(WORDS, k=9)).capitalize()} {number} {n} at high tide." for n in range(700))
    return " ".join(lines)


PAGE = page(99)
RESULTS = [{"title": f"Harbour {n}", "url": f"https://h{n}.example.org/tides", "content": page(n)} for n in range(8)]
RAW = " 699 at high tide"
"""Only at the end of a page, which no passage shows."""
RESPONSE = json.dumps({"query": "how do tides form", "results": RESULTS, "response_time": 0.4})
LISTED = json.dumps([{"title": one["title"], "href": one["url"], "body": one["content"]} for one in RESULTS])
ISSUES = {"total_count": 2, "items": [{"title": "Crash", "url": "https://github.com/a/b/1", "body": PAGE}] * 2}


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.url) as opened:
        yield opened


@pytest.mark.parametrize(
    ("name", "searches"),
    [
        ("web_search", True),
        ("WebSearch", True),
        ("mcp__tavily__tavily-search", True),
        ("brave_web_search", True),
        ("duckduckgo_results_json", True),
        ("searchTheWeb", True),
        ("google_serper", True),
        ("search_files", False),
        ("google_drive_search", False),
        ("code_search", False),
        ("research", False),
        ("read_artifact", False),
    ],
)
def test_a_tool_says_by_its_name_that_it_searches_the_web(name: str, searches: bool) -> None:
    assert is_search_tool(name) is searches


def test_other_tools_responses_are_recognised_by_their_form_alone() -> None:
    assert is_search(RESPONSE, "lookup")
    assert is_search(json.dumps({"searchParameters": {"q": "x"}, "organic": RESULTS}), None)
    assert is_search(json.dumps({"q": "x", "web": {"results": RESULTS}}), None)
    assert not is_search(json.dumps(ISSUES), "search_issues")
    assert not is_search(json.dumps({"query": "SELECT 1", "rows": [{"title": "x", "n": 1}] * 50}), "sql")
    assert not is_search(LISTED, "lookup")
    assert is_search(LISTED, "lookup", "search_response")
    assert not is_search(RESPONSE, "web_search", "log")
    assert not is_search("[" * 100_000, "lookup")


def test_what_is_searched_for_is_found_in_any_providers_arguments() -> None:
    assert (
        query_of({"query": "tides"}) == query_of('{"q": "tides"}') == query_of({"queries": ["tides", "sea"]}) == "tides"
    )
    assert query_of({"path": "x"}) is query_of("no json") is query_of(None) is None
    assert query_of('{"query": "half of a pair \ud83d"}') is None


def test_a_put_of_a_search_returns_its_passages_or_its_summary(client: Client) -> None:
    passages = client.put(RESPONSE, searches="passages", tool_name="web_search", session="s1")
    assert passages.text.startswith('¦ Search: 8 results for "how do tides form"')
    assert passages.tokens <= 8_192
    assert (passages.stored, passages.inline) == (True, False)
    summary = client.put(RESPONSE, searches="summary", session="s1")
    assert summary.id == passages.id
    assert summary.text.startswith("¦ searched 'how do tides form'")
    assert [url for one in RESULTS if (url := one["url"]) not in summary.text] == []
    assert summary.tokens <= 1_000
    assert is_card(summary.text)
    assert client.put(RESPONSE, tool_name="web_search").text.startswith("[art_")
    assert client.content(passages.id) == RESPONSE.encode()


def test_lists_without_a_query_take_that_of_the_call(client: Client) -> None:
    outputs = ToolOutputs(client, searches="passages", search_tools=["lookup"])
    shown = outputs.card(LISTED, "lookup", "call_1", "s2", arguments={"query": "tides at stations"})
    assert shown.startswith('¦ Search: 8 results for "tides at stations"')
    blocks = outputs.card([{"type": "text", "text": LISTED}, {"type": "image", "data": "x"}], "lookup", "call_2", "s3")
    assert blocks[0]["text"].startswith("¦ Search: 8 results")
    assert blocks[1] == {"type": "image", "data": "x"}
    assert ToolOutputs(client).card(shown, "web_search") is shown
    summary = ToolOutputs(client).card(RESPONSE, "web_search")
    assert summary.startswith("¦ searched")
    assert ToolOutputs(client).card(summary, "other") is summary
    assert ToolOutputs(client, searches="off").card(RESPONSE, "web_search").startswith("[art_")


def test_a_service_that_is_away_leaves_the_result_as_it_is() -> None:
    with Client(NOBODY) as client:
        assert ToolOutputs(client).card(RESPONSE, "web_search") is RESPONSE


def test_a_response_that_the_search_route_refuses_becomes_a_card(client: Client) -> None:
    receipt = client.put(RESPONSE, searches="summary", tool_name="web_search", labels=["x" * 500])
    assert receipt.text.startswith(("[art_", "[NOT STORED", "¦ searched"))
    assert RAW not in receipt.text


@tool
def web_search(query: str) -> str:
    """Search the web."""
    return json.dumps({"query": query, "results": RESULTS})


@tool
def note(text: str) -> str:
    """Note a text."""
    return f"noted: {text}"


def test_an_agent_reads_passages_in_the_turn_and_the_summary_after_it(client: Client) -> None:
    model = Script(calls=[("web_search", {"query": "how do tides form"}), ("note", {"text": "x"})])
    agent: Any = create_agent(model, [web_search, note], middleware=[CoatcheckMiddleware(client, session="agent")])
    done = agent.invoke({"messages": [HumanMessage("What draws the sea?")]})
    (first,) = [one for one in model.seen[1] if isinstance(one, ToolMessage)]
    assert str(first.content).startswith('¦ Search: 8 results for "how do tides form"')
    state = [*done["messages"], HumanMessage("And at night?")]
    model.calls.append(("note", {"text": "y"}))
    agent.invoke({"messages": [*state[:-2], AIMessage("The Moon."), state[-1]]})
    later = next(one for one in model.seen[-1] if isinstance(one, ToolMessage))
    assert str(later.content).startswith("¦ searched 'how do tides form'")
    assert [one["url"] for one in RESULTS if one["url"] not in str(later.content)] == []
    assert not [one for request in model.seen for one in request if RAW in str(one.content)]


def decide(service: Service, policy: Json, **scope: str) -> None:
    answer = service.client.put("/v1/admin/policies", json={"policy": policy, **scope})
    assert answer.status_code in {200, 201}, answer.text


def test_searches_are_limited_in_a_session_and_in_a_turn(service: Service, client: Client) -> None:
    decide(service, {"search_max_searches": 2}, session="few")
    decide(service, {"search_max_searches_per_turn": 1}, session="turns")
    responses = [json.dumps({"query": f"q{n}", "results": RESULTS[n : n + 3]}) for n in range(3)]
    first = [client.search_results(one, session="few") for one in responses]
    assert [one.stored for one in first] == [True, True, False]
    assert first[2].id == ""
    assert first[2].text == first[2].summary["text"]
    assert "2 web searches that are allowed" in first[2].text
    assert [one.code for one in first[2].warnings] == ["too_many_searches"]
    again = client.search_results(responses[0], session="few")
    assert (again.id, again.text) == (first[0].id, first[0].text)
    assert client.put(responses[2], searches="summary", session="few").text == first[2].text
    one, two, other = (
        client.search_results(text, session="turns", turn=turn)
        for text, turn in zip(responses, ("1", "1", "2"), strict=True)
    )
    assert (one.stored, two.stored, other.stored) == (True, False, True)
    assert "This turn" in two.text
    assert [each.labels for each in client.artifacts(session="turns", label="turn:1").items] == [("turn:1",)]


def test_searches_that_are_off_are_neither_read_nor_kept(service: Service, client: Client) -> None:
    decide(service, {"search_enabled": False}, session="off")
    found = client.search_results(RESPONSE, session="off", format="anthropic")
    assert (found.id, found.stored) == ("", False)
    assert found.text == "¦ Web search is switched off here: this response was neither read nor kept."
    assert found.content == [{"type": "text", "text": found.text}]
    assert client.artifacts(session="off").items == ()


def test_of_a_summary_that_is_not_kept_one_line_and_a_source_stay(service: Service, client: Client) -> None:
    decide(service, {"search_keep_summary": False}, session="brief")
    found = client.search_results(RESPONSE, session="brief")
    lines = found.summary["text"].splitlines()
    assert re.fullmatch(r"¦ searched 'how do tides form': 8 results, 3 read", lines[0])
    first = f"{found.id}#r1 Harbour 0 | https://h0.example.org/tides"
    assert lines[1:] == ["¦ sources", first, f"¦ 7 more in {found.id}"]
    call = {"id": "c1", "type": "function", "function": {"name": "web_search", "arguments": "{}"}}
    history = [
        {"role": "user", "content": "search"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": found.text},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "next"},
    ]
    body = client.compact({"messages": history}, session="brief").body
    assert body["messages"][2]["content"] == found.summary["text"]


def test_claude_codes_search_becomes_its_summary(client: Client) -> None:
    links = [{"title": one["title"], "url": one["url"]} for one in RESULTS] * 4
    response = {"query": "how do tides form", "results": [{"tool_use_id": "s1", "content": links}, PAGE[:3_000]]}
    event = {
        "hook_event_name": "PostToolUse",
        "tool_name": "WebSearch",
        "tool_input": {"query": "how do tides form"},
        "tool_response": {**response, "durationSeconds": 2.5},
        "session_id": "cc",
    }
    output = client.answer_hook(event)["hookSpecificOutput"]["updatedToolOutput"]
    assert set(output) == {"query", "results", "durationSeconds"}
    (text,) = output["results"]
    assert text.startswith("¦ searched 'how do tides form'")
    assert [one["url"] for one in RESULTS if one["url"] not in text] == []
    assert client.answer_hook({**event, "tool_response": output}) == {}
    mcp = {**event, "tool_name": "mcp__tavily__tavily-search", "tool_response": [{"type": "text", "text": RESPONSE}]}
    (block,) = client.answer_hook(mcp)["hookSpecificOutput"]["updatedToolOutput"]
    assert block["text"].startswith("¦ searched 'how do tides form'")
    assert RAW not in block["text"]


@pytest.mark.parametrize("searches", ["summary", "passages", "off"])
async def test_a_search_of_an_mcp_server_becomes_what_the_command_says(
    service: Service, tmp_path: Path, searches: str
) -> None:
    begins = {"summary": "¦ searched 'how do tides form'", "passages": "¦ Search: 8 results", "off": "[art_"}
    file = tmp_path / "server.py"
    file.write_text(SERVER)
    async with host(*WRAP, "--url", service.url, "--searches", searches, "--", sys.executable, str(file)) as wrapped:
        text = text_of(await wrapped.call_tool("web_search", {"query": "how do tides form"}))
    assert text.startswith(begins[searches]), text[:200]
    assert RAW not in text


SERVER = f"""
import json
from mcp.server.mcpserver import MCPServer
server = MCPServer("harbours")

@server.tool()
def web_search(query: str) -> str:
    return json.dumps({RESULTS!r})

server.run()
"""


def test_the_command_prints_what_a_model_reads(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "response.json"
    file.write_text(RESPONSE)
    ended = call("search-results", str(file), "--web-max-total-tokens", "900", settings={"url": service.url})
    assert ended.code == 0, ended.err
    assert ended.out.decode().startswith("¦ 8 results, 3 shown; all in art_")
    assert "of 900 tokens" in ended.err
    kept = call(
        "search-results", "-", "--summary", "--query", "tides", stdin=LISTED.encode(), settings={"url": service.url}
    )
    assert kept.out.decode().startswith("¦ searched 'tides'")
    whole = json.loads(call("search-results", str(file), "--json", settings={"url": service.url}).out)
    assert service.content(whole["id"]) == RESPONSE.encode()
    wrong = call("search-results", str(file), "--web-max-results", "0", settings={"url": service.url})
    assert wrong.code == 2
