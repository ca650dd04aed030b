"""Elements of XML, each with the lines from its beginning to its end, and what is hostile or no XML at all."""

import random
from time import perf_counter
from xml.parsers import expat

import pytest

from coatcheck.core.artifact import Kind
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.outline.landmarks import landmarks
from coatcheck.core.outline.model import MAX_ENTRIES, Entry
from coatcheck.core.outline.render import line_of
from coatcheck.core.outline.xml_outline import XmlOutline
from coatcheck.core.structure.xml_elements import is_xml
from coatcheck.core.views.window import Position

REPORT = """<?xml version="1.0"?>
<!-- <testsuites> <a> -->
<testsuites>
  <testsuite name="one > two"
             tests='2'>
    <testcase name="a" time="1"/>
    <testcase name="b"><failure><![CDATA[</testcase> <x>
]]></failure>
    </testcase>
    <system-out/>
    <time>now</time>
  </testsuite><testsuite id="2"></testsuite>
  <?end <b> ?>
</testsuites>
"""
LISTED = [
    "testsuite one > two (4-12)",
    "  testcase a (6)",
    "  testcase b (7-9)",
    "testsuite 2 (12)",
]


def entries(text: str | bytes, cuts: tuple[int, ...] = ()) -> list[Entry]:
    data = text.encode() if isinstance(text, str) else text
    scanner, place, lines = XmlOutline(), Position(0, 0, 0), data.splitlines(keepends=True)
    for low, high in zip((0, *cuts), (*cuts, len(lines)), strict=True):
        block = b"".join(lines[low:high])
        scanner.feed(block, place)
        place = place.after(block)
    return scanner.finish(place, ends_line=data.endswith(b"\n"))


def test_an_element_reaches_from_its_beginning_to_its_end() -> None:
    found = entries(REPORT)
    assert [line_of(each) for each in found] == LISTED
    parts = [REPORT[each.bytes.start : each.bytes.end] for each in found if each.bytes]
    assert parts[1] == '<testcase name="a" time="1"/>'
    assert parts[3] == '<testsuite id="2"></testsuite>'
    assert all(part.startswith("<test") and part.endswith(">") for part in parts)


def test_blocks_make_no_difference() -> None:
    rng = random.Random(5)
    total = REPORT.count("\n")
    for _ in range(200):
        cuts = tuple(sorted(rng.sample(range(1, total), rng.randint(1, 5))))
        assert entries(REPORT, cuts) == entries(REPORT), cuts


def test_leaves_of_the_second_level_are_named_if_the_root_holds_one_element() -> None:
    feed = "<rss>\n<channel>\n<title>News</title>\n<link/>\n<item>\n<title>One</title>\n</item>\n</channel>\n</rss>\n"
    assert [line_of(each) for each in entries(feed)] == [
        "channel News (2-8)",
        "  title News (3)",
        "  link (4)",
        "  item One (5-7)",
    ]


def test_a_document_that_is_cut_has_what_comes_before() -> None:
    cut = REPORT[: REPORT.index("<failure>")]
    assert [line_of(each) for each in entries(cut)] == [
        "testsuite one > two (4-7)",
        "  testcase a (6)",
        "  testcase b (7)",
    ]


def test_entries_are_bounded() -> None:
    assert len(entries("<a>" + "<b/>\n" * (MAX_ENTRIES + 10) + "</a>")) == MAX_ENTRIES
    values = "<a>" + "<b><c>1</c><d>2</d></b>\n" * 3_000 + "</a>"
    assert len(entries(values)) == 3_000


HOSTILE = {
    "deep": b"<a>",
    "deep with attributes": b'<a b="c">',
    "comments": b"<!--",
    "sections": b"<![CDATA[",
    "instructions": b"<?x ",
    "quotes": b'<a b="<',
    "blanks": b"<a b" + b" " * 4_000 + b">",
    "long attributes": b"<a " + b"a" * 4_000 + b">",
    "equals": b"<a " + b"=" * 4_000 + b">",
    "long names": b"<" + b"n" * 400 + b">",
    "ends": b"</a>",
    "attributes": b'<a x="" y="1" z="">',
    "bytes": bytes(range(256)),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("before", [b"", b'<?xml version="1.0"?>', b"<r>", b"<a ", b"<a><b/></a>", b"<!DOCTYPE a ["])
def test_what_is_hostile_costs_bounded_time(name: str, before: bytes) -> None:
    data = before + HOSTILE[name] * (256 * 1024 // len(HOSTILE[name]))
    begin = perf_counter()
    is_xml(data)
    is_xml(data[: 16 * 1024])
    entries(data)
    assert perf_counter() - begin < 5


def test_entities_are_not_expanded() -> None:
    bomb = "<!DOCTYPE a [<!ENTITY x '&y;&y;'><!ENTITY y '&z;&z;'><!ENTITY z 'lol'>]><a><b>&x;</b><c/><d>&amp;</d></a>"
    assert is_xml(bomb.encode())
    assert [line_of(each) for each in entries(bomb)] == ["b &x; (1)", "c (1)", "d & (1)"]


OTHERS = [
    "<!DOCTYPE html>\n<html><body><p>a</p></body></html>\n",
    '<svg xmlns="http://www.w3.org/2000/svg"><g><path/><path/></g></svg>\n',
    "<?php\necho '<a><b/></a>';\n",
    "<p align=center>\n<b>Name</b>\n</p>\n\n# Title\n\nText\n",
    "<30>Jan 1 00:00:00 host app: text\n",
    "<ann> hello\n<bob> hello\n<cyd> <3\n",
    "<template>\n  <div><p>a</p></div>\n</template>\n<script>\nlet a\n</script>\n",
    "<a@b.example> wrote: <x/><y/>\n",
    "",
    "<",
    "<a>",
]


@pytest.mark.parametrize("text", OTHERS)
def test_other_texts_are_no_xml(text: str) -> None:
    assert not is_xml(text.encode())
    found = landmarks(spec_of(Kind.CODE_OR_FILE).landmarks, (), text.encode())
    assert not any(each.what == "block" for each in found)


def test_the_first_lines_may_be_a_long_comment() -> None:
    text = f"<?xml version='1.0'?>\n<!-- {'words ' * 9_000}-->\n<a>\n<b id='1'/>\n<b id='2'/>\n</a>\n"
    assert is_xml(text.encode()[: 16 * 1024])
    assert [line_of(each) for each in entries(text)] == ["b 1 (4)", "b 2 (5)"]


def test_random_documents_end_where_their_parser_says() -> None:
    rng = random.Random(3)
    for _ in range(300):
        text, lines = _document(rng)
        expat.ParserCreate().Parse(text, True)
        found = [each.lines for each in entries(text) if each.level == 1]
        assert [(each.first, each.last) for each in found if each] == lines, text


def _document(rng: random.Random) -> tuple[str, list[tuple[int, int]]]:
    """A document, and the lines of the elements in its root."""
    text, stack, first = "<root>", ["root"], 0
    lines: list[tuple[int, int]] = []
    for _ in range(rng.randint(0, 80)):
        choice, line = rng.random(), text.count("\n") + 1
        if choice < 0.4:
            first = line if len(stack) == 1 else first
            stack.append(rng.choice(["a", "b", "ns:c"]))
            text += "<" + stack[-1] + rng.choice(["", " id='1'", "\n x='>'"]) + ">"
        elif choice < 0.7 and len(stack) > 1:
            text += "</" + stack.pop() + rng.choice(["", " ", "\n"]) + ">"
            lines += [(first, text.count("\n") + 1)] * (len(stack) == 1)
        elif choice < 0.8:
            text += rng.choice(["<d/>", "<e f='/'\n/>"])
            lines += [(line, text.count("\n") + 1)] * (len(stack) == 1)
        else:
            text += rng.choice(["\n", "text", "/>", "<!-- </a> -->", "<![CDATA[<a>\n]]>", "ü"])
    while len(stack) > 1:
        text += f"</{stack.pop()}>"
        lines += [(first, text.count("\n") + 1)] * (len(stack) == 1)
    return f"{text}</root>", lines
