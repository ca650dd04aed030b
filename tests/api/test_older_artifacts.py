"""Artifacts that an earlier release stored: their text is found, and their views are made anew, when they are read."""

import json
import sqlite3
from pathlib import Path
from typing import Any

from coatcheck.core import ids
from coatcheck.core.views.view import VERSION
from support.service import Service, serving

ROWS = ["id,name,amount", *(f"{n},customer {n},{n * 3 + 0.5:.2f}" for n in range(150))]
NAMES = "\r\n".join(f"Größe {n}: Überprüfung für Müller" for n in range(400))
PAGE = "<html><body><h1>Tides</h1>" + "".join(f"<p>High water {n} at Dover.</p>" for n in range(200)) + "</body></html>"


def put(service: Service, data: bytes, media_type: str) -> dict[str, Any]:
    return service.post(data, media_type=media_type, inline_tokens=0)


def age(data: Path, artifact_ids: list[str], kind: str = "") -> None:
    """Make artifacts those of a release that looked for no form, and views those of one that had no versions."""
    [path] = data.rglob("coatcheck.db")
    with sqlite3.connect(path) as conn:
        for artifact_id in artifact_ids:
            number = (ids.parse(artifact_id),)
            [packed] = conn.execute("SELECT facts FROM artifacts WHERE number = ?", number).fetchone()
            facts = {name: value for name, value in json.loads(packed).items() if name not in {"form", "fields"}}
            facts["kind"] = kind or facts["kind"]
            changed = (json.dumps(facts), facts["kind"], *number)
            conn.execute("UPDATE artifacts SET engine = 5, facts = ?, kind = ? WHERE number = ?", changed)
        conn.execute("UPDATE views SET extractor = substr(extractor, 1, instr(extractor, '@') - 1)")


def test_the_text_of_an_older_artifact_is_found_when_it_is_read(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        wide = put(service, b"\xff\xfe" + NAMES.encode("utf-16-le"), "text/plain")["id"]
        returns = put(service, ("\r".join(ROWS) + "\r").encode(), "text/csv")["id"]
    age(tmp_path, [wide], "binary")
    age(tmp_path, [returns], "text")
    with serving(tmp_path) as service:
        assert "Größe 399: Überprüfung" in service.read(wide, pattern="^Größe 399")
        card = service.get(f"/v1/artifacts/{returns}")["text"]
        assert "151 lines" in card.splitlines()[0]
        assert "77:75,customer 75,225.50" in service.read(returns, pattern="customer 75,", context=0)
        again = put(service, ("\r".join(ROWS) + "\r").encode(), "text/csv")
        assert again["id"] == returns
        assert "lines end in CR" in again["text"].splitlines()[0]
    with serving(tmp_path) as service:
        items = {each["id"]: each["kind"] for each in service.get("/v1/artifacts")["items"]}
        assert items[returns] == "table"
        assert service.content(wide) == b"\xff\xfe" + NAMES.encode("utf-16-le")


def test_an_artifact_that_was_stored_with_null_for_labels_is_read(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        artifact_id = put(service, NAMES.encode(), "text/plain")["id"]
    [path] = tmp_path.rglob("coatcheck.db")
    with sqlite3.connect(path) as conn:
        assert conn.execute("""UPDATE artifacts SET said = replace(said, '}', ',"labels":null}')""").rowcount == 1
    with serving(tmp_path) as service:
        [item] = service.get("/v1/artifacts", q="Müller")["items"]
        assert (item["id"], item["labels"]) == (artifact_id, [])
        assert "Größe 399: Überprüfung" in service.read(artifact_id, pattern="^Größe 399")
        assert put(service, NAMES.encode(), "text/plain")["id"] == artifact_id


def test_an_older_view_is_made_anew_and_its_cursors_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        page = put(service, PAGE.encode(), "text/html")["id"]
        first = service.get(f"/v1/artifacts/{page}/read", view="text", limit=10)
        assert (
            service.get(f"/v1/artifacts/{page}/read", cursor=first["next"]["cursor"])["window"]["lines"]["first"] == 11
        )
        older = service.get(f"/v1/artifacts/{page}/read", view="raw", unit="byte", limit=10)["next"]["cursor"]
    age(tmp_path, [page])
    [path] = tmp_path.rglob("coatcheck.db")
    with sqlite3.connect(path) as conn:
        label = conn.execute("SELECT extractor FROM views").fetchone()[0]
    with serving(tmp_path) as service:
        assert service.get(f"/v1/artifacts/{page}/read", cursor=older)["window"]["bytes"]["start"] == 10
        assert "High water 42 at Dover" in service.read(page, pattern="water 42")
    with sqlite3.connect(path) as conn:
        assert conn.execute("SELECT extractor FROM views").fetchall() == [(f"{label}@{VERSION}",)]


def test_the_page_in_the_json_of_an_older_artifact_is_told_by_its_next_card(tmp_path: Path) -> None:
    scrape = {"markdown": NAMES, "metadata": {"sourceURL": "https://e.org/", "title": "Names", "statusCode": 404}}
    payload = json.dumps({"data": [scrape], "more": {"a": 1}}).encode()
    with serving(tmp_path) as service:
        receipt = put(service, payload, "application/json")
    [path] = tmp_path.rglob("coatcheck.db")
    with sqlite3.connect(path) as conn:
        row = (ids.parse(receipt["id"]),)
        [facts] = conn.execute("SELECT facts FROM artifacts WHERE number = ?", row).fetchone()
        kept = {name: value for name, value in json.loads(facts).items() if name not in {"fetch", "title", "url"}}
        conn.execute(
            "UPDATE artifacts SET engine = 11, url = NULL, facts = ? WHERE number = ?", (json.dumps(kept), *row)
        )
    with serving(tmp_path) as service:
        described = service.get(f"/v1/artifacts/{receipt['id']}")
        assert "HTTP status 404" not in json.dumps(kept)
        assert (described["artifact"]["status"], described["artifact"]["title"]) == (None, None)
        assert described["text"] == receipt["text"]
        assert described["text"].splitlines()[1] == "HTTP status 404: not the page"


def test_a_page_whose_json_was_taken_off_has_the_same_card_again(tmp_path: Path) -> None:
    page = json.dumps({"code": 404, "url": "https://e.org/login", "result": NAMES})
    with serving(tmp_path) as service:
        body = {"content": page, "url": "https://e.org/names"}
        receipt = service.client.post("/v1/artifacts", json=body).json()
        assert "unwrapped" in receipt["text"].splitlines()[0]
        assert receipt["text"].splitlines()[1:4] == [
            "HTTP status 404: not the page",
            "URL: https://e.org/names",
            "Redirected to: https://e.org/login",
        ]
        assert service.get(f"/v1/artifacts/{receipt['id']}/card")["text"] == receipt["text"]
        again = service.client.post("/v1/artifacts", json={**body, "url": "https://e.org/login"}).json()
        assert again["id"] == receipt["id"]
        assert "Redirected" not in again["text"]
