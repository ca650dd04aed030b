"""What a card names to be read next: a part that it does not show, or the records with a rare value."""

import json

import jsonpath_rfc9535
import pytest
from msgspec.structs import replace

from coatcheck.core.artifact import DeclaredMetadata, Kind, PayloadSample
from coatcheck.core.card.text import CardSource, text_of
from coatcheck.core.kinds import recognise
from coatcheck.core.views.view import LINKS, Section, ViewMeasure
from core.sample_payloads import card_of, measure_of
from facts.cases import Case, shown

CLASS = b"""class Drawer%d:
    def open(self):
        return %d

    def close_%d(self):
        if self.open():
            return None


"""
SOURCE = b'"""A till."""\n\nimport decimal\n\n\n' + b"".join(CLASS % (n, n, n) for n in range(30))


def test_source_that_a_shell_printed_is_told_by_its_definitions() -> None:
    facts = recognise(PayloadSample(SOURCE, b"", len(SOURCE)), DeclaredMetadata(tool_name="bash"))
    assert facts.kind is Kind.COMMAND_OUTPUT
    assert facts.shape[0].startswith("Outline (with lines): class Drawer0 6; ")
    assert "def close_7(self)" in facts.sections or "class Drawer7" in facts.sections


def test_an_output_with_a_definition_in_it_is_no_source() -> None:
    data = b"collected 40 items\n" + b"".join(b"tests/test_a.py::test_%d PASSED\n" % n for n in range(40))
    data += b"def test_b():\n>   assert 1 == 2\nE   assert 1 == 2\n1 failed, 40 passed in 0.1s\n"
    facts = recognise(PayloadSample(data, b"", len(data)), DeclaredMetadata(tool_name="bash"))
    assert not any(line.startswith("Outline") for line in facts.shape)


def test_values_that_recur_in_lists_within_records_are_counted_and_the_rare_one_is_next() -> None:
    jobs = [{"id": n, "steps": [{"n": k, "status": "ok"} for k in range(5)]} for n in range(200)]
    jobs[117]["steps"][3]["status"] = "failed"  # type: ignore[index]
    card, text, _ = card_of(json.dumps({"jobs": jobs}).encode(), DeclaredMetadata(), 400)
    assert "\nFailing: 1 of 1000 $.jobs[*].steps[*]\n$.jobs[117].steps[3]: status=failed\n" in text
    assert "\n1000 $.jobs[*].steps[*]: status ok 999, failed 1; n 0 200, 1 200, 2 200, 3 200, 4 200\n" in text
    assert card.next is not None
    assert card.next.arguments["path"] == "$.jobs[117].steps[3]"


@pytest.mark.parametrize("others", [3, 9])
def test_of_rare_values_those_that_state_a_failure_are_told_and_next(others: int) -> None:
    states = ["DONE"] * 90 + ["CREATE_FAILED"] * 12
    states += [f"STEP_{n}" for n in range(others) for _ in range(1 + n * 8)]
    events = [{"id": n, "state": state} for n, state in enumerate(states)]
    card, text, _ = card_of(json.dumps({"events": events}, indent=1).encode(), DeclaredMetadata(), 300)
    assert f"\nFailing: 12 of {len(events)} $.events[*]\n$.events[90]: id=90, state=CREATE_FAILED\n" in text
    assert card.next is not None
    assert card.next.arguments["path"] == "$.events[?@.state=='CREATE_FAILED']"


def test_records_with_a_member_that_few_have_are_next() -> None:
    pods: list[dict[str, object]] = [{"name": f"web-{n}", "states": [{"up": True, "since": n}]} for n in range(90)]
    pods[61]["states"] = [{"since": 61, "waiting": {"reason": "CrashLoopBackOff"}}]
    card, text, _ = card_of(json.dumps({"pods": pods}).encode(), DeclaredMetadata(), 400)
    assert "\nOdd: web-61 ($.pods[61]): no states[0].up, states[0].waiting.reason=CrashLoopBackOff" in text
    assert card.next is not None
    assert card.next.arguments["path"] == "$.pods[61]"


def test_values_that_recur_in_objects_within_records_are_counted() -> None:
    entries: list[dict[str, object]] = [
        {"request": {"url": f"/{n}"}, "response": {"status": 200, "ms": n}} for n in range(120)
    ]
    entries[40]["response"] = {"status": 502, "ms": 1}
    card, text, _ = card_of(json.dumps({"log": {"entries": entries}}).encode(), DeclaredMetadata(), 400)
    assert '\nOdd: "/40" ($.log.entries[40]): response.status=502\n' in text
    assert "\n120 $.log.entries[*]: response.status 200 119, 502 1; response.ms 0 " in text
    assert card.next is not None
    assert card.next.arguments["path"] == "$.log.entries[40]"


def test_of_alike_json_lines_the_one_that_differs_is_shown_and_no_page_of_others_is_next() -> None:
    rows = [{"ts": f"2026-02-01T00:00:{n % 60:02}Z", "level": "info", "msg": f"handled {n}"} for n in range(3_000)]
    rows[2_500]["level"] = "error"
    card, text, _ = card_of("".join(f"{json.dumps(row)}\n" for row in rows).encode(), DeclaredMetadata(), 400)
    assert "\nFailing: 1 of 3000 $[*]\n" in text
    assert '"level": "error", "msg": "handled 2500"' in text
    assert "(2995 like line 1)" in text
    assert card.next is None


def test_a_path_stops_where_no_member_holds_most() -> None:
    document = {"info": {"title": "t"}, "paths": {f"/v1/{n}": {"get": {"about": "x" * 300}} for n in range(40)}}
    card, _, _ = card_of(json.dumps(document).encode(), DeclaredMetadata(), 400)
    assert card.next is not None
    assert card.next.arguments["path"] == "$.paths"


def _sections(*parts: tuple[str, int, int], level: int = 1) -> tuple[Section, ...]:
    return tuple(
        Section(
            name=f"s{n}",
            title=title,
            level=level,
            start=start,
            end=end,
            line=1,
            lines=end - start,
            aside=title == LINKS,
        )
        for n, (title, start, end) in enumerate(parts, 1)
    )


def _view(sections: tuple[Section, ...]) -> CardSource:
    data = b"x\n" * 500
    m = measure_of(data)
    sizes = ViewMeasure(size=m.size, lines=m.lines, chars=m.chars, tokens=m.tokens)
    return text_of(PayloadSample(data, b"", len(data)), sizes, sections, "markup-removed")


def test_sections_are_named_longest_first_without_the_links_of_a_page() -> None:
    view = _view(_sections(("Opening", 0, 100), ("Middle", 100, 600), ("Close", 600, 700), (LINKS, 700, 1000)))
    assert [view.name_of(each) for each in view.inner] == ["Middle", "Opening", "Close"]


def test_a_section_whose_title_says_too_little_or_too_much_is_named_by_its_name() -> None:
    for title in ("Part", "w" * 200):
        view = _view(_sections(("Part", 0, 100), (title, 100, 600)))
        assert view.name_of(view.inner[0]) == "s2"


def test_of_a_view_in_which_something_is_masked_no_title_is_told() -> None:
    view = _view(_sections(("Opening", 0, 100), ("Middle", 100, 600)))
    masked = replace(view, sample=replace(view.sample, masked=("some-rule",)))
    assert masked.name_of(masked.inner[0]) == "s2"


def _manual() -> bytes:
    def chapter(n: int) -> str:
        rows = [f"<p>Rule {k} of part {n}: grease the joint every {k + n} days.</p>" for k in range(20 + n)]
        rows[5] = f"<p>The guarantee of part {n} covers {n * 100} hours.</p>"
        return f"<h2>Part {n}</h2>\n" + "\n".join(rows)

    return f"<html><body><h1>Manual</h1>{''.join(map(chapter, range(1, 9)))}</body></html>".encode()


def test_the_longest_section_of_which_most_is_not_shown_is_next() -> None:
    card = shown(Case(_manual()), 300).card
    assert card.next is not None
    assert card.next.arguments["section"] == "Part 8"


def test_the_section_of_a_page_around_the_best_answer_is_next() -> None:
    made = shown(Case(_manual()), 300, query="guarantee of part 3")
    assert "part 3 covers 300 hours" in made.text
    assert made.card.next is not None
    assert made.card.next.arguments["section"] == "Part 3"


def test_lists_are_counted_apart_from_objects_at_the_same_place() -> None:
    jobs: list[dict[str, object]] = [{"steps": [{"status": "ok"} for _ in range(5)]} for _ in range(60)]
    jobs[30]["steps"] = {"only": {"status": "failed"}}  # which a path to all steps would reach, too
    _, text, _ = card_of(json.dumps({"jobs": jobs}).encode(), DeclaredMetadata(), 400)
    assert "\n295 $.jobs[*].steps[*]: status ok 295\n" in text
    assert "\nOdd: $.jobs[30]: steps.only.status=failed\n" in text


def test_a_file_that_several_patches_change_is_not_the_next_part() -> None:
    hunk = "--- a/{0}\n+++ b/{0}\n@@ -1,{1} +1,{1} @@\n" + "-old\n+new\n" * 40
    patches = [
        f"From {n}{'0' * 39} Mon Sep 17 00:00:00 2001\nSubject: [PATCH {n}/2] Change {n}\n\n---\n\n"
        f"diff --git a/both.py b/both.py\n{hunk.format('both.py', 40)}"
        f"diff --git a/only{n}.py b/only{n}.py\n{hunk.format(f'only{n}.py', 40)}-- \n2.39.5\n\n"
        for n in (1, 2)
    ]
    payload = "".join(patches).encode()
    facts = recognise(PayloadSample(payload, b"", len(payload)), DeclaredMetadata())
    assert facts.kind is Kind.DIFF
    assert facts.shape[0] == "2 commits: 100000000000 Change 1; 200000000000 Change 2"
    assert facts.shape[1].startswith("3 files, +160 -160: both.py +80 -80; ")
    assert facts.sections == ("only1.py", "only2.py")


def _stream(replicas: int) -> str:
    return "---\n".join(
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: svc-{n}\nspec:\n"
        f"  replicas: {replicas if n == 19 else 3}\n  paused: false\n  template:\n    image: svc-{n}\n"
        for n in range(40)
    )


def test_a_part_that_the_excerpts_show_is_not_next_even_where_its_title_is_not_shown() -> None:
    card, _, _ = card_of(_stream(3).encode(), DeclaredMetadata(), 600)
    assert card.next is not None
    first, count = card.next.arguments["offset"], card.next.arguments["limit"]
    assert isinstance(first, int)
    assert isinstance(count, int)
    shown = {line for each in card.excerpts for line in range(each.lines.first, each.lines.last + 1)}
    assert first - 1 in shown  # the rest of a part whose beginning is shown
    assert first not in shown
    assert (first + count - 2) // 10 == (first - 1) // 10


def test_the_part_around_an_odd_number_is_next() -> None:
    card, text, _ = card_of(_stream(0).encode(), DeclaredMetadata(), 600)
    assert "replicas: 0" in text
    assert card.next is not None
    assert card.next.arguments["section"] == "Deployment svc-19"


def test_the_part_around_the_best_answer_is_next() -> None:
    card, text, _ = card_of(SOURCE, DeclaredMetadata(tool_name="read_file"), 400, query="return 23")
    assert "return 23" in text
    assert card.next is not None
    assert card.next.arguments["section"] in {"class Drawer23", "def open(self)"}


def test_a_failed_cell_is_next() -> None:
    cells: list[dict[str, object]] = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": [f"step_{n}()\n", "# " + "y" * 200]}
        for n in range(30)
    ]
    cells[12]["outputs"] = [
        {"output_type": "error", "ename": "KeyError", "evalue": "'region'", "traceback": ["x" * 80] * 20}
    ]
    book = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    card, _, _ = card_of(book.encode(), DeclaredMetadata(), 300)
    assert card.next is not None
    assert card.next.arguments["section"] == "cell 12 code"


def test_the_outline_of_a_long_history_is_next() -> None:
    def log(commits: int) -> bytes:
        return "\n".join(
            f"commit {n:040x}\nAuthor: Ann <a@b>\nDate:   Mon Nov 23 18:41:47 2026 +0000\n\n    Change {n} of it\n"
            for n in range(commits)
        ).encode()

    assert "outline" in recognise(PayloadSample(log(80), b"", len(log(80))), DeclaredMetadata()).sections
    assert "outline" not in recognise(PayloadSample(log(20), b"", len(log(20))), DeclaredMetadata()).sections
    card, _, _ = card_of(log(80), DeclaredMetadata(), 400)
    assert card.next is not None
    assert card.next.arguments["section"] == "outline"


def test_the_only_record_with_a_rare_value_is_told_by_what_is_its_own() -> None:
    pods = [{"api": "v1", "meta": {"name": f"web-{n}"}, "phase": "up"} for n in range(60)]
    pods[41]["phase"] = "down"
    _, text, _ = card_of(json.dumps({"pods": pods}).encode(), DeclaredMetadata(), 400)
    assert "\nOdd: web-41 ($.pods[41]): phase=down\n60 $.pods[*]: phase up 59, down 1\n$: pods[60]\n" in text


def test_records_with_the_next_rarest_value_are_next_where_the_failed_one_is_shown() -> None:
    rows = [{"level": "info", "msg": "request", "n": n} for n in range(600)]
    rows[400] = {"level": "error", "msg": "checkout failed", "n": 400}
    for n in range(0, 600, 60):
        rows[n + 7]["level"] = "warn"
    card, text, _ = card_of("".join(f"{json.dumps(row)}\n" for row in rows).encode(), DeclaredMetadata(), 400)
    assert '\nFailing: 1 of 600 $[*]\n$[400]: level=error, msg="checkout failed"\n' in text
    assert "\n600 $[*]: level info 589, warn 10, error 1; " in text
    assert card.next is not None
    assert card.next.arguments["path"] == "$[?@.level=='warn']"


def test_a_member_whose_name_states_something_is_next_rather_than_the_largest() -> None:
    modules = [{"name": f"m{n}", "size": n} for n in range(900)]
    document = {"errors": [], "modules": modules, "warnings": [{"message": "too large"}] * 3}
    for more in (0, 40_000):
        data = json.dumps({**document, "chunks": [{"id": n, "of": "main"} for n in range(more)]}).encode()
        card, _, _ = card_of(data, DeclaredMetadata(), 400)
        assert card.next is not None
        assert card.next.arguments["path"] == "$.warnings"


def test_what_is_wrong_is_told_though_it_is_long_and_in_a_list() -> None:
    message = (
        "Module not found: cannot resolve 'crypto' in '/srv/shop/views'. " + "It was part of the bundler once. " * 9
    )
    assets = [{"name": f"part{n}.js", "size": n * 7, "type": "script"} for n in range(300)]
    report = {"hash": "e1", "assets": assets, "errors": [{"loc": "2:0-36", "message": message, "stack": "at x\n" * 90}]}
    card, text, _ = card_of(json.dumps(report).encode(), DeclaredMetadata(), 400)
    assert """errors[0].message="Module not found: cannot resolve 'crypto' in '/srv/shop/views'.""" in text
    assert card.next is not None
    assert card.next.arguments["path"] == "$.errors[0]"


def test_the_only_failed_record_and_the_odd_one_are_told_by_name() -> None:
    tests = [{"id": f"t{n}", "title": f"counts {n * 7} days", "status": "passed", "took": n % 3} for n in range(90)]
    tests[41]["status"], tests[60]["status"] = "failed", "pending"
    card, text, _ = card_of(json.dumps({"tests": tests}).encode(), DeclaredMetadata(), 400)
    assert '\nFailing: 1 of 90 $.tests[*]\n"counts 287 days" ($.tests[41]): status=failed\n' in text
    assert '\nOdd: "counts 420 days" ($.tests[60]): status=pending\n' in text
    assert "\n90 $.tests[*]: status passed 88, failed 1, pending 1; " in text
    assert card.next is not None
    assert card.next.arguments["path"] == "$.tests[41]"


def test_failed_records_are_next_by_their_verdict_in_lists_and_in_maps() -> None:
    tests = [{"name": f"t{n}", "status": "failed" if n % 9 == 0 else "passed"} for n in range(90)]
    users = {f"user_{n}": {"name": f"u {n}", "state": "failed" if n % 9 == 0 else "ok"} for n in range(90)}
    for value, path in (({"tests": tests}, "$.tests[?@.status=='failed']"), (users, "$[?@.state=='failed']")):
        card, text, _ = card_of(json.dumps(value).encode(), DeclaredMetadata(), 400)
        assert "\nFailing: 10 of 90 $" in text
        assert card.next is not None
        assert card.next.arguments["path"] == path
        assert len(jsonpath_rfc9535.find(path, value)) == 10


def test_failed_records_are_told_by_what_they_say() -> None:
    said = ["the card was declined"] * 5 + ["two seats were sold twice"]
    rows = [{"level": "info", "n": n, "msg": f"request {n} was served"} for n in range(200)]
    for n, message in enumerate(said):
        rows[n * 31 + 7] |= {"level": "error", "msg": message}
    told = 'Failing: 6 of 200 $[*]: "the card was declined" 5, "two seats were sold twice"'
    for data in (json.dumps(rows), "\n".join(map(json.dumps, rows))):
        assert f"\n{told}\n" in card_of(data.encode(), DeclaredMetadata(), 500)[1]
        assert "\n200 $[*]: level info 194, error 6; " in card_of(data.encode(), DeclaredMetadata(), 500)[1]


def test_of_a_large_object_what_it_is_called_is_told() -> None:
    info = {f"member_{n}": f"value {n}" for n in range(30)} | {
        "name": "pelican",
        "summary": "Makes sites.",
        "version": "4",
    }
    text = card_of(json.dumps({"info": info, "serial": 7}).encode(), DeclaredMetadata(), 400)[1]
    assert '\ninfo.name="pelican", info.summary="Makes sites.", info.version="4", serial=7\n' in text
