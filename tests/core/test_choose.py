"""What cards choose: both ends and the verdict always, failures first, what is alike once, what is new first."""

import json
import random
import re

import pytest

from coatcheck.core.artifact import DeclaredMetadata, Kind
from coatcheck.core.choose.novelty import novelty
from coatcheck.core.choose.outliers import outlying_lines
from coatcheck.core.choose.units import LONG, PIECE, Units, cuts
from coatcheck.core.survey import Region
from coatcheck.core.text.lexicon import level_of
from coatcheck.core.text.visible_text import visible
from core.sample_payloads import TOKENIZER, card_of
from core.test_card_promises import payload

SHARE = 0.015
"""Of a card's budget, what a line at an end may cost and is on the card: half of the share that the smaller end has."""


@pytest.mark.parametrize("batch", range(8))
def test_no_text_card_loses_an_end(batch: int) -> None:
    rng = random.Random(1_000 + batch)
    for _ in range(120):
        data = payload(rng)
        budget = rng.choice([256, 400, 600, 1024])
        said = DeclaredMetadata(tool_name=rng.choice([None, "run", "bash", "read_file"]))
        card, text, _ = card_of(data, said, budget)
        if not card.excerpts or card.kind in {Kind.SEARCH_RESULTS, Kind.IMAGE, Kind.BINARY} or card.text is not None:
            continue
        lines = [line for line in visible(data).split(b"\n") if line.strip()]
        for line, excerpt in ((lines[0], card.excerpts[0]), (lines[-1], card.excerpts[-1])):
            if len(line) <= LONG and TOKENIZER.count(line.decode("utf-8", "replace")) <= SHARE * budget:
                start = excerpt.bytes.start if line is lines[0] else excerpt.bytes.end
                rest = data[:start] if line is lines[0] else data[start:]
                assert not visible(rest).strip(), (budget, text)


def test_the_kind_never_costs_the_failure() -> None:
    rows = [f"step {n} of the build compiles module_{n % 50} with flags" for n in range(800)]
    rows[417] = "module_17.c:31:9: error: too few arguments to function 'open_port'"
    data = "\n".join([*rows, "build stopped", "exit status 2"]).encode()
    for kind in (None, Kind.COMMAND_OUTPUT, Kind.LOG, Kind.CODE_OR_FILE, Kind.TEXT):
        for tool in (None, "run", "read_file", "get_logs"):
            _, text, _ = card_of(data, DeclaredMetadata(kind=kind, tool_name=tool), 512)
            assert "too few arguments to function 'open_port'" in text
            assert "exit status 2" in text


@pytest.mark.parametrize("tool", [None, "bash", "get_logs"])
def test_a_number_that_no_similar_line_has_is_on_the_card(tool: str | None) -> None:
    rows = [f"deployment/shop-{n} is ready 3/3 after {n * 7 % 91} s" for n in range(300)]
    rows[171] = rows[171].replace("3/3", "2/3")
    _, text, _ = card_of("\n".join(rows).encode(), DeclaredMetadata(tool_name=tool), 400)
    assert "deployment/shop-171 is ready 2/3" in text


def test_an_odd_line_among_hexadecimal_numbers_is_on_the_card() -> None:
    rows = [f"beat {n}  d={n * 37 % 256:02x}  dut={n * n % 256:02x}  ref={n * n % 256:02x}  ok" for n in range(400)]
    rows[274] = rows[274].replace("ok", "<>").replace("dut=", "dut=f")
    _, text, _ = card_of("\n".join(rows).encode(), DeclaredMetadata(), 400)
    assert rows[274] in text


@pytest.mark.parametrize(
    ("usual", "odd"),
    [
        (
            "10:{n:02}:07.51{n} IP 10.0.0.{m}.{k} > 10.0.0.9.443: Flags [P.], seq {k}, ack {n}, length {m}",
            ("[P.]", "[R.]"),
        ),
        ("10.0.0.{m} /item/{k} 200 took {n} ms", (" 200 ", " 207 ")),
        ("job-{k} worker-{m} finished in {n} s, retries 0", ("retries 0", "retries 9")),
    ],
    ids=["flags", "statuses", "last"],
)
def test_a_word_that_no_other_line_has_at_its_place_is_on_the_card(usual: str, odd: tuple[str, str]) -> None:
    rng = random.Random(8)
    rows = [usual.format(n=rng.randrange(60), m=rng.randrange(250), k=rng.randrange(10**6)) for _ in range(400)]
    rows[173] = rows[173].replace(*odd)
    assert rows[173] in card_of("\n".join(rows).encode(), DeclaredMetadata(), 300)[1]


READINGS = [(n, 40 + n * 37 % 23 + n % 7 / 10) for n in range(300)]
COLUMNS = {
    "csv": [f"{n},Weir {n % 11},{level},{n * 7 % 90}" for n, level in READINGS],
    "drawn": [f" {n} | Weir {n % 11} | {level:8.1f} | {n * 7 % 90}" for n, level in READINGS],
    "blanks": [f"weir{n % 11:02d} {level} cm {n * 7 % 90}%" for n, level in READINGS],
    "metrics": [
        row
        for n, level in READINGS
        for row in (f'level{{weir="{n}"}} {level}', f'flow_total{{weir="{n}"}} {9e6 + n * 7 % 90}')
    ],
}


@pytest.mark.parametrize("place", [40, 250])
@pytest.mark.parametrize("name", COLUMNS)
def test_the_line_with_a_number_far_from_all_others_is_on_the_card(name: str, place: int) -> None:
    rows = COLUMNS[name].copy()
    at = next(row for row in range(place, len(rows)) if f"{READINGS[place][1]}" in rows[row])
    rows[at] = rows[at].replace(f"{READINGS[place][1]}", "612.7")
    assert "612.7" in card_of("\n".join(rows).encode(), DeclaredMetadata(), 400)[1]


def test_numbers_that_grow_lie_apart_or_are_none_set_no_line_apart() -> None:
    growing = [f"{n} {n * n} nan inf" for n in range(200)]
    scattered = [f"{n} {10 ** (n % 9)} {-1 if n % 40 else 1}" for n in range(200)]
    versions = [f"{n} 1.2.{n} 1_0" for n in range(200)]
    for rows in (growing, scattered, versions):
        assert outlying_lines(Units([Region(0, 1, "\n".join(rows).encode())])) == []


def test_a_value_that_no_other_record_has_is_on_the_card() -> None:
    keys = [
        "kind: Deployment",
        "  name: svc-{}",
        "  replicas: 3",
        "  image: shop/{}:1.4",
        "  pull: Always",
        "  log: json",
    ]
    rows = [key.format(n) for n in range(60) for key in keys]
    rows[37 * len(keys) + 4] = "  pull: Never"
    assert "  pull: Never" in card_of("\n".join(rows).encode(), DeclaredMetadata(), 300)[1]


def test_numbers_too_large_and_lines_with_more_numbers_than_others_do_no_harm() -> None:
    rows = [f"key {'9' * 40}{n} a1b {n}" if n % 2 else f"key {'9' * 40} 1 ab{n}" for n in range(60)]
    assert card_of("\n".join(rows).encode(), DeclaredMetadata(), 300)[2] <= 300


def test_a_sure_failure_before_a_calm_end_is_shown() -> None:
    rng = random.Random(3)
    rows = [f"/usr/include/{''.join(rng.choices('abcdefgh_', k=9))}.h" for _ in range(900)]
    rows[121] = "Fatal: repository contains errors"
    for tool in (None, "bash"):
        _, text, _ = card_of("\n".join(rows).encode(), DeclaredMetadata(tool_name=tool), 300)
        assert rows[121] in text


def test_a_failure_that_a_program_printed_is_shown_whatever_its_other_lines_resemble() -> None:
    words = ["".join(random.Random(n).choices("abcdefghijklmnop", k=7)).title() for n in range(140)]
    rows = [f"{word}_Root_CA.pem: OK\nChain:\ndepth=0: CN = {word} Root, O = {word} Trust" for word in words]
    for n in (40, 90, 110):
        rows[n] = f"error {n} at 0 depth lookup: certificate has expired\nerror {words[n]}.pem: verification failed"
    card, text, _ = card_of("\n".join(rows).encode(), DeclaredMetadata(), 500)
    assert card.kind == Kind.CODE_OR_FILE
    assert "certificate has expired" in text
    assert all(f"error {words[n]}.pem: verification failed" in text for n in (40, 90, 110))


@pytest.mark.parametrize("after", [2, 90])
def test_a_summary_is_on_the_card_however_much_is_listed_below_it(after: int) -> None:
    rng = random.Random(after)
    rows = [f"bucket_{n}: Creating... [{rng.randbytes(8).hex()}]" for n in range(300)]
    rows += ["", "Apply complete! Resources: 300 added, 4 changed, 1 destroyed.", "", "names = ["]
    rows += [f'  "{rng.randbytes(12).hex()}",' for _ in range(after)]
    assert "Resources: 300 added, 4 changed" in card_of("\n".join([*rows, "]"]).encode(), DeclaredMetadata(), 300)[1]


def test_a_row_of_a_table_is_no_verdict() -> None:
    rows = [f" vacuum_{n} | {n * 7} | Sets what the server does when it is idle." for n in range(120)]
    rows[115] = " retry_interval | 5000 | Sets the time to wait before retrying after a failed attempt."
    heading = " name | setting | description"
    card, text, _ = card_of("\n".join([heading, *rows, "(120 rows)"]).encode(), DeclaredMetadata(), 400)
    assert heading in text
    assert card.next is None or "pattern" not in card.next.arguments


@pytest.mark.parametrize(
    "ended",
    [
        'The command "./check.sh names" exited with 1.',
        "Process completed with exit code 2",
        "check.sh: exited with status 1",
        "job check terminated with non-zero exit code: 3",
    ],
)
def test_what_ended_with_a_failing_status_is_shown_with_what_led_to_it(ended: str) -> None:
    rng = random.Random(7)
    rows = [f"unpacked {''.join(rng.choices('abcdefghijk', k=9))} into the tree" for _ in range(400)]
    for n in range(0, 400, 10):
        rows[n] = f"{rows[n]}: the mark is invalid, {rows[n][9:14]} could not be found"
    rows[150:150] = ["comparing names of commands and manuals", "no manual for rscp", ended]
    _, text, _ = card_of("\n".join([*rows, "The end was reached, exit code 1"]).encode(), DeclaredMetadata(), 256)
    assert ended in text
    assert "no manual for rscp" in text


def test_what_a_failed_test_printed_below_its_status_is_shown() -> None:
    rng = random.Random(5)
    rows = [f"{n}/90 unit - {''.join(rng.choices('abcdefghijk', k=8))}  OK  0.0{n % 10} s" for n in range(90)]
    rows[40] = "40/90 unit - calib  FAIL  0.01 s   exit status 1"
    rows[41:41] = ["gain table row 7: got 12.75 dB, want 12.50 dB"]
    _, text, _ = card_of("\n".join([*rows, "Ok: 89", "Fail: 1"]).encode(), DeclaredMetadata(), 300)
    assert "row 7: got 12.75 dB" in text


def test_the_place_above_the_source_of_an_error_is_shown() -> None:
    source = "\n   18 |     tmp{} = rate(dt, a)\n      |           1\n"
    rows = [f"part{n}.f90:{n}:11:\n{source.format(n)}Warning: Unused variable 'tmp{n}'" for n in range(90)]
    rows[40] = f"sediment.f90:18:11:\n{source.format(40)}Error: Type mismatch in 'rho'"
    rows[62:62] = [f"Error: Too many arguments in call of {name}" for name in ("mix", "sink", "drain", "flood", "ebb")]
    _, text, _ = card_of("\n".join([*rows, "make: Target 'all' not remade"]).encode(), DeclaredMetadata(), 256)
    assert "sediment.f90:18:11:" in text


@pytest.mark.parametrize(
    "line", ["# Background saving error", "# Error moving temp file", "[x] Error opening /dev/tty"]
)
def test_an_error_is_told_by_what_it_was_doing(line: str) -> None:
    assert level_of(f"1218:M 26 Nov 2026 00:36:10.110 {line}".encode()) == 2


def test_statements_that_all_begin_alike_do_not_hide_another() -> None:
    rng = random.Random(3)
    steps = [f"*** Parser [Shop.{''.join(rng.choices('abcdefghij', k=8)).title()}]:" for _ in range(300)]
    rows = [line for step in steps for line in (step, f"!!! Parser: finished in {rng.random():.2f} ms")]
    rows.insert(371, "image shop:current: manifest not found, using what is there")
    _, text, _ = card_of("\n".join([*rows, "Done. Your build exited with 1."]).encode(), DeclaredMetadata(), 300)
    assert "manifest not found" in text


@pytest.mark.parametrize("budget", [200, 220, 256, 300])
def test_no_line_is_left_out_between_two_that_tell_of_a_failure(budget: int) -> None:
    failed = [
        "  Failed Tides.Tests.WindowTests.HighWater_StaysInUtc [18 ms]",
        "  Error Message:",
        "   Assert.Equal() Failure: Values differ",
        "Expected: 2026-03-29T01:42:00.0000000+00:00",
        "Actual:   2026-03-29T02:42:00.0000000+00:00",
        "  Stack Trace:",
        "     at Tides.Tests.WindowTests.HighWater_StaysInUtc() in tests/WindowTests.cs:line 143",
    ]
    rows = [f"  Passed Tides.Tests.Case{n}.Holds [{n % 9} ms]" for n in range(300)]
    text = "\n".join([*rows[:150], *failed, *rows[150:], "", "Failed!  - Failed: 1, Passed: 300, Total: 301"])
    assert "\n".join(failed[2:6]) in card_of(text.encode(), DeclaredMetadata(), budget)[1]


def test_many_failures_of_one_sort_do_not_hide_one_of_another() -> None:
    rng = random.Random(5)
    paths = [f"/static/{rng.choice(['app', 'site', 'page'])}.{rng.randbytes(3).hex()}.js" for _ in range(90)]
    missing = [
        f'2026/03/01 10:{n // 60:02}:{n % 60:02} [error] 31#31: *{n} open() "/srv{path}" failed (2: No such file or'
        f' directory), client: 127.0.0.1, server: shop.example, request: "GET {path} HTTP/1.1", host: "shop.example"'
        for n, path in enumerate(paths)
    ]
    slow = (
        "2026/03/01 10:01:02 [error] 31#31: *62 upstream timed out (110: Connection timed out) while reading response"
        ' header from upstream, client: 127.0.0.1, request: "GET /export HTTP/1.1", host: "shop.example"'
    )
    log = "\n".join([*missing[:62], slow, *missing[62:], "2026/03/01 10:01:31 [notice] 31#31: exit"])
    assert "upstream timed out" in card_of(log.encode(), DeclaredMetadata(), 600)[1]


def test_a_passed_test_that_is_about_failures_is_no_failure() -> None:
    assert level_of("    ✓ reports an error when the file is missing (9ms)".encode()) == level_of(b"a line") == 0


def test_alike_failures_leave_room_for_the_one_that_differs() -> None:
    rows = [f"ERROR: request {n} timed out after 30 s" for n in range(500)]
    rows[211] = "ERROR: disk /dev/sdb is read-only"
    _, text, _ = card_of("\n".join(rows).encode(), DeclaredMetadata(), 400)
    assert "disk /dev/sdb is read-only" in text
    alike = re.search(r"\d+ like line (\d+)", text)
    assert alike is not None
    assert f"¦ {alike[1]}\nERROR: request {int(alike[1]) - 1} timed out" in text


@pytest.mark.parametrize(
    ("usual", "failing"),
    [
        ("module {}: 0 failed, 12 passed", "module {}: 3 failed, 9 passed"),
        ("step {} finished with exit code 0", "step {} finished with exit code 9"),
        ("worker {} errors=0", "worker {} errors=4"),
        (
            '10.0.0.1 - - [03/Nov/2026] "GET /{} HTTP/1.1" 200 17',
            '10.0.0.1 - - [03/Nov/2026] "GET /{} HTTP/1.1" 503 17',
        ),
        ("GET /items/{} 200 4.2 ms", "GET /items/{} 500 4.2 ms"),
        ("| 200 | 41 us | 10.0.0.1 | POST /{}/pay", "| 502 | 41 us | 10.0.0.1 | POST /{}/pay"),
    ],
)
@pytest.mark.parametrize("lines", [400, 60_000])
def test_a_failure_that_only_a_number_makes_is_on_the_card(usual: str, failing: str, lines: int) -> None:
    rows = [usual.format(n) for n in range(lines)]
    rows[lines * 2 // 5] = failing.format(lines * 2 // 5)
    data = "\n".join([*rows, "all of them ran"]).encode()
    assert failing.format(lines * 2 // 5) in card_of(data, DeclaredMetadata(), 400)[1]


def test_a_long_last_line_is_shown_from_both_its_ends() -> None:
    rows = [f"fetching package number {n} from the mirror" for n in range(200)]
    installed = " ".join(f"package{n}-{n % 7}.{n % 11}.{n % 5}" for n in range(300))
    text = card_of("\n".join([*rows, f"Installed without conflicts: {installed}"]).encode(), DeclaredMetadata(), 600)[1]
    assert "Installed without conflicts" in text
    assert "package299-5.2.4\n" in text


def test_what_few_records_have_is_told_with_its_value() -> None:
    states: list[dict[str, object]] = [{"running": {"since": n * 31}} for n in range(60)]
    states[41] = {"waiting": {"reason": "CrashLoop", "exit": 137}}
    pods = [{"name": f"p{n}", "status": {"states": [state]}} for n, state in enumerate(states)]
    text = card_of(json.dumps({"items": pods}, indent=2).encode(), DeclaredMetadata(), 600)[1]
    assert "\nOdd: p41 ($.items[41]): " in text
    assert "status.states[0].waiting.reason=CrashLoop, status.states[0].waiting.exit=137" in text


def test_words_of_failure_in_a_source_file_are_no_failures() -> None:
    body = "\n".join(
        f"def handle_{n}(value):\n    try:\n        return parse_{n}(value)\n    except ValueError as error:\n"
        f"        raise RuntimeError('failed: ' + str(error))\n"
        for n in range(120)
    )
    _, text, _ = card_of(f"import json\n\n{body}\n\nVERSION = 3\n".encode(), DeclaredMetadata(title="handlers.py"), 600)
    assert "import json" in text
    assert "VERSION = 3" in text
    assert "def handle_0" in text
    assert "more ValueError" not in text
    assert "pattern=" not in text


def test_what_a_document_advises_at_its_end_is_no_failed_run() -> None:
    parts = [f"## Part {n}\n\n{'Colours and spacing follow the theme of the whole page. ' * 3}\n" for n in range(6)]
    about = "description: How the pages of the shop are laid out, for people who change them for the first time, with "
    about += (
        "examples of each kind of page, the reasons behind them, and whom to ask when none of the examples applies."
    )
    faults = ["an invalid colour", "a missing heading", "an unexpected break", "a broken grid", "an unreadable label"]
    advice = [f"- Never ship {fault}, even if nobody could find out whose it was." for fault in faults]
    data = "\n".join(["---", about, "---", *parts, *advice])
    assert about in card_of(data.encode(), DeclaredMetadata(tool_name="read_file"), 200)[1]


def test_a_contract_that_ends_with_what_is_invalid_is_no_failed_run() -> None:
    clauses = [
        f"{n}.1  The Provider stores the goods of the Customer in chamber {n} and keeps them at their temperature,\n"
        f"      which it records every {n + 3} minutes and shows to the Customer whenever the Customer asks for it."
        for n in range(60)
    ]
    parties = ["COLD STORAGE AGREEMENT", "between Nordkai Cold GmbH of Bremerhaven, which is called the Provider here,"]
    parties += ["and Skagen Pelagic AS of Bergen, which is called the Customer wherever it is named below,"]
    parties += ["who agree on the following terms for as long as neither of them gives notice of its end:"]
    last = (
        "60.1  If a provision of this agreement is invalid, what remains of it stays in force between the two parties."
    )
    card = card_of("\n".join([*parties, *clauses, last]).encode(), DeclaredMetadata(), 400)[0]
    first, *_, end = [each.lines.last - each.lines.first for each in card.excerpts]
    assert first > end


def test_a_failure_below_a_document_that_was_printed_first_is_on_the_card() -> None:
    parts = [f"## Part {n}\n\n{'Colours and spacing follow the theme of the whole page. ' * 3}\n" for n in range(30)]
    compiled = [f"gcc -c part{n}.c -o build/part{n}.o" for n in range(150)]
    failed = "a.c:31:9: error: too few arguments to function 'open_port'"
    data = "\n".join(["# Guide\n", *parts, "$ make all", "gcc -c a.c", failed, *compiled, "make: *** [all] Error 1"])
    for tool in (None, "bash"):
        assert failed in card_of(data.encode(), DeclaredMetadata(tool_name=tool), 256)[1]


def test_what_is_said_in_the_middle_of_a_long_line_is_no_failed_run() -> None:
    words = [
        "we",
        "did not",
        "know that",
        "it was invalid",
        "and it crashed",
        "so we wrote",
        "the next one",
        "and then",
    ]
    said = f"{' '.join(random.Random(4).choices(words, k=1_200))} {'and that was all of it ' * 20}"
    about = [
        f"Chapter {n}: what {name} told us about the first year" for n, name in enumerate(["Ada", "Bo", "Cy", "Di"])
    ]
    data = "\n".join(["# A talk", "Posted 21 April", *about, said]).encode()
    text = card_of(data, DeclaredMetadata(), 256)[1]
    assert all(line in text for line in about)


def test_a_query_is_answered_beside_the_verdict() -> None:
    rows = [f"2026-03-01 12:00:{n % 60:02d} INFO part {n} is fine" for n in range(900)]
    rows[333] = "2026-03-01 12:00:33 INFO the licence server of the plotter answered from host pluto"
    data = "\n".join([*rows, "tests finished: 3 failed, 897 passed"]).encode()
    for query in ("which host is the licence server of the plotter on?", "plotter"):
        _, text, _ = card_of(data, DeclaredMetadata(), 400, query)
        assert "answered from host pluto" in text
        assert "3 failed, 897 passed" in text


def test_a_word_of_the_query_that_most_lines_have_changes_nothing() -> None:
    data = "\n".join(f"2026-03-01 12:00:{n % 60:02d} part {n} is fine in bay {n % 7}" for n in range(900)).encode()
    plain, queried = [card_of(data, DeclaredMetadata(), 400, query)[0] for query in (None, "which part?")]
    assert queried.excerpts == plain.excerpts


def test_of_a_progress_bar_the_last_frame_is_shown() -> None:
    frames = [f"downloading {n} of 300 parts" for n in range(301)]
    _, text, _ = card_of("\r".join(frames).encode(), DeclaredMetadata(), 400)
    assert "downloading 300 of 300 parts" in text
    assert "downloading 12 of 300 parts" not in text


def test_a_query_in_chinese_is_answered() -> None:
    rows = [f"2026-03-01 第{n}步 完成" for n in range(900)]
    rows[333] = "绘图仪的许可证服务器位于主机 pluto"
    assert rows[333] in card_of("\n".join(rows).encode(), DeclaredMetadata(), 400, "许可证服务器在哪台主机上?")[1]


def test_long_lines_are_cut_where_sentences_and_records_end() -> None:
    line = b"A sentence of some words. " * 60
    pieces = cuts(line)
    assert line[slice(*pieces[0])].endswith(b". ")
    assert b"".join(line[low:high] for low, high in pieces) == line
    assert max(high - low for low, high in pieces) <= PIECE
    units = Units([Region(0, 1, b"short\n" + line + b"\nend\n")])
    assert units.start[0] == 0
    assert units.end[-1] == len(line) + 11
    assert all(units.follows(place) for place in range(1, len(units)))
    assert (units.line[0], units.line[-1]) == (1, 3)


def test_what_an_earlier_run_had_is_not_new_whatever_its_numbers() -> None:
    def units(lines: list[str]) -> Units:
        return Units([Region(0, 1, "".join(f"{line}\n" for line in lines).encode())])

    before = units([f"12:00:0{n} module {n} built in {n} ms at 0x7ffe{n:04x}" for n in range(9)])
    after = units([*(f"13:10:1{n} module {n} built in 7 ms at 0x55aa{n:04x}" for n in range(9)), "linker: symbol gone"])
    found = novelty(after, before)
    assert (found.lines, found.gone) == (1, 0)
    assert [start for start, _ in found.new] == [after.start[9]]
    assert novelty(before, before) == type(found)()


def test_lines_that_differ_in_numbers_only_are_shown_a_few_times_and_counted() -> None:
    lines = [b"batch %d stored" % n for n in range(400)]
    lines[200] = b"batch 200 refused: the disk is full"
    _, text, count = card_of(b"\n".join(lines) + b"\n", DeclaredMetadata(), 1000)
    assert "batch 200 refused: the disk is full" in text
    assert count < 600
    alike = re.search(r"\(\d+ like line (\d+)\)", text)
    assert alike is not None
    assert f"batch {int(alike[1]) - 1} stored" in text
