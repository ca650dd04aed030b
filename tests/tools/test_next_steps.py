"""What an answer says beside the payload: only what is so, and only steps that the tool has."""

import json
import re

import pytest

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.grep.matcher import compile_pattern
from coatcheck.core.jsonpath.structure import too_large
from coatcheck.core.read_answer import is_read_answer
from coatcheck.tools.answers import sentence
from support.faces import FaceHarness
from tools.agent import LOG, Agent

JSON = json.dumps({"items": [{"id": n, "tags": ["a"]} for n in range(2_000)]})
NO_OUTLINE = (
    "No outline: it has no headings or other parts that are known. Read it by lines, or search it with a pattern."
)
DIFF = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n"
TABLE = "name,age\n" + "".join(f"n{n},{n}\n" for n in range(40))


@pytest.mark.parametrize(
    ("content", "kind", "last"),
    [
        (JSON, "json", "(Read one with path.)"),
        (JSON[:900], "json", "(Read one with path.)"),
        (DIFF, "diff", "(Read one with section, or with offset and limit by the lines in brackets.)"),
        (TABLE, "table", "(Read one with section, or with offset and limit by the lines in brackets.)"),
        ("# One\n## Two\n", "text", "(Read one with section, or with offset and limit by the lines in brackets.)"),
        (
            "plain words\n",
            "text",
            f"({NO_OUTLINE})",
        ),
        (b"", "text", "(No outline: it is empty.)"),
    ],
    ids=["json", "broken json", "diff", "table", "sections", "nothing", "empty"],
)
async def test_an_outline_says_how_its_entries_are_read(
    agent: Agent, content: str | bytes, kind: str, last: str
) -> None:
    more = {"inline_tokens": 0} if isinstance(content, str) else {}
    answer = await agent.read(artifact_id=await agent.put(content, kind=kind, **more), section="outline")
    assert (answer.is_error, answer.text.rpartition("\n")[2]) == (False, last)
    assert is_read_answer(answer.text)


async def test_the_columns_of_a_page_without_lines_are_not_read_by_lines(agent: Agent) -> None:
    answer = await agent.read(artifact_id=await agent.put(TABLE, kind="table"), section="outline", offset=3)
    assert answer.last == "(Read it with offset and limit, or search it with pattern.)"


async def test_an_outline_of_the_tool_does_not_speak_of_views(agent: Agent) -> None:
    page = "<html><h1>Guide</h1>" + "<p>some words of the page</p>" * 400_000
    page_id = await agent.put(page.encode(), kind="web_page")
    answer = await agent.read(artifact_id=page_id, section="outline")
    assert not answer.is_error
    assert "view=" not in answer.text
    assert answer.text.count("The text view ends before the payload does.") == 1
    http = await agent.client.get(f"/v1/artifacts/{page_id}/outline")
    assert "This view lacks a part of the payload; view=raw has it." in http.json()["notices"]


def test_what_only_http_has_is_said_in_the_tools_words() -> None:
    large = sentence(too_large("$.items", "9 MiB"))
    assert "`" not in large
    assert large.endswith("offset and pattern work at any size.")
    with pytest.raises(CoatcheckError) as caught:
        compile_pattern("(x", literal=False, ignore_case=False)
    assert sentence(caught.value) == (
        'The pattern is not valid: missing ) in "(x". Correct it, or put a backslash before each sign that is meant as '
        "it is."
    )
    for said, ours in (
        ("It cannot be made. Retry the same call, or use view=raw.", "It cannot be made. Retry the same call."),
        ("It is full. Retry the same call later. Or use view=raw.", "It is full. Retry the same call later."),
    ):
        assert sentence(CoatcheckError(Code.STORAGE_FULL, said)) == ours


async def test_a_section_that_cannot_be_kept_does_not_send_to_another_view(agent: Agent, harness: FaceHarness) -> None:
    page = await agent.put("<html><h1>Guide</h1><p>words</p><h2>Two</h2></html>" * 9, kind="web_page", inline_tokens=0)
    harness.catalog.fault = CoatcheckError(Code.STORAGE_FULL, "The disk is full.")
    answer = await agent.read(artifact_id=page, section="s2")
    assert (answer.is_error, "view" in answer.text.replace("text view", "")) == (True, False)
    assert answer.text.endswith("Retry the same call.")


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("*.log", 'operator "*". Write .* for any characters, or \\* for the sign itself.'),
        ("**", 'operator "*". Write .* for any characters, or \\* for the sign itself.'),
        ("(unclosed", 'missing ) in "(unclosed". Correct it'),
    ],
)
async def test_a_pattern_that_is_none_is_told_what_to_write(agent: Agent, pattern: str, said: str) -> None:
    answer = await agent.read(artifact_id=await agent.put(LOG), pattern=pattern)
    assert (answer.is_error, said in answer.text) == (True, True)


async def test_every_row_is_without_a_mark_where_nothing_is_hidden(agent: Agent) -> None:
    answer = await agent.read(artifact_id=await agent.put(f"{'x' * 40}\n" * 50), pattern=".", limit=2, context=0)
    assert answer.body == f"1:{'x' * 40}\n2:{'x' * 40}"


@pytest.mark.parametrize("asked", [{"pattern": "x"}, {"query": "x y"}, {"path": "$.x"}], ids=str)
async def test_whatever_is_looked_for_in_an_empty_artifact_it_is_said_to_be_empty(
    agent: Agent, asked: dict[str, str]
) -> None:
    artifact_id = await agent.put(b"", title="out")
    answer = await agent.read(artifact_id=artifact_id, **asked)
    assert (answer.is_error, answer.last) == (False, "(It is empty: there is nothing to find in it.)")
    assert answer.first.startswith(f"[{artifact_id} · out · empty · ")
    assert is_read_answer(answer.text)


async def test_where_no_passage_is_shown_none_is_read_around(agent: Agent) -> None:
    answer = await agent.read(artifact_id=await agent.put(LOG), query="zeppelin")
    assert answer.text.endswith(
        '\n¦ No passage in 4,000 lines has any of: zeppelin. Try other words, or pattern="…" to search it.'
    )


async def test_what_a_query_and_a_path_ignore_is_said(agent: Agent) -> None:
    artifact_id = await agent.put(JSON, inline_tokens=0)
    answer = await agent.read(artifact_id=artifact_id, query="tags", offset=5, limit=3)
    assert "offset and limit do not go with query and were left out." in answer.last
    answer = await agent.read(artifact_id=artifact_id, path=["$.items[0].id", "$.items[1].id"], context=3)
    assert "value 1 of 1\n0\n" in answer.text
    assert answer.last == (
        "(That is the end. path takes one value: this is for the first. Give the others in further calls. "
        "context does not go with path and was left out.)"
    )


@pytest.mark.parametrize("word", ["é", "日", "😀"])
async def test_a_place_inside_a_character_is_moved_to_its_beginning(agent: Agent, word: str) -> None:
    size = len(word.encode())
    artifact_id = await agent.put(f"first\n{word * 900}\nlast\n", inline_tokens=0)
    for inside in range(10 * size, 11 * size):
        answer = await agent.read(artifact_id=artifact_id, offset=f"2+{inside}", limit=1)
        assert answer.body == word * 890
        assert f" from 2+{10 * size} · " in answer.first
        note = f"Offset 2+{inside} is inside a character, so this begins at 2+{10 * size}."
        assert (note in answer.last) == (inside > 10 * size)
    start = await agent.read(artifact_id=artifact_id, offset=f"2+{size - 1}", limit=1)
    assert start.body == word * 900


async def test_a_place_among_bytes_that_are_no_text_is_reached(agent: Agent) -> None:
    artifact_id = await agent.put(b"\x80" * 50 + b"\n", kind="log")
    answer = await agent.read(artifact_id=artifact_id, offset="1+40")
    assert answer.body == "\ufffd" * 10


@pytest.mark.parametrize("offset", [10**30, "9" * 40, f"2+{10**30}"])
@pytest.mark.parametrize("more", [{}, {"pattern": "step"}], ids=str)
async def test_a_number_beyond_all_is_not_answered_with_another(
    agent: Agent, offset: str | int, more: dict[str, str]
) -> None:
    artifact_id = await agent.put(LOG)
    answer = await agent.read(artifact_id=artifact_id, offset=offset, **more)
    assert answer.is_error
    assert answer.text == (
        f"The offset is far past the end: {artifact_id} has 4,000 lines. Use an offset from 1 to 4000."
    )


async def test_an_outline_past_its_end_says_which_offsets_there_are(agent: Agent) -> None:
    artifact_id = await agent.put(JSON, inline_tokens=0)
    for offset, said in ((100_000, "Offset 100000 is past"), (10**30, "The offset is far past")):
        answer = await agent.read(artifact_id=artifact_id, section="outline", offset=offset)
        assert answer.text == (
            f"{said} the end: {artifact_id} has 4 entries. Use an offset from 1 to 4, or leave it out."
        )


async def test_numbers_and_nouns_agree(agent: Agent) -> None:
    byte = await agent.put("x", inline_tokens=0)
    past = await agent.read(artifact_id=byte, offset="1+171771")
    assert past.text == (
        f"Offset 1+171771 is past the end: {byte} has 1 line and 1 byte. "
        "Use an offset that an answer gave, or the number of a line."
    )
    log = await agent.put(LOG)
    found = await agent.read(artifact_id=log, pattern="step", limit=1)
    assert found.last == "(Lines 1-3 of 4000: 1 of 4,000 matches. Next: offset=2.)"
    listed = (await agent.call("list_artifacts", {})).text.split("\n")
    assert " · 1 line, 1 byte · " in listed[1]
    assert re.search(r" · 4,000 lines, \d{3},\d{3} bytes · ", listed[0])


async def test_a_lost_place_is_named_as_the_tool_calls_it(agent: Agent) -> None:
    artifact_id = await agent.put(JSON, inline_tokens=0)
    path = await agent.read(artifact_id=artifact_id, path="$.items", offset="lost")
    assert path.text.startswith("offset did not come from an answer. Copy it from the last answer")
    listed = await agent.call("list_artifacts", {"cursor": "lost"})
    assert listed.text.startswith("cursor did not come from an answer. Copy it from the last answer")


async def test_a_search_for_a_lines_end_is_told_that_matches_stay_within_a_line(agent: Agent) -> None:
    artifact_id = await agent.put(LOG)
    answer = await agent.read(artifact_id=artifact_id, pattern=r"ms\n")
    assert answer.text == (
        rf'No match for "ms\n" in 4,000 lines of {artifact_id}: a match stays within one line. '
        "Search for the text of one line."
    )
