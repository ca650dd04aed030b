"""The declared tool over text views: it reads the text, and `section` narrows whatever it does."""

from coatcheck.core.errors import CoatcheckError, Code
from support.faces import FaceHarness
from tools.agent import Agent

PAGE = "<html><h1>Guide</h1>\n" + "".join(
    f"<h2>Part {n}</h2>\n" + "".join(f"<p>line {n}.{m} of the river</p>\n" for m in range(30)) for n in range(60)
)
"""Its text: a line for each of its own, 31 in each part; part n is section s(n+2), from line 2 + 31n on."""


async def put(agent: Agent) -> str:
    return await agent.put(PAGE, kind="web_page", title="guide", inline_tokens=0)


async def test_a_page_is_read_as_text_and_the_first_answer_names_its_sections(agent: Agent) -> None:
    page = await put(agent)
    answer = await agent.read(artifact_id=page)
    assert answer.first == f"[{page} · guide · lines 1-200 of 1861 · text]"
    assert answer.body.startswith("# Guide\n## Part 0\nline 0.0 of the river\n")
    assert "61 sections: s1 Guide, s2 Part 0, s3 Part 1, " in answer.last
    assert answer.last.endswith('; all with outline=true. Read one with section="s1".)')
    assert len(answer.last) < 500
    assert "sections:" not in (await agent.read(artifact_id=page, offset=201)).last


async def test_a_section_is_read_to_its_end_and_the_next_is_named(agent: Agent) -> None:
    page = await put(agent)
    first = await agent.read(artifact_id=page, section="s3", limit=20)
    assert first.first == f"[{page} · guide · lines 33-52 of 1861, section s3 (33-63) · text]"
    assert (first.body.splitlines()[0], first.next) == ("## Part 1", 53)
    rest = await agent.read(artifact_id=page, section="s3", offset=first.next)
    assert rest.last == "(Lines 53-63 of 1861; that is the end of section s3. The next is s4.)"
    assert (await agent.read(artifact_id=page, offset=53, limit=11)).body == rest.body
    for same in (
        {"section": "#S3"},
        {"section": "Part 1"},
        {"artifact_id": f"{page}#s3"},
        {"section": "s3", "offset": 1},
    ):
        assert (await agent.read(**{"artifact_id": page, "limit": 20, **same})).text == first.text


async def test_offsets_outside_a_section_are_said(agent: Agent) -> None:
    page = await put(agent)
    before = await agent.read(artifact_id=page, section="s3", offset=5, limit=1)
    assert "Line 5 is before section s3, which begins at 33." in before.last
    assert before.body == "## Part 1"
    last = await agent.read(artifact_id=page, section="s3", offset=-1)
    assert last.body == "line 1.29 of the river"
    beyond = await agent.read(artifact_id=page, section="s3", offset=64)
    assert beyond.is_error
    assert beyond.text == (
        f"Offset 64 is past the end of section s3 of {page}, which is lines 33 to 63 of the text. "
        "Use an offset from there, or leave section out."
    )
    inside = await agent.read(artifact_id=page, section="s3", offset="63+90000")
    assert (inside.is_error, "past the end" in inside.text) == (True, True)


async def test_a_search_and_a_query_keep_to_the_section(agent: Agent) -> None:
    page = await put(agent)
    found = await agent.read(artifact_id=page, section="s3", pattern="[.]29", context=3)
    context = "60-line 1.26 of the river\n61-line 1.27 of the river\n62-line 1.28 of the river\n"
    assert found.body == f"{context}63:line 1.29 of the river"
    assert found.last == "(Lines 60-63 of 1861: the only match in section s3.)"
    none = await agent.read(artifact_id=page, section="s3", pattern="2[.]29")
    assert f'No match for "2[.]29" in 31 lines of section s3 of {page}' in none.text
    passages = await agent.read(artifact_id=page, section="s3", query="river 1.7")
    assert passages.first == f"[{page} · guide · passages for the query, section s3 (33-63) · text]"
    assert "line 0." not in passages.body


async def test_an_unknown_section_and_the_outline_say_which_there_are(agent: Agent) -> None:
    page = await put(agent)
    unknown = await agent.read(artifact_id=page, section="r7")
    assert unknown.is_error
    assert unknown.text.startswith(f'{page} has no section "r7". It has s1 (Guide), s2 (Part 0), s3 (Part 1), ')
    outline = await agent.read(artifact_id=page, section="outline", limit=3)
    assert outline.text == (
        f"[{page} · guide · outline · text]\ns1 Guide (1-1861)\n  s2 Part 0 (2-32)\n  s3 Part 1 (33-63)\n"
        "¦ Entries 1-3 of 61. Next: the same call with offset=4.\n"
        "(Read one with section, or with offset and limit by the lines in brackets.)"
    )
    on = await agent.read(artifact_id=page, section="outline", limit=3, offset=4)
    assert "  s4 Part 2 (64-94)" in on.text


async def test_where_a_view_cannot_be_kept_the_payload_is_read_and_it_is_said(
    agent: Agent, harness: FaceHarness
) -> None:
    page = await put(agent)
    harness.catalog.fault = CoatcheckError(Code.STORAGE_FULL, "The disk is full.")
    answer = await agent.read(artifact_id=page, limit=1)
    assert (answer.is_error, answer.body) == (False, "<html><h1>Guide</h1>")
    assert answer.first.endswith(" · raw]")
    assert "Its readable text is unavailable at the moment: this is the original payload." in answer.last
    narrowed = await agent.read(artifact_id=page, section="s2")
    assert (narrowed.is_error, "Retry the same call" in narrowed.text) == (True, True)
    harness.catalog.fault = None
    assert (await agent.read(artifact_id=page, limit=1)).first.endswith(" · text]")


async def test_a_path_leads_through_the_payload_whatever_the_section(agent: Agent) -> None:
    record = await agent.put('{"a":[1,2,3]}', inline_tokens=0)
    answer = await agent.read(artifact_id=record, section="s1", path="$.a[1]")
    assert answer.first == f"[{record} · json · values of the path · raw]"
    assert "section was left out: a path applies to the whole payload." in answer.last
