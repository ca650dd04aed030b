"""Pages and documents to make text views of."""

from itertools import pairwise
from typing import Final, get_args

from coatcheck.core.views.view import ExtractedText, Section, TextForm, outer_asides

PROSE = "Harbour {n} has been known since antiquity, and the ships that call at it carry most goods, it is said."


def article(paragraphs: int = 6) -> str:
    """The article of `page`."""
    return "".join(f"<p>{PROSE.format(n=n)}</p>\n" for n in range(paragraphs))


def page(inside: str, *, head: str = "") -> str:
    """A page around an article, with all that is no article."""
    return (
        f"<!DOCTYPE html><html lang=en><head><title>Ships</title>{head}<style>p {{ color: red }}</style></head>"
        '<body class="page"><nav><ul><li><a href="/">Menu entry</a></li><li><a href="/a">Another</a></li></ul></nav>'
        "<script>var x = '<p>not text</p>';</script><!-- <p>a comment, not text either</p> -->"
        f'<article><h1>Of ships</h1>{inside}</article><div class="sidebar">Related: <a href="/x">More of it</a></div>'
        "<footer><p>Copyright, imprint, privacy, and whatever else stands at the end of a page like this.</p></footer>"
        "</body></html>"
    )


def cut(extracted: ExtractedText, view: bytes, name: str) -> str:
    """The text of a section."""
    section = next(each for each in extracted.sections if each.name == name)
    return view[section.start : section.end].decode()


def check_sections(sections: tuple[Section, ...], view: bytes) -> None:
    """Sections are where sections are: at starts of lines, inside the view, nested or apart, under one name each."""
    names = [each.name for each in sections]
    assert len(set(names)) == len(names)
    for each in sections:
        assert 0 <= each.start < each.end <= len(view)
        assert each.start == 0 or view[each.start - 1 : each.start] == b"\n"
        assert each.end == len(view) or view[each.end - 1 : each.end] == b"\n"
        assert each.line == view.count(b"\n", 0, each.start) + 1
        inside = view[each.start : each.end]
        assert each.lines == inside.count(b"\n") + (not inside.endswith(b"\n"))
        assert "\n" not in each.title
    for left, right in pairwise(sections):
        assert left.start < right.start
        assert left.end <= right.start or (left.level < right.level and right.end <= left.end)


def article_of(made: ExtractedText) -> str:
    """The text of a page without its asides."""
    assert made.text is not None
    text = bytearray(made.text)
    for aside in reversed(outer_asides(made.sections)):
        del text[aside.start : aside.end]
    return bytes(text).decode()


FORMS: Final[tuple[TextForm, ...]] = get_args(TextForm)
