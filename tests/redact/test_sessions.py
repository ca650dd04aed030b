"""Sessions with a secret in their names: shown masked, and found by what is shown."""

import json
import time
from pathlib import Path

import pytest

from support.service import serving

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC3"
SESSION = f"deploy {TOKEN}"
SHOWN = "deploy [redacted: github-pat]"


def test_a_session_is_shown_masked_and_filters_and_links_take_both_names(tmp_path: Path) -> None:
    with serving(tmp_path, redaction="shown") as service:
        artifact = service.post("line\n" * 400, session=SESSION)["id"]
        service.post("line\n" * 300, session="another")
        service.get(f"/v1/artifacts/{artifact}/read", offset=1, limit=3)
        end = time.monotonic() + 10
        while TOKEN not in (page := service.client.get("/ui/sessions").text) and SHOWN not in page:
            assert time.monotonic() < end
            time.sleep(0.2)
        pages = [
            page,
            service.client.get("/").text,
            service.client.get("/ui/artifacts").text,
            service.client.get("/ui/session", params={"name": SHOWN}).text,
            service.client.get(f"/ui/artifacts/{artifact}").text,
        ]
        listed = service.get("/v1/artifacts")
        answers = [listed, service.get(f"/v1/artifacts/{artifact}"), service.get("/v1/events", session=SHOWN)]
        for each in [*pages, *map(json.dumps, answers)]:
            assert TOKEN not in each
        assert {each["session"] for each in listed["items"]} == {SHOWN, "another"}
        for name in (SESSION, SHOWN):
            assert [each["id"] for each in service.get("/v1/artifacts", session=name)["items"]] == [artifact]
            assert len(service.get("/v1/events", session=name)["items"]) == 1
            usage = service.client.get(f"/v1/sessions/{name}/usage").json()
            assert usage["artifacts"] == 1
        assert artifact in pages[3]
        holds = "/v1/admin/holds"
        hold = service.client.post(holds, json={"reason": "case 7", "session": SHOWN}).json()
        assert hold["session"] == SHOWN
        assert service.get(holds)["items"] == [hold]
        assert service.client.delete(f"/v1/sessions/{SHOWN}").status_code == 423
        plan = {"job": "session", "namespace": "default", "session": SHOWN}
        planned = service.client.post("/v1/admin/retention/plan", json=plan).json()
        assert (planned["artifacts"], planned["held"]) == (0, 1)
        audit = service.get("/v1/admin/audit")["items"]
        assert [line["details"]["session"] for line in audit if line["action"] == "hold.placed"] == [SHOWN]
        assert service.client.delete(f"{holds}/{hold['id']}").json() == hold
        planned = service.client.post("/v1/admin/retention/plan", json=plan).json()
        assert (planned["artifacts"], planned["scope"]["session"]) == (1, SHOWN)
        for scope in ({**plan, "session": SESSION}, {"job": "namespace", "namespace": "default"}):
            planned = service.client.post("/v1/admin/retention/plan", json=scope)
            assert planned.json()["artifacts"] == (1 if "session" in scope else 2)
            assert TOKEN not in planned.text
            assert planned.text.count(SHOWN) >= 2
        assert service.client.delete(f"/v1/sessions/{SHOWN}").json()["deleted"] == 1


@pytest.mark.parametrize("mode", ["off", "shown"])
def test_an_artifact_shows_the_holds_on_its_own_session_also_if_others_are_shown_alike(
    tmp_path: Path, mode: str
) -> None:
    with serving(tmp_path, redaction=mode) as service:
        names = (SESSION, SESSION[:-1] + "D", SHOWN)
        held, *others = [service.post(f"of {name}\n", session=name)["id"] for name in names]
        hold = service.client.post("/v1/admin/holds", json={"reason": "case 7", "session": SESSION}).json()["id"]
        listed = {each["id"]: [one["id"] for one in each["holds"]] for each in service.get("/v1/artifacts")["items"]}
        assert listed == {held: [hold], **{each: [] for each in others}}
        for each, holds in listed.items():
            described = service.get(f"/v1/artifacts/{each}")["artifact"]["holds"]
            changed = service.client.patch(f"/v1/artifacts/{each}", json={"labels": ["a"]}).json()["holds"]
            assert [one["id"] for one in described] == [one["id"] for one in changed] == holds


@pytest.mark.parametrize("mode", ["stored", "refuse"])
def test_a_session_that_cannot_be_masked_is_refused(tmp_path: Path, mode: str) -> None:
    with serving(tmp_path, redaction=mode) as service:
        answer = service.client.post("/v1/artifacts", json={"content": "plain", "session": SESSION})
        assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (422, "secret_refused", "session")
        assert TOKEN not in answer.text
        assert service.client.post("/v1/artifacts", json={"content": "plain", "session": "s"}).status_code == 201
