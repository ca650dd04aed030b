"""What a model got when a payload was stored stays known: by which engine, its digest and, by policy, its text."""

import base64
import hashlib
import html
import json
import random
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coatcheck.core import ids
from coatcheck.core.artifact import ENGINE, MAX_KEPT_TEXT
from support.service import Service, serving

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC3"
LOG = "".join(f"{n} {'ERROR disk full' if n == 700 else 'INFO ok'} {n}\n" for n in range(900))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path / "data", page="true") as running:
        yield running


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def record(service: Service, artifact_id: str) -> dict[str, Any] | None:
    return service.get(f"/v1/artifacts/{artifact_id}")["receipt"]


def keep_texts(service: Service, **policy: Any) -> None:  # noqa: ANN401 - fields of a policy
    service.client.put("/v1/admin/policies", json={"policy": {"keep_card_text": True, **policy}}).raise_for_status()


def page(service: Service, artifact_id: str, **query: str) -> tuple[str, str]:
    """What the page says of where its card comes from, and the card."""
    text = service.client.get(f"/ui/artifacts/{artifact_id}", params=query).text
    found = re.search(r'<p id="card-origin">(.*?)</p>.*?aria-label="The card">\n(.*?)</pre>', text, re.DOTALL)
    assert found is not None
    return html.unescape(re.sub(r"<[^>]+>", "", found[1])).replace("\n", " "), html.unescape(found[2])


def upgrade(data: Path, artifact_id: str, **changes: object) -> None:
    """Let the row say that an earlier engine made the card: what an upgrade leaves behind."""
    [path] = data.rglob("coatcheck.db")
    with sqlite3.connect(path) as conn:
        number = (ids.parse(artifact_id),)
        [packed] = conn.execute("SELECT receipt FROM artifacts WHERE number = ?", number).fetchone()
        changed = json.dumps(json.loads(packed) | {"engine": ENGINE - 1} | changes)
        assert conn.execute("UPDATE artifacts SET receipt = ? WHERE number = ?", (changed, *number)).rowcount == 1


OTHER: dict[str, object] = {"sha256": base64.b64encode(b"that of another text".ljust(32)).decode()}


@pytest.mark.parametrize(
    "asked", [{}, {"card_tokens": 256}, {"card_tokens": 300, "query": "ok 444"}, {"tools": "none"}]
)
def test_the_digest_is_that_of_the_receipts_text_and_finds_it_again(service: Service, asked: dict[str, Any]) -> None:
    receipt = service.post(LOG, **asked)
    described = service.get(f"/v1/artifacts/{receipt['id']}")
    assert described["receipt"] == {
        "engine": ENGINE,
        "sha256": digest(receipt["text"]),
        "tokens": receipt["tokens"],
        "budget": asked.get("card_tokens", 600),
        "query": asked.get("query"),
        "tools": "tools" not in asked,
        "text": None,
    }
    assert described["card"]["engine"] == ENGINE
    params = {"tokens": described["receipt"]["budget"], "query": asked.get("query"), "tools": asked.get("tools")}
    again = service.get(f"/v1/artifacts/{receipt['id']}/card", **{k: v for k, v in params.items() if v is not None})
    assert digest(again["text"]) == described["receipt"]["sha256"]
    assert page(service, receipt["id"])[1].strip() == receipt["text"].strip()


def test_a_payload_that_came_back_whole_is_told_apart_from_a_card(service: Service) -> None:
    receipt = service.post("three\nshort\nlines\n")
    kept = record(service, receipt["id"])
    assert kept is not None
    assert (kept["budget"], kept["sha256"], kept["text"]) == (None, digest("three\nshort\nlines\n"), None)
    assert "saw the payload itself, byte for byte, and no card" in page(service, receipt["id"])[0]


def test_a_repeated_request_changes_nothing_of_what_was_first_given(service: Service) -> None:
    first = service.post(LOG, tool_call_id="c", card_tokens=256)
    kept = record(service, first["id"])
    assert service.post(LOG, tool_call_id="c", card_tokens=1000, title="another")["id"] == first["id"]
    assert record(service, first["id"]) == kept


def test_nothing_is_claimed_of_a_payload_for_which_no_model_got_a_text(service: Service) -> None:
    results = {"results": [{"title": f"T {n}", "url": f"https://e.org/{n}", "content": "word " * 80} for n in range(9)]}
    answer = service.client.post("/v1/search-results", json={"response": results, "query": "words"})
    answer.raise_for_status()
    [item] = service.get("/v1/artifacts")["items"]
    assert record(service, item["id"]) is None
    assert "is not known" in page(service, item["id"])[0]


def test_a_history_that_is_compacted_leaves_the_digest_of_the_text_that_stands_in_it(service: Service) -> None:
    messages = [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": LOG},
        {"role": "user", "content": "and now?"},
    ]
    body = {"body": {"messages": messages}, "policy": {"inline_tokens": 100, "card_tokens": 80, "protect": "none"}}
    answer = service.client.post("/v1/context/compact", json=body)
    assert answer.status_code == 200, answer.text
    text = answer.json()["body"]["messages"][2]["content"]
    [item] = service.get("/v1/artifacts")["items"]
    kept = record(service, item["id"])
    assert kept is not None
    assert kept["sha256"] == digest(text)


def test_the_page_says_what_the_model_saw_before_and_after_an_upgrade(service: Service) -> None:
    artifact_id = service.post(LOG, card_tokens=256)["id"]
    said, card = page(service, artifact_id)
    assert said.startswith(f"What the model saw when it was stored: engine {ENGINE} made it, and engine {ENGINE}")
    assert "of at most 256, SHA-256" in said
    upgrade(service.data, artifact_id)  # the newer engine makes the same text
    assert f"engine {ENGINE - 1} made it, and engine {ENGINE} makes the same" in page(service, artifact_id)[0]
    upgrade(service.data, artifact_id, **OTHER)
    said, now = page(service, artifact_id)
    assert said.startswith(f"What engine {ENGINE} makes of it now. The model saw another text when it was stored")
    assert f"engine {ENGINE - 1} made that, and it was not kept" in said
    assert now == card
    described = service.get(f"/v1/artifacts/{artifact_id}")
    assert (described["receipt"]["engine"], described["card"]["engine"]) == (ENGINE - 1, ENGINE)


def test_a_kept_text_is_what_the_page_shows_after_an_upgrade(service: Service) -> None:
    keep_texts(service)
    receipt = service.post(LOG)
    kept = record(service, receipt["id"])
    assert kept is not None
    assert kept["text"] == receipt["text"]
    upgrade(service.data, receipt["id"], **OTHER, text="<b>what\nengine 1 made</b>")
    said, card = page(service, receipt["id"])
    assert said.startswith(f"What the model saw when it was stored, as engine {ENGINE - 1} made it; its text was kept")
    assert card == "<b>what\nengine 1 made</b>"
    said, card = page(service, receipt["id"], tokens="600")
    assert "The model saw another text when it was stored" in said
    assert card.strip() == receipt["text"].strip()


def test_the_pages_form_takes_the_policy_that_keeps_texts(service: Service) -> None:
    form = service.client.get("/ui/policies/edit").text
    assert '<select name="keep_card_text">' in form
    token = re.search(r'name="token" value="([0-9a-f]+)"', form)
    assert token is not None
    answer = service.client.post("/ui/policies/edit", data={"token": token[1], "keep_card_text": "true"})
    assert "true" in html.unescape(re.sub(r"<[^>]+>", " ", answer.text.partition("keep_card_text")[2]))[:200]
    keep_texts(service)
    assert "<option selected>true</option>" in service.client.get("/ui/policies/edit").text
    assert "keep_card_text" in service.client.get("/ui/policies").text


def test_a_row_of_an_earlier_release_claims_nothing(service: Service) -> None:
    artifact_id = service.post(LOG)["id"]
    [path] = service.data.rglob("coatcheck.db")
    with sqlite3.connect(path) as conn:
        conn.execute("UPDATE artifacts SET receipt = NULL")
    assert record(service, artifact_id) is None
    said, card = page(service, artifact_id)
    assert "what the model saw of it when it was stored is not known" in said
    assert card.startswith(f"[{artifact_id}")


def test_a_kept_text_is_bounded_and_goes_with_its_artifact(service: Service) -> None:
    keep_texts(service)
    rng = random.Random(1)
    words = ("authentication", "infrastructure", "characteristics", "international", "recommendations", "documentation")
    large = service.post("\n".join(" ".join(rng.choices(words, k=30)) for _ in range(9000)), card_tokens=8192)
    assert len(large["text"]) > MAX_KEPT_TEXT
    kept = record(service, large["id"])
    assert kept is not None
    assert (kept["text"], kept["sha256"]) == (None, digest(large["text"]))
    small = service.post(LOG)["id"]
    service.client.delete(f"/v1/artifacts/{small}").raise_for_status()
    assert service.client.get(f"/v1/artifacts/{small}").status_code == 410
    [path] = service.data.rglob("coatcheck.db")
    with sqlite3.connect(path) as conn:
        number = (ids.parse(small),)
        assert conn.execute("SELECT 1 FROM artifacts WHERE number = ?", number).fetchall() == []


def test_a_text_is_kept_as_it_was_shown_and_shown_as_it_may_be_seen_now(tmp_path: Path) -> None:
    secret = f"1 ERROR login with {TOKEN} failed\n" + LOG
    with serving(tmp_path / "data", page="true") as service:
        keep_texts(service, redaction="shown")
        masked = service.post(secret, query=f"login {TOKEN}")
        assert "[redacted: github-pat]" in masked["text"]
        assert page(service, masked["id"])[0].startswith("What the model saw when it was stored")
        [path] = service.data.rglob("coatcheck.db")
        with sqlite3.connect(path) as conn:
            assert TOKEN not in str(conn.execute("SELECT receipt FROM artifacts").fetchall())
        keep_texts(service, redaction="off")
        plain = service.post(secret, session="other")
        assert TOKEN in plain["text"]
        keep_texts(service, redaction="shown")
        described = service.get(f"/v1/artifacts/{plain['id']}")
        assert TOKEN not in json.dumps(described)
        assert "[redacted: github-pat]" in described["receipt"]["text"]
        assert described["receipt"]["sha256"] == digest(plain["text"])
        assert TOKEN not in service.client.get(f"/ui/artifacts/{plain['id']}").text
