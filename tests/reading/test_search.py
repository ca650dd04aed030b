import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec import structs

from coatcheck.core.artifact import LineFields
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.grep.matcher import STRETCH_BYTES
from coatcheck.usecases.reading.grep import UNDECODED, PatternSearchRequest, SearchAnswer
from reading.reading_harness import ReadingHarness, ReadingStore
from support.harness import CALLER

R = random.Random(7)
PATTERNS = ["foo", "fo+", "o.*f", "^foo", "foo$", "[^a]b", r"\s+x", r"\bfoo\b", "ba{2,4}r", "(foo|bar)x?", "x*y", "é"]


def _text(lines: int, long: int = 0) -> bytes:
    words = ["foo", "bar", "baaar", "x", "xy", " ", "  ", "b", "é", "日本", "fo", "\t", "\r", "zzzzzzzz", ""]
    out: list[str] = []
    for n in range(lines):
        words_here = R.randint(0, 12) if not long or n % 7 else long
        out.append("".join(R.choice(words) for _ in range(words_here)))
    return "\n".join(out).encode() + R.choice([b"", b"\n", b"\n\n"])


def naive(data: bytes, pattern: str, flags: int = 0) -> list[tuple[int, int]]:
    """Line (from 1) and first byte of every hit: a line of its own, or each stretch of a long one."""
    compiled = re.compile(pattern, flags | re.MULTILINE | re.ASCII)
    hits: list[tuple[int, int]] = []
    start = 0
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if number == len(lines) and not line:
            break
        text = line.decode("latin-1") if not line.isascii() else line.decode()
        if line.isascii():
            position = 0
            while (found := compiled.search(text, position)) and position <= len(text):
                hits.append((number, start + found.start()))
                if len(line) <= STRETCH_BYTES:
                    break
                position = max(found.start() + STRETCH_BYTES, found.end())
                if position >= len(text):
                    break
        start += len(line) + 1
    return hits


def check_windows(data: bytes, answer: SearchAnswer) -> None:
    """Every window is a true slice that the text shows on its line, and every match lies in windows."""
    rows = dict(re.findall(r"^(\d+)[:-](.*?)$", answer.text, re.DOTALL | re.MULTILINE)) if answer.text else {}
    assert len(rows) == len({w.line for w in answer.windows})
    for window in answer.windows:
        piece = data[window.bytes.start : window.bytes.end]
        assert data.count(b"\n", 0, window.bytes.start) == window.line - 1
        assert b"\n" not in piece
        assert piece.decode("utf-8", "replace") in answer.text
    for match in answer.matches:
        assert data.count(b"\n", 0, match.bytes.start) == match.line - 1
        shown = [w.bytes for w in answer.windows if w.match and w.line == match.line]
        end = min(match.bytes.end, match.bytes.start + 1_000)
        assert any(w.start <= match.bytes.start and end <= w.end for w in shown)


async def every_hit(
    shelf: ReadingHarness, number: int, data: bytes, pattern: str, **ask: object
) -> list[tuple[int, int]]:
    """Follow `next` to the end; the hits' lines and first matches in order."""
    offset = 0
    seen: list[tuple[int, int]] = []
    while True:
        answer = await shelf.search(number, pattern, offset=offset, **ask)
        check_windows(data, answer)
        assert answer.tokens == shelf.tokenizer.count(answer.text) <= int(str(ask.get("max_tokens", 4_000)))
        assert len(answer.text) <= 30_000
        seen += [(m.line, m.bytes.start) for m in answer.matches]
        if answer.next is None:
            assert answer.complete
            assert answer.total == offset + answer.shown
            return seen
        assert answer.next.offset == offset + answer.shown > offset
        offset = answer.next.offset


def _ascii(data: bytes) -> bytes:
    return data.decode().encode("ascii", "replace")


@pytest.mark.parametrize("pattern", [p for p in PATTERNS if p.isascii()])
async def test_hits_equal_a_naive_search_of_each_line(shelf: ReadingHarness, pattern: str) -> None:
    for lines, long in ((300, 0), (60, 1_500)):
        data = _ascii(_text(lines, long))
        number = await shelf.put(data)
        expected = naive(data, pattern)
        seen = await every_hit(shelf, number, data, pattern, limit=200, max_tokens=8_000, context=0)
        lines_of = [line for line, _ in expected]
        assert sorted({line for line, _ in seen}) == sorted(set(lines_of))
        assert set(expected) <= set(seen)
        answer = await shelf.search(number, pattern, limit=1)
        assert answer.total == len(expected)


async def test_context_and_groups_are_as_grep_shows_them(shelf: ReadingHarness) -> None:
    data = b"".join(b"line %d%s\n" % (n, b" HIT" if n in {3, 5, 12, 20} else b"") for n in range(1, 21))
    number = await shelf.put(data)
    answer = await shelf.search(number, "HIT", context=1)
    assert answer.text == (
        "2-line 2\n3:line 3 HIT\n4-line 4\n5:line 5 HIT\n6-line 6\n--\n"
        "11-line 11\n12:line 12 HIT\n13-line 13\n--\n19-line 19\n20:line 20 HIT\n"
    )
    assert (answer.total, answer.complete, answer.stopped, answer.next) == (4, True, "end", None)
    page = await shelf.search(number, "HIT", context=0, offset=1, limit=2)
    assert (page.text, page.stopped, page.total) == ("5:line 5 HIT\n12:line 12 HIT\n", "limit", 4)
    assert page.next is not None
    assert page.next.offset == 3


async def test_far_apart_matches_in_one_long_line_are_each_shown_and_reached(shelf: ReadingHarness) -> None:
    places = [5, 1_000, 50_000, 1_048_570, 1_050_000, 2_999_990]
    data = bytearray(b"." * 3_000_000)
    for n, place in enumerate(places):
        data[place : place + 8] = b"needle%02d" % n
    number = await shelf.put(b"first\n" + bytes(data) + b"\nlast\n")
    whole = b"first\n" + bytes(data) + b"\nlast\n"
    answer = await shelf.search(number, r"needle\d\d")
    check_windows(whole, answer)
    assert [m.bytes.start - 6 for m in answer.matches] == places
    assert {m.line for m in answer.matches} == {2}
    assert [f"needle{n:02d}" in answer.text for n in range(6)] == [True] * 6
    assert "[… 48,192 bytes …]" in answer.text
    assert answer.text.startswith("1-first\n2:.....needle00")
    assert answer.text.endswith("\n3-last\n")
    last = await shelf.search(number, r"needle\d\d", offset=3, limit=1, context=0)
    assert [m.bytes.start - 6 for m in last.matches] == places[5:]


async def test_anchors_and_word_boundaries_see_across_blocks(shelf: ReadingHarness) -> None:
    line = b"word" * 16_384
    data = line * 20 + b"\nx\n" + b"y\n" * 60_000 + b"end"
    number = await shelf.put(data)
    for pattern, expected in {
        "^word": 1,
        r"\bword": 1,
        "word$": 1,
        r"\Aword": 1,
        "end\\z": 1,
        "^x$": 1,
        "^$": 0,
    }.items():
        answer = await shelf.search(number, pattern, limit=3)
        assert (pattern, answer.total) == (pattern, expected)
    assert (await shelf.search(number, "^y$", limit=1)).total == 60_000


async def test_invalid_utf8_and_nul_are_searched_and_shown(shelf: ReadingHarness) -> None:
    data = b"\x00\xff\xfe needle \x80\x80\n" * 50 + b"\xf0\x9f\x98" * 3_000 + b"needle" + b"\x80" * 3_000
    number = await shelf.put(data)
    assert len(await every_hit(shelf, number, data, "needle", max_tokens=500)) == 51


async def test_no_match_says_what_to_try(shelf: ReadingHarness) -> None:
    number = await shelf.put(b"Foo\n" * 4812)
    answer = await shelf.search(number, "foo")
    assert (answer.text, answer.message) == ("", 'No match for "foo" in 4,812 lines; try ignore_case.')
    assert (answer.total, answer.complete, answer.next) == (0, True, None)
    assert (await shelf.search(number, "bar", ignore_case=True)).message == 'No match for "bar" in 4,812 lines.'
    past = await shelf.search(number, "Foo", offset=5_000)
    assert past.message == 'Only 4,812 lines match "Foo": offset 5,000 is past the last. Leave out offset.'
    one = await shelf.search(await shelf.put(b"line 7\n"), "line 7", offset=5)
    assert one.message == 'Only 1 line matches "line 7": offset 5 is past the last. Leave out offset.'
    assert (await shelf.search(number, "FOO", ignore_case=True, literal=True)).total == 4812
    assert (await shelf.search(number, "F.o", literal=True)).total == 0


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(?<=a)b", "RE2"),
        (r"(a)\1", "RE2"),
        ("a(b", "missing )"),
        ("x{1000}{1000}", "One repeat is enough"),
        ("((a{100}){100}){100}", "Use smaller"),
        ("x{2000}", "Use smaller repeat counts, at most 1,000 in all, and the lower one first."),
        ("*.log", 'operator "*". Write .* for any characters, or \\* for the sign itself.'),
        ("**", 'operator "*". Write .* for any characters, or \\* for the sign itself.'),
        ("a|+?", 'operator "+?". Write .+ for any characters, or \\+ for the sign itself.'),
        ("(unclosed", 'The pattern is not valid: missing ) in "(unclosed". To search'),
        ("a)", 'The pattern is not valid: unexpected ) in "a)". To search'),
        ("(" + "x" * 500, f'missing ) in "({"x" * 79}…".'),
        (r"C:\Users", 'invalid escape sequence "\\U". To search for the text as it is, use literal=true.'),
        ("a\nb", "one line"),
        (r"a\Cb", "Use `.`"),
        ("", "1 to"),
        ("a" * 5_000, "1 to"),
        ("\ud800", "surrogate"),
    ],
)
async def test_a_bad_pattern_is_refused_with_advice(shelf: ReadingHarness, pattern: str, words: str) -> None:
    number = await shelf.put(b"abc\n")
    with pytest.raises(CoatcheckError) as caught:
        await shelf.search(number, pattern)
    assert caught.value.code is Code.INVALID_PATTERN
    assert words in caught.value.detail


@pytest.mark.parametrize("pattern", [r"end\n", r"a\r\nb", r"x\x0Ay", r"[^\n]+\nz"])
async def test_a_pattern_that_wants_a_lines_end_is_told_that_matches_stay_within_a_line(
    shelf: ReadingHarness, pattern: str
) -> None:
    number = await shelf.put(b"--\n" * 3_000)
    assert (await shelf.search(number, pattern)).message == (
        f'No match for "{pattern}" in 3,000 lines: a match stays within one line; search for the text of one line.'
    )
    assert "stays within" not in ((await shelf.search(number, pattern, literal=True)).message or "")
    assert "stays within" not in ((await shelf.search(number, r"q[^\n]*\\n")).message or "")


async def test_an_empty_artifact_is_said_to_be_empty(shelf: ReadingHarness) -> None:
    answer = await shelf.search(await shelf.put(b""), "x")
    assert re.fullmatch(r'No match for "x": art_\d{18} is empty\.', answer.message or "")


async def test_more_matches_are_spoken_of_only_where_some_are_hidden(shelf: ReadingHarness) -> None:
    number = await shelf.put(b"x" * 40 + b"\n" + b"y" * 9_000 + b"\n")
    assert (await shelf.search(number, ".", limit=1, context=0)).text == f"1:{'x' * 40}\n"
    assert (await shelf.search(number, "y", limit=1, context=0)).text == (
        f"2:{'y' * 416}[… 8,584 bytes …][… more matches near …]\n"
    )


class Looks:
    """A clock that moves by ten milliseconds whenever it is looked at: a deadline becomes a number of looks."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> float:
        self.count += 1
        return self.count * 0.01


@pytest.fixture
def looks() -> Looks:
    return Looks()


@pytest.fixture
def hurried(reading: ReadingStore, looks: Looks) -> Iterator[ReadingHarness]:
    with ThreadPoolExecutor(1) as pool:
        yield ReadingHarness(reading._replace(pool=pool), clock=looks)


@pytest.mark.parametrize("pattern", [".*[^A-Z]|[A-Z]", "(a+)+$", "(?:a?){60}a{60}z", "(A|A)*B", "(?:A+A+)+B"])
async def test_hostile_patterns_end_in_time(hurried: ReadingHarness, looks: Looks, pattern: str) -> None:
    number = await hurried.put(b"A" * 3_000_000 + b"\n" + b"a" * 100_000)
    answer = await hurried.search(number, pattern, max_tokens=500)
    assert answer.tokens <= 500
    assert looks.count < 600


async def test_a_search_without_automata_ends_at_its_deadline(hurried: ReadingHarness, looks: Looks) -> None:
    number = await hurried.put(b"abcdefghij" * 400_000)
    answer = await hurried.search(number, "(.{1,500}){1,2}z")
    assert (answer.text, answer.stopped, answer.complete) == ("", "deadline", False)
    assert looks.count < 300


async def test_a_pattern_too_large_for_any_deadline_is_refused(shelf: ReadingHarness) -> None:
    number = await shelf.put(b"abc")
    with pytest.raises(CoatcheckError) as caught:
        await shelf.search(number, r"(\pL{1,30}){1,2}")
    assert caught.value.code is Code.INVALID_PATTERN
    assert "smaller repeat counts" in caught.value.detail


@pytest.mark.parametrize(
    ("pattern", "ask", "hint"),
    [
        ("foo", {}, "; try ignore_case"),
        ("(?i)foo", {}, ""),
        ("(?mi:foo)", {}, ""),
        ("(?i)foo", {"literal": True}, "; try ignore_case"),
        ("foo", {"ignore_case": True}, ""),
        (r"\d+ \bx{3}", {}, "; try ignore_case"),
        (r"^\d+\s$", {}, ""),
        (r"[[:digit:]]\p{Lu}", {}, ""),
        (r"\d", {"literal": True}, "; try ignore_case"),
    ],
)
async def test_ignore_case_is_only_suggested_where_it_may_help(
    shelf: ReadingHarness, pattern: str, ask: dict[str, object], hint: str
) -> None:
    number = await shelf.put(b"--\n")
    answer = await shelf.search(number, pattern, **ask)
    assert answer.message == f'No match for "{pattern}" in 1 line{hint}.'


async def test_no_match_in_a_line_that_was_searched_in_pieces_says_what_is_not_found(shelf: ReadingHarness) -> None:
    number = await shelf.put(b"a" * 3_000_000)
    answer = await shelf.search(number, "^.*$")
    assert answer.message == (
        'No match for "^.*$" in 1 line (in a line over 1 MiB, no match longer than 64 KiB is found).'
    )
    number = await shelf.put(b"a" * 1_000_000)
    assert (await shelf.search(number, "^.*$")).total == 1


async def test_a_deadline_is_told_and_the_same_call_gets_further(shelf: ReadingHarness) -> None:
    ticks = iter(range(10_000_000))
    slow = ReadingHarness(shelf.store, clock=lambda: next(ticks) / 1_000)
    data = b"".join(b"match %d\n" % n if n >= 9_000 else b"other %d\n" % n for n in range(12_000))
    number = await slow.put(data)
    seen: list[tuple[int, int]] = []
    offset = calls = 0
    while True:
        answer = await slow.search(number, "[a-z]+ ", offset=offset, limit=200, context=0, max_tokens=8_000)
        seen += [(m.line, m.bytes.start) for m in answer.matches]
        calls += 1
        assert calls < 200
        if answer.next is None:
            break
        assert not answer.complete
        offset = answer.next.offset
    assert [line for line, _ in seen] == list(range(1, 12_001))


async def test_numbers_out_of_bounds_are_refused(shelf: ReadingHarness) -> None:
    number = await shelf.put(b"abc\n")
    for ask in (
        {"limit": 0},
        {"limit": 201},
        {"limit": 10**5000},
        {"context": -1},
        {"context": 21},
        {"offset": -1},
        {"offset": 10**5000},
        {"max_tokens": 8_001},
        {"max_tokens": 1},
    ):
        with pytest.raises(CoatcheckError) as caught:
            await shelf.search(number, "abc", **ask)
        assert caught.value.code is Code.INVALID_REQUEST


async def test_the_shortest_form_of_a_hit_fits_the_smallest_budget(shelf: ReadingHarness) -> None:
    data = R.randbytes(500_000).replace(b"\n", b"\x00")
    number = await shelf.put(data + b"\n" + data)
    answer = await shelf.search(number, r"[\x00-\x7f]{3,}", max_tokens=128, context=20)
    check_windows(data + b"\n" + data, answer)
    assert answer.shown >= 1


_SIGNS = r"\u00e9\"&quot;\t" + r"\u4e2d" * 7
_QUOTED = "".join(f"{_SIGNS} needle{n} {'x' * 15_000} {_SIGNS}" for n in range(20))
_LONG = "".join(f"{_SIGNS} needle{n} {'x' * 30_000} {_SIGNS}" for n in range(20, 60))


@pytest.mark.parametrize("limit", [7, 200])
async def test_decoded_lines_of_any_length_are_searched_and_shown_alike(shelf: ReadingHarness, limit: int) -> None:
    """Lines are decoded up to 1 MiB; longer ones are searched as they are written."""
    data = "\n".join(["first", _QUOTED, f"{_SIGNS} needle99", _LONG, _SIGNS, _LONG[-1_000_000:], "last"]).encode()
    number = await shelf.put(data)
    words: list[str] = []
    at = {"from_line": 1, "from_byte": 0}
    while True:
        answer = await shelf.search(number, "needle[0-9]+", plain=True, context=0, limit=limit, max_tokens=8_000, **at)
        matches = [data[match.bytes.start : match.bytes.end].decode() for match in answer.matches]
        assert all(match in answer.text for match in matches)
        words += matches
        if answer.next is None:
            break
        at = {"from_line": answer.next.line, "from_byte": answer.next.byte}
    assert words == re.findall("needle[0-9]+", data.decode())


async def test_matches_in_decoded_signs_go_on_where_the_answer_stopped(shelf: ReadingHarness) -> None:
    number = await shelf.put((r"\u4e2d" * 1_999 + r"\u6587").encode() * 10)
    shown, byte = 0, 0
    for _ in range(31):
        answer = await shelf.search(number, "中", plain=True, limit=1, from_byte=byte)
        shown += answer.shown
        if answer.next is None:
            break
        byte = answer.next.byte
    whole = await shelf.search(number, "中", plain=True, limit=200, max_tokens=8_000)
    assert shown == whole.total


async def test_a_search_without_fields_does_not_go_on_where_one_with_fields_stopped(shelf: ReadingHarness) -> None:
    times = iter([0.0, 0.0])
    slow = ReadingHarness(shelf.store, clock=lambda: next(times, 100.0))
    number = await slow.put(b"2026-11-29 10:00:00 needle\n" + b"2026-11-29 10:00:00 other\n" * 90_000)
    raw = await slow.open_view(CALLER, number, view="raw")
    text = structs.replace(raw, view="text", fields=LineFields(names=("time",)))
    ask = PatternSearchRequest(pattern="00 needle", plain=True)
    late = await slow.searcher.of(text, ask)
    assert (late.stopped, late.at_least) == ("deadline", 0)
    assert (await slow.searcher.of(raw, ask)).total == 1


async def test_no_match_in_decoded_lines_says_where_nothing_was_decoded(shelf: ReadingHarness) -> None:
    number = await shelf.put(b"first\n" + _LONG.encode() + b"\nlast")
    answer = await shelf.search(number, "é.&", plain=True, ignore_case=True)
    assert answer.message == f'No match for "é.&" in 3 lines. {UNDECODED}'
    assert (await shelf.search(number, "éé", plain=True, ignore_case=True, from_line=3)).message == (
        'No match for "éé" in 3 lines.'
    )
