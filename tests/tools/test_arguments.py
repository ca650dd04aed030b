"""What is accepted, and that nothing which can be sent raises or goes over a bound."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coatcheck.core.errors import CoatcheckError
from coatcheck.tools.arguments import ReadArguments, list_arguments, read_arguments
from coatcheck.tools.calls import arguments_of
from coatcheck.tools.values import ReadStart
from tools.agent import LOG, TOKENIZER, Agent

ID = "art_482913077564201876"


def meant(arguments: object) -> ReadArguments:
    """What a call with these arguments asks."""
    notes: list[str] = []
    return read_arguments(arguments_of(arguments, notes), notes)


def asked(**fields: Any) -> ReadArguments:  # noqa: ANN401 - any field
    return ReadArguments(artifact_id=ID, **fields)


@pytest.mark.parametrize(
    "written",
    [
        ID,
        f"[{ID}]",
        f"  {ID.upper()} ",
        f"artifact {ID} (build.log)",
        f"artifact://{ID}",
        ID.removeprefix("art_"),
        int(ID.removeprefix("art_")),
        f"{ID[:10]} {ID[10:16]} {ID[16:]}",
        [ID],
        ID.replace("_", "-"),
    ],
    ids=str,
)
def test_the_id_is_found_inside_other_words(written: object) -> None:
    assert meant({"artifact_id": written}) == asked()


@pytest.mark.parametrize("name", ["id", "key", "artifact", "artifactId", "Artifact-ID", "uri", "file_path", "query"])
def test_the_id_is_found_under_other_names(name: str) -> None:
    assert meant({name: ID}) == asked()


def test_a_citation_names_its_section() -> None:
    assert meant({"artifact_id": f"{ID}#r3"}) == asked(section="r3")
    assert meant({"artifact_id": f"{ID}#r3", "section": "r4"}) == asked(section="r4")


@pytest.mark.parametrize("value", ["3", 3, 3.0, "3.0", " 3 ", "L3", "line 3", "#3", "+3", [3]], ids=repr)
def test_a_number_is_read_however_it_is_written(value: object) -> None:
    assert meant({"artifact_id": ID, "offset": value}) == asked(offset=ReadStart(3))


@pytest.mark.parametrize("value", [None, "", "null", "None", " ", [], {}, "undefined"], ids=repr)
@pytest.mark.parametrize("name", ["offset", "limit", "context"])
def test_nothing_is_absent_however_it_is_written(name: str, value: object) -> None:
    assert meant({"artifact_id": ID, name: value}) == asked()


def test_a_large_number_is_read_with_its_separators() -> None:
    assert meant({"artifact_id": ID, "offset": "4,812", "limit": "1_000"}) == asked(offset=ReadStart(4812), limit=1000)
    assert meant({"artifact_id": ID, "offset": "9" * 40}).offset == ReadStart(2**53 - 1)
    assert meant({"artifact_id": ID, "limit": 10**30}).limit == 2000


@pytest.mark.parametrize(
    "span",
    [
        {"offset": 201, "limit": 200},
        {"start_line": 201, "end_line": 400},
        {"startLine": "201", "endLine": "400"},
        {"start": 201, "end": 400},
        {"from": 400, "to": 201},
        {"range": "201-400"},
        {"lines": "L201-L400"},
        {"view_range": [201, 400]},
        {"offset": "201-400"},
        {"offset": 201, "end": 400},
        {"offset": 201, "limit": 200, "end_line": 999},
    ],
    ids=str,
)
def test_a_span_of_lines_is_read_under_every_usual_name(span: dict[str, object]) -> None:
    assert meant({"artifact_id": ID, **span}) == asked(offset=ReadStart(201), limit=200)


@pytest.mark.parametrize(
    "span",
    [
        {"start_line": 10, "end_line": 12},
        {"range": "12-10"},
        {"offset": "10-12"},
        {"line_range": [10, 12]},
        {"offset": 10, "limit": 5, "to": 12},
    ],
    ids=str,
)
def test_a_span_of_lines_with_a_pattern_is_no_number_of_matches(span: dict[str, object]) -> None:
    got = meant({"artifact_id": ID, "pattern": "x", **span})
    assert got == asked(pattern="x", offset=ReadStart(10, 0, 12), limit=span.get("limit"))
    assert meant({"artifact_id": ID, "pattern": "x", "offset": "10+7-12"}).offset == ReadStart(10, 7, 12)
    assert str(ReadStart(10, 7, 12)) == "10+7-12"


def test_ends_and_surroundings_are_read() -> None:
    assert meant({"artifact_id": ID, "tail": 50}) == asked(offset=ReadStart(-50), limit=50)
    assert meant({"artifact_id": ID, "head": 50}) == asked(limit=50)
    assert meant({"artifact_id": ID, "offset": -50}) == asked(offset=ReadStart(-50))
    assert meant({"artifact_id": ID, "end_line": 50}) == asked(offset=ReadStart(1), limit=50)
    assert meant({"artifact_id": ID, "offset": 0}) == asked(offset=ReadStart(1))
    assert meant({"artifact_id": ID, "line": 100, "context": 5}) == asked(offset=ReadStart(95), limit=11)
    assert meant({"artifact_id": ID, "line": 3, "context": 5}) == asked(offset=ReadStart(1), limit=8)
    assert meant({"artifact_id": ID, "line": 100}) == asked(offset=ReadStart(100))


def test_a_place_inside_a_line_is_an_offset() -> None:
    assert meant({"artifact_id": ID, "offset": "12+4000"}) == asked(offset=ReadStart(12, 4000))
    assert str(ReadStart(12, 4000)) == "12+4000"
    assert meant({"artifact_id": ID, "offset": "12 + 4,000"}) == asked(offset=ReadStart(12, 4000))


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"regex": "a+"}, {"pattern": "a+"}),
        ({"search": "x"}, {"pattern": "x"}),
        ({"pattern": 404}, {"pattern": "404"}),
        ({"pattern": ["a", "b"]}, {"pattern": "a|b"}),
        ({"pattern": "x", "-i": True}, {"pattern": "x", "ignore_case": True}),
        ({"pattern": "x", "case_sensitive": False}, {"pattern": "x", "ignore_case": True}),
        ({"pattern": "x", "case_sensitive": True}, {"pattern": "x"}),
        ({"pattern": "x", "fixed_strings": "true"}, {"pattern": "x", "literal": True}),
        ({"pattern": "x", "-C": 5}, {"pattern": "x", "context": 5}),
        ({"pattern": "x", "context": 99}, {"pattern": "x", "context": 20}),
        ({"question": "why?"}, {"query": "why?"}),
        ({"jsonpath": "$.a"}, {"path": "$.a"}),
        ({"path": "$.a", "offset": "c1_x"}, {"path": "$.a", "place": "c1_x"}),
        ({"pattern": "null"}, {}),
    ],
    ids=str,
)
def test_other_names_mean_the_same(given_: dict[str, object], expected: dict[str, object]) -> None:
    assert meant({"artifact_id": ID, **given_}) == asked(**expected)


@pytest.mark.parametrize(
    "wrapped",
    [
        json.dumps({"artifact_id": ID, "offset": 3}),
        json.dumps(json.dumps({"artifact_id": ID, "offset": 3})),
        {"arguments": {"artifact_id": ID, "offset": 3}},
        {"input": json.dumps({"artifact_id": ID, "offset": 3})},
        [{"artifact_id": ID, "offset": 3}],
    ],
    ids=["string", "twice", "wrapped", "wrapped string", "list"],
)
def test_arguments_are_taken_out_of_what_they_are_wrapped_in(wrapped: object) -> None:
    assert meant(wrapped) == asked(offset=ReadStart(3))


def test_of_what_is_hardly_json_nothing_is_read() -> None:
    assert meant(ID) == asked()
    hardly = "{'artifact_id': 'art_000000000000000098', 'offset': 3}"
    with pytest.raises(
        CoatcheckError, match=r"^The arguments are not valid JSON; only the artifact's ID was understood"
    ):
        meant(hardly)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"verbose": True, "b c": 1}, "Unknown arguments ignored: verbose, b_c."),
        ({"offset": "soon"}, "offset could not be read and was left out."),
        ({"pattern": "…"}, "pattern=… stands for words of your own, and was left out."),
        ({"pattern": {"regex": 1}, "context": 3}, "pattern could not be read and was left out."),
    ],
    ids=str,
)
async def test_a_call_of_which_nothing_was_understood_reads_nothing(
    agent: Agent, arguments: dict[str, object], reason: str
) -> None:
    artifact_id = await agent.put(LOG, tool_name="bash")
    answer = await agent.read(artifact_id=artifact_id, **arguments)
    assert (answer.is_error, answer.text.startswith(reason)) == (True, True)
    assert answer.text.endswith("offset=1 reads from the beginning.")
    assert answer.tokens < 60
    understood = await agent.read(artifact_id=artifact_id, offset=1, verbose=True)
    assert (understood.is_error, understood.body.startswith("00000 step")) == (False, True)


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        ({"offset": 3, "verbose": True, "b c": 1}, "Unknown arguments ignored: verbose, b_c."),
        ({"limit": 3, "offset": "soon"}, "offset could not be read and was left out."),
        ({"limit": -1}, "limit must be at least 1 and was left out."),
        ({"offset": 3, "start_line": 4}, "offset was used, start_line was not."),
        ({"pattern": "a", "query": "b"}, "pattern was used, and query was left out: give only one of them."),
        ({"query": "a", "path": "$"}, "query was used, and path was left out: give only one of them."),
        ({"path": "$", "offset": 39}, "offset counts lines, which the values of a path do not have"),
        ({"query": "a", "pattern": "…"}, "pattern=… stands for words of your own, and was left out."),
        ({"artifact_id": [ID, "art_000000000000000098"]}, "Several artifacts were named"),
        ({"path": ["$.a", "$.b"]}, "path takes one value: this is for the first. Give the others in further calls."),
        ({"query": "a", "offset": 5}, "offset does not go with query and was left out."),
        ({"query": "a", "start_line": 5, "limit": 9}, "start_line and limit do not go with query and were left out."),
        ({"query": "a", "tail": 5, "-C": 3}, "tail and c do not go with query and were left out."),
        ({"path": "$", "head": 5, "literal": True}, "head and literal do not go with path and were left out."),
        ({"path": "$", "context": 3, "-i": "true"}, "context and i do not go with path and were left out."),
        ({"context": 3}, "context does nothing without pattern and was left out."),
        (
            {"offset": 3, "context": "3", "ignore_case": True, "literal": True},
            "context, ignore_case and literal do nothing without pattern and were left out.",
        ),
        ({"case_sensitive": False}, "case_sensitive does nothing without pattern and was left out."),
        ({"line": 9, "limit": 1, "context": 3}, "context does nothing without pattern and was left out."),
        ({"view": "original"}, "view takes only raw, and was left out."),
        ({"head": -5}, "head must be at least 1 and was left out."),
        ({"offset": 10, "end_line": -1}, "end_line must be at least 1 and was left out."),
        ({"start_line": 10, "tail": 2}, "start_line was used, and tail was left out."),
        ({"offset": 10, "lines": "2-5"}, "offset was used, and lines was left out."),
    ],
    ids=str,
)
def test_what_was_not_taken_is_said(arguments: dict[str, object], note: str) -> None:
    (said,) = meant({"artifact_id": ID, **arguments}).notes
    assert said.startswith(note)


@pytest.mark.parametrize(
    "arguments",
    [
        {"context": 0, "ignore_case": False, "literal": "false", "case_sensitive": True},
        {"query": "a", "offset": 1, "limit": None, "context": 0},
        {"path": "$", "limit": 5, "ignore_case": False},
        {"pattern": "a", "offset": 5, "limit": 9, "context": 3, "ignore_case": True, "literal": True},
    ],
    ids=str,
)
def test_what_changes_nothing_is_not_spoken_of(arguments: dict[str, object]) -> None:
    assert meant({"artifact_id": ID, **arguments}).notes == ()


def test_the_raw_view_is_asked_for_in_any_spelling() -> None:
    assert [meant({"artifact_id": ID, "view": view}).raw for view in ("raw", " RAW ", "text")] == [True, True, False]


async def test_a_section_beside_the_raw_view_is_said_to_be_left_out(agent: Agent) -> None:
    source = await agent.put("# Alpha\n\none\n\n# Beta\n\ntwo\n")
    for section in ("Beta", "Nope"):
        answer = await agent.read(artifact_id=source, section=section, view="raw")
        assert answer.body.startswith("# Alpha")
        assert "section was left out: view=raw reads the whole payload." in answer.last


def test_of_several_paths_the_first_is_read_and_several_words_are_one_query() -> None:
    assert meant({"artifact_id": ID, "path": ["$.a", "$.b"]}).path == "$.a"
    assert meant({"artifact_id": ID, "path": ["$.a"]}) == asked(path="$.a")
    assert meant({"artifact_id": ID, "query": ["disk", "quota"]}) == asked(query="disk quota")


@pytest.mark.parametrize("limit", ["10 lines", "10 Lines", "10 matches", "10 values", "10rows"])
def test_a_number_may_say_what_it_counts(limit: str) -> None:
    assert meant({"artifact_id": ID, "limit": limit}) == asked(limit=10)


@pytest.mark.parametrize("held", [{"id": ID}, {"artifact_id": ID}, {"artifact": {"id": ID}}, [{"id": ID}]], ids=str)
def test_an_object_with_an_id_names_the_artifact(held: object) -> None:
    assert meant({"artifact_id": held, "offset": 3}) == asked(offset=ReadStart(3))


def test_the_same_said_twice_is_no_conflict() -> None:
    assert meant({"artifact_id": ID, "offset": 3, "start_line": 3}) == asked(offset=ReadStart(3))


@pytest.mark.parametrize("arguments", [None, {}, "", [], {"offset": 3}, {"artifact_id": "art_…"}], ids=repr)
def test_a_call_without_an_artifact_is_told_where_to_find_it(arguments: object) -> None:
    with pytest.raises(CoatcheckError, match=r"^artifact_id is missing\. Copy it from the card"):
        meant(arguments)


def test_a_list_takes_its_own_names() -> None:
    got = list_arguments({"tool": "bash", "max_results": "5", "x": 1}, [])
    assert (got.tool_name, got.limit, got.notes) == ("bash", 5, ("Unknown arguments ignored: x.",))


USUAL = ("artifact_id", "id", "offset", "limit", "start_line", "end", "pattern", "query", "path", "context", "section")
RARE = ("range", "tail", "head", "line", "-i", "cursor", "kind", "arguments", "verbose")
NAMES = st.sampled_from(USUAL + RARE)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=40)
    | st.from_regex(r"-?[0-9]{1,6}(\+[0-9]{1,7})?(-[0-9]{1,4})?", fullmatch=True)
    | st.sampled_from(["…", "step (", "took 9[0-6]", "(?i)STEP", "$..x", "step 7919 took", "\\C", "(?=x)", "a\nb", "."])
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))
LONG = "word \x1b[31m<system>é¦</system> " * 9000


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [LOG, LONG, "", "\n" * 3000, '{"items": [' + '{"a": "b"},' * 3000 + "{}]}"]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arguments=st.dictionaries(NAMES, VALUES, max_size=5), which=st.integers(0, 4), name=st.integers(0, 9))
async def test_whatever_is_asked_is_answered_within_the_bounds(
    agent: Agent, texts: list[str], arguments: dict[str, object], which: int, name: int
) -> None:
    artifact_id = await agent.put(texts[which], title="t", inline_tokens=0)
    given_ = arguments if name == 0 else {**arguments, "artifact_id": artifact_id}
    answer = await agent.call("list_artifacts" if name == 1 else "read_artifact", given_)
    assert 0 < answer.tokens == TOKENIZER.count(answer.text) <= 4000
    assert len(answer.text) <= 30_000
    assert "Something went wrong" not in answer.text


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=VALUES)
async def test_whatever_is_sent_is_a_call_or_a_problem_of_the_request(agent: Agent, body: object) -> None:
    headers = {"content-type": "application/json"}
    response = await agent.client.post("/v1/tools/call", content=json.dumps(body), headers=headers)
    assert response.status_code in {200, 400}


@pytest.mark.parametrize("text", [False, True])
def test_lists_in_lists_without_end_name_nothing(text: bool) -> None:
    deep: list[object] = [ID]
    for _ in range(600):
        deep = [deep]
    notes: list[str] = []
    assert arguments_of(json.dumps(deep) if text else deep, notes) == {}
    assert notes == ["The arguments are not a JSON object, and were left out."]
