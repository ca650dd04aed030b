"""The administrator's page in a real browser: looked at, used with the keyboard and without scripts, and attacked."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from page.conversations import conversation
from page.windows import follow, opened
from support.browser import axe
from support.service import Service, serving

HOSTILE = "</pre><script>window.ran = 1</script><img src=x onerror='window.ran = 1'>\x1b[31m\u202e"
WORST = ("critical", "serious")
WIDTHS = (360, 1440)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """A service with a hostile artifact, and its ID."""
    with serving(tmp_path_factory.mktemp("page") / "data", page="true") as service:
        for number in range(3):
            log = "".join(f"{line} INFO request {number}\n" for line in range(900)) + "ERROR it broke\n"
            service.post(log, session="s", tool_name="bash", title=f"build {number}", labels=["x"])
        service.client.post(
            "/v1/search-results",
            json={
                "session": "s",
                "query": "tides",
                "response": {"results": [{"title": HOSTILE, "content": "The Moon."}]},
            },
        ).raise_for_status()
        kept = service.post(HOSTILE * 400 + "A" * 5000, session="s", title="W" * 200 + HOSTILE, tool_name="bash")["id"]
        service.client.post("/v1/admin/holds", json={"session": "s", "reason": HOSTILE[:40]}).raise_for_status()
        service.client.get(
            f"/v1/artifacts/{kept}/search", params={"pattern": HOSTILE, "literal": True}
        ).raise_for_status()
        service.client.post(
            "/v1/context/compact", json={"body": conversation("build", OUTPUT, "again"), "session": "s"} | FULL
        ).raise_for_status()
        yield service, kept


OUTPUT = "".join(f"{line} INFO linked object {line * 7}\n" for line in range(4_000))
FULL: dict[str, Any] = {"window": {"model": 20_000}}


def pages(kept: str) -> list[str]:
    return [
        *(
            "/",
            "/ui/artifacts",
            "/ui/sessions",
            "/ui/session?name=s",
            f"/ui/artifacts/{kept}",
            "/ui/policies?explain=1",
            "/ui/policies/edit?kind=log",
        ),
        *("/ui/retention", "/ui/holds", "/ui/audit", "/ui/usage", "/ui/keys"),
        *(f"/ui/artifacts/{kept}/read?way={way}&what=x" for way in ("outline", "search", "lines", "bytes", "passages")),
    ]


def picture(page: Page, folder: Path | None, path: str, kept: str, manner: str) -> None:
    """Put a picture of a page into the folder that was asked for, if one was."""
    if folder is not None:
        name = re.sub(r"[^a-z0-9]+", "-", path.removeprefix("/ui/").replace(kept, "one").lower()).strip("-")
        page.screenshot(path=folder / f"{name or 'overview'}-{manner}.png", full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_fits_its_window_runs_no_script_of_a_payload_and_asks_no_other_host(
    chromium: Browser,
    filled: tuple[Service, str],
    width: int,
    scheme: Any,  # noqa: ANN401 - a literal
    pytestconfig: pytest.Config,
) -> None:
    service, kept = filled
    page = opened(chromium, service, viewport={"width": width, "height": 800}, color_scheme=scheme)
    asked: list[str] = []
    wrong: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    for path in pages(kept):
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert page.evaluate("window.ran") is None, path
        assert page.locator("main img, main script").count() == 0, path
        assert page.locator("nav [aria-current=page]").count() == 1, path
        assert page.locator("footer").inner_text().startswith("Coatcheck 0."), path
        picture(page, pytestconfig.getoption("screenshots"), path, kept, f"{width}-{scheme}")
    assert wrong == []
    assert [url for url in asked if not url.startswith((service.url, "data:"))] == []
    page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(chromium: Browser, filled: tuple[Service, str], scheme: Any) -> None:  # noqa: ANN401 - a literal
    service, kept = filled
    page = opened(chromium, service, color_scheme=scheme, bypass_csp=True)
    for path in pages(kept):
        page.goto(path)
        page.evaluate(axe())
        found = page.evaluate("axe.run()")
        bad = [(each["id"], each["nodes"][0]["html"]) for each in found["violations"] if each["impact"] in WORST]
        assert bad == [], path
    page.goto("/ui/policies/edit?kind=log")
    for value, name in (("soon", "refused"), ("7d", "to be confirmed")):
        page.get_by_label("ttl", exact=True).fill(value)
        follow(page.get_by_role("button", name="Set…"))
        page.evaluate(axe())
        found = page.evaluate("axe.run()")
        assert [each["id"] for each in found["violations"] if each["impact"] in WORST] == [], name
    page.context.close()


@pytest.mark.parametrize("scripts", [True, False])
def test_a_list_is_filtered_and_artifacts_are_deleted_after_a_confirmation(
    chromium: Browser, tmp_path: Path, scripts: bool
) -> None:
    with serving(tmp_path / "data", page="true") as service:
        kept, other = service.post("one\n", tool_name="bash")["id"], service.post("two\n", tool_name="fetch")["id"]
        page = opened(chromium, service, java_script_enabled=scripts)
        page.goto("/ui/artifacts")
        page.get_by_label("Tool").fill("bash")
        follow(page.get_by_role("button", name="Filter"))
        assert page.get_by_role("link", name=kept).count() == 1
        assert page.get_by_role("link", name=other).count() == 0
        page.goto("/ui/artifacts?created_before=2020-01-01T00:00")
        assert page.get_by_text("No artifact.").count() == 1
        page.goto("/ui/artifacts?created_after=2020-01-01T00:00")
        page.get_by_label(f"Choose {kept}").check()
        follow(page.get_by_role("button", name="Delete…"))
        assert service.client.get(f"/v1/artifacts/{kept}").status_code == 200
        follow(page.get_by_role("main").get_by_role("button").first)
        assert "1 done, 0 refused" in page.get_by_role("heading", level=1).inner_text()
        assert service.client.get(f"/v1/artifacts/{kept}").status_code == 410
        assert service.client.get(f"/v1/artifacts/{other}").status_code == 200
        page.context.close()


def test_a_card_follows_its_budget_while_it_is_typed(chromium: Browser, filled: tuple[Service, str]) -> None:
    service, _ = filled
    kept = service.get("/v1/artifacts", q="build")["items"][0]["id"]
    page = opened(chromium, service)
    page.goto(f"/ui/artifacts/{kept}")
    before = page.locator("#card-text").inner_text()
    page.get_by_label("Budget in tokens").fill("128")
    page.wait_for_function("before => document.getElementById('card-text').innerText !== before", arg=before)
    card = service.get(f"/v1/artifacts/{kept}/card", tokens=128)
    assert page.locator("#card-text pre").inner_text().strip() == card["text"].strip()
    assert page.locator("mark").first.inner_text()
    page.context.close()


def test_a_plan_shows_what_it_removes_and_is_applied(chromium: Browser, tmp_path: Path) -> None:
    with serving(tmp_path / "data", page="true") as service:
        kept = service.post("one\n", session="s")["id"]
        page = opened(chromium, service)
        page.goto("/ui/retention")
        form = page.get_by_role("form", name="Plan a job")
        form.locator("[name=job]").select_option("session")
        form.locator("[name=session]").fill("s")
        follow(form.get_by_role("button", name="Plan"))
        assert page.get_by_role("link", name=kept).count() == 1
        assert service.client.get(f"/v1/artifacts/{kept}").status_code == 200
        confirm = page.locator("input[name=confirm]")
        if confirm.count():
            confirm.check()
        page.get_by_role("button", name="Apply").click()
        page.wait_for_url("**/ui/retention/runs/**")
        assert service.client.get(f"/v1/artifacts/{kept}").status_code == 410
        page.context.close()


def test_keys_are_made_used_and_revoked_with_the_keyboard_alone(chromium: Browser, tmp_path: Path) -> None:
    with serving(tmp_path / "data", page="true") as service:
        service.post("of default\n", title="not for others")
        page = opened(chromium, service)
        page.goto("/ui/keys")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.get_by_label("Name", exact=True).focus()
        page.keyboard.type("root")
        for scope in ("admin", "read"):
            page.get_by_role("checkbox", name=scope).focus()
            page.keyboard.press("Space")
        page.keyboard.press("Enter")
        page.wait_for_load_state()
        key = page.get_by_label("The key").inner_text().strip()
        page.goto("/")
        assert "/ui/login" in page.url
        page.get_by_label("Key").focus()
        page.keyboard.type(key)
        page.keyboard.press("Enter")
        page.wait_for_url(service.url + "/")
        assert page.evaluate("document.cookie") == ""
        headers = {"authorization": f"Bearer {key}"}
        body = {"name": "r", "scopes": ["read"]}
        reader = service.client.post("/v1/admin/keys", json=body, headers=headers).json()
        root = opened(chromium, service)
        root.goto("/ui/login")
        root.get_by_label("Key").fill(reader["key"])
        root.keyboard.press("Enter")
        root.wait_for_url(service.url + "/")
        assert root.get_by_role("link", name="Keys").count() == 0
        page.goto("/ui/keys")
        follow(page.locator(f"tr:has-text('{reader['id']}')").get_by_role("button", name="Revoke…"))
        follow(page.get_by_role("main").get_by_role("button").first)
        root.goto("/ui/artifacts")
        assert "not valid any more" in root.get_by_role("alert").inner_text()
        page.context.close()
        root.context.close()


def test_a_reader_of_another_namespace_sees_nothing_of_this_one(chromium: Browser, tmp_path: Path) -> None:
    with serving(tmp_path / "data", page="true") as service:
        kept = service.post("a secret of default\n" * 90, title="secret title", session="secret-s")["id"]
        root = service.client.post("/v1/admin/keys", json={"name": "a", "scopes": ["admin"], "namespace": "*"}).json()
        headers = {"authorization": f"Bearer {root['key']}"}
        service.client.put("/v1/admin/namespaces/other", headers=headers)
        body = {"name": "r", "scopes": ["read", "delete"], "namespace": "other"}
        reader = service.client.post("/v1/admin/keys", json=body, headers=headers).json()
        page = opened(chromium, service)
        page.goto("/ui/login")
        page.get_by_label("Key").fill(reader["key"])
        page.keyboard.press("Enter")
        page.wait_for_url(service.url + "/")
        for path in [*pages(kept), f"/ui/artifacts/{kept}/card", "/ui/session?name=secret-s"]:
            page.goto(path)
            assert "secret title" not in page.content(), path
            assert "a secret of default" not in page.content(), path
            assert kept not in page.locator("main").inner_text() or page.locator(".problem").count(), path
        page.context.close()


def test_a_session_shows_what_was_done_and_an_artifact_who_read_it(
    chromium: Browser, filled: tuple[Service, str]
) -> None:
    service, kept = filled
    page = opened(chromium, service, java_script_enabled=False)
    page.goto("/ui/session?name=s")
    rows = page.locator("#timeline ~ .scroll > table > tbody > tr")
    told = "\n".join(rows.all_inner_texts())
    assert "compaction" in told
    assert "web search" in told
    assert HOSTILE[:30] in told
    compaction = rows.filter(has_text="compaction").first
    compaction.locator("summary").click()
    lines = page.locator("#context ~ p").inner_text().splitlines()
    assert lines == service.get("/v1/sessions/s/usage")["lines"]
    assert [line.split(":")[0] for line in lines] == ["Next turn", "This turn (with tools)", "web payload this turn"]
    before, after = compaction.locator("details td.num").all_inner_texts()[:2]
    assert int(before.replace(",", "")) > 10 * int(after.replace(",", ""))
    assert compaction.locator("details a.id").first.inner_text().startswith("art_")
    page.goto(f"/ui/artifacts/{kept}")
    read = page.locator("#readers ~ .scroll tbody tr")
    assert read.count() >= 1
    assert "search" in read.first.inner_text()
    page.context.close()


def test_the_timeline_goes_on_where_it_ended(chromium: Browser, filled: tuple[Service, str]) -> None:
    service, _ = filled
    kept = service.post("one\ntwo\n" * 400, session="long")["id"]
    for line in range(1, 131):
        service.client.get(f"/v1/artifacts/{kept}/read", params={"offset": line, "limit": 1}).raise_for_status()
    page = opened(chromium, service)
    page.goto("/ui/session?name=long")
    seen: list[str] = []
    while True:
        seen += page.locator("#timeline ~ .scroll > table > tbody > tr > td:nth-child(2)").all_inner_texts()
        if not page.get_by_role("link", name="Next").count():
            break
        follow(page.get_by_role("link", name="Next"))
    read = [int(each.partition("offset ")[2].split()[0]) for each in seen if each.startswith("read")]
    assert read == list(range(130, 0, -1))
    assert seen[-1].startswith("stored")
    page.context.close()
