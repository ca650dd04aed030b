"""The PostToolUse hook of Claude Code in its wire format: what is answered to each tool's response."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from integrations.mcp_server import PDF, SHOT
from support.service import Service

Json = Any
LOG = "".join(f"line {n} of the log\n" for n in range(3_000))
PICTURE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
PATH = "/v1/hooks/claude-code"
ID = "art_503327723418654685"
CARD = f"[{ID} · log · stored outside this conversation; below: facts]\n{LOG[:20_000]}"


def event(tool_name: str, response: Json, **more: Json) -> dict[str, Any]:
    """As the host sends it (its hooks reference, PostToolUse input)."""
    return {
        "session_id": "5f3d2a10-0000-4000-8000-000000000001",
        "transcript_path": "/home/u/.claude/projects/p/5f3d2a10.jsonl",
        "cwd": "/repo",
        "permission_mode": "default",
        "hook_event_name": "PostToolUse",
        "tool_name": tool_name,
        "tool_input": {"command": "make"},
        "tool_response": response,
        "tool_use_id": "toolu_01ABC123",
        "duration_ms": 812,
        **more,
    }


def bash(stdout: str, **more: Json) -> dict[str, Any]:
    return {"stdout": stdout, "stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False, **more}


def asked(service: Service, said: Json, **params: Json) -> dict[str, Any]:
    response = service.client.post(PATH, json=said, params=params)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def output(answer: dict[str, Any]) -> Json:
    """What replaces the tool's output; also that nothing else is said."""
    assert set(answer) == {"hookSpecificOutput"}
    specific = answer["hookSpecificOutput"]
    assert specific["hookEventName"] == "PostToolUse"
    assert set(specific) <= {"hookEventName", "updatedToolOutput", "updatedMCPToolOutput"}
    assert specific.get("updatedMCPToolOutput", specific["updatedToolOutput"]) == specific["updatedToolOutput"]
    return specific["updatedToolOutput"]


def payload(service: Service, card: str) -> bytes:
    assert card.startswith("[art_")
    return service.content(card[1:23])


def test_a_shell_s_output_is_replaced_in_the_tool_s_own_shape(service: Service) -> None:
    got = output(asked(service, event("Bash", bash(LOG))))
    assert payload(service, got["stdout"]) == LOG.encode()
    assert got == bash(got["stdout"])
    known = service.get(f"/v1/artifacts/{got['stdout'][1:23]}")["artifact"]
    assert (known["tool_name"], known["command"], known["tool_call_id"], known["session"]) == (
        "Bash",
        "make",
        "toolu_01ABC123",
        "5f3d2a10-0000-4000-8000-000000000001",
    )
    again = output(asked(service, event("Bash", bash(LOG))))
    assert again == got, "the same output is the same card"


def test_each_stream_of_a_shell_has_a_card_of_its_own(service: Service) -> None:
    got = output(asked(service, event("Bash", bash(LOG, stderr=LOG.upper()))))
    assert payload(service, got["stdout"]) == LOG.encode()
    assert payload(service, got["stderr"]) == LOG.upper().encode()
    got = output(asked(service, event("Bash", bash(LOG, stderr="one warning"))))
    assert got["stderr"] == "one warning"


def test_texts_of_an_mcp_tool_become_one_card_and_its_pictures_stay(service: Service) -> None:
    texts = [{"type": "text", "text": LOG}, PICTURE, {"type": "text", "text": "the end"}]
    got = output(asked(service, event("mcp__jira__search", texts)))
    assert got[1:] == [PICTURE]
    assert payload(service, got[0]["text"]) == f"{LOG}the end".encode()
    answer = asked(service, event("mcp__jira__search", LOG))
    assert payload(service, output(answer)) == LOG.encode()
    assert "updatedMCPToolOutput" in answer["hookSpecificOutput"]
    whole = {"content": [{"type": "text", "text": LOG}], "structuredContent": {"log": LOG}, "isError": False}
    got = output(asked(service, event("mcp__jira__search", whole)))
    assert (set(got), got["isError"]) == ({"content", "isError"}, False)


@pytest.mark.parametrize("own", [CARD, "[… 9,000 characters, stored as " + ID + "; omitted from history, do not copy]"])
def test_a_card_or_marker_among_texts_stays_and_the_others_become_one_card(service: Service, own: str) -> None:
    first, text, last = ({"type": "text", "text": text} for text in (own, LOG, "the end"))
    before, card = output(asked(service, event("mcp__jira__search", {"content": [first, text, last]})))["content"]
    assert before == first
    assert payload(service, card["text"]) == f"{LOG}the end".encode()
    assert asked(service, event("mcp__jira__search", [first, last])) == {}


@pytest.mark.parametrize(
    ("tool_name", "response", "member"),
    [
        ("WebFetch", {"bytes": 9, "code": 200, "result": LOG, "url": "https://example.org/"}, "result"),
        ("Grep", {"mode": "content", "numFiles": 3, "content": LOG, "numLines": 3000}, "content"),
        ("PowerShell", bash(LOG), "stdout"),
    ],
)
def test_other_tools_keep_their_shape_too(service: Service, tool_name: str, response: Json, member: str) -> None:
    got = output(asked(service, event(tool_name, response)))
    assert payload(service, got[member]) == LOG.encode()
    assert got == {**response, member: got[member]}


def test_a_page_that_the_host_fetched_has_its_status_and_where_it_led(service: Service) -> None:
    led = "https://example.org/login"
    response = {"bytes": 9, "code": 403, "codeText": "Forbidden", "result": f"# Sign in\n\n{LOG}", "url": led}
    said = event("WebFetch", response, tool_input={"url": "https://example.org/", "prompt": "What is there?"})
    card = output(asked(service, said))["result"].splitlines()
    assert card[1:5] == [
        "HTTP status 403: not the page",
        "Title: Sign in",
        "URL: https://example.org/",
        f"Redirected to: {led}",
    ]
    wrong = {**response, "code": 999, "url": "javascript:alert(1)"}
    card = output(asked(service, event("WebFetch", wrong, tool_input={"url": led})))["result"].splitlines()
    assert [line for line in card if line.startswith(("HTTP", "Redirected"))] == []


def test_an_agent_s_report_is_carded_block_by_block(service: Service) -> None:
    response = {"status": "completed", "content": [{"type": "text", "text": LOG}], "totalTokens": 9}
    got = output(asked(service, event("Agent", response)))
    assert payload(service, got["content"][0]["text"]) == LOG.encode()
    assert (got["status"], got["totalTokens"]) == ("completed", 9)


def untouched() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "small", event("Bash", bash("fine\n"))
    yield "a file that was read", event("Read", {"type": "text", "file": {"filePath": "/a", "content": LOG}})
    yield "a file that was written", event("Write", {"filePath": "/a", "content": LOG, "type": "create"})
    yield "a picture", event("Bash", bash("iVBORw0KGgo=" * 500, isImage=True))
    yield "cut by the host", event("Bash", bash(LOG, persistedOutputPath="/t/x.txt", persistedOutputSize=10**6))
    yield "our own tool", event("mcp__coatcheck__read_artifact", [{"type": "text", "text": LOG}])
    yield "a card", event("Bash", bash(CARD))
    search = f'¦ Search: Tavily for "q", 1 shown. Stored outside this conversation as {ID}'
    yield "a search's answer", event("mcp__x__find", [{"type": "text", "text": text} for text in (search, LOG)])
    yield "an unknown tool", event("Brew", {"coffee": LOG})
    yield "no text", event("mcp__x__draw", [PICTURE])
    yield "another shape", event("Bash", LOG)
    yield "a failure", event("Bash", bash(LOG), hook_event_name="PostToolUseFailure")
    yield "another event", {"hook_event_name": "SessionStart", "session_id": "x"}
    yield "no event", {"hello": "world"}


@pytest.mark.parametrize(("what", "said"), list(untouched()), ids=[what for what, _ in untouched()])
def test_what_must_stay_stays(service: Service, what: str, said: dict[str, Any]) -> None:
    assert asked(service, said) == {}, what


def test_the_address_says_budgets_and_how_long_to_keep(service: Service) -> None:
    text = "word " * 600
    assert asked(service, event("Bash", bash(text))) == {}
    params = {"inline_tokens": 200, "card_tokens": 150, "ttl": "1h", "labels": "claude-code"}
    card = output(asked(service, event("Bash", bash(text + "!")), **params))["stdout"]
    described = service.get(f"/v1/artifacts/{card[1:23]}/card", tokens=150)
    assert (described["text"], described["tokens"] <= 150) == (card, True)
    known = service.get(f"/v1/artifacts/{card[1:23]}")["artifact"]
    assert (known["ttl"], known["labels"]) == (3600, ["claude-code"])


def test_a_setup_that_is_wrong_is_told(service: Service) -> None:
    for response in (
        service.client.post(PATH, params={"crad_tokens": 1}, json=event("Bash", bash(LOG))),
        service.client.post(PATH, content=b"{", headers={"content-type": "application/json"}),
    ):
        assert response.status_code == 400
        assert response.headers["content-type"] == "application/problem+json"


def test_names_that_cannot_be_kept_do_not_cost_the_card(service: Service) -> None:
    said = event("Bash", bash(LOG), session_id="a\nb", tool_use_id="x" * 600)
    card = output(asked(service, said))["stdout"]
    known = service.get(f"/v1/artifacts/{card[1:23]}")["artifact"]
    assert known["session"].startswith("a b…")
    assert known["tool_call_id"].startswith("x" * 40 + "…")


def test_an_event_that_is_too_large_changes_nothing(service: Service) -> None:
    assert asked(service, event("mcp__x__dump", "x" * (33 * 1024 * 1024))) == {}


def test_the_example_settings_name_this_address_and_these_tools() -> None:
    folder = Path(__file__).parents[2] / "examples" / "claude-code"
    settings = json.loads((folder / "settings.json").read_text())
    (entry,) = settings["hooks"]["PostToolUse"]
    (hook,) = entry["hooks"]
    assert (hook["type"], httpx.URL(hook["url"]).path, hook["onFailure"]) == ("http", PATH, "continue")
    assert set(hook["allowedEnvVars"]) == {"COATCHECK_KEY"}
    assert entry["matcher"] == "Bash|PowerShell|Grep|WebFetch|WebSearch|Agent|Task|mcp__.*"
    (server,) = json.loads((folder / ".mcp.json").read_text())["mcpServers"].values()
    assert httpx.URL(server["url"]).path == "/mcp"


def test_embedded_resources_are_artifacts_of_their_own(service: Service) -> None:
    code = base64.b64encode(PDF).decode()
    held = {"uri": "file:///May.pdf", "mimeType": "application/pdf", "blob": code}
    page = {"uri": "https://example.org/log", "mimeType": "text/plain", "text": LOG}
    small = {"type": "resource", "resource": {"uri": "file:///a.gif", "mimeType": "image/gif", "blob": "R0lGODlh"}}
    blocks = [
        {"type": "resource", "resource": held},
        {"type": "text", "text": LOG[:20_000]},
        PICTURE,
        {"type": "resource", "resource": page},
        small,
    ]
    document, text, picture, log, icon = output(asked(service, event("mcp__files__read", blocks)))
    assert payload(service, document["text"]) == PDF
    assert payload(service, text["text"]).decode() == LOG[:20_000]
    assert payload(service, log["text"]).decode() == LOG
    assert (picture, icon) == (PICTURE, small)
    known = service.get(f"/v1/artifacts/{document['text'][1:23]}")["artifact"]
    assert (known["media_type"], known["tool_name"]) == ("application/pdf", "mcp__files__read")


@pytest.mark.parametrize("lines", [0, 3_000])
def test_bytes_in_an_output_are_artifacts_of_their_own(service: Service, lines: int) -> None:
    log = "".join(LOG.splitlines(keepends=True)[:lines])
    said = event("Bash", bash(f"{log}<img src='data:image/png;base64,{base64.b64encode(SHOT).decode()}'> is saved\n"))
    got = output(asked(service, said))["stdout"]
    text = payload(service, got).decode() if lines else got
    found = re.search(r"\[image/png, 60 kB, (art_[0-9]{18})\]", text)
    assert found is not None, text[:400]
    assert service.content(found[1]) == SHOT
    assert text == f"{log}<img src='{found[0]}'> is saved\n"
