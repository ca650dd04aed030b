"""The administrator's page over HTTP: what may be seen, what may be posted, and that a payload stays text."""

import re
from pathlib import Path

import httpx
import pytest

from support.service import Service, serving

PAGES = ["/", "/ui/artifacts", "/ui/sessions", "/ui/policies", "/ui/retention", "/ui/holds", "/ui/audit", "/ui/usage"]
HOSTILE = "</pre><script>alert(1)</script>\x1b[31m\u202e"


def token(client: httpx.Client, path: str) -> str:
    found = re.search(r'name="token" value="([0-9a-f]+)"', client.get(path).text)
    assert found is not None
    return found[1]


def test_every_page_is_served_under_a_strict_policy_and_a_hostile_payload_stays_text(running: Service) -> None:
    kept = running.post(HOSTILE * 400, session="s", title=HOSTILE[:40], tool_name="bash")["id"]
    for path in [*PAGES, f"/ui/artifacts/{kept}", "/ui/session?name=s", f"/ui/artifacts/{kept}/read?way=lines"]:
        answer = running.client.get(path)
        assert answer.status_code == 200, path
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "<script>alert" not in answer.text
        assert "\u202e" not in answer.text
        assert "\x1b" not in answer.text


def test_a_form_needs_its_token_and_its_own_origin(running: Service) -> None:
    form = {"name": "x", "scopes": "read"}
    own = {**form, "token": token(running.client, "/ui/keys")}
    assert running.client.post("/ui/keys", data=form).status_code == 403
    assert running.client.post("/ui/keys", data=own, headers={"origin": "http://evil.example"}).status_code == 403
    assert running.client.post("/ui/keys", data=own, headers={"sec-fetch-site": "same-site"}).status_code == 403
    assert running.client.get("/v1/admin/keys").json()["items"] == []


def test_nothing_is_destroyed_by_a_form_that_was_not_asked_about(running: Service) -> None:
    kept = running.post("kept\n", session="s")["id"]
    hold = running.client.post("/v1/admin/holds", json={"reason": "r", "session": "other"}).json()["id"]
    running.client.put("/v1/admin/policies", json={"policy": {"ttl": "7d"}}).raise_for_status()
    own = {"token": token(running.client, "/ui/keys")}
    forms: list[tuple[str, dict[str, str]]] = [
        ("/ui/artifacts/bulk", {"id": kept, "action": "delete"}),
        ("/ui/session/delete", {"name": "s"}),
        ("/ui/policies/edit", {"max_artifacts": "1"}),
        ("/ui/policies/remove", {}),
        ("/ui/holds", {"reason": "all", "word": "default"}),
        ("/ui/holds/release", {"id": hold}),
        (f"/ui/artifacts/{kept}/keep", {"ttl": "1s"}),
        ("/ui/keys/revoke", {"id": "key_0123456789abcdef"}),
    ]
    for path, form in forms:
        for confirmed, status in ({}, 200), ({"confirmed": "true"}, 409):
            answer = running.client.post(path, data={**own, **form, **confirmed})
            assert (answer.status_code, 'name="confirmed"' in answer.text) == (status, True), path
    assert running.get(f"/v1/artifacts/{kept}")["artifact"]["ttl"] > 1
    assert [each["id"] for each in running.get("/v1/admin/holds")["items"]] == [hold]
    assert [each["policy"] for each in running.get("/v1/admin/policies")["items"]] == [{"ttl": 604_800}]


def test_labels_have_the_bounds_of_the_api_and_stay_if_they_are_not_changed(running: Service) -> None:
    kept = running.post("one\n", labels=["team a, team b", "ok"])["id"]
    own = token(running.client, f"/ui/artifacts/{kept}")

    def keep(**form: str) -> tuple[int, list[str]]:
        answer = running.client.post(f"/ui/artifacts/{kept}/keep", data={"token": own, **form})
        return answer.status_code, running.get(f"/v1/artifacts/{kept}")["artifact"]["labels"]

    present = ["team a, team b", "ok"]
    assert keep(ttl="forever", labels="team a, team b, ok") == (303, present)
    for labels in ("l" * 129, ",".join(map(str, range(33))), "a\x9b"):
        assert keep(labels=labels) == (400, present)
    assert keep(labels="x , y,x,") == (303, ["x", "y"])
    assert keep(labels="") == (303, [])


@pytest.mark.parametrize("name", ["session", "tool_name", "url", "final_url", "label"])
def test_a_filter_with_a_control_character_is_refused(running: Service, name: str) -> None:
    for path in ("/ui/artifacts", "/v1/artifacts"):
        answer = running.client.get(path, params={name: "a\0"})
        assert (answer.status_code, "U+0000" in answer.text) == (400, True)


def test_an_error_has_the_navigation_and_shows_no_more_than_the_key_may_see(running: Service) -> None:
    kept = running.post("of default\n", title="Lanternfish")["id"]
    old = running.client.post("/ui/keys", data={"token": "old", "name": "Moon jelly"})
    assert (old.status_code, 'value="Moon jelly"' in old.text, ">Keys</a>" in old.text) == (403, True, True)
    long = running.client.get("/ui/artifacts", params={"session": "s" * 300})
    assert (long.status_code, f'value="{"s" * 300}"' in long.text, ">Artifacts</a>" in long.text) == (400, True, True)
    sign_in = running.client.post("/ui/login", data={"token": "old", "key": "ck_live_typed"})
    assert (sign_in.status_code, "ck_live_typed" in sign_in.text, "forbidden" in sign_in.text) == (403, False, True)
    root = running.client.post("/v1/admin/keys", json={"name": "a", "scopes": ["admin"]}).json()
    headers = {"authorization": f"Bearer {root['key']}"}
    made = running.client.post("/v1/admin/keys", json={"name": "d", "scopes": ["delete"]}, headers=headers).json()
    form = {"token": token(running.client, "/ui/login"), "key": made["key"]}
    running.client.post("/ui/login", data=form)
    form = {"token": token(running.client, "/"), "ttl": "soon"}
    refused = running.client.post(f"/ui/artifacts/{kept}/keep", data=form)
    assert (refused.status_code, 'value="soon"' in refused.text, "Lanternfish" in refused.text) == (400, True, False)
    admins = running.client.get("/ui/keys")
    assert (admins.status_code, ">Overview</a>" in admins.text, ">Keys</a>" in admins.text) == (403, True, False)


def test_what_is_seen_follows_the_key_and_ends_when_it_is_revoked(running: Service) -> None:
    kept = running.post("of default\n")["id"]
    admin = running.client.post("/v1/admin/keys", json={"name": "a", "scopes": ["admin", "read"]}).json()
    headers = {"authorization": f"Bearer {admin['key']}"}
    body = {"name": "r", "scopes": ["read"]}
    reader = running.client.post("/v1/admin/keys", json=body, headers=headers).json()
    assert running.client.get("/").headers["location"].startswith("/ui/login")
    form = {"token": token(running.client, "/ui/login"), "key": reader["key"], "next": "//evil.example"}
    signed_in = running.client.post("/ui/login", data=form)
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/")
    cookie = signed_in.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert reader["key"] not in cookie
    assert running.client.get("/").status_code == 200
    assert "/ui/keys" not in running.client.get("/").text
    assert running.client.get("/ui/keys").status_code == 403
    form = {"token": token(running.client, "/"), "id": kept, "action": "delete", "confirmed": "true"}
    assert running.client.post("/ui/artifacts/bulk", data=form).status_code == 403
    assert running.client.delete(f"/v1/admin/keys/{reader['id']}", headers=headers).status_code == 200
    assert running.client.get("/").status_code == 303


def test_the_page_can_be_switched_off(tmp_path: Path) -> None:
    with serving(tmp_path / "data", page="false") as service:
        answer = service.client.get("/")
        assert (answer.status_code, answer.json()["code"]) == (404, "route_not_found")


def test_behind_a_proxy_that_takes_tls_off_no_other_host_can_set_the_cookie(running: Service) -> None:
    made = running.client.post("/v1/admin/keys", json={"name": "a", "scopes": ["read"]}).json()
    form = {"token": token(running.client, "/ui/login"), "key": made["key"]}
    origin = {"origin": running.url.replace("http:", "https:")}
    cookie = running.client.post("/ui/login", data=form, headers=origin).headers["set-cookie"]
    assert cookie.startswith("__Host-coatcheck_session=")
    assert "; Secure" in cookie
    assert "Domain" not in cookie
    mine = cookie.split(";")[0]
    planted = f"coatcheck_session=planted; {mine}"
    running.client.cookies.clear()
    assert running.client.get("/", headers={"cookie": planted}).status_code == 200
    assert running.client.get("/", headers={"cookie": mine[:-2] + "AA"}).status_code == 303


def test_a_timeline_takes_any_moment(running: Service) -> None:
    for until in ("1900-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
        assert running.client.get("/ui/session", params={"name": "s", "until": until}).status_code == 200
    for until in ("2026-01-01T00:00:00", "yesterday"):
        assert running.client.get("/ui/session", params={"name": "s", "until": until}).status_code == 400
    for before in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-05:00"):
        assert running.client.get("/ui/artifacts", params={"created_before": before}).status_code == 400
