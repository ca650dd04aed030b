"""What a person saw: last frames of progress lines, no escape sequences, whole lines; with ranges that stay exact."""

import random
import re

import pytest

from coatcheck.core.artifact import Kind
from coatcheck.core.text.visible_text import VisibleText
from reading.reading_harness import ReadingHarness

FRAMES = "\r".join(f"\x1b[32mdownloading\x1b[0m {n * 7919 % 100:3d}%" for n in range(10_000))
ESCAPE = re.compile(r"\x1b\[[0-9;]*[mK]")
R = random.Random(11)


def as_seen(text: str) -> str:
    """The same by another way: line by line, frame by frame."""
    out: list[str] = []
    for line in text.split("\n"):
        end = "\r" if line.endswith("\r") else ""
        *before, last = line.rstrip("\r").split("\r")
        gone = "\r".join([*before, ""])
        blank = not ESCAPE.sub("", gone).strip("\r")
        count = len(gone.encode())
        said = "" if blank else f"[… {count:,} byte{'s' if count > 1 else ''} overwritten …]"
        out.append(said + ESCAPE.sub("", last) + end)
    return "\n".join(out)


def log(lines: int) -> str:
    words = ["fetch", "10%", "\r", "\r", "\x1b[1;31m", "\x1b[0m", " ", "é", "日本", "done", "\x1b[K"]
    return "".join("".join(R.choices(words, k=R.randint(0, 9))) + R.choice(["\n", "\r\n"]) for _ in range(lines))


async def test_every_byte_is_read_once_and_every_text_is_what_was_seen_of_its_window(shelf: ReadingHarness) -> None:
    text = log(900)
    data = text.encode()
    number = await shelf.put(data)
    for ask in ({"max_tokens": 8_000}, {"max_tokens": 150}, {"max_tokens": 700, "limit": 40}):
        at, answer = 0, await shelf.read(number, view="text", **ask)
        while True:
            assert answer.window.bytes.start == at
            at = answer.window.bytes.end
            shown = data[answer.window.bytes.start : at].decode()
            assert answer.text.rstrip("\r") == as_seen(shown).rstrip("\r")
            assert answer.tokens == shelf.tokenizer.count(answer.text) <= ask["max_tokens"]
            assert answer.window.lines.first == data.count(b"\n", 0, answer.window.bytes.start) + 1
            if answer.next is None:
                break
            answer = await shelf.read(number, cursor=answer.next.cursor, max_tokens=ask["max_tokens"])
        assert at == len(data)


async def test_a_line_of_ten_thousand_frames_is_its_last(shelf: ReadingHarness) -> None:
    data = f"begin\n{FRAMES}\nend\n".encode()
    number = await shelf.put(data)
    answer = await shelf.read(number, view="text")
    gone = FRAMES.rpartition("\r")[0] + "\r"
    assert answer.text == f"begin\n[… {len(gone):,} bytes overwritten …]downloading  81%\nend\n"
    assert (answer.window.bytes.end, answer.tokens < 40, answer.next) == (len(data), True, None)
    raw = await shelf.read(number, view="raw", unit="byte", offset=6, limit=60)
    assert raw.text == FRAMES[:60]
    found = await shelf.search(number, "downloading", view="text", context=1, limit=3)
    assert found.tokens < 200
    assert all(data[m.bytes.start : m.bytes.end] == b"downloading" for m in found.matches)


async def test_a_line_of_frames_without_end_is_read_in_bounded_steps(shelf: ReadingHarness) -> None:
    data = b"\r".join(b"frame %07d" % n for n in range(300_000))
    number = await shelf.put(data + b"\n")
    answers = [await shelf.read(number, view="text")]
    while (following := answers[-1].next) is not None:
        answers.append(await shelf.read(number, cursor=following.cursor))
    assert len(answers) < 8
    assert answers[-1].text.endswith("frame 0299999\n")
    assert sum(a.window.bytes.end - a.window.bytes.start for a in answers) == len(data) + 1


def test_what_is_cut_anywhere_stands_for_exactly_its_bytes() -> None:
    for _ in range(60):
        data = log(4).encode()
        seen = VisibleText(data)
        for keep in range(len(seen.text) + 1):
            end, text = seen.cut(keep)
            assert len(text) <= keep
            assert text.rstrip("\r") == VisibleText(data[:end]).text.rstrip("\r")
            assert seen.text.startswith(text)


async def test_matching_lines_are_shown_whole_while_the_budget_lasts(shelf: ReadingHarness) -> None:
    rows = [f"{n:03d} " + " ".join(f"word{R.randrange(10**6)}" for _ in range(60)) for n in range(12)]
    number = await shelf.put("\n".join(rows).encode())
    answer = await shelf.search(number, r"^\d", context=0, max_tokens=8_000)
    assert answer.text == "".join(f"{n}:{row}\n" for n, row in enumerate(rows, 1))
    tight = await shelf.search(number, r"^\d", context=0, max_tokens=900)
    assert tight.shown >= 8
    assert "bytes …]" in tight.text
    around = await shelf.search(number, "^005", context=1)
    assert around.text == "".join(f"{n}{':' if n == 6 else '-'}{rows[n - 1]}\n" for n in (5, 6, 7))


async def test_hidden_bytes_do_not_count_as_shown_ones(shelf: ReadingHarness) -> None:
    letters = "the quick brown fox jumps over the lazy dog " * 4
    rainbow = "".join(f"\x1b[38;5;{n % 256}m{c}" for n, c in enumerate(letters)) + "\x1b[0m"
    number = await shelf.put(f"{rainbow}\n{rainbow} needle\n".encode(), kind=Kind.COMMAND_OUTPUT)
    answer = await shelf.search(number, "needle", view="text", context=1)
    assert answer.text == f"1-{letters}\n2:{letters} needle\n"
    read = await shelf.read(number, view="text")
    assert read.text == f"{letters}\n{letters} needle\n"


@pytest.mark.parametrize("view", ["raw", "text"])
async def test_a_match_in_a_frame_that_was_written_over_is_still_shown(shelf: ReadingHarness, view: str) -> None:
    data = b"start\nstep 1 needle\rstep 2 other\rstep 3 done\r\nend\n"
    number = await shelf.put(data)
    answer = await shelf.search(number, "needle", view=view, context=1)
    (match,) = answer.matches
    assert data[match.bytes.start : match.bytes.end] == b"needle"
    assert "step 1 needle" in answer.text
    last = await shelf.search(number, "step", view="text", context=0)
    assert last.text == "2:[… 27 bytes overwritten …]step 3 done\r\n"
    beside = await shelf.search(number, "start", view="text", context=1)
    assert beside.text == "1:start\n2-[… 27 bytes overwritten …]step 3 done\r\n"
