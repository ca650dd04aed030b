"""Word documents, presentations, OpenDocument, EPUB and rich text: beside pandoc, part by part, and hostile ones."""

import gzip
import io
import random
import re
import zipfile
from collections import Counter
from difflib import SequenceMatcher
from typing import Final

import pytest

from coatcheck.adapters.extract.documents import extract_document
from coatcheck.adapters.extract.wire import ExtractJob, check
from coatcheck.adapters.extract.workers import Worker
from coatcheck.core.views.view import ExtractedText
from extract.office_files import (
    markdown,
    open_slides,
    open_text,
    read_by_pandoc,
    slides,
    word,
    word_with_everything,
    written,
)
from extract.sample_pages import check_sections
from media.formats import zipped
from media.views import text_of, view_of

SEEDS = range(4)
_MARK = re.compile(r"\[(?:\^?e?\d+|note:|image: .*?)\]|\[note: | \] |(?m:^ *(?:\d+\.|[-•\u2013◦]) )")

_COLUMN: Final = re.compile(r"(?<=\| )(?:name|count|note): ", re.IGNORECASE)
"""The names of columns, which the rows of a book repeat."""


def words(text: str) -> list[str]:
    return re.findall(r"\w+", _MARK.sub(" ", text).casefold())


def body(found: ExtractedText) -> str:
    """The text without its first line, which is ours, and without what pandoc leaves out."""
    text = found.text or b""
    for each in reversed(found.sections):  # of a book, each chapter has its links
        if each.title in {"Headers", "Footers", "Links"}:
            text = text[: each.start] + text[each.end :]
    return _COLUMN.sub("", text.decode().partition("\n")[2])


def compared(ours: list[str], theirs: list[str]) -> tuple[float, float, float]:
    """Recall, precision, and the share of the words that stand in the same order."""
    both = (Counter(ours) & Counter(theirs)).total()
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    order = sum(block.size for block in matcher.get_matching_blocks())
    return both / len(theirs), both / len(ours), order / len(theirs)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("form", ["docx", "odt", "epub", "rtf"])
def test_a_document_says_what_pandoc_reads_in_it(form: str, seed: int) -> None:
    data = written(markdown(seed, notes=form in {"docx", "odt"}), form)
    found = view_of(data)
    ours, theirs = words(body(found)), words(read_by_pandoc(data, form))
    ours = ours[1:] if ours[:1] == ["x"] and theirs[:1] != ["x"] else ours  # the title
    recall, precision, order = compared(ours, theirs)
    assert len(theirs) > 100
    assert recall >= 0.99, Counter(theirs) - Counter(ours)
    assert precision >= 0.98, Counter(ours) - Counter(theirs)
    assert order >= 0.98
    assert not found.partial
    check_sections(found.sections, found.text or b"")
    headings = re.findall(r"(?m)^#+ (.*)$", markdown(seed, notes=form in {"docx", "odt"}))
    assert [each for each in headings if each not in {section.title for section in found.sections}] == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_presentation_says_what_was_written_on_its_slides(seed: int) -> None:
    source = markdown(seed, notes=False)
    found = view_of(written(source, "pptx"))
    plain = re.sub(r"\(https://e.org/a\)|^[#>|-]+|^ +- |^\d+\.|\|[-|]+\|", " ", source, flags=re.MULTILINE)
    recall, precision, _ = compared(words(re.sub(r"(?m)^## Slide \d+:?", "", body(found))), words(plain))
    assert recall >= 0.99
    assert precision >= 0.98
    assert all(section.title.startswith("Slide ") for section in found.sections)


def test_a_word_document_names_what_stands_apart() -> None:
    found = view_of(word_with_everything())
    assert text_of(found) == (
        "Word document\n\nFirst\n\n## Kapitel\n\nKept here\nbelow, inserted[^2]\n\n[text box]\n\nIn the box\n\n"
        "Beside the box[image: A coat on a hook][comment 0]\n\n| a | b inner |\n\n"
        "## Footnotes\n[^2] Below the line\n\n## Comments\n[comment 0] Ann: Really?\n\n"
        "## Headers\nAt the top\n\n## Footers\nAt the bottom\n"
    )
    assert [each.title for each in found.sections] == ["Kapitel", "Footnotes", "Comments", "Headers", "Footers"]


def test_a_presentation_names_its_titles_notes_and_hidden_slides() -> None:
    found = view_of(slides())
    assert text_of(found) == (
        "PowerPoint presentation: 2 slides\n\n## Slide 1: Harbour\n\nNets are mended\n\n| id | 7 |\n\n"
        "### Notes of slide 1\nSay it slowly\n\n## Slide 2 (hidden): Spare\n\nLeft out\n"
    )
    assert [(each.title, each.level) for each in found.sections] == [
        ("Slide 1: Harbour", 1),
        ("Notes of slide 1", 2),
        ("Slide 2 (hidden): Spare", 1),
    ]


def test_an_open_document_names_what_stands_apart() -> None:
    assert text_of(view_of(open_text())) == (
        "OpenDocument text\n\n### Chapter\n\nKept here[^1], and on\n\n| a |  |\n\n"
        "## Comments\nAnn\nReally?\n\n## Notes\n[^1] Below the line\n\n## Headers\nAt the top\n"
    )
    assert text_of(view_of(open_slides())) == (
        "OpenDocument presentation: 2 slides\n\n## Slide 1: Harbour\n\nNets\n\n### Notes of slide 1\nSay it slowly\n\n"
        "## Slide 2 (hidden): Spare\n"
    )


def test_rich_text_is_read_in_its_code_pages_and_without_what_is_hidden() -> None:
    data = (
        rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}{\f1\fcharset204 Times;}{\f2\fcharset128 Mincho;}}"
        rb"{\stylesheet{\s1 heading 1;}}{\info{\title T}}{\header At the top\par}\f0 Gr\'f6\'dfe \u8364?uro "
        rb"\u-10179?\u-8704? {\f1\'cf\'ee\'f0\'f2} {\f2\'93\'fa\'96\'7b}{\v hidden\v0 }"
        rb"{\pict \v0 00ff}{\deleted gone}{\*\unknown x}"
        rb"{\uc2\u26085 ab}\par a\tab b{\footnote Below}\line c\~d\{\}\par\bin5 }}}}}"
        rb"\trowd\intbl one\cell two\cell\row\pard{\pict 00ff}{\field{\*\fldinst HYPERLINK}{\fldrslt shown}}}"
    )
    assert text_of(view_of(data)) == (
        "Rich text\n\n[header: At the top ] Größe €uro 😀 Порт 日本日\n\na b [note: Below]\nc d{}\n\n"
        "| one | two |\n\nshown\n"
    )


# ---------------------------------------------------------------------------------------------------------- hostile


def bomb(name: str, size: int = 1 << 30) -> bytes:
    """A document one part of which unpacks to `size` bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        if "xhtml" not in name:
            archive.writestr("[Content_Types].xml", "")
        archive.writestr("META-INF/container.xml", '<container><rootfile full-path="book.opf"/></container>')
        archive.writestr("book.opf", f'<package><item id="a" href="{name}"/><itemref idref="a"/></package>')
        archive.writestr("ppt/_rels/x", "")
        with archive.open(name, "w") as part:
            part.write(b"<w:document xmlns:w='w'>")
            for _ in range(size >> 20):
                part.write(b"<w:p><w:t>words</w:t></w:p>   " * (1024 * 1024 // 30))
    return out.getvalue()


_ENTITIES = "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9))
LAUGHS = f'<!DOCTYPE x [<!ENTITY l0 "lol">{_ENTITIES}]>'
HOSTILE = {
    "docx bomb": lambda: bomb("word/document.xml"),
    "pptx bomb": lambda: bomb("ppt/presentation.xml"),
    "epub bomb": lambda: bomb("a.xhtml"),
    "a million cells": lambda: word(
        f"<w:tbl>{('<w:tr>' + '<w:tc><w:p><w:t>x</w:t></w:p></w:tc>' * 1000 + '</w:tr>') * 1000}</w:tbl>"
    ),
    "entities": lambda: zipped(
        {"[Content_Types].xml": b"", "word/document.xml": f"{LAUGHS}<d><p><t>&l9;</t></p></d>".encode()}
    ),
    "nested deep": lambda: word("<w:p>" * 100_000 + "<w:t>deep</w:t>"),
    "tables in tables": lambda: word("<w:tbl><w:tr><w:tc>" * 20_000 + "<w:p><w:r><w:t>deep</w:t></w:r></w:p>"),
    "levels": lambda: word('<w:p><w:pPr><w:numId w:val="1"/><w:ilvl w:val="999999"/></w:pPr><w:t>a</w:t></w:p>' * 9),
    "styles in a circle": lambda: word(
        '<w:p><w:pPr><w:pStyle w:val="a"/></w:pPr><w:r><w:t>a</w:t></w:r></w:p>',
        styles='<w:style w:styleId="a"><w:basedOn w:val="b"/></w:style>'
        '<w:style w:styleId="b"><w:basedOn w:val="a"/></w:style>',
    ),
    "groups": lambda: b"{\\rtf1 " + b"{\\b " * 2_000_000 + b"deep",
    "pictures": lambda: b"{\\rtf1 {\\pict " + b"00ff" * 5_000_000 + b"} text}",
    "binary": lambda: b"{\\rtf1 {\\bin999999999 x} text}",
    "control words": lambda: b"{\\rtf1 " + b"\\par\\cell\\row\\u-1?" * 500_000 + b"}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_document_is_read_within_the_limits_of_a_worker(name: str) -> None:
    payload = HOSTILE[name]()
    worker = Worker.start(1024**3)
    try:
        answer = worker.run(ExtractJob("document", None, None, payload, 30), 90)
    finally:
        worker.kill()
    assert answer.failed is None
    assert answer.peak < 700 * 1024**2
    if answer.extracted is not None:
        check(answer.extracted, payload)
        assert len(answer.extracted.text or b"") < 20 * 1024**2
        assert answer.extracted.partial or name in {
            "a million cells",
            "levels",
            "pictures",
            "control words",
            "styles in a circle",
        }


def test_what_came_before_a_fault_is_kept() -> None:
    assert "Before" in text_of(view_of(word(text="Before")))
    broken = zipped({"[Content_Types].xml": b"", "word/document.xml": b"<d><p><t>Kept</t></p><p><t>cut off"})
    found = view_of(broken)
    assert (text_of(found), found.partial) == ("Word document\n\nKept\n", True)


def test_a_document_whose_parts_cannot_be_read_has_the_list_of_its_files_or_nothing() -> None:
    whole = word_with_everything()
    assert extract_document(whole[:-60], 30.0) is None
    locked = re.sub(rb"(PK\x01\x02.{4})\0\0", b"\\1\x01\0", whole, flags=re.DOTALL)
    assert locked != whole
    found = view_of(locked)
    assert (text_of(found), found.partial) == ("Word document\n", True)


BROKEN = {
    "docx": word_with_everything,
    "pptx": slides,
    "odt": open_text,
    "odp": open_slides,
    "epub": lambda: written(markdown(1), "epub"),
    "rtf": lambda: written(markdown(1), "rtf"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_document_has_a_sound_view_or_none(name: str) -> None:
    whole, rng = BROKEN[name](), random.Random(name)
    for _ in range(60):
        data = bytearray(whole[: rng.choice((len(whole), rng.randrange(len(whole) // 2, len(whole))))])
        for _ in range(rng.choice((0, 1, 5, 30))):
            data[rng.randrange(len(data))] = rng.choice((0, 0x7B, 0x7D, 0xFF, rng.randrange(256)))
        found = extract_document(bytes(data), 30.0)
        if found is not None:
            check(found, bytes(data))


@pytest.mark.parametrize("size", range(12))
def test_the_beginning_of_a_gzip_header_is_no_failure(size: int) -> None:
    assert extract_document(gzip.compress(b"x", mtime=0)[:size], 30.0) is None


def test_numbers_without_end_lose_no_text() -> None:
    digits = "9" * 5_000
    item = f'<w:p><w:pPr><w:numId w:val="{digits}"/><w:ilvl w:val="{digits}"/></w:pPr><w:r><w:t>item</w:t></w:r></w:p>'
    numbering = f'<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="{digits}"/></w:abstractNum>'
    styles = f'<w:style w:styleId="a"><w:outlineLvl w:val="{digits}"/></w:style>'
    found = view_of(word(item, text="Before", numbering=numbering, styles=styles, **{f"header{digits}": "<w:p/>"}))
    assert text_of(found) == "Word document\n\nBefore\n\n- item\n"
