"""Fields of lines: left out of what is shown by their types, line by line; what has none is untouched."""

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coatcheck.core.parts.blobs import read_lines
from coatcheck.core.parts.fields import find_fields

MESSAGES = [
    "fetching crate serde v1.0.219",
    "    Compiling serde",
    'said "no" to C:\\temp',
    "",
    *[f"case {n} took {n * 37 % 91} ms" for n in range(80)],
    "\x1b[31merror\x1b[0m: mismatched types",
]


def clock(number: int) -> str:
    return f"2026-03-04T12:{number // 60 % 60:02d}:{number % 60:02d}.{number * 7919 % 1000:03d}Z"


def cells(*values: str) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(values)
    return out.getvalue()


FORMS: dict[str, Callable[[int, str], str]] = {
    "time": lambda n, text: f"{clock(n)} {text}",
    "bracketed": lambda n, text: f"[{clock(n)}] {text}",
    "job and step": lambda n, text: f"build (3.11)\tRun tests\t{clock(n)} {text}",
    "container": lambda _, text: f"app-1  | {text}",
    "stream": lambda n, text: f"{clock(n)} stdout F {text}",
    "host and process": lambda n, text: f"Mar  4 12:{n // 60:02d}:{n % 60:02d} host cron[42]: {text}",
    "kernel": lambda n, text: f"[{n:5d}.{n:06d}] {text}",
    "quotation": lambda _, text: f"> {text}",
    "numbers": lambda n, text: f"{n + 1:6d}\t{text}",
    "docker": lambda n, text: json.dumps({"log": text + "\n", "stream": "stdout", "time": clock(n)}),
    "members": lambda n, text: json.dumps({"ts": clock(n), "level": "info", "logger": "ci", "msg": text}),
    "member first": lambda n, text: json.dumps({"message": text, "time": clock(n)}, separators=(",", ":")),
    "pairs": lambda n, text: f"time={clock(n)} level=info component=ci msg={json.dumps(text)}",
    "journal": lambda n, text: json.dumps(
        {"__CURSOR": f"s=1a;i={n:x}", "ts": clock(n), "_HOSTNAME": "ci-7", "PRIORITY": "6", "MESSAGE": text}
    ),
    "label": lambda n, text: f"[pod/ci-7/build] {clock(n)} {text}",
    "build step": lambda n, text: f"#14 {n / 7:.3f} {text}",
    "string for a terminal": lambda n, text: f"\x1b_bk;t={1772625600000 + n}\x07{clock(n)} {text}",
    "columns": lambda n, text: cells(clock(n), "runner-7", text),
}


@pytest.mark.parametrize("form", FORMS)
def test_lines_are_their_messages(form: str) -> None:
    data = "".join(FORMS[form](n, text) + "\n" for n, text in enumerate(MESSAGES)).encode()
    fields = find_fields(data)
    assert fields is not None
    shown = read_lines(fields, data).decode().split("\n")[:-1]
    assert len(shown) == len(MESSAGES)
    colourless = "error: mismatched types"
    assert shown[:-1] == MESSAGES[:-1]
    assert shown[-1].replace("\x1b[31m", "").replace("\x1b[0m", "") == colourless
    middle = data[50:]
    assert (
        read_lines(fields, middle, begins=False).split(b"\n")[1:]
        == read_lines(fields, data).split(b"\n")[-len(middle.split(b"\n")) + 1 :]
    )


@pytest.mark.parametrize("form", ["object", "row", "pairs"])
@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"level": "error"}, "ERROR "),
        ({"level": "crit"}, "CRIT "),
        ({"level": "EMERGENCY"}, "EMERGENCY "),
        ({"level": "FATAL4"}, "FATAL4 "),
        ({"level": "<lost>"}, "level=<lost> "),
        ({"level": "Notice"}, ""),
        ({"level": "DEBUG2"}, ""),
        ({"level": ""}, ""),
        ({"ts": "overflow"}, "ts=overflow "),
        ({"trace": "no trace"}, "trace=no trace "),
        ({"trace": "-"}, ""),
    ],
    ids=str,
)
def test_a_value_that_its_column_does_not_make_usual_is_shown(form: str, values: dict[str, str], shown: str) -> None:
    def line(n: int, **others: str) -> str:
        record = {"ts": clock(n), "level": "info", "trace": f"4bf92f3577b3{n:04d}", "msg": f"step {n} of it"} | others
        if form == "object":
            return json.dumps(record)
        if form == "pairs":
            return " ".join(f"{name}={json.dumps(value)}" for name, value in record.items())
        return cells(*record.values())

    head = [*(["ts,level,trace,msg"] if form == "row" else []), *map(line, range(40))]
    fields = find_fields("\n".join([*head, ""]).encode())
    assert fields is not None
    assert [column.type for column in fields.columns] == ["time", "level", "id"]
    data = "\n".join([*head, line(40, **values), ""]).encode()
    assert read_lines(fields, data).decode().split("\n")[-3:] == ["step 39 of it", f"{shown}step 40 of it", ""]


@pytest.mark.parametrize(
    "text",
    [
        "time,load\n" + "".join(f"{clock(n)},{n * 1.5}\n" for n in range(50)),
        "id,name,price\n" + "".join(f"{n},widget number {n},{n * 3}.50\n" for n in range(50)),
        "".join(
            json.dumps({"id": n, "created_at": clock(n), "title": f"issue number {n}", "points": n * 7}) + "\n"
            for n in range(50)
        ),
        "".join(f"services:\n  web{n}:\n    image: nginx:{n}\n" for n in range(20)),
        "".join(f"- item {n}\n" for n in range(50)),
        "".join(f"web-{n}  | started\n" for n in range(50)),
        "".join(f"{n * 13 % 97}:{text}\n" for n, text in enumerate(MESSAGES)),
    ],
    ids=["series", "records", "JSON records", "YAML", "list", "many containers", "numbers of other lines"],
)
def test_data_keeps_its_columns(text: str) -> None:
    assert find_fields(text.encode()) is None


def test_labels_that_tell_lines_apart_stay() -> None:
    lines = [f"[pod/web-{n % 3}] {clock(n)} request {n} is served" for n in range(40)]
    data = "\n".join([*lines, ""]).encode()
    fields = find_fields(data)
    assert fields is not None
    assert (fields.names, fields.has_labels) == (("time",), True)
    assert read_lines(fields, data).split(b"\n")[4] == b"[pod/web-1] request 4 is served"


@pytest.mark.parametrize("delimiter", ["object", "row", "pairs"])
def test_values_that_are_not_the_usual_ones_are_shown(delimiter: str) -> None:
    def line(n: int) -> str:
        status = "failed" if n == 9 else "ok"
        if delimiter == "object":
            return json.dumps({"ts": clock(n), "status": status, "message": f"job {n} of it is over"})
        if delimiter == "pairs":
            return f'ts={clock(n)} status={status} message="job {n} of it is over"'
        return cells(clock(n), status, f"job {n} of it is over")

    head = ["ts,status,message"] if delimiter == "row" else []
    data = "\n".join([*head, *map(line, range(40)), ""]).encode()
    fields = find_fields(data)
    assert fields is not None
    assert fields.names == ("ts", "status=ok")
    shown = read_lines(fields, data).decode().split("\n")[len(head) :]
    assert shown[8:10] == ["job 8 of it is over", "status=failed job 9 of it is over"]


@pytest.mark.parametrize("delimiter", ["object", "row", "pairs"])
def test_values_that_differ_in_digits_only_are_told_apart(delimiter: str) -> None:
    workers = ["web" if n % 5 else f"web{n % 3 + 1}" for n in range(60)]

    def line(n: int) -> str:
        if delimiter == "object":
            return json.dumps({"ts": clock(n), "worker": workers[n], "message": f"job {n} is over now"})
        if delimiter == "pairs":
            return f'ts={clock(n)} worker={workers[n]} message="job {n} is over now"'
        return cells(clock(n), workers[n], f"job {n} is over now")

    head = ["ts,worker,message"] if delimiter == "row" else []
    data = "\n".join([*head, *map(line, range(60)), ""]).encode()
    fields = find_fields(data)
    assert fields is not None
    shown = read_lines(fields, data).decode().split("\n")[len(head) : -1]
    assert shown == [
        f"{'' if worker == 'web' else f'worker={worker} '}job {n} is over now" for n, worker in enumerate(workers)
    ]


def test_a_line_with_a_member_of_its_own_is_shown_whole() -> None:
    lines = [json.dumps({"ts": clock(n), "level": "info", "msg": f"step {n} of it"}) for n in range(300)]
    lines[200] = json.dumps({"ts": clock(200), "level": "info", "msg": "step 200", "exc": "boom"})
    data = "\n".join([*lines, ""]).encode()
    fields = find_fields(data[:4_000])
    assert fields is not None
    assert read_lines(fields, data).decode().split("\n")[200] == lines[200]


@pytest.mark.parametrize(
    ("form", "malformed"),
    [
        ("columns", b"2026-03-04T12:09:00Z,runner\r7,the odd case"),
        ("columns", b"2026-03-04T12:09:00Z," + b"x" * 140_000 + b",the odd case"),
        ("members", b'{"ts": "2026-03-04T12:09:00Z", "lev\xffel": "info", "msg": "the odd case"}'),
        ("members", b'{"ts": "2026-03-04T12:09:00Z", "level": ' + b"[" * 9_000 + b', "msg": "the odd case"}'),
        ("pairs", b'time=2026-03-04T12:09:00Z lev\xffel=info msg="the odd case"'),
    ],
    ids=["a carriage return in a cell", "a large cell", "an undecodable name", "many brackets", "an undecodable pair"],
)
def test_a_malformed_line_is_shown_whole(form: str, malformed: bytes) -> None:
    lines = [FORMS[form](n, f"case {n} took {n * 37 % 91} ms").encode() for n in range(80)]
    fields = find_fields(b"\n".join([*lines, b""]))
    assert fields is not None
    shown = read_lines(fields, b"\n".join([*lines, malformed, lines[0], b""])).split(b"\n")
    assert shown[-4:] == [b"case 79 took 11 ms", malformed, b"case 0 took 0 ms", b""]


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("members", '{"ts": "T", "level": "error", "level": "info", "logger": "ci", "msg": "it is over"}'),
        ("members", '{"ts": "T", "level": "info", "logger": "ci", "msg": "it failed", "msg": "it is over"}'),
        ("members", '{"ts" : "T", "\\u006cevel": "error", "level" : "info", "msg" : "it is over"}'),
        ("members", '{"ts": "T", "logger": {"msg": "a part"}, "msg": "it is over"}'),
        ("members", '{"ts": "T", "logger": {"msg": "a part"}}'),
        ("pairs", 'time=T level=error level=info component=ci msg="it is over"'),
        ("pairs", 'time=T level=info component=ci msg="it failed" msg="it is over"'),
        ("columns", 'T,runner-7,"it is over",but failed'),
        ("columns", 'T,runner-7,the job "build" failed'),
    ],
)
def test_a_line_of_which_something_would_be_lost_is_shown_whole(form: str, line: str) -> None:
    lines = [*(FORMS[form](n, f"case {n} took {n * 37 % 91} ms") for n in range(80)), ""]
    fields = find_fields("\n".join(lines).encode())
    assert fields is not None
    whole = line.replace("T", clock(7), 1)
    assert read_lines(fields, "\n".join([*lines[:-1], whole, ""]).encode()).decode().split("\n")[-2] == whole


def test_a_quotation_at_the_end_of_a_message_stays() -> None:
    lines = [FORMS["pairs"](n, f'case {n} says "no"') for n in range(80)]
    data = "\n".join([*lines, ""]).encode()
    assert read_lines(find_fields(data), data).decode().split("\n")[7] == 'case 7 says "no"'


def test_names_of_members_are_inert_and_short() -> None:
    name = "k\n¦ Next: read_artifact(\x1b[31m" + "x" * 400
    lines = [json.dumps({name: clock(n), "message": f"line {n} says something"}) for n in range(40)]
    fields = find_fields("\n".join([*lines, ""]).encode())
    assert fields is not None
    assert not any(sign in fields.names[0] for sign in ("\n", "\x1b", "¦"))
    assert len(fields.names[0]) < 50


@pytest.mark.parametrize("form", ["listing", "issues", "sessions"])
def test_times_and_numbers_that_are_data_stay(form: str) -> None:
    data = {
        "listing": "".join(f"{clock(n * 977 % 3000)} {n * 31} file{n}.txt\n" for n in range(60)),
        "issues": "".join(
            json.dumps({"number": n, "created_at": clock(n), "title": f"it fails {n}"}) + "\n" for n in range(60)
        ),
        "sessions": "".join(f">>> x = {n}\n{n}\n" for n in range(60)),
    }[form]
    assert find_fields(data.encode()) is None


def test_words_with_a_colon_behind_times_are_no_process() -> None:
    lines = [f"{clock(n)} {word} {name}: done" for n in range(20) for word, name in (("step", n), ("error", "disk"))]
    fields = find_fields("\n".join([*lines, ""]).encode())
    assert fields is not None
    assert fields.names == ("time",)


def test_code_is_untouched() -> None:
    library = Path(sys.modules["json"].__file__ or "").parents[1]
    files = sorted(library.glob("*.py"))
    assert len(files) > 100
    assert [path.name for path in files if find_fields(path.read_bytes()) is not None] == []
