import random

import pytest

from coatcheck.core.artifact import Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.views.window import Extent, LineExtent, Unit
from coatcheck.reading.view import OpenView
from coatcheck.usecases.reading.read import Read, ReadAnswer, ReadRequest
from reading.reading_harness import ReadingHarness, Recording
from support.harness import CALLER

R = random.Random(20261121)


def _mixed(size: int) -> bytes:
    words = [
        "error",
        "路径",
        "naïve",
        "🙂👩‍👩‍👧",
        "\t",
        " ",
        "\n",
        "\r\n",
        "\r",
        "0x7f",
        "{}",
        "—",
        "\u2028",
        "e\u0301",
    ]
    return "".join(R.choice(words) for _ in range(size // 3)).encode()[:size]


NASTY: dict[str, bytes] = {
    "empty": b"",
    "one byte": b"x",
    "one newline": b"\n",
    "no last newline": b"a\nb",
    "crlf": b"first\r\nsecond\r\n" * 900,
    "lone cr": b"progress 1%\rprogress 2%\r" * 900,
    "blank lines": b"\n" * 9_000,
    "mixed unicode": _mixed(24_000),
    "emoji without lines": "👩‍👩‍👧‍👦🏳️‍🌈".encode() * 500,
    "invalid everywhere": R.randbytes(9_000),
    "stray continuation bytes": b"\x80" * 12_000,
    "starts with continuation bytes": b"\x80\xbf" * 5 + "Käse".encode() * 3_000,
    "cut sequences": b"\xf0\x9f\x98" * 3_000,
    "overlong": b"\xf0\x80\x80\x80" * 2_500,
    "surrogates and nul": b"\xed\xa0\x80\x00ok\x00" * 3_000,
    "one long line": b"0123456789abcdef" * 8_300,
    "long line between short ones": b"short\n" * 100 + b"z" * 132_000 + b"\nend\n",
    "one long cluster": b"e" + "\u0301".encode() * 10_000,
    "spaces": b" " * 50_000,
    "over several frames": (b"line of a log with some words in it\n" * 12_000)[:264_001],
}


async def walk(shelf: ReadingHarness, number: int, **ask: object) -> list[ReadAnswer]:
    """Every answer from the first to the one without a next."""
    answers = [await shelf.read(number, **ask)]
    keep = {k: v for k, v in ask.items() if k == "max_tokens"}
    while (following := answers[-1].next) is not None:
        assert len(answers) < 60_000
        answers.append(await shelf.read(number, cursor=following.cursor, **keep))
    return answers


@pytest.mark.parametrize("unit", ["line", "char", "byte", "token"])
@pytest.mark.parametrize("name", NASTY)
async def test_following_cursors_gives_every_byte_once_and_every_text_is_its_window(
    shelf: ReadingHarness, name: str, unit: str
) -> None:
    data = NASTY[name]
    number = await shelf.put(data)
    for ask in ({"max_tokens": 8_000}, {"max_tokens": 2_000, "limit": 1_500}):
        at = lines = chars = tokens = 0
        for answer in await walk(shelf, number, unit=unit, **ask):
            assert answer.window.bytes.start == at
            shown = data[at : answer.window.bytes.end]
            at = answer.window.bytes.end
            assert answer.text == shown.decode("utf-8", "replace")
            assert answer.tokens == shelf.tokenizer.count(answer.text) <= ask["max_tokens"]
            assert len(answer.text) <= 30_000
            assert answer.window.chars == Extent(chars, chars + sum(b & 0xC0 != 0x80 for b in shown))
            assert answer.window.lines.first == lines + 1
            lines, chars = lines + shown.count(b"\n"), answer.window.chars.end
            assert answer.window.lines.last == lines + (1 if shown and not shown.endswith(b"\n") else 0)
            if unit == "token":
                assert answer.window.tokens is not None
                assert answer.window.tokens.start == tokens
                tokens = answer.window.tokens.end
            assert (answer.next is None) == (at == len(data))
        assert at == len(data)


@pytest.mark.parametrize("name", ["mixed unicode", "emoji without lines", "invalid everywhere", "overlong", "crlf"])
@pytest.mark.parametrize("max_tokens", [1, 2, 7, 30])
async def test_a_tiny_budget_is_kept_and_still_moves_on(shelf: ReadingHarness, name: str, max_tokens: int) -> None:
    data = NASTY[name][:120]
    number = await shelf.put(data)
    for unit in ("line", "char", "byte", *(["token"] if max_tokens >= 16 else [])):
        answers = await walk(shelf, number, unit=unit, max_tokens=max_tokens)
        assert b"".join(data[a.window.bytes.start : a.window.bytes.end] for a in answers) == data
        assert max(a.tokens for a in answers) <= max_tokens
        for limit in (1, 3):
            answers = await walk(shelf, number, unit=unit, max_tokens=max_tokens, limit=limit)
            assert b"".join(data[a.window.bytes.start : a.window.bytes.end] for a in answers) == data


async def test_random_spans_equal_slices(shelf: ReadingHarness) -> None:
    data = _mixed(500_000)
    number = await shelf.put(data)
    lines = data.split(b"\n")
    starts = [n for n, b in enumerate(data) if b & 0xC0 != 0x80]
    for _ in range(150):
        limit = R.randint(1, 60)
        first = R.randrange(len(lines) - 100) + 1
        answer = await shelf.read(number, unit="line", offset=first, limit=limit, max_tokens=8_000)
        assert answer.text.encode() == b"".join(x + b"\n" for x in lines[first - 1 : first - 1 + limit])
        assert (answer.complete, answer.cut) == (True, "limit")
        assert answer.window.lines == LineExtent(first, first + limit - 1)
        assert answer.next is not None
        assert (answer.next.unit, answer.next.offset) == ("line", first + limit)
        first = R.randrange(len(starts) - 100)
        answer = await shelf.read(number, unit="char", offset=first, limit=limit)
        assert answer.text.encode() == data[starts[first] : starts[first + limit]]
        assert answer.window.chars == Extent(first, first + limit)
        first = R.randrange(len(data) - 100)
        answer = await shelf.read(number, unit="byte", offset=first, limit=limit)
        assert answer.text == data[first : first + limit].decode("utf-8", "replace")
        assert answer.window.bytes == Extent(first, first + limit)


async def test_token_spans_equal_the_tokens_of_the_whole(shelf: ReadingHarness) -> None:
    data = (b"2026-11-21T08:00:00Z INFO worker-7 finished job 8812 in 35 ms\n" * 5_000) + _mixed(30_000)
    number = await shelf.put(data)
    whole = shelf.tokenizer.encode(data.decode("utf-8", "replace"))
    for _ in range(40):
        first, limit = R.randrange(len(whole) - 300), R.randint(1, 250)
        answer = await shelf.read(number, unit="token", offset=first, limit=limit)
        assert answer.window.tokens is not None
        assert answer.window.tokens.start == first
        shown = answer.window.bytes
        expected = shelf.tokenizer.decode(whole[first : answer.window.tokens.end])
        assert data[shown.start : shown.end] == expected
        assert 0 < answer.window.tokens.end - first <= limit
        assert answer.complete or answer.window.tokens.end < first + limit


async def test_a_page_cut_by_the_budget_goes_on_to_the_end_of_what_was_asked(shelf: ReadingHarness) -> None:
    data = b"".join(b"line %d has these words in it\n" % n for n in range(1, 1_001))
    number = await shelf.put(data)
    first = await shelf.read(number, offset=101, limit=100, max_tokens=300)
    assert (first.complete, first.cut) == (False, "max_tokens")
    assert first.next is not None
    second = await shelf.read(number, cursor=first.next.cursor)
    assert first.text + second.text == "".join(f"line {n} has these words in it\n" for n in range(101, 201))
    assert (second.complete, second.cut) == (True, "limit")
    assert second.next is not None
    third = await shelf.read(number, cursor=second.next.cursor)
    assert third.window.lines == LineExtent(201, 300)


@pytest.mark.parametrize("unit", ["line", "char", "byte"])
async def test_four_kilobytes_touch_at_most_two_frames_wherever_they_are(shelf: ReadingHarness, unit: Unit) -> None:
    data = b"0123456789 abcdefghi\n" * 500_000
    number = await shelf.put(data)
    widths: dict[Unit, int] = {"line": 21, "char": 1, "byte": 1}
    for part in (0, 1, 2, 3, 97, 98):
        offset = len(data) * part // 99 // widths[unit] + 1
        opening = Recording(shelf.catalog, shelf.blobs, shelf.pool)
        read = Read(OpenView(shelf.find, opening), shelf.tokenizer, shelf.pool)
        ask = ReadRequest(unit=unit, offset=offset, limit=4096 // widths[unit])
        answer = await read(CALLER, number, ask)
        assert answer.complete
        assert opening.opened is not None
        assert 0 < opening.opened.frames_read <= 2


async def _refused(shelf: ReadingHarness, number: int, **ask: object) -> CoatcheckError:
    with pytest.raises(CoatcheckError) as caught:
        await shelf.read(number, **ask)
    return caught.value


async def test_an_offset_past_the_end_is_told_with_the_total(shelf: ReadingHarness) -> None:
    number = await shelf.put(b"a\n" * 4812)
    name = shelf.artifact(number).id
    refused = await _refused(shelf, number, offset=9000)
    assert (refused.code, refused.detail) == (
        Code.OFFSET_PAST_END,
        f"Offset 9000 is past the end: {name} has 4812 lines. Use an offset from 1 to 4812.",
    )
    for unit in ("line", "char", "byte", "token"):
        assert (await _refused(shelf, number, unit=unit, offset=10**5000)).code is Code.OFFSET_PAST_END
        assert (await _refused(shelf, number, unit=unit, offset=-1)).code is Code.INVALID_REQUEST
        assert (await _refused(shelf, number, unit=unit, limit=0)).code is Code.INVALID_REQUEST
        assert (await shelf.read(number, unit=unit, limit=10**5000)).window.bytes.start == 0
    assert (await _refused(shelf, number, offset=0)).code is Code.INVALID_REQUEST
    assert (await _refused(shelf, number, max_tokens=10**5000)).code is Code.INVALID_REQUEST
    assert (await _refused(shelf, number, max_tokens=0)).code is Code.INVALID_REQUEST
    assert (await _refused(shelf, number, unit="byte", offset=9624)).code is Code.OFFSET_PAST_END
    assert (await _refused(shelf, number, section="r3")).code is Code.SECTION_NOT_FOUND


async def test_an_empty_artifact_is_read_from_its_beginning_only(shelf: ReadingHarness) -> None:
    number = await shelf.put(b"")
    for unit in ("line", "char", "byte", "token"):
        answer = await shelf.read(number, unit=unit)
        assert (answer.text, answer.complete, answer.cut, answer.next) == ("", True, "end", None)
        assert (await _refused(shelf, number, unit=unit, offset=2)).code is Code.OFFSET_PAST_END


async def test_binary_is_dumped_by_byte_and_refused_otherwise(shelf: ReadingHarness) -> None:
    data = R.randbytes(5_000)
    number = await shelf.put(data, kind=Kind.BINARY, inline=True)
    seen = b""
    for answer in await walk(shelf, number, unit="byte", max_tokens=1_500):
        assert answer.encoding == "hex"
        assert answer.tokens <= 1_500
        rows = [row[10:57] for row in answer.text.splitlines()]
        seen += bytes.fromhex("".join(rows))
        assert seen == data[: answer.window.bytes.end]
    assert seen == data
    refused = await _refused(shelf, number)
    assert refused.code is Code.NOT_TEXT
    assert "unit=byte" in refused.detail


async def test_a_foreign_or_changed_cursor_is_refused(shelf: ReadingHarness) -> None:
    one, two = await shelf.put(b"a\n" * 9_000), await shelf.put(b"b\n" * 9_000)
    answer = await shelf.read(one, limit=10)
    assert answer.next is not None
    good = answer.next.cursor
    assert (await _refused(shelf, two, cursor=good)).code is Code.INVALID_CURSOR
    assert (await _refused(shelf, one, cursor=good, offset=3)).code is Code.INVALID_REQUEST
    assert (await shelf.read(one, cursor=good, limit=2)).text == "a\na\n"


async def test_views_that_do_not_exist_are_refused(shelf: ReadingHarness) -> None:
    log, page = await shelf.put(b"x\n", kind=Kind.LOG), await shelf.put(b"<p></p>", kind=Kind.WEB_PAGE)
    assert (await shelf.read(log, view="text")).text == "x\n"
    assert (await _refused(shelf, page, view="text")).code is Code.VIEW_NOT_AVAILABLE
    assert (await _refused(shelf, log, view="pdf")).code is Code.VIEW_NOT_AVAILABLE


async def test_token_positions_are_pending_until_counted_and_every_retry_gets_further(shelf: ReadingHarness) -> None:
    ticks = iter(range(10_000))
    slow = ReadingHarness(shelf.store, clock=lambda: float(next(ticks)))
    data = b"some words of a log line, number 12345\n" * 60_000
    number = await slow.put(data)
    seen: list[int] = []
    pending: list[CoatcheckError] = []
    while len(seen) < 50:
        try:
            await slow.read(number, unit="token", offset=500_000, limit=5)
            break
        except CoatcheckError as error:
            pending.append(error)
            seen.append(int(str(error.extra["percent"])))
    assert {error.code for error in pending} == {Code.COUNT_PENDING}
    assert len(seen) > 2
    assert seen == sorted(set(seen))
    answer = await slow.read(number, unit="token", offset=500_000, limit=5)
    assert answer.window.tokens == Extent(500_000, 500_005)


async def test_a_cut_falls_between_graphemes_where_no_line_ends(shelf: ReadingHarness) -> None:
    family, flag = "👩‍👩‍👧‍👦", "🏳️‍🌈"
    number = await shelf.put((family + flag).encode() * 300)
    for max_tokens in range(60, 120, 7):
        for answer in (await walk(shelf, number, max_tokens=max_tokens))[:20]:
            assert answer.text.replace(family, "").replace(flag, "") == ""


async def test_inside_a_line_the_next_offset_is_one_of_bytes(shelf: ReadingHarness) -> None:
    number = await shelf.put(b"first\n" + b"x" * 100_000)
    answer = await shelf.read(number, offset=2, max_tokens=100)
    assert answer.next is not None
    assert (answer.next.unit, answer.next.offset) == ("byte", answer.next.bytes)
    assert answer.next.bytes == answer.window.bytes.end < 100_000
    follow = await shelf.read(number, unit=answer.next.unit, offset=answer.next.offset)
    assert follow.window.bytes.start == answer.window.bytes.end
