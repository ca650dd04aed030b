"""What a caller declares of a payload, at first and again: the last word counts, in every answer."""

import random
from typing import Any

import httpx
import pytest

from support.service import Service

Json = Any
PAGE = "<html><head><title>T</title></head><body>" + "".join(f"<p>Paragraph {n} of it.</p>\n" for n in range(900))
LOG = "".join(f"## Part {n}\n\n{f'What part {n} says of everything. ' * 90}\n\n" for n in range(30))
DOCUMENT = '{"rows": [' + ", ".join(f'{{"id": {n}, "name": "n{n}"}}' for n in range(3000)) + "]}"
DECLARED: list[Json] = [
    {"kind": "text"},
    {"kind": "web_page", "tool_name": "fetch", "url": "https://example.org/"},
    {"kind": "log", "title": "A title", "command": "make -j\nall"},
    {"media_type": "application/json"},
    {"tool_name": "bash"},
]


def post(service: Service, session: str, content: str, **said: Json) -> Json:
    answer = service.client.post("/v1/artifacts", json={"content": content, "session": session, **said})
    assert answer.status_code in {200, 201}, answer.text
    return answer.json()


def card(service: Service, artifact_id: str, **asked: str) -> Json:
    return service.client.get(f"/v1/artifacts/{artifact_id}/card", params=asked).json()


@pytest.mark.parametrize("content", [PAGE, LOG, DOCUMENT], ids=["page", "log", "json"])
def test_the_same_declaration_gives_the_same_card_whatever_was_declared_before(service: Service, content: str) -> None:
    session = f"again-{len(content)}"
    rng = random.Random(len(content))
    first = {at: post(service, f"{session}-{at}", content, **said) for at, said in enumerate(DECLARED)}
    bare = post(service, f"{session}-bare", content)
    for at in rng.choices(range(len(DECLARED)), k=12):
        again = post(service, session, content, **DECLARED[at])
        fresh = first[at]["text"].replace(first[at]["id"], again["id"])
        assert again["text"] == fresh, DECLARED[at]
        assert card(service, again["id"])["text"] == fresh, DECLARED[at]
        assert again["warnings"] == []
        # What declares nothing is answered as ever, unless the view that is read now has other places.
        assert post(service, session, content)["text"] in {fresh, bare["text"].replace(bare["id"], again["id"])}
        assert card(service, again["id"])["text"] == fresh


def test_a_page_that_was_declared_as_text_is_read_as_a_page_after_it_was_declared_as_one(service: Service) -> None:
    stored = post(service, "corrected", PAGE, kind="text")["id"]
    where = f"/v1/artifacts/{stored}/read"
    assert "<p>Paragraph 1 of it.</p>" in service.client.get(where, params={"view": "text"}).json()["text"]
    post(service, "corrected", PAGE, kind="web_page")
    read = service.client.get(where, params={"view": "text"}).json()["text"]
    assert "Paragraph 1 of it." in read
    assert "<p>" not in read
    post(service, "corrected", PAGE, kind="text")
    assert "<p>Paragraph 1 of it.</p>" in service.client.get(where, params={"view": "text"}).json()["text"]


def test_metadata_and_search_follow_the_last_declaration(service: Service) -> None:
    stored = post(service, "found", LOG, title="zebra crossing")["id"]

    def found(word: str) -> list[str]:
        listed = service.client.get("/v1/artifacts", params={"q": word, "session": "found"}).json()
        return [each["id"] for each in listed["items"]]

    assert found("zebra") == [stored]
    post(service, "found", LOG, title="giraffe", command="run okapi")
    assert (found("zebra"), found("giraffe"), found("okapi")) == ([], [stored], [stored])
    known = service.client.get(f"/v1/artifacts/{stored}").json()["artifact"]
    assert (known["title"], known["command"], known["tool_name"]) == ("giraffe", "run okapi", None)


def forms(service: Service, said: dict[str, str]) -> list[httpx.Response]:
    """The same payload in every form that ingest takes."""
    client, body = service.client, {"content": LOG, "session": "forms", **said}
    return [
        client.post("/v1/artifacts", json=body),
        client.post("/v1/artifacts", data={"session": "forms", **said}, files={"file": LOG.encode()}),
        client.post("/v1/artifacts/raw", params={"session": "forms", **said}, content=LOG.encode()),
        client.post("/v1/artifacts:batch", json={"items": [body]}),
    ]


def test_a_card_for_a_model_without_tools_names_none(service: Service) -> None:
    plain = post(service, "tools", LOG)
    assert "read_artifact" in plain["text"]
    for answer in forms(service, {"tools": "none", "session": "tools"})[:3]:
        shown = answer.json()
        assert (shown["id"], "read_artifact" in shown["text"]) == (plain["id"], False)
        assert shown["card"].get("next") is None
    assert "read_artifact" in card(service, plain["id"])["text"]
    assert [answer.status_code for answer in forms(service, {"tools": "all"})[:3]] == [400] * 3
