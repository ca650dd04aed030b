"""What decides the kind: the caller's word, the bytes, the media type, structure, the tool; never one word alone."""

import json
import random
import time

import pytest

from coatcheck.core.artifact import DeclaredMetadata, Kind
from coatcheck.core.kinds.classify import classify
from coatcheck.core.kinds.description import PayloadProbe
from core.sample_payloads import HOSTILE, ORDINARY, sample_of


def kind_of(data: bytes | str, **said: str) -> Kind:
    sample = sample_of(data.encode() if isinstance(data, str) else data)
    return classify(PayloadProbe(sample, DeclaredMetadata(**said)))  # pyright: ignore[reportArgumentType]


PROSE = "The harbour lies on the river, and ships used to arrive here every week of the year.\n" * 12

MENTIONS = {
    "a URL": "See https://example.org/harbour and https://example.org/river for more about the ships there.\n",
    "an error": "The error was found late, and the fatal exception that failed the build made nobody happy.\n",
    "a tag": "Write <p> for a paragraph, <div> for a part and <a href=x> for a link, and close each of them.\n",
    "code": "To import this one must return the class that we define, or else it is public for a while.\n",
    "a hunk": "A hunk begins with @@ -1,2 +1,3 @@ in what diff --git a/x b/x prints, as everybody knows here.\n",
    "a time": "It was 12:30:01 when the ship came in on 2026-03-01 08:00, as the book of the harbour has it.\n",
    "columns": "Apples, pears, and plums grow here; salt, sand, and stone come in by ship, year after year.\n",
    "braces": "He wrote {a} and [b] in the margin, which means (as we know) that both were to be left out.\n",
}


@pytest.mark.parametrize("name", MENTIONS)
def test_prose_that_mentions_a_thing_is_prose(name: str) -> None:
    assert kind_of((MENTIONS[name] + PROSE) * 3) is Kind.TEXT
    assert kind_of(MENTIONS[name] * 30) is Kind.TEXT


@pytest.mark.parametrize("kind", list(Kind))
def test_the_callers_word_wins_over_everything(kind: Kind) -> None:
    for data, said in ORDINARY.values():
        assert (
            classify(
                PayloadProbe(sample_of(data), DeclaredMetadata(kind=kind, media_type=said.media_type, tool_name="bash"))
            )
            is kind
        )


DECLARED = {
    ("text/html; charset=utf-8", PROSE): Kind.WEB_PAGE,
    ("text/csv", "a\nb\nc\n"): Kind.TABLE,
    ("text/x-diff", "- a\n+ b\n"): Kind.DIFF,
    ("application/json", '{"a": '): Kind.JSON,
    ("application/vnd.api+json", '["a"'): Kind.JSON,
    ("text/markdown", PROSE): Kind.CODE_OR_FILE,
    ("text/x-python", "x = 1\n"): Kind.CODE_OR_FILE,
    ("text/plain", PROSE): Kind.TEXT,
    ("application/octet-stream", PROSE): Kind.TEXT,
    ("image/png", PROSE): Kind.TEXT,
    ("nonsense", PROSE): Kind.TEXT,
}


@pytest.mark.parametrize("declared", DECLARED, ids=[media_type for media_type, _ in DECLARED])
def test_a_media_type_is_believed_where_the_bytes_allow_it(declared: tuple[str, str]) -> None:
    media_type, text = declared
    assert kind_of(text, media_type=media_type) is DECLARED[declared]


def test_the_bytes_of_a_binary_outdo_a_media_type_and_a_tool() -> None:
    assert kind_of(ORDINARY["png"][0], media_type="text/html", tool_name="read_file") is Kind.IMAGE
    assert kind_of(ORDINARY["zip"][0], media_type="text/plain", tool_name="bash") is Kind.BINARY


TOOLS = {
    "bash": Kind.COMMAND_OUTPUT,
    "run_shell_command": Kind.COMMAND_OUTPUT,
    "functions.exec_command": Kind.COMMAND_OUTPUT,
    "read_file": Kind.CODE_OR_FILE,
    "mcp__fs__read_text_file": Kind.CODE_OR_FILE,
    "weather": Kind.TEXT,
}


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_says_what_it_is_where_the_text_does_not(tool: str) -> None:
    assert kind_of(PROSE, tool_name=tool) is TOOLS[tool]
    assert kind_of(ORDINARY["diff"][0], tool_name=tool) is Kind.DIFF
    assert kind_of(json.dumps([{"a": n} for n in range(30)]), tool_name=tool) is Kind.JSON


def test_records_with_a_title_and_an_address_are_results_only_when_they_say_little_else() -> None:
    hit = {"title": "Harbour", "url": "https://e.org/1", "content": "The harbour lies on the river."}
    beside: dict[str, object] = {
        "id": 1,
        "state": "open",
        "user": {},
        "labels": [],
        "comments": 2,
        "locked": False,
        "assignee": None,
    }
    assert kind_of(json.dumps([hit, hit])) is Kind.SEARCH_RESULTS
    assert kind_of(json.dumps([{**hit, **beside}] * 9)) is Kind.JSON
    assert kind_of(json.dumps([{**hit, **beside}] * 9), tool_name="web_search") is Kind.SEARCH_RESULTS
    assert kind_of(json.dumps({"query": "q", "results": [hit]})) is Kind.SEARCH_RESULTS


@pytest.mark.parametrize("name", [*ORDINARY, *HOSTILE])
def test_every_payload_has_a_kind_wherever_it_is_cut(name: str) -> None:
    data = {**ORDINARY, **HOSTILE}[name][0][:40_000]
    rng = random.Random(name)
    for _ in range(12):
        start = rng.randrange(len(data) or 1)
        assert kind_of(data[start : start + rng.randrange(1, 20_000)]) in Kind


def test_a_kind_does_not_change_when_more_of_the_same_follows() -> None:
    for name in ("log", "csv", "diff", "code", "ndjson", "page"):
        data = ORDINARY[name][0]
        lines = data.splitlines(keepends=True)
        kinds = {kind_of(b"".join(lines[:most])) for most in (60, 120, 200, len(lines))}
        assert len(kinds) == 1, (name, kinds)


def test_output_that_shows_a_file_amidst_what_else_it_says_is_output() -> None:
    start = "Started by timer\nRunning as SYSTEM\nCloning the remote repository\n$ cat build.py\n" * 4
    end = 'Traceback (most recent call last):\n  File "build.py", line 3, in main\nValueError: no\nFinished: FAILURE\n'
    assert kind_of(start + ORDINARY["code"][0][:3000].decode() + end * 3) is Kind.COMMAND_OUTPUT


def test_a_failure_at_the_end_of_words_is_output() -> None:
    crash = "Traceback (most recent call last):\n" + '  File "a.py", line 3, in f\n' * 9 + "ValueError: no such thing\n"
    assert kind_of("a step of it\n" * 40 + crash) is Kind.COMMAND_OUTPUT


def test_a_text_that_begins_with_json_is_no_json_but_json_that_breaks_is() -> None:
    line = json.dumps({"level": "info", "msg": "worker starting", "port": 8080, "pool": "default"}) + "\n"
    rest = "".join(f"2026-05-01 08:00:{n:02} ERROR connection {n} refused\n" for n in range(40))
    assert kind_of(line * 3 + rest) is not Kind.JSON
    assert kind_of(json.dumps({"port": 8080, "pool": "x" * 60}, indent=1) + "\n" + rest) is not Kind.JSON
    assert kind_of(line * 30) is Kind.JSON
    assert kind_of(line * 30 + "killed\n" + line * 5) is Kind.JSON
    assert kind_of(line * 30 + line[:20]) is Kind.JSON
    assert kind_of(json.dumps({"a": "x" * 60}, indent=1) * 3) is Kind.JSON


HARD = {
    "letters": "a" * 16_000,
    "digits": "1" * 16_000 + "x,",
    "dashes": "-" * 16_000 + "x",
    "blanks after a bracket": "(" + " " * 15_000 + "x",
    "comments": "<!---->" * 2_300,
    "open tags": "<a " * 5_400,
    "quotes": '"' * 16_000,
    "links": "[aaa](http://" * 1_200,
    "pages": "/Type /Pages " * 1_200,
    "equals": "=" * 16_000 + " x",
    "words": "ab, cd; " * 2_000,
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("before", ["", "a,b\nc,d\ne,f\n", "- http://e.org\n", "<"])
def test_no_content_takes_long_to_look_at(name: str, before: str) -> None:
    data = (before + HARD[name] + "\n") * 2
    began = time.process_time()
    kind_of(data)
    assert time.process_time() - began < 0.3  # 16 KiB are looked at; what is not linear takes seconds


CHANGES = "# Release notes\n\n## 8.0.4\n\n" + "".join(
    f"- [#{n}](https://github.com/a/b/pull/{n}) - **fix a bug** that was introduced with another change long ago\n"
    for n in range(600, 640)
)
TOOL = (
    "# npm - a package manager\n\n### Requirements\n\nA current version.\n\n### Links\n\n"
    "* [**Documentation**](https://docs.e.example/) - Official docs & how-tos for all things **npm**, with more text\n"
    "* [**Bugs**](https://bugs.e.example/) - Where bugs are reported, which is done after others have been read\n"
    "\n### Notes\n\nThe name.\n"
)
FOUND = "Results for harbour:\n\n" + "".join(
    f"{n}. [The {n} rivers](https://e{n}.example/harbour) - Ships arrive here every week of the year, as they "
    "did when the harbour was smaller, and before.\n"
    for n in range(1, 9)
)


def test_a_list_of_changes_or_links_in_a_document_is_no_list_of_results() -> None:
    assert kind_of(CHANGES) is not Kind.SEARCH_RESULTS
    assert kind_of(TOOL) is not Kind.SEARCH_RESULTS
    assert kind_of(FOUND) is Kind.SEARCH_RESULTS


BANNER = (
    '<h1 align="center">\n\t<br>\n\t<img width="320" src="media/logo.svg" alt="Harbour">\n</h1>\n\n<p>\n<a href="x">\n'
    "<b>Ships</b>\n</a>\n<i>arrive</i> here\n</p>\n<div>\n<div align=center>\n<table><tr><td>one</td></tr></table>\n"
)


def test_a_readme_that_begins_with_tags_and_source_with_tags_in_it_are_no_pages() -> None:
    assert kind_of(BANNER) is Kind.WEB_PAGE
    assert kind_of(BANNER + "\n## Install\n\n```sh\nmake\n```\n\n## Use\n\nIt is easy.\n") is not Kind.WEB_PAGE
    assert kind_of(f"<?php\n$banner = '{BANNER}';\n") is not Kind.WEB_PAGE
