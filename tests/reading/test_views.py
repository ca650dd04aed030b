"""Reading the text view and its sections: what is made is kept, and every range is one of the view that was read."""

import asyncio
import random
from typing import Any

import pytest

from coatcheck.core.artifact import Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.outline.section_names import part
from coatcheck.core.views.view import Section
from coatcheck.core.views.window import Extent, LineExtent, Unit
from coatcheck.usecases.reading.read import ReadAnswer
from reading.reading_harness import ReadingHarness, ReadingStore
from support.harness import CALLER
from support.outlines import headings, page_text

R = random.Random(20261122)
WORDS = ("river", "field", "morning", "déjà", "walked", "日本語", "bridge", "market", "stone", "naïve", "garden")


def document(sections: int, seed: int = 1) -> bytes:
    """Markdown with headings of two levels, after an introduction."""
    rng = random.Random(seed)
    lines = ["An introduction.\n"]
    for number in range(sections):
        lines.append(f"{'#' * rng.choice([1, 2, 2])} Part {number}\n")
        lines += [" ".join(rng.choices(WORDS, k=rng.randint(1, 30))) + "\n" for _ in range(rng.randint(1, 12))]
    return "".join(lines).encode()


def page(text: bytes) -> bytes:
    """A page whose text this is."""
    out: list[str] = []
    for line in text.decode().splitlines():
        level = len(line) - len(line.lstrip("#"))
        out.append(f"<h{level}>{line[level + 1 :]}</h{level}>\n" if level else f"<p class='x'>{line}</p>\n")
    return f"<html>{''.join(out)}</html>".encode()


TEXT = document(40)
PAGE = page(TEXT)
SECTIONS = headings(TEXT)


def bytes_of(section: Section) -> bytes:
    return TEXT[section.start : section.end]


async def pages(shelf: ReadingHarness, number: int, **ask: Any) -> list[ReadAnswer]:  # noqa: ANN401
    """Follow the cursors to the end."""
    answers = [await shelf.read(number, **ask)]
    while (following := answers[-1].next) is not None:
        answers.append(await shelf.read(number, cursor=following.cursor, max_tokens=ask.get("max_tokens", 4_000)))
    return answers


async def refused(call: Any) -> CoatcheckError:  # noqa: ANN401
    with pytest.raises(CoatcheckError) as caught:
        await call
    return caught.value


def test_the_documents_of_these_tests_are_what_they_say() -> None:
    assert page_text(PAGE) == TEXT
    assert len(SECTIONS) == 40
    assert {s.level for s in SECTIONS} == {1, 2}


async def test_the_text_view_is_made_once_and_kept_however_many_ask(shelf: ReadingHarness) -> None:
    number = await shelf.put(PAGE, kind=Kind.WEB_PAGE)
    answers = await asyncio.gather(*(shelf.read(number, view="text", limit=3) for _ in range(5)))
    assert {a.text for a in answers} == {"".join(TEXT.decode().splitlines(keepends=True)[:3])}
    assert {a.view for a in answers} == {"text"}
    assert shelf.extractor.asked == 1
    kept = await shelf.text_view(number)
    assert kept is not None
    assert (kept.view.extractor, kept.view.sections, kept.view.partial) == ("small 1", SECTIONS, False)
    assert (kept.view.measure.size, kept.view.measure.lines) == (len(TEXT), TEXT.count(b"\n"))
    assert kept.blob is not None
    assert (kept.blob.placement, shelf.harness.count("uploads")) == ("file", 0)
    await shelf.search(number, "river", view="text")
    assert shelf.extractor.asked == 1


async def test_a_small_view_lives_in_the_catalogue(shelf: ReadingHarness) -> None:
    number = await shelf.put(b"<h1>One</h1>\n<p>river</p>\n", kind=Kind.WEB_PAGE)
    assert (await shelf.read(number, view="text")).text == "# One\nriver\n"
    assert (await shelf.read(number, view="text")).text == "# One\nriver\n"
    kept = await shelf.text_view(number)
    assert kept is not None
    assert kept.blob is not None
    assert (kept.blob.placement, kept.inline is None) == ("inline", False)


@pytest.mark.parametrize("unit", ["line", "char", "byte", "token"])
async def test_following_cursors_gives_every_byte_of_the_text_once(shelf: ReadingHarness, unit: Unit) -> None:
    number = await shelf.put(PAGE, kind=Kind.WEB_PAGE)
    answers = await pages(shelf, number, view="text", unit=unit, max_tokens=200)
    assert "".join(a.text for a in answers) == TEXT.decode()
    assert [a.window.bytes.start for a in answers[1:]] == [a.window.bytes.end for a in answers[:-1]]
    assert {(a.total.bytes, a.total.lines) for a in answers} == {(len(TEXT), TEXT.count(b"\n"))}


@pytest.mark.parametrize("unit", ["line", "char", "byte", "token"])
async def test_following_cursors_gives_every_byte_of_a_section_once_and_no_other(
    shelf: ReadingHarness, unit: Unit
) -> None:
    number = await shelf.put(PAGE, kind=Kind.WEB_PAGE)
    for section in R.sample(SECTIONS, 6):
        answers = await pages(shelf, number, section=section.name, unit=unit, max_tokens=R.randint(20, 200))
        assert "".join(a.text for a in answers).encode() == bytes_of(section)
        assert (answers[0].window.bytes.start, answers[-1].window.bytes.end) == (section.start, section.end)
        assert {a.section for a in answers} == {part(section)}
        assert {a.view for a in answers} == {"text"}
        assert answers[0].window.lines.first == section.line


async def test_offsets_count_in_the_view_and_one_before_the_section_begins_with_it(shelf: ReadingHarness) -> None:
    number = await shelf.put(PAGE, kind=Kind.WEB_PAGE)
    section = next(s for s in SECTIONS if s.line > 20 and s.lines > 5)
    lines = TEXT.decode().splitlines(keepends=True)
    third = section.line + 2
    for offset in (None, 1, 2, section.line):
        answer = await shelf.read(number, section=section.name, offset=offset, limit=2)
        assert answer.text == "".join(lines[section.line - 1 : section.line + 1])
        assert answer.window.lines == LineExtent(section.line, section.line + 1)
    answer = await shelf.read(number, section=section.name, offset=third, limit=1)
    assert (answer.text, answer.next and answer.next.offset) == (lines[third - 1], third + 1)
    chars = len(TEXT[: section.start].decode())
    for unit, offset in (("char", chars + 1), ("byte", section.start + 1)):
        answer = await shelf.read(number, section=section.name, unit=unit, offset=offset, limit=2)
        assert answer.window.chars == Extent(chars + 1, chars + 3)
    answer = await shelf.read(number, section=section.name, unit="token", offset=2, limit=16)
    assert answer.window.tokens == Extent(2, 18)
    assert answer.text.encode() in bytes_of(section)


async def test_an_offset_past_the_sections_end_is_told_with_the_offsets_there_are(shelf: ReadingHarness) -> None:
    number = await shelf.put(PAGE, kind=Kind.WEB_PAGE)
    section, name = SECTIONS[3], shelf.artifact(number).id
    last = section.line + section.lines - 1
    error = await refused(shelf.read(number, section=section.name, offset=last + 1))
    assert error.code is Code.OFFSET_PAST_END
    assert error.detail == (
        f"Offset {last + 1} is past the end of section s4 of {name}, which is lines {section.line} to {last} of the "
        "text. Use an offset from there, or leave section out."
    )
    for unit in ("char", "byte", "token"):
        asked = shelf.read(number, section=section.name, unit=unit, offset=len(TEXT) * 2)
        assert (await refused(asked)).code is Code.OFFSET_PAST_END
    inside = shelf.read(number, section=section.name, unit="byte", offset=section.end)
    assert (await refused(inside)).code is Code.OFFSET_PAST_END
    assert (await refused(shelf.read(number, section=section.name, offset=-1))).code is Code.INVALID_REQUEST
    searched = shelf.search(number, "x", section=section.name, from_line=last + 1)
    assert (await refused(searched)).code is Code.OFFSET_PAST_END


async def test_a_section_is_named_or_titled_and_an_unknown_one_is_told_which_there_are(shelf: ReadingHarness) -> None:
    number = await shelf.put(PAGE, kind=Kind.WEB_PAGE)
    name = shelf.artifact(number).id
    for wanted in ("s3", "S3", "#s3", " s3 ", "Part 2", "part 2"):
        answer = await shelf.read(number, section=wanted)
        assert answer.section == part(SECTIONS[2])
    error = await refused(shelf.read(number, section="r9"))
    assert error.code is Code.SECTION_NOT_FOUND
    assert error.detail == (
        f'{name} has no section "r9". It has s1 (Part 0), s2 (Part 1), s3 (Part 2), s4 (Part 3), s5 (Part 4), '
        "s6 (Part 5) and 34 more. Name one of them, or leave section out."
    )
    raw = await refused(shelf.read(number, section="s3", view="raw"))
    assert (raw.code, "use view=text" in raw.detail) == (Code.SECTION_NOT_FOUND, True)


async def test_plain_text_is_its_own_text_view_and_has_its_sections(shelf: ReadingHarness) -> None:
    number = await shelf.put(TEXT, kind=Kind.TEXT)
    whole = await shelf.read(number, view="text", max_tokens=8_000)
    assert (whole.view, whole.text) == ("text", TEXT.decode()[: len(whole.text)])
    assert shelf.extractor.asked == 0
    for view in ("raw", "text"):
        answer = await shelf.read(number, view=view, section="s2")
        assert (answer.text.encode(), answer.view) == (bytes_of(SECTIONS[1]), view)
    kept = await shelf.text_view(number)
    assert kept is not None
    assert (kept.blob, kept.view.sections) == (None, SECTIONS)
    assert shelf.extractor.asked == 1
    log = await shelf.put(b"no headings here\n", kind=Kind.LOG)
    error = await refused(shelf.read(log, section="s1"))
    assert (error.code, "has no sections" in error.detail) == (Code.SECTION_NOT_FOUND, True)


async def test_a_cursor_keeps_its_view_and_section_and_no_others_are_believed(shelf: ReadingHarness) -> None:
    number = await shelf.put(PAGE, kind=Kind.WEB_PAGE)
    inside = await shelf.read(number, section="s4", limit=1)
    text = await shelf.read(number, view="text", limit=1)
    raw = await shelf.read(number, limit=1)
    assert inside.next is not None
    assert text.next is not None
    assert raw.next is not None
    assert len({inside.next.cursor, text.next.cursor, raw.next.cursor}) == 3
    for cursor, asks in (
        (inside.next.cursor, ({"section": "s5"}, {"view": "raw"}, {"section": "s5", "view": "text"})),
        (text.next.cursor, ({"view": "raw"}, {"section": "s4"})),
        (raw.next.cursor, ({"view": "text"}, {"section": "s1"})),
    ):
        for ask in asks:
            assert (await refused(shelf.read(number, cursor=cursor, **ask))).code is Code.INVALID_CURSOR, ask
    for ask in ({}, {"section": "s4"}, {"view": "text"}, {"view": "text", "section": "s4"}):
        answer = await shelf.read(number, cursor=inside.next.cursor, **ask)
        assert answer.window.lines.first == SECTIONS[3].line + 1
        assert answer.section == part(SECTIONS[3])


async def test_a_search_in_a_section_shows_nothing_outside_it_and_counts_lines_in_the_view(
    shelf: ReadingHarness,
) -> None:
    number = await shelf.put(PAGE, kind=Kind.WEB_PAGE)
    lines = TEXT.decode().splitlines()
    for section in R.sample(SECTIONS, 8):
        of_section = LineExtent(section.line, section.line + section.lines - 1)
        wanted = [n for n in range(of_section.first, of_section.last + 1) if "river" in lines[n - 1]]
        answer = await shelf.search(number, "river", section=section.name, context=20, limit=200, max_tokens=8_000)
        assert sorted({m.line for m in answer.matches}) == wanted
        assert (answer.total, answer.section) == (len(wanted), part(section))
        assert all(section.start <= w.bytes.start <= w.bytes.end <= section.end for w in answer.windows)
        assert all(of_section.first <= w.line <= of_section.last for w in answer.windows)
        if not wanted:
            where = f"{section.lines} {_lines(section)} of section {section.name}"
            assert answer.message == f'No match for "river" in {where}; try ignore_case.'


def _lines(section: Section) -> str:
    return "line" if section.lines == 1 else "lines"


async def test_an_edge_of_a_section_is_an_edge_of_lines_for_a_pattern(shelf: ReadingHarness) -> None:
    text = b"# One\nalpha\n# Two\nbeta\n# Three\ngamma\n"
    number = await shelf.put(text, kind=Kind.TEXT)
    for pattern, found in ((r"^# Two", 1), (r"beta$", 1), (r"alpha", 0), (r"Three", 0), (r"\bbeta\b", 1), ("", 0)):
        if pattern:
            answer = await shelf.search(number, pattern, section="s2")
            assert (answer.total, answer.at_least) == (found, found), pattern
    with_line = await shelf.search(number, "a", section="s2", from_line=1)
    assert [m.line for m in with_line.matches] == [4]


async def test_passages_of_a_section_lie_in_it_and_are_cited_in_the_view(shelf: ReadingHarness) -> None:
    number = await shelf.put(PAGE, kind=Kind.WEB_PAGE)
    for section in R.sample(SECTIONS, 8):
        answer = await shelf.windows(number, "river bridge", section=section.name)
        for passage in answer.windows:
            where = passage.window
            assert section.start <= where.bytes.start < where.bytes.end <= section.end
            assert passage.text.encode() == TEXT[where.bytes.start : where.bytes.end]
            assert where.lines.first == TEXT.count(b"\n", 0, where.bytes.start) + 1
        assert (answer.section, answer.view) == (part(section), "text")
        assert answer.searched.total == section.end - section.start
        if not any(word in bytes_of(section) for word in (b"river", b"bridge")):
            assert (answer.windows, f"of section {section.name} has any of" in answer.text) == ([], True)


async def test_passages_of_whole_lines_are_said_to_be_whole_at_a_sections_beginning(shelf: ReadingHarness) -> None:
    number = await shelf.put(b"# One\nalpha\n# Two\nbeta river\n", kind=Kind.TEXT)
    answer = await shelf.windows(number, "two river", section="s2")
    assert answer.text == "¦ lines 3-4\n# Two\nbeta river"


async def test_a_view_that_storage_refuses_is_not_shown_and_is_there_when_it_is_kept(shelf: ReadingHarness) -> None:
    number = await shelf.put(PAGE, kind=Kind.WEB_PAGE)
    before = set(shelf.blobs._blobs)  # pyright: ignore[reportPrivateUsage]
    shelf.catalog.fault = CoatcheckError(Code.STORAGE_FULL, "The disk is full. Free space.")
    error = await refused(shelf.read(number, view="text"))
    assert error.code is Code.STORAGE_FULL
    assert error.detail == (
        f"The text view of {shelf.artifact(number).id} could not be stored, and is not shown until it is. The disk is "
        "full. Free space. Retry the same call, or use view=raw."
    )
    assert await shelf.text_view(number) is None
    assert (set(shelf.blobs._blobs), shelf.harness.count("uploads")) == (before, 0)  # pyright: ignore[reportPrivateUsage]
    assert (await shelf.read(number, limit=1)).text == PAGE.decode().splitlines(keepends=True)[0]
    shelf.catalog.fault = None
    assert (await shelf.read(number, view="text", limit=1)).text == "An introduction.\n"


async def test_a_view_that_cannot_be_made_for_now_is_made_when_asked_again(shelf: ReadingHarness) -> None:
    number = await shelf.put(PAGE, kind=Kind.WEB_PAGE)
    document = await shelf.put(b"%PDF-1.7\0", kind=Kind.BINARY, recognised="application/pdf")
    shelf.extractor.refusal = CoatcheckError(Code.OVERLOADED, "All text-view workers are busy.")
    error = await refused(shelf.read(number, view="text"))
    assert error.code is Code.OVERLOADED
    assert error.detail == (
        f"The text view of {shelf.artifact(number).id} cannot be made at the moment. {shelf.extractor.refusal.detail} "
        "Retry the same call, or use view=raw."
    )
    reading = await shelf.open_view.best(CALLER, number)
    assert (reading.view, reading.unkept) == ("raw", True)
    assert (await refused(shelf.open_view.best(CALLER, document))).code is Code.OVERLOADED  # its bytes tell nothing
    shelf.extractor.refusal = None
    assert (await shelf.read(number, view="text", limit=1)).text == "An introduction.\n"
    assert (await shelf.open_view.best(CALLER, document)).binary


async def test_the_best_view_falls_back_to_the_payload_where_storage_refuses(shelf: ReadingHarness) -> None:
    number, plain = await shelf.put(PAGE, kind=Kind.WEB_PAGE), await shelf.put(TEXT, kind=Kind.TEXT)
    shelf.catalog.fault = CoatcheckError(Code.STORAGE_UNAVAILABLE, "The database does not answer.")
    reading = await shelf.open_view.best(CALLER, number, sections=True)
    assert (reading.view, reading.unkept, reading.content.size) == ("raw", True, len(PAGE))
    reading = await shelf.open_view.best(CALLER, plain, sections=True)
    assert (reading.view, reading.unkept, reading.sections) == ("text", False, ())
    error = await refused(shelf.open_view.best(CALLER, number, section="s1"))
    assert error.code is Code.STORAGE_UNAVAILABLE


async def test_a_caller_who_goes_away_stops_nobody_else(shelf: ReadingHarness) -> None:
    number = await shelf.put(PAGE, kind=Kind.WEB_PAGE)
    first = asyncio.create_task(shelf.read(number, view="text", limit=1))
    await shelf.extractor.begun.wait()
    first.cancel()
    assert (await shelf.read(number, view="text", limit=1)).text == "An introduction.\n"
    assert first.cancelled()
    assert shelf.extractor.asked == 1


async def test_what_has_no_text_is_asked_for_once_and_said_to_have_none(shelf: ReadingHarness) -> None:
    for data, kind in ((b"<p></p>", Kind.WEB_PAGE), (b'{"a": 1}', Kind.JSON), (b"\0\1", Kind.BINARY)):
        asked = shelf.extractor.asked
        number = await shelf.put(data, kind=kind)
        for _ in range(2):
            error = await refused(shelf.read(number, view="text"))
            assert (error.code, error.detail) == (
                Code.VIEW_NOT_AVAILABLE,
                f"{shelf.artifact(number).id} has no text view. Use view=raw, which is the exact payload.",
            )
        assert shelf.extractor.asked - asked == (0 if kind is Kind.BINARY else 1)


async def test_of_a_text_that_is_too_long_the_first_part_is_looked_through_for_sections(shelf: ReadingHarness) -> None:
    long = b"# One\n" + b"x" * 99 + b"\n" + b"word word word\n" * 700_000 + b"# Two\n"
    number = await shelf.put(long, kind=Kind.TEXT)
    reading = await shelf.open_view.best(CALLER, number, sections=True)
    assert [s.title for s in reading.sections] == ["One"]
    assert (reading.partial, reading.sections_end) == (False, False)


async def test_two_processes_that_make_a_view_at_once_answer_the_one_that_is_kept(reading: ReadingStore) -> None:
    one = ReadingHarness(reading)
    two = ReadingHarness(reading, beside=one)
    number = await one.put(PAGE, kind=Kind.WEB_PAGE)
    answers = await asyncio.gather(*(shelf.read(number, view="text", limit=5) for shelf in (one, two)))
    assert answers[0].text == answers[1].text
    assert (one.extractor.asked, two.extractor.asked) == (1, 1)
    kept = await one.text_view(number)
    assert kept is not None
    assert kept.blob is not None
    stored = set(one.blobs._blobs) - {one.artifact(number).blob.id}  # pyright: ignore[reportPrivateUsage]
    assert stored == {kept.blob.id}
