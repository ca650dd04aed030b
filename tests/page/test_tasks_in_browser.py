"""What an administrator does on the page, in a real browser: holds, undo, audit, policies, keys, bulk changes."""

import re

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from page.windows import follow, opened, send, tab_to
from support.service import Service


@pytest.fixture(params=[True, False], ids=["scripts", "no scripts"])
def page(request: pytest.FixtureRequest, chromium: Browser, running: Service) -> Page:
    return opened(chromium, running, java_script_enabled=request.param)


def status(running: Service, artifact_id: str) -> int:
    return running.client.get(f"/v1/artifacts/{artifact_id}").status_code


def click(page: Page, name: str) -> None:
    follow(page.get_by_role("main").get_by_role("button", name=name, exact=True))


def edit_policy(page: Page, **scope: str) -> Locator:
    """Opens the form of a scope's policy from the list of policies, and returns it."""
    page.goto("/ui/policies")
    form = page.get_by_role("form", name="Edit a policy")
    for name, value in scope.items():
        field = form.locator(f"[name={name}]")
        _ = field.select_option(value) if name == "kind" else field.fill(value)
    follow(form.get_by_role("button", name="Edit…"))
    return page.get_by_role("form", name="Set the policy")


def set_policy(page: Page, **values: str) -> None:
    """Sends the form of a policy, up to its confirmation."""
    send(page, "Set the policy", "Set…", values)


def changes(page: Page) -> list[list[str]]:
    """What a page that asks for a confirmation says would change."""
    return [
        row.locator("td").all_inner_texts()
        for row in page.get_by_role("region", name="Changes").locator("tbody tr").all()
    ]


def said(page: Page) -> str:
    return page.locator("main > [role=status]").inner_text()


def choose(page: Page, artifacts: list[str], action: str) -> None:
    """Marks artifacts in the list and asks for a change, up to its confirmation."""
    page.goto("/ui/artifacts")
    for each in artifacts:
        page.get_by_label(f"Choose {each}").check()
    click(page, f"{action}…")
    assert page.get_by_role("heading", level=1).inner_text() == (
        f"{action} {len(artifacts)} artifact{'s' if len(artifacts) > 1 else ''}?"
    )


def test_a_hold_is_placed_keeps_what_it_covers_and_is_released(page: Page, running: Service) -> None:
    kept = running.post("evidence\n", session="case-7")["id"]
    page.goto("/ui/holds")
    send(page, "Place a hold", "Place", {"Reason": "case 7 & <b>more</b>", "Session": "case-7"})
    assert said(page) == "The hold was placed."
    row = page.get_by_role("row").filter(has_text="case 7 & <b>more</b>")
    assert "session case-7" in row.inner_text()
    assert "it is released" in row.inner_text()
    assert running.client.delete(f"/v1/artifacts/{kept}").status_code == 423
    other = running.post("other\n")["id"]
    for path in ("/ui/artifacts", "/", "/ui/session?name=case-7"):
        page.goto(path)
        texts = page.get_by_role("row").filter(has=page.locator(f"a[href$={kept}]")).all_inner_texts()
        assert (len(texts) > 0, [each for each in texts if "held" not in each]) == (True, []), path
    page.goto("/ui/artifacts")
    assert "held" not in page.get_by_role("row").filter(has_text=other).inner_text()
    page.goto(f"/ui/artifacts/{kept}")
    facts = page.locator("dl.facts").inner_text()
    assert re.search(r"Held\s+hold_[0-9a-f]{16} \(its session\): case 7 & <b>more</b>", facts)
    page.goto("/ui/holds")
    follow(row.get_by_role("button", name="Release…"))
    assert "case-7 in default" in page.get_by_role("main").inner_text()
    assert "case 7 & <b>more</b>" in page.get_by_role("main").inner_text()
    follow(page.get_by_role("link", name="Cancel"))
    assert running.client.delete(f"/v1/artifacts/{kept}").status_code == 423
    follow(row.get_by_role("button", name="Release…"))
    click(page, "Release")
    assert said(page) == "The hold was released."
    assert page.get_by_text("No hold.").count() == 1
    assert running.client.delete(f"/v1/artifacts/{kept}").status_code == 204


def test_a_hold_of_one_artifact_is_placed_from_its_page_and_a_reason_is_asked_for(page: Page, running: Service) -> None:
    kept = running.post("evidence\n")["id"]
    page.goto(f"/ui/artifacts/{kept}")
    follow(page.get_by_role("link", name="Hold…"))
    form = page.get_by_role("form", name="Place a hold")
    assert form.get_by_label("Artifact").input_value() == kept
    follow(form.get_by_role("button", name="Place"))
    assert "reason" in page.locator(".problem").inner_text()
    assert form.get_by_label("Artifact").input_value() == kept
    send(page, "Place a hold", "Place", {"Reason": "audit", "For how long": "a week"})
    assert "'ttl' must be" in page.locator(".problem").inner_text()
    assert form.get_by_label("Reason").input_value() == "audit"
    send(page, "Place a hold", "Place", {"For how long": "7d"})
    (hold,) = running.get("/v1/admin/holds")["items"]
    assert (hold["artifact"], hold["reason"]) == (kept, "audit")
    assert hold["until"] is not None


def test_a_whole_namespace_is_held_only_once_its_name_was_typed(page: Page, running: Service) -> None:
    kept = running.post("evidence\n")["id"]
    page.goto("/ui/holds")
    send(page, "Place a hold", "Place", {"Reason": "audit"})
    for word in ("", "defaults"):
        page.get_by_label("Type default to confirm").fill(word)
        click(page, "Hold")
        assert page.locator("main > .problem").first.inner_text() == "Type default to confirm."
        assert running.get("/v1/admin/holds")["items"] == []
    page.get_by_label("Type default to confirm").fill("default")
    click(page, "Hold")
    assert said(page) == "The hold was placed."
    (hold,) = running.get("/v1/admin/holds")["items"]
    assert (hold["artifact"], hold["session"], hold["reason"]) == (None, None, "audit")
    assert running.client.delete(f"/v1/artifacts/{kept}").status_code == 423


def test_what_a_run_removed_is_undone_and_the_audit_log_tells_both(page: Page, running: Service) -> None:
    gone = [running.post(f"line {n}\n", session="done", title=f"log {n}")["id"] for n in range(3)]
    page.goto("/ui/retention")
    page.get_by_role("form", name="Plan a job").locator("[name=job]").select_option("session")
    send(page, "Plan a job", "Plan", {"Session": "done"})
    page.get_by_label("of the live bytes").check()
    click(page, "Apply")
    page.wait_for_url("**/ui/retention/runs/*")
    run = page.get_by_role("heading", level=1).inner_text().removeprefix("Run ")
    assert [status(running, each) for each in gone] == [410] * 3
    assert "artifact.removed" in page.get_by_role("region", name="Audit log").inner_text()
    click(page, "Undo")
    assert page.get_by_role("heading", level=1).inner_text() == "3 artifacts restored"
    assert sorted(page.locator("main a.id").all_inner_texts()) == sorted(gone)
    assert [status(running, each) for each in gone] == [200] * 3
    page.goto("/ui/audit")
    assert {"artifact.removed", "artifact.restored"} <= set(column(page, 3))
    send(page, "Filters", "Filter", {"Run": run, "Action": "artifact.removed"})
    assert column(page, 3) == ["artifact.removed"]


def test_an_undo_of_more_than_one_answer_goes_on_with_the_ttl_that_was_asked_for(
    chromium: Browser, running: Service
) -> None:
    for number in range(501):
        running.post(f"line {number}\n", session="done")
    scope = {"job": "session", "namespace": "default", "session": "done"}
    plan = running.client.post("/v1/admin/retention/plan", json=scope).json()
    applied = {"digest": plan["digest"], "confirm": True, "wait": 10}
    run = running.client.post("/v1/admin/retention/apply", json=applied).json()
    page = opened(chromium, running)
    page.goto(f"/ui/retention/runs/{run['id']}")
    page.get_by_label("New TTL").fill("7d")
    click(page, "Undo")
    assert page.get_by_role("heading", level=1).inner_text() == "500 artifacts restored"
    assert page.locator("input[name=ttl]").input_value() == "7d"
    click(page, "Go on")
    expect(page.get_by_role("heading", level=1)).to_have_text("1 artifact restored")
    assert len(running.get("/v1/artifacts", session="done", limit=200)["items"]) == 200
    page.context.close()


def column(page: Page, number: int) -> list[str]:
    return page.locator(f"main tbody tr td:nth-child({number})").all_inner_texts()


def test_the_audit_log_is_listed_from_the_latest_line_to_the_first(page: Page, running: Service) -> None:
    for number in range(60):
        body = {"reason": f"reason {number}"}
        hold = running.client.post("/v1/admin/holds", json=body).json()["id"]
        running.client.delete(f"/v1/admin/holds/{hold}").raise_for_status()
    page.goto("/ui/audit?action=hold.placed")
    seen = column(page, 1)
    while page.get_by_role("link", name="Next").count():
        follow(page.get_by_role("link", name="Next"))
        seen += column(page, 1)
        assert set(column(page, 3)) == {"hold.placed"}
    numbers = [int(each.replace(",", "")) for each in seen]
    assert len(numbers) == 60
    assert numbers == sorted(numbers, reverse=True)
    follow(page.get_by_role("link", name="First"))
    assert column(page, 1)[0] == seen[0]


def test_a_quota_is_set_as_a_policy_shown_beside_the_usage_and_refuses_what_is_too_much(
    page: Page, running: Service
) -> None:
    running.post("one\n")
    running.post("two\n")
    page.goto("/ui/usage")
    assert column(page, 4) == ["2"]
    assert column(page, 5) == ["\u2013"], "no limit"
    follow(page.get_by_role("link", name="Policies set the limits."))
    edit_policy(page)
    set_policy(page, max_artifacts="3", max_bytes="1mib")
    click(page, "Set")
    assert said(page) == "The policy was set."
    page.goto("/ui/usage")
    assert (column(page, 3), column(page, 5)) == (["1.0 MiB"], ["3"])
    running.post("three\n")
    assert running.client.post("/v1/artifacts", json={"content": "four\n"}).status_code == 507
    page.reload()
    assert column(page, 4) == ["3"]


def test_a_policy_is_set_explained_and_removed(page: Page, running: Service) -> None:
    for scope, values in (({"kind": "log"}, {"ttl": "2d"}), ({}, {"ttl": "30d", "idle_ttl": "none"})):
        edit_policy(page, **scope)
        set_policy(page, **values)
        click(page, "Set")
    policies = page.get_by_role("region", name="Policies").inner_text()
    assert "ttl 2 d" in policies
    assert "ttl 30 d" in policies
    explain = page.get_by_role("form", name="Explain")
    for kind, ttl in (("log", "2 d"), ("json", "30 d")):
        explain.locator("[name=kind]").select_option(kind)
        explain.get_by_role("button", name="Explain").click()
        page.wait_for_url(f"**kind={kind}*")
        holds = page.get_by_role("region", name="What holds")
        assert (
            ttl in holds.get_by_role("row").filter(has=page.locator("code", has_text=re.compile("^ttl$"))).inner_text()
        )
        assert "without end" in holds.get_by_role("row").filter(has_text="idle_ttl").inner_text()
    kept = running.post("2026-01-01 INFO ok\n" * 50, kind="log")["id"]
    page.goto(f"/ui/artifacts/{kept}")
    assert "ttl 2 d, by the policy of default/kind=log" in page.get_by_role("main").inner_text()
    page.goto("/ui/policies")
    follow(page.get_by_role("row").filter(has_text="kind=log").get_by_role("button", name="Remove…"))
    assert changes(page) == [["ttl", "2d", "not decided"]]
    follow(page.get_by_role("link", name="Cancel"))
    assert "ttl 2 d" in page.get_by_role("region", name="Policies").inner_text()
    follow(page.get_by_role("row").filter(has_text="kind=log").get_by_role("button", name="Remove…"))
    click(page, "Remove")
    assert said(page) == "The policy was removed."
    assert "ttl 2 d" not in page.get_by_role("region", name="Policies").inner_text()


def test_words_and_lists_of_a_policy_are_taken_as_people_write_them(page: Page, running: Service) -> None:
    edit_policy(page).locator("[name=evict]").select_option("least_recently_read")
    set_policy(
        page,
        max_artifact_bytes="64mib",
        max_artifacts="None",
        search_allowed_domains="a.example, b.example",
        search_excluded_domains="none",
        card_tokens="auto",
    )
    click(page, "Set")
    assert said(page) == "The policy was set."
    (policy,) = running.get("/v1/admin/policies")["items"]
    assert policy["policy"] == {
        "max_artifact_bytes": 64 * 1024 * 1024,
        "max_artifacts": None,
        "search_allowed_domains": ["a.example", "b.example"],
        "search_excluded_domains": [],
        "card_tokens": "auto",
        "evict": "least_recently_read",
    }


def test_a_field_of_a_policy_is_changed_and_every_other_one_stays(page: Page, running: Service) -> None:
    times = {"ttl": 604_800, "idle_ttl": None, "max_ttl": 86_401, "tombstone_ttl": 0}
    sizes = {"max_bytes": 2**26, "max_artifacts": 1000, "max_artifact_bytes": None}
    cards = {"card_tokens": 700, "inline_tokens": 0, "evict": "least_recently_read", "redaction": "shown"}
    domains = {"search_allowed_domains": ["a.example", "b.example"], "search_excluded_domains": []}
    policy = {**times, **sizes, **cards, **domains, "search_max_results": 5}
    running.client.put("/v1/admin/policies", json={"policy": policy}).raise_for_status()
    page.goto("/ui/policies")
    follow(page.get_by_role("row").filter(has_text="evict").get_by_role("link", name="Edit…"))
    set_policy(page)
    assert said(page) == "The policy was like that already."
    assert edit_policy(page).get_by_label("max_bytes").input_value() == "64mib"
    set_policy(page, ttl="2d", search_max_results="")
    assert changes(page) == [["ttl", "7d", "2d"], ["search_max_results", "5", "not decided"]]
    assert running.get("/v1/admin/policies")["items"][0]["policy"] == policy
    click(page, "Set")
    assert said(page) == "The policy was set."
    del policy["search_max_results"]
    assert running.get("/v1/admin/policies")["items"][0]["policy"] == policy | {"ttl": 172_800}


def test_a_policy_that_changes_while_its_change_is_confirmed_is_asked_about_again(page: Page, running: Service) -> None:
    def put(**policy: object) -> None:
        running.client.put("/v1/admin/policies", json={"policy": policy}).raise_for_status()

    put(ttl=86_400)
    edit_policy(page)
    set_policy(page, ttl="2d")
    put(ttl=86_400, max_artifacts=7)
    click(page, "Set")
    assert "changed since you were asked" in page.locator("main > .problem").inner_text()
    assert changes(page) == [["ttl", "1d", "2d"], ["max_artifacts", "7", "not decided"]]
    assert running.get("/v1/admin/policies")["items"][0]["policy"] == {"ttl": 86_400, "max_artifacts": 7}
    click(page, "Set")
    assert running.get("/v1/admin/policies")["items"][0]["policy"] == {"ttl": 172_800}


@pytest.mark.parametrize(
    ("field", "value"),
    [("ttl", "soon"), ("max_artifact_bytes", "much"), ("card_tokens", "none"), ("card_tokens", "automatic")],
)
def test_a_policy_that_cannot_be_says_which_field_is_wrong(
    chromium: Browser, running: Service, field: str, value: str
) -> None:
    page = opened(chromium, running)
    form = edit_policy(page, session="s")
    set_policy(page, **{field: value, "inline_tokens": "9"})
    assert field in page.locator(".problem").inner_text()
    assert "invalid_request" in page.locator(".problem").inner_text()
    assert page.get_by_role("heading", level=1).inner_text() == "Policy of default/session=s"
    assert form.get_by_label(field, exact=True).input_value() == value
    set_policy(page, **{field: ""})
    click(page, "Set")
    assert running.get("/v1/admin/policies")["items"][0]["policy"] == {"inline_tokens": 9}
    page.context.close()


def test_a_key_is_made_with_its_scopes_shown_this_once_and_revoked(page: Page, running: Service) -> None:
    page.goto("/ui/keys")
    send(page, "Create a key", "Create", {"Name": "root", "admin": True})
    root = page.get_by_label("The key").inner_text().strip()
    page.goto("/ui/login")
    page.get_by_label("Key").fill(root)
    follow(page.get_by_role("button", name="Sign in"))
    page.goto("/ui/keys")
    values = {"Name": "agent of <team>", "Sessions that begin with": "team-", "Good for": "90d"}
    send(page, "Create a key", "Create", {**values, "ingest": True, "read": True})
    key = page.get_by_label("The key").inner_text().strip()
    authorization = {"authorization": f"Bearer {key}"}
    body = {"content": "x\n", "session": "team-1"}
    assert running.client.post("/v1/artifacts", json=body, headers=authorization).status_code == 201
    assert running.client.get("/v1/admin/keys", headers=authorization).status_code == 403
    follow(page.get_by_role("main").get_by_role("link", name="Keys"))
    assert key not in page.content()
    row = page.get_by_role("row").filter(has_text="agent of <team>")
    assert "ingest, read" in row.inner_text()
    assert "team-…" in row.inner_text()
    assert "ends in 89 d" in row.inner_text()
    follow(row.get_by_role("button", name="Revoke…"))
    follow(page.get_by_role("link", name="Cancel"))
    assert running.client.post("/v1/artifacts", json=body, headers=authorization).status_code == 200
    follow(row.get_by_role("button", name="Revoke…"))
    click(page, "Revoke")
    assert said(page) == "The key was revoked."
    assert "revoked" in row.inner_text()
    assert row.get_by_role("button").count() == 0
    assert running.client.post("/v1/artifacts", json=body, headers=authorization).status_code == 401
    follow(page.get_by_role("button", name="Sign out"))
    page.goto("/ui/keys")
    assert "/ui/login" in page.url


def test_several_artifacts_are_pinned_held_and_deleted_each_after_a_confirmation(page: Page, running: Service) -> None:
    first, second, third = (running.post(f"{n}\n")["id"] for n in range(3))
    choose(page, [first, second], "Pin")
    follow(page.get_by_role("link", name="Cancel"))
    assert not running.get(f"/v1/artifacts/{first}")["artifact"]["pinned"]
    choose(page, [first, second], "Pin")
    click(page, "Pin")
    assert page.get_by_role("heading", level=1).inner_text() == "Pin: 2 done, 0 refused"
    assert [running.get(f"/v1/artifacts/{each}")["artifact"]["pinned"] for each in (first, second, third)] == [
        True,
        True,
        False,
    ]
    page.goto("/ui/artifacts")
    assert column(page, 10).count("pinned") == 2
    choose(page, [first], "Unpin")
    click(page, "Unpin")
    assert not running.get(f"/v1/artifacts/{first}")["artifact"]["pinned"]
    choose(page, [second, third], "Hold")
    page.get_by_label("Reason").fill("review")
    click(page, "Hold")
    assert page.get_by_role("heading", level=1).inner_text() == "Hold: 2 done, 0 refused"
    assert {hold["artifact"] for hold in running.get("/v1/admin/holds")["items"]} == {second, third}
    choose(page, [first, second], "Delete")
    assert status(running, first) == 200
    click(page, "Delete")
    assert page.get_by_role("heading", level=1).inner_text() == "Delete: 1 done, 1 refused"
    assert "held" in page.get_by_role("row").filter(has_text=second).inner_text()
    assert [status(running, each) for each in (first, second, third)] == [410, 200, 200]


def test_a_change_of_nothing_and_a_hold_without_a_reason_say_what_is_missing(page: Page, running: Service) -> None:
    kept = running.post("one\n")["id"]
    page.goto("/ui/artifacts")
    click(page, "Pin…")
    assert "No artifact was chosen" in page.locator(".problem").inner_text()
    choose(page, [kept], "Hold")
    click(page, "Hold")
    assert page.locator("main > .problem").inner_text() == "A hold needs a reason."
    assert running.get("/v1/admin/holds")["items"] == []
    page.get_by_label("Reason").fill("audit")
    page.get_by_label("For how long").fill("a week")
    click(page, "Hold")
    assert "'ttl' must be" in page.locator("main > .problem").inner_text()
    assert page.get_by_label("Reason").input_value() == "audit"
    page.get_by_label("For how long").fill("7d")
    click(page, "Hold")
    assert [hold["artifact"] for hold in running.get("/v1/admin/holds")["items"]] == [kept]


def test_how_long_an_artifact_is_kept_and_its_labels_are_changed(page: Page, running: Service) -> None:
    kept = running.post("one\n", labels=["old"])["id"]
    page.goto(f"/ui/artifacts/{kept}")
    form = page.get_by_role("form", name="Keep")
    assert form.get_by_label("Labels").input_value() == "old"
    send(page, "Keep", "Change", {"Labels": "reviewed, ci", "New TTL": "70d"})
    assert said(page) == "The artifact was changed."
    changed = running.get(f"/v1/artifacts/{kept}")["artifact"]
    assert (sorted(changed["labels"]), changed["ttl"]) == (["ci", "reviewed"], 70 * 86_400)
    assert page.locator(".label").all_inner_texts() == changed["labels"]
    send(page, "Keep", "Change", {"Labels": "over", "New TTL": "1h"})
    ((_, now, then),) = changes(page)
    assert now > then
    assert running.get(f"/v1/artifacts/{kept}")["artifact"] == changed, "before it is confirmed"
    click(page, "Change")
    sooner = running.get(f"/v1/artifacts/{kept}")["artifact"]
    assert (sooner["ttl"], sooner["labels"]) == (3600, ["over"])


def test_a_refused_form_keeps_what_was_typed_and_the_navigation(page: Page, running: Service) -> None:
    kept = running.post("one\n", labels=["old"])["id"]
    page.goto(f"/ui/artifacts/{kept}")
    form = send(page, "Keep", "Change", {"Labels": "", "New TTL": "soon"})
    assert "'ttl' must be" in page.locator("main > .problem").inner_text()
    assert (form.get_by_label("New TTL").input_value(), form.get_by_label("Labels").input_value()) == ("soon", "")
    follow(page.get_by_role("link", name="Keys"))
    form = send(page, "Create a key", "Create", {"Name": "agent", "Good for": "a while", "read": True})
    assert "'ttl' must be" in page.locator("main > .problem").inner_text()
    assert form.get_by_label("Name", exact=True).input_value() == "agent"
    assert [form.get_by_label(scope).is_checked() for scope in ("read", "admin")] == [True, False]
    follow(page.get_by_role("link", name="Retention"))
    page.get_by_role("form", name="Plan a job").locator("[name=job]").select_option("session")
    form = send(page, "Plan a job", "Plan", {"Bytes that may stay": "7"})
    assert "session" in page.locator("main > .problem").inner_text()
    assert form.locator("[name=job]").input_value() == "session"
    assert form.get_by_label("Bytes that may stay").input_value() == "7"
    follow(page.get_by_role("link", name="Audit"))
    send(page, "Filters", "Filter", {"Namespace": "No Such Name"})
    assert page.get_by_role("form", name="Send again").get_by_label("namespace").input_value() == "No Such Name"
    send(page, "Send again", "Send again", {"namespace": "default"})
    assert page.get_by_role("region", name="Audit log").count() == 1


def test_a_session_is_deleted_after_a_confirmation(page: Page, running: Service) -> None:
    gone = [running.post(f"{n}\n", session="over")["id"] for n in range(2)]
    other = running.post("kept\n", session="goes on")["id"]
    page.goto("/ui/session?name=over")
    click(page, "Delete the session…")
    assert [status(running, each) for each in gone] == [200, 200]
    click(page, "Delete")
    assert page.get_by_text("No artifact.").count() == 1
    assert [status(running, each) for each in [*gone, other]] == [410, 410, 200]


def test_a_scheduled_job_is_paused_and_resumed(page: Page, running: Service) -> None:
    page.goto("/ui/retention")
    row = page.get_by_role("region", name="Schedule").get_by_role("row").filter(has=page.get_by_role("button")).first
    name = row.get_by_role("cell").first.inner_text()
    for button, paused in (("Pause", True), ("Resume", False)):
        follow(row.get_by_role("button", name=button))
        assert said(page) == "The job was changed."
        jobs = {each["name"]: each["paused"] for each in running.get("/v1/admin/retention/status")["jobs"]}
        assert jobs[name] is paused


def test_with_the_keyboard_alone_a_session_is_looked_for_planned_removed_and_brought_back(
    chromium: Browser, running: Service
) -> None:
    gone = running.post("ERROR it broke\n", session="over", title="build log")["id"]
    page = opened(chromium, running)
    page.goto("/")
    tab_to(page, "Skip to the content")
    tab_to(page, "Retention")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/retention")
    tab_to(page, "Skip to the content")
    page.keyboard.press("Enter")
    tab_to(page, "Job")
    page.keyboard.type("session")
    tab_to(page, "Session")
    page.keyboard.type("over")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/retention/plan")
    tab_to(page, gone)
    tab_to(page, "Remove 100 % of the live bytes")
    page.keyboard.press("Space")
    tab_to(page, "Apply")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/retention/runs/*")
    assert status(running, gone) == 410
    tab_to(page, "Undo")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("1 artifact restored")
    assert status(running, gone) == 200
    page.context.close()


def test_the_page_is_dark_for_those_who_prefer_that_and_changes_with_the_system(
    chromium: Browser, running: Service
) -> None:
    kept = running.post("ERROR it broke\n" * 200)["id"]
    page = opened(chromium, running, color_scheme="dark")
    for path in ("/", f"/ui/artifacts/{kept}", "/ui/keys", "/ui/login?why=revoked"):
        page.emulate_media(color_scheme="dark")
        page.goto(path)
        dark = brightness(page)
        page.emulate_media(color_scheme="light")
        light = brightness(page)
        assert dark["text"] - dark["background"] > 0.6, path
        assert light["background"] - light["text"] > 0.6, path
    page.context.close()


def brightness(page: Page) -> dict[str, float]:
    """How bright the page's background and its text are, from 0 to 1."""
    colours: dict[str, str] = page.evaluate(
        "() => { const s = getComputedStyle(document.documentElement);"
        "return {background: s.backgroundColor, text: s.color}; }"
    )
    return {name: sum(map(int, re.findall(r"\d+", value)[:3])) / 765 for name, value in colours.items()}
