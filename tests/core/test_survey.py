"""Surveys: every byte of a large payload is looked at, in bounded memory, and the same however it was split."""

# ruff: noqa: RUF001 - words of other scripts

import json
import random
import re
import tracemalloc

import pytest

from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.records.lines import LineFieldCounter, facts_of_lines, line_facts
from coatcheck.core.survey import Survey, Surveyor, pack_survey, unpack_survey
from coatcheck.core.text.lexicon import BENIGN, FLAG_BITS, STRONG, SUMMARY, SURE, VERDICT, classify, speaking
from coatcheck.core.text.visible_text import visible
from core.sample_payloads import card_of

LINE = "2026-11-{:02d} 10:{:02d}:07,{:03d} INFO  worker-{:d} processed request id={:09d} in {:d} ms\n"


def ordinary(lines: int, seed: int = 1) -> list[bytes]:
    rng = random.Random(seed)
    return [
        LINE.format(
            rng.randint(1, 28), rng.randrange(60), rng.randrange(999), rng.randrange(16), rng.randrange(10**9), n % 500
        ).encode()
        for n in range(lines)
    ]


def survey_of(data: bytes, *sizes: int) -> Survey:
    surveyor = Surveyor()
    at = number = 0
    while at < len(data):
        size = sizes[number % len(sizes)]
        surveyor.feed(data[at : at + size])
        at += size
        number += 1
    return surveyor.finish()


@pytest.mark.parametrize("share", [0.1, 0.37, 0.5, 0.81])
@pytest.mark.parametrize(
    "line",
    [
        b"2026-11-03 10:11:12,000 ERROR worker-3 could not write block 17: disk quota exceeded\n",
        b"java.lang.IllegalStateException: already closed\n",
        b"an ordinary sentence that no other line is like\n",
    ],
)
def test_one_line_unlike_the_others_is_on_the_card_wherever_it_stands_in_megabytes(line: bytes, share: float) -> None:
    rows = ordinary(60_000)
    rows.insert(int(share * len(rows)), line)
    card, text, _ = card_of(b"".join(rows), DeclaredMetadata(), 600)
    assert line.decode().strip() in text
    shown = next(each for each in card.excerpts if line.decode().strip() in each.text)
    assert shown.lines.first <= int(share * 60_000) + 1 <= shown.lines.last


def test_a_query_is_answered_from_all_that_is_held_of_megabytes() -> None:
    words = ["record", "batch", "warehouse", "harbour", "copper", "lantern", "meadow", "quarry", "saddle"]
    rows = [" ".join(random.Random(n).choices(words, k=8)) for n in range(20_000)]
    for place in (2_500, 17_500):  # 140 KB from an end
        rows[place] = "the caravan of apricots is counted twice, as every Tuesday"
        data = "\n".join(rows).encode()
        _, text, _ = card_of(data, DeclaredMetadata(), 400, query="where are the apricots counted?")
        assert rows[place] in text
        rows[place] = rows[place - 1]


@pytest.mark.parametrize(
    "line",
    [
        b"request " + b"a1b2c3 " * 300 + b"ended with error: the ledger is locked\n",
        b"".join(b"\rdownloading %d %%" % n for n in range(100)) + b"\rerror: the ledger is locked\n",
        b"error: the ledger is locked, while the following was in flight: " + b"a1b2c3 " * 900 + b"\n",
    ],
    ids=["at its end", "in its last frame", "at its beginning"],
)
def test_of_a_long_line_the_part_that_states_a_failure_is_kept(line: bytes) -> None:
    rows = ordinary(60_000)
    rows.insert(23_000, line)
    data = b"".join(rows)
    card, text, _ = card_of(data, DeclaredMetadata(), 600)
    assert "error: the ledger is locked" in text
    shown = next(each for each in card.excerpts if "error: the ledger is locked" in each.text)
    assert b"error: the ledger is locked" in data[shown.bytes.start : shown.bytes.end]
    assert shown.lines.first <= 23_001 <= shown.lines.last


COUNTED = {
    "access log": (
        [
            f'10.0.0.{n} - - [03/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" {500 if n % 10 == 0 else 200} 512'
            for n in range(100)
        ],
        "100 lines: status 200 90, 500 10",
    ),
    "grep": (
        [f"src/größe{n % 4}.py:{n}:    value = {n}" for n in range(40)],
        '40 lines: file "src/größe0.py" 10, "src/größe1.py" 10, "src/größe2.py" 10, "src/größe3.py" 10',
    ),
}


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("block", [1, 40, 1_000])
def test_lines_are_counted_by_their_field(name: str, block: int) -> None:
    lines, told = COUNTED[name]
    fields = LineFieldCounter("\n".join(lines).encode())
    for at in range(0, len(lines), block):
        fields.feed("\n".join(lines[at : at + block]).encode())
    assert line_facts(fields) == [told]


@pytest.mark.parametrize(
    "lines",
    [
        [f"tests/test_a.py::test_{n} PASSED [{n:3d}%]" for n in range(60)],
        ["The error was corrected, and info means information." for _ in range(60)],
        [f"2026-11-03 10:{n:02d}:00 started" for n in range(60)],
        [f"127.0.0.1:{8000 + n}: connected" for n in range(60)],
        [f"src/part_{'abcdef'[n // 10]}{'abcdefghij'[n % 10]}.py:{n % 7}" for n in range(60)],  # `grep -c`
    ],
)
def test_what_is_no_list_of_files_is_not_counted_by_file(lines: list[str]) -> None:
    assert not [line for line in facts_of_lines("\n".join(lines).encode()) if " file " in line]


def test_matches_in_minified_files_are_told_by_file() -> None:
    rng = random.Random(5)
    rows = [f"dist/app.{n % 3}.min.js:1:{''.join(rng.choices('abcdef(){};,=', k=30_000))}" for n in range(9)]
    for said in (DeclaredMetadata(), DeclaredMetadata(tool_name="Grep"), DeclaredMetadata(tool_name="run")):
        _, text, tokens = card_of("\n".join(rows).encode(), said, 600)
        assert "9 lines: file dist/app.0.min.js 3, dist/app.1.min.js 3, dist/app.2.min.js 3" in text
        assert tokens <= 600


HOSTILE = {
    "a million shapes": b"".join(
        b"%s\n" % bytes(97 + (n >> shift) % 26 for shift in (0, 5, 10, 15)) for n in range(300_000)
    ),
    "one shape": b"the same line 7\n" * 400_000,
    "one line": b"x" * 9_000_000,
    "carriage returns": b"\r" * 6_000_000,
    "escapes": b"\x1b[31m" * 1_200_000,
    "line feeds": b"\n" * 3_000_000,
    "zero errors": b"0 errors, 0 failures\n" * 200_000,
    "errors": b"".join(
        b"error: thing %s broke\n" % bytes(97 + (n >> s) % 26 for s in (0, 5, 10)) for n in range(90_000)
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_payloads_give_small_surveys(name: str) -> None:
    made = survey_of(HOSTILE[name], 524_288)
    packed = pack_survey(made)
    assert len(packed) <= 256 * 1024
    assert unpack_survey(packed) == made
    end = -1
    for region in made.fragments:
        assert region.start > end
        end = region.start + len(region.data)
        assert HOSTILE[name][region.start : end] == region.data
        assert HOSTILE[name].count(b"\n", 0, region.start) + 1 == region.line


def test_a_survey_does_not_depend_on_how_the_payload_was_split() -> None:
    rng = random.Random(8)
    levelled, plain = ordinary(20_000), [b"copied %s\n" % rng.randbytes(9).hex().encode() for _ in range(20_000)]
    levelled[9_000] = b"ERROR: one failed\n"
    levelled[15_000] = b"quite another line\n"
    noisy = [b"error: thing %s broke\n" % rng.randbytes(5).hex().encode() for _ in range(30_000)]
    long = [b"x" * 700_000 + b"\n", b"error: after a long line\n", b"y" * 1_500_000]
    for rows in (levelled, plain + levelled, levelled + plain, noisy, long + levelled, levelled + long):
        data = b"".join(rows)
        whole = survey_of(data, len(data))
        assert whole == survey_of(data, 600_000, 1, 17, 300_000) == survey_of(data, 70_001)
        for region in whole.fragments:
            assert data[region.start :].startswith(region.data)
            assert region.begins == (region.start == 0 or data[region.start - 1] == 0x0A)
            assert data.count(b"\n", 0, region.start) + 1 == region.line


STATED = {
    "error: expected ';' before '}' token": SURE,
    "FAILED tests/test_a.py::test_b - KeyError: 'x'": SURE,
    "thread 'main' panicked at src/main.rs:4": SURE,
    "Traceback (most recent call last):": SURE,
    "not ok 3 - adds": SURE,
    "make: *** [Makefile:3: all] Error 2": STRONG,
    "cannot open shared object file": STRONG,
    "Command exited with code 1": STRONG,
    "Fehler beim Öffnen der Datei": STRONG,
    "错误：连接失败": STRONG,
    "ОШИБКА: нет соединения с базой; ошибка 5": STRONG,
    "177 passed in 2.15s": VERDICT,
    "BUILD SUCCESS": VERDICT,
    "Apply complete! Resources: 64 added, 0 changed, 0 destroyed.": SUMMARY,
    "0 upgraded, 183 newly installed, 0 to remove and 12 not upgraded.": SUMMARY,
    "0 errors": BENIGN,
    "gcc -Werror -c main.c": BENIGN,
    "src/error.rs": BENIGN,
}


@pytest.mark.parametrize("line", STATED)
def test_lines_are_classified_by_what_they_state(line: str) -> None:
    assert classify(line.encode()) & STATED[line]


@pytest.mark.parametrize(
    "line",
    [
        "compiling module a",
        "INFO request served in 3 ms",
        "def handler(event):",
        "! Integrates over one step",
        "",
        " 2 files changed, 3 insertions(+), 1 deletion(-)",
    ],
)
def test_ordinary_lines_state_nothing(line: str) -> None:
    assert classify(line.encode()) == 0


def test_the_lines_that_speak_are_those_that_any_class_matches() -> None:
    rows = [*STATED, "compiling module a", "INFO request served in 3 ms"] * 5
    spoken = [rows[number] for number in speaking("\n".join(rows).encode())]
    assert spoken == [row for row in rows if classify(row.encode()) % (1 << FLAG_BITS) & ~BENIGN]


def test_of_a_long_line_the_first_part_that_states_a_failure_is_kept() -> None:
    stack = "\\n".join(f"at step{n} (/app/pipeline/stage{n}.js:{n}:7)" for n in range(40))
    told = {
        "level": 50,
        "pod": "gate-6c9d7f8b5",
        "err": {"message": "manifest 31 rejected: no barcode", "stack": stack},
    }
    failed = f"{json.dumps(told)[:-3]}\\ncaused by: TypeError: Cannot read properties of null"
    surveyor = Surveyor()
    surveyor.feed("\n".join([f'{{"level":30,"ms":{n}}}' for n in range(40_000)] + [failed]).encode())
    assert b"manifest 31 rejected" in b"".join(each.data for each in surveyor.finish().fragments)


def test_only_what_a_terminal_leaves_is_seen() -> None:
    assert visible(b"10%\r50%\rdone\n\x1b[31mred\x1b[0m\r\nlast\r") == b"done\nred\nlast"
    plain = b"plain\ntext\n"
    assert visible(plain) is plain
    frames = b"".join(b"\r%d%% |%s|" % (n, b"#" * (n // 4)) for n in range(101))
    assert re.fullmatch(rb"100% \|#+\|\n", visible(frames + b"\n"))


def test_long_lines_that_are_all_different_are_told_apart_in_little_memory() -> None:
    rng = random.Random(3)
    surveyor = Surveyor()
    tracemalloc.start()
    try:
        for _ in range(40):
            surveyor.feed(rng.randbytes(150_000).hex().encode() + b"\n")
        assert tracemalloc.get_traced_memory()[0] < 2_000_000
    finally:
        tracemalloc.stop()
