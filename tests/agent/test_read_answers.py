"""What the tool answers is under every host's cap, known as a read, and never becomes a card when it is handed back."""

import json
from typing import Any

import pytest

from agent import needle_payloads
from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core.read_answer import is_read_answer
from support.service import Service

COUNT = load_tokenizer().count
CAP_CHARS = 30_000
CAP_TOKENS = 8_000
LOG, _ = needle_payloads.build_log(7, 400_000)
JSON, NAME, _ = needle_payloads.accounts(7, 300_000)
WIDE = "".join(f"{n} " + "\U0001f9f5✂️¦﷽" * 12 + "\n" for n in range(4_000)).encode()
SPARSE = b"\n" * 200_000 + b"end\n"


@pytest.fixture(scope="module")
def stored(service: Service) -> dict[str, str]:
    payloads = {"log": (LOG, "text/plain"), "json": (JSON, "application/json"), "wide": (WIDE, "text/plain")}
    payloads["sparse"] = (SPARSE, "text/plain")
    return {name: service.post(data, media_type=kind, title=name)["id"] for name, (data, kind) in payloads.items()}


ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "lines": ("log", {"limit": 2000}),
    "inside a line": ("json", {"offset": "1+4000"}),
    "one long line": ("json", {}),
    "matches": ("log", {"pattern": "job-1", "limit": 200, "context": 20}),
    "passages": ("log", {"query": "deprecated method of the rotor", "limit": 50}),
    "values": ("json", {"path": "$.accounts[*]"}),
    "one value": ("json", {"path": f'$.accounts[?@.id=="{NAME}"]'}),
    "characters of many tokens": ("wide", {"limit": 2000}),
    "matches of many tokens": ("wide", {"pattern": "1", "limit": 200}),
    "empty lines": ("sparse", {"limit": 2000}),
}


def call(service: Service, name: str, arguments: dict[str, Any], **params: Any) -> Any:  # noqa: ANN401 - JSON
    response = service.client.post("/v1/tools/call", json={"name": name, "arguments": arguments}, params=params)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("most", [800, 4_000, 8_000])
@pytest.mark.parametrize("asked", list(ASKED))
def test_every_answer_is_bounded_and_comes_back_inline(
    service: Service, stored: dict[str, str], asked: str, most: int
) -> None:
    which, arguments = ASKED[asked]
    answer = call(service, "read_artifact", {"artifact_id": stored[which], **arguments}, max_tokens=most)
    text = answer["text"]
    assert not answer["is_error"], text
    assert COUNT(text) == answer["tokens"] <= most <= CAP_TOKENS
    assert len(text) <= CAP_CHARS
    assert is_read_answer(text)
    handed = service.post(text, tool_name="read_artifact", inline_tokens=100)
    assert (handed["inline"], handed["text"]) == (True, text)


def test_a_read_of_lines_with_many_fields_stays_a_read(service: Service) -> None:
    names = ("service_name", "deployment_environment", "logger_name_of_the_module", "trace_id_of_the_request")
    rows = (
        {
            "timestamp": f"2026-03-01T10:{n // 60:02}:{n % 60:02}Z",
            "level": "info",
            **{name: f"{name}-{n % 3}" for name in names},
            "message": f"request {n} was handled in {n * 7 % 93} ms by a worker that had nothing else to do",
        }
        for n in range(900)
    )
    artifact = service.post("\n".join(map(json.dumps, rows)))["id"]
    text = call(service, "read_artifact", {"artifact_id": artifact})["text"]
    assert len(text.partition("\n")[0]) > 250
    assert is_read_answer(text)
    handed = service.post(text, tool_name="read_artifact")
    assert (handed["inline"], handed["text"]) == (True, text)


@pytest.mark.parametrize("form", ["openai-chat", "openai-responses", "anthropic", "mcp"])
def test_a_providers_result_handed_back_as_content_stays_a_read(
    service: Service, stored: dict[str, str], form: str
) -> None:
    text = call(service, "read_artifact", {"artifact_id": stored["log"]})["text"]
    result = call(service, "read_artifact", {"artifact_id": stored["log"]}, format=form)
    content = result.get("content", result.get("output"))
    receipt = service.client.post("/v1/artifacts", json={"content": content, "tool_name": "read_artifact"}).json()
    assert (receipt["inline"], receipt["text"]) == (True, text)
    parts = [{"type": "text", "text": text}]
    receipt = service.client.post("/v1/artifacts", json={"content": parts, "tool_name": "read_artifact"}).json()
    assert (receipt["inline"], receipt["text"]) == (True, text)


def test_a_list_of_artifacts_stays_a_list(service: Service, stored: dict[str, str]) -> None:
    assert stored
    for n in range(50):
        service.post(f"payload {n} of many\n" * 5, title=f"output {n} of a tool with a long name", session="list")
    text = call(service, "list_artifacts", {"limit": 50, "session": "list"})["text"]
    assert is_read_answer(text)
    assert COUNT(text) > 1_000
    receipt = service.post(text, tool_name="list_artifacts")
    assert (receipt["inline"], receipt["text"]) == (True, text)


def test_a_payload_that_only_looks_like_an_answer_is_carded(service: Service, stored: dict[str, str]) -> None:
    text = call(service, "read_artifact", {"artifact_id": stored["log"]})["text"]
    head, _, rest = text.partition("\n")
    wrong = head.replace(stored["log"], stored["log"][:-1] + str((int(stored["log"][-1]) + 1) % 10))
    fakes = [f"{wrong}\n{rest}", f" {text}", text + rest * 30, f"{head}\n" + "﷽" * 29_000]
    assert [service.post(fake)["inline"] for fake in fakes] == [False] * len(fakes)
