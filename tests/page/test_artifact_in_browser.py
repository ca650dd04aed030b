"""The page of one artifact in a real browser: its card while one types, ways of reading it, downloads, and filters."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from page.windows import follow, opened
from support.service import Service, serving

LOG = "".join(
    f"{n} {'ERROR disk full' if n == 700 else 'WARN slow lock' if n == 200 else 'INFO ok'} {n}\n" for n in range(900)
)
ACTIVE = "<!doctype html><title>Tides</title><script>window.ran = 1</script><p>The Moon.</p>" + "<p>Water.</p>" * 400


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("artifact") / "data", page="true") as running:
        yield running


@pytest.fixture(scope="module")
def log(service: Service) -> str:
    return service.post(LOG, title="nightly build", tool_name="bash")["id"]


@pytest.fixture
def page(chromium: Browser, service: Service) -> Iterator[Page]:
    window = opened(chromium, service)
    yield window
    window.context.close()


def card(page: Page) -> str:
    return page.get_by_label("The card").inner_text()


def answer(page: Page) -> Locator:
    return page.get_by_label("Answer", exact=True)


def part_with(page: Page, line: int) -> Locator:
    """The link to the part that holds a line, of those that the card shows."""
    for link in page.locator("#card-text li a").all():
        numbers = [int(each.replace(",", "")) for each in re.findall(r"[\d,]+", link.inner_text())]
        if numbers[0] <= line <= numbers[-1]:
            return link
    raise AssertionError(f"no part of the card holds line {line}")


def test_card_marks_and_parts_follow_a_query_while_it_is_typed_and_the_focus_stays(
    page: Page, service: Service, log: str
) -> None:
    page.goto(f"/ui/artifacts/{log}?tokens=200")
    assert "INFO ok 444" not in card(page)
    page.get_by_label("Query", exact=True).press_sequentially("ok 444")
    expect(page.get_by_label("The card")).to_contain_text("444 INFO ok 444")
    asked = service.get(f"/v1/artifacts/{log}/card", tokens=200, query="ok 444")
    assert card(page).strip() == asked["text"].strip()
    assert page.locator("#card-size").inner_text().startswith(f"{asked['tokens']} tokens")
    assert "444 INFO ok 444" in "\n".join(page.locator("#payload-part mark").all_inner_texts())
    assert part_with(page, 445).count() == 1
    assert page.evaluate("document.activeElement.name") == "query"
    page.get_by_label("Tool").first.select_option("none")
    expect(page.get_by_label("The card")).not_to_contain_text("read_artifact")


@pytest.mark.parametrize("tokens", [64, 300, 8192])
@pytest.mark.parametrize("scripts", [True, False])
def test_a_card_of_any_budget_is_the_one_of_the_api_and_no_larger(
    chromium: Browser, service: Service, log: str, tokens: int, scripts: bool
) -> None:
    page = opened(chromium, service, java_script_enabled=scripts)
    page.goto(f"/ui/artifacts/{log}")
    page.get_by_label("Budget in tokens").fill(str(tokens))
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**tokens=*")
    assert card(page).strip() == service.get(f"/v1/artifacts/{log}/card", tokens=tokens)["text"].strip()
    assert int(page.locator("#card-size").inner_text().split()[0].replace(",", "")) <= tokens
    page.context.close()


def test_a_budget_that_no_card_can_have_says_so_where_the_card_was_and_a_good_one_brings_it_back(
    page: Page, log: str
) -> None:
    page.goto(f"/ui/artifacts/{log}")
    page.get_by_label("Budget in tokens").fill("5")
    expect(page.locator("#card-size")).to_contain_text("invalid_request")
    assert page.get_by_label("The card").count() == 0
    assert page.locator("mark").count() == 0
    page.get_by_label("Budget in tokens").fill("500")
    page.get_by_label("The card").wait_for()
    assert "invalid_request" not in page.locator("#card-size").inner_text()


def test_a_part_that_the_card_shows_is_found_in_the_payload(page: Page, log: str) -> None:
    page.goto(f"/ui/artifacts/{log}?query=slow+lock")
    part_with(page, 201).click()
    page.wait_for_url("**#shown-*")
    assert "200 WARN slow lock 200" in page.locator("mark:target").inner_text()
    assert "query=slow" in page.url


@pytest.mark.parametrize(
    ("way", "what", "expected"),
    [
        ("search", "disk (full|empty)", "700 ERROR disk full"),
        ("passages", "slow lock", "200 WARN slow lock"),
        ("lines", "", "1 INFO ok 1"),
        ("outline", "", "No outline"),
    ],
)
def test_a_payload_is_read_in_every_way(page: Page, log: str, way: str, what: str, expected: str) -> None:
    page.goto(f"/ui/artifacts/{log}")
    page.get_by_label("Way").select_option(way)
    page.get_by_label("Pattern, query or path").fill(what)
    page.get_by_role("button", name="Read", exact=True).click()
    page.wait_for_url("**/read?*")
    assert expected in answer(page).inner_text()
    assert page.get_by_label("Way").input_value() == way


def test_ranges_begin_where_they_are_told_to_and_go_on_to_the_end(page: Page, service: Service, log: str) -> None:
    page.goto(f"/ui/artifacts/{log}/read?way=lines")
    page.get_by_label("Offset").fill("650")
    page.get_by_role("button", name="Read", exact=True).click()
    page.wait_for_url("**offset=650*")
    assert "649 INFO ok 649" in answer(page).inner_text()
    assert "648 INFO ok 648" not in answer(page).inner_text()
    long = service.post("".join(f"line {n} of many, of which no page shows all\n" for n in range(4000)))["id"]
    for way in ("lines", "bytes"):
        page.goto(f"/ui/artifacts/{long}/read?way={way}")
        read = answer(page).inner_text()
        while page.get_by_role("link", name="Next").count():
            follow(page.get_by_role("link", name="Next"))
            read += answer(page).inner_text()
        assert [n for n in range(4000) if f"line {n} of" not in read] == []


def test_values_are_read_by_path_and_what_cannot_be_read_is_explained(page: Page, service: Service, log: str) -> None:
    items = ",".join(f'{{"id": {n}, "state": "{"failed" if n == 77 else "ok"}"}}' for n in range(200))
    listed = service.post(f'{{"jobs": [{items}]}}', media_type="application/json")["id"]
    page.goto(f"/ui/artifacts/{listed}/read?way=json")
    page.get_by_label("Pattern, query or path").fill("$.jobs[?@.state=='failed'].id")
    page.get_by_role("button", name="Read", exact=True).click()
    page.wait_for_url("**what=*")
    assert "77" in answer(page).inner_text()
    for address, code in [
        (f"/ui/artifacts/{log}/read?way=search&what=%28", "invalid_pattern"),
        (f"/ui/artifacts/{log}/read?way=lines&offset=99999", "offset_past_end"),
    ]:
        page.goto(address)
        assert code in page.get_by_role("alert").inner_text()
        assert page.get_by_role("form", name="Read and search").is_visible()


def test_a_download_is_saved_byte_for_byte_and_never_shown(page: Page, service: Service, tmp_path: Path) -> None:
    kept = service.post(ACTIVE, title="../Tides\u202egpj.html", media_type="text/html")["id"]
    page.goto(f"/ui/artifacts/{kept}")
    saved = tmp_path / "saved"
    for link in ("Download text", "Download"):
        with page.expect_download() as downloading:
            page.get_by_role("link", name=link, exact=True).click()
        downloading.value.save_as(saved)
        assert b"The Moon." in saved.read_bytes()
        assert "Tidesgpj" in downloading.value.suggested_filename
        assert not {"/", "\u202e"} & set(downloading.value.suggested_filename)
    assert saved.read_bytes() == ACTIVE.encode()
    sent = service.client.get(f"/ui/artifacts/{kept}/download")
    assert sent.headers["content-disposition"].startswith("attachment;")
    assert sent.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in sent.headers["content-security-policy"]
    assert page.evaluate("window.ran") is None
    assert service.get("/v1/events", artifact_id=kept)["items"] == [], "looking is no read"


@pytest.mark.parametrize("scripts", [True, False])
def test_every_filter_finds_the_one_that_it_names_and_can_be_cleared(
    chromium: Browser, running: Service, scripts: bool
) -> None:
    wanted = running.post(
        '{"rows": [1, 2, 3]}',
        tool_name="sql",
        session="reports",
        labels=["monthly"],
        url="https://db.example/q?id=7",
        title="zebra totals",
        media_type="application/json",
    )["id"]
    other = running.post("compiled\n", tool_name="bash", session="build", labels=["nightly"])["id"]
    page = opened(chromium, running, java_script_enabled=scripts)
    for label, value in [
        ("Words", "zebra"),
        ("Session", "reports"),
        ("Kind", "json"),
        ("Tool", "sql"),
        ("Label", "monthly"),
        ("URL", "https://db.example/q?id=7"),
    ]:
        page.goto("/ui/artifacts")
        field = page.get_by_role("search").get_by_label(label, exact=label != "Kind")
        field.select_option(value) if label == "Kind" else field.fill(value)
        page.get_by_role("button", name="Filter").click()
        page.wait_for_url("**?*")
        assert page.get_by_role("link", name=wanted).count() == 1, label
        assert page.get_by_role("link", name=other).count() == 0, label
        assert field.input_value() == value, "a filter that is applied is shown"
        follow(page.get_by_role("link", name="Clear"))
        assert page.get_by_role("link", name=other).count() == 1, label
    page.context.close()


def test_a_filter_holds_on_every_part_of_the_list(chromium: Browser, running: Service) -> None:
    for number in range(120):
        running.post(f"payload {number}\n", tool_name="bash" if number % 2 else "sql")
    page = opened(chromium, running)
    page.goto("/ui/artifacts?tool_name=sql")
    seen: list[str] = []
    while True:
        rows = page.get_by_role("region", name="Artifacts").locator("tbody tr")
        assert all("sql" in row for row in rows.all_inner_texts())
        seen += rows.locator("a.id").all_inner_texts()
        if not page.get_by_role("link", name="Next").count():
            break
        follow(page.get_by_role("link", name="Next"))
    assert len(seen) == len(set(seen)) == 60
    follow(page.get_by_role("link", name="First"))
    assert page.locator("tbody a.id").first.inner_text() == seen[0]
    page.context.close()
