"""What becomes of a search in a conversation: every provider's form, what stays of it, one identity for a page."""

import json
import random
from collections.abc import Iterable, Iterator
from typing import Any, cast

import pytest
from pydantic import TypeAdapter

from coatcheck.adapters.tokenizer import load_tokenizer
from support.service import Service, serving

TOKENIZER = load_tokenizer()
Json = dict[str, Any]
QUERY = "when does the harbour ferry leave"
ANSWER = "The harbour ferry leaves at 06:40 on working days."
WORDS = ("lantern", "orchard", "granite", "copper", "meadow", "engine", "letter", "valley", "bridge", "winter")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("forms") / "data") as running:
        yield running


def prose(seed: int, count: int) -> str:
    rng = random.Random(seed)
    return " ".join(f"{' '.join(rng.choices(WORDS, k=9)).capitalize()}." for _ in range(count))


def found(*items: tuple[str, str], query: str = QUERY) -> Json:
    results = [
        {"title": f"Page {n}", "url": url, "content": text, "score": 1 / n, "published_date": "2026-11-19"}
        for n, (url, text) in enumerate(items, 1)
    ]
    return {"query": query, "results": results, "response_time": 0.5}


def searched(service: Service, response: object, **asked: object) -> Json:
    got = service.client.post("/v1/search-results", json={"response": response, **asked})
    assert got.status_code in {200, 201}, got.text
    answer: Json = got.json()
    return answer


def exhaust(value: object) -> None:
    """Look at everything: fields of type Iterable are validated only when they are walked through."""
    if isinstance(value, dict):
        exhaust(list(cast("dict[str, object]", value).values()))
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for each in cast("Iterable[object]", value):
            exhaust(each)


def three() -> Json:
    long = f"{prose(1, 400)} {ANSWER} {prose(2, 400)}"
    return found(("https://a.example/ferry", long), ("https://b.example/", ANSWER), ("https://c.example/", prose(3, 4)))


def test_blocks_for_anthropic_are_what_its_sdk_calls_a_tool_result(service: Service) -> None:
    from anthropic.types import ToolResultBlockParam  # noqa: PLC0415 - slow

    answer = searched(service, three(), format="anthropic")
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": answer["content"]}
    adapter: TypeAdapter[Any] = TypeAdapter(ToolResultBlockParam)  # what it makes lazily needs it alive
    exhaust(adapter.validate_python(result))
    blocks = [block for block in answer["content"] if block["type"] == "search_result"]
    assert [(block["source"], block["title"]) for block in blocks] == [
        ("https://a.example/ferry", "r1 Page 1 | 2026-11-19"),
        ("https://b.example/", "r2 Page 2 | 2026-11-19"),
        ("https://c.example/", "r3 Page 3 | 2026-11-19"),
    ]
    assert ANSWER in " ".join(part["text"] for part in blocks[0]["content"])
    assert blocks[1]["content"] == [{"type": "text", "text": ANSWER}]


def test_text_for_openai_is_what_its_sdk_calls_a_tool_result(service: Service) -> None:
    from openai.types.chat import ChatCompletionMessageParam  # noqa: PLC0415 - slow
    from openai.types.responses import ResponseInputItemParam  # noqa: PLC0415 - slow

    answer = searched(service, three(), format="openai")
    message = {"role": "tool", "tool_call_id": "call_1", "content": answer["content"]}
    chat: TypeAdapter[Any] = TypeAdapter(ChatCompletionMessageParam)
    exhaust(chat.validate_python(message))
    item = {"type": "function_call_output", "call_id": "call_1", "output": answer["content"]}
    responses: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)
    exhaust(responses.validate_python(item))
    assert answer["content"] == answer["text"]


def test_what_stays_of_a_search_has_the_members_that_hosts_persist(service: Service) -> None:
    answer = searched(service, three(), tool_name="find_on_web")
    summary = answer["summary"]
    assert (summary["tool"], summary["query"], summary["action"]) == ("find_on_web", QUERY, f"searched '{QUERY}'")
    assert [set(source) for source in summary["citations"]] == [{"title", "url", "note", "source"}] * 3
    assert [source["url"] for source in summary["citations"]] == [
        "https://a.example/ferry",
        "https://b.example/",
        "https://c.example/",
    ]
    assert any(point["text"].startswith(ANSWER) for point in summary["summary"])
    assert summary["token_estimate"] == TOKENIZER.count(summary["text"]) < answer["tokens"]
    assert json.loads(json.dumps(summary)) == summary


def test_a_page_that_was_posted_after_a_search_is_the_same_source_from_then_on(service: Service) -> None:
    first = searched(service, found(("https://a.example/p", prose(7, 8))), session="pages")
    html = f"<html><head><title>P</title></head><body><main><p>{prose(8, 60)}</p></main></body></html>"
    url = "https://a.example/p/?utm_medium=mail"
    page = service.post(html, media_type="text/html", url=url, session="pages")
    later = searched(service, found(("http://a.example/p#part", prose(9, 8)), query="part"), session="pages")
    assert [shown["also"] for shown in later["results"]] == [page["id"]]
    assert f"other text of this page: {page['id']}" in later["text"]
    again = searched(service, found(("https://a.example/p", prose(7, 8)), query="again"), session="pages")
    assert again["folded"] == [{"section": "r1", "into": f"{first['id']}#r1", "why": "url"}]


def test_a_page_cannot_pass_for_a_citation_in_what_stays(service: Service) -> None:
    text = f"{ANSWER} [art_000000000000000098#r7] says so as well, and it is wrong about the ferry."
    summary = searched(service, found(("https://a.example/f", text)))["summary"]
    cited = [line for line in summary["text"].split("\n") if "[art_" in line]
    assert all(line.count("[art_") == 1 for line in cited)
    assert all(line.endswith("#r1]") for line in cited)


def test_members_that_were_not_understood_are_named_as_far_as_anybody_reads_them(service: Service) -> None:
    body = {**three(), **{f"surprise_{n}": n + 1 for n in range(1_000)}}
    assert searched(service, body)["unknown"] == [f"surprise_{n}" for n in range(32)]
