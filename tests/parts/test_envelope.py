"""Envelopes: text inside of JSON, found by structure and opened to any bounded depth."""

import json
from subprocess import CompletedProcess

import pytest

from coatcheck.core.parts.blobs import read_lines
from coatcheck.core.parts.envelope import open_envelope, render
from coatcheck.core.parts.fields import find_fields

LOG = "\n".join(f"step {n} is done" for n in range(60)) + "\nERROR: it broke\n"
Value = dict[str, object]


@pytest.mark.parametrize(
    "value",
    [
        {"exit_code": 1, "duration_ms": 48, "stdout": LOG, "stderr": ""},
        {"output": LOG, "metadata": {"exit_code": 1}},
        {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": LOG}], "isError": True}},
        {"result": json.dumps({"exit_code": 1, "out": LOG})},
    ],
    ids=["flat", "nested", "MCP", "string in a string"],
)
def test_a_text_is_taken_out_and_nothing_is_lost(value: Value) -> None:
    envelope = open_envelope(json.dumps(value).encode())
    assert envelope is not None
    assert [text for _, text in envelope.texts] == [LOG]
    shown = render(envelope)
    assert LOG in shown
    assert all(str(fact) in shown for _, fact in envelope.facts)


LINES = LOG.splitlines()


def clock(n: int) -> str:
    return f"2026-03-04T12:{n // 60:02d}:{n % 60:02d}Z"


@pytest.mark.parametrize(
    "value",
    [
        {"ok": True, "lines": LINES},
        {"result": {"logs": [{"ts": clock(n), "line": line} for n, line in enumerate(LINES)]}},
        [{"timestamp": clock(n), "message": line, "id": f"{n:032x}"} for n, line in enumerate(LINES)],
        {"data": {"result": [{"stream": {"app": "x"}, "values": [[clock(n), line] for n, line in enumerate(LINES)]}]}},
        {
            "took": 3,
            "hits": {
                "hits": [
                    {
                        "_id": f"{n:020x}",
                        "_source": {"@timestamp": clock(n), "log": {"offset": n * 31}, "message": line},
                    }
                    for n, line in enumerate(LINES)
                ]
            },
        },
        [
            {"message": "\n".join(LINES[n : n + 9]) + "\n", "time": clock(n), "type": "out"}
            for n in range(0, len(LINES), 9)
        ],
        [{"pos": n, "out": f"{line}\n", "time": 0} for n, line in enumerate(LINES)],
    ],
    ids=["lines", "records", "a list of records", "pairs", "records in records", "pieces", "numbered lines"],
)
def test_a_list_of_lines_is_a_text_of_lines(value: object) -> None:
    envelope = open_envelope(json.dumps(value).encode())
    assert envelope is not None
    [(_, text)] = envelope.texts
    fields = find_fields(f"{text}\n".encode())
    assert read_lines(fields, f"{text}\n".encode()).decode().splitlines() == LINES


def test_a_pair_with_metadata_beside_its_line_stays_a_line() -> None:
    pairs: list[list[object]] = [[clock(n), line] for n, line in enumerate(LINES)]
    pairs[7].append({"trace_id": "abc"})
    pairs[9].append({})
    envelope = open_envelope(json.dumps({"result": [{"stream": {"app": "x"}, "values": pairs}]}).encode())
    assert envelope is not None
    [(_, text)] = envelope.texts
    shown = read_lines(find_fields(f"{text}\n".encode()), f"{text}\n".encode()).decode().splitlines()
    assert shown[7] == f"metadata.trace_id=abc {LINES[7]}"
    assert json.loads(text.splitlines()[9]) == {"time": clock(9), "line": LINES[9], "metadata": {}}
    assert shown[:7] + shown[8:9] + shown[10:] == LINES[:7] + LINES[8:9] + LINES[10:]


@pytest.mark.parametrize(
    "items",
    [
        [*([clock(n), line] for n, line in enumerate(LINES)), [clock(70), "a line", "a third item"]],
        [*([clock(n), line] for n, line in enumerate(LINES)), []],
        [*({"pos": n, "out": f"{line}\n"} for n, line in enumerate(LINES)), {"pos": 70, "out": "a\n", "error": "b"}],
        [{"ts": clock(n), "log": {"id": n}, "log.id": "FATAL", "line": line} for n, line in enumerate(LINES)],
    ],
    ids=["a third item", "an empty item", "one more member", "the same path twice"],
)
def test_a_list_with_an_item_of_another_form_is_data(items: object) -> None:
    assert open_envelope(json.dumps({"values": items}).encode()) is None


@pytest.mark.parametrize(
    "text",
    [
        f'{{"out": "FATAL: it\\nbroke\\nfirst", "code": 1, "out": {json.dumps(LOG)}}}',
        f'{{"result": {{"code": 1, "code": 2}}, "out": {json.dumps(LOG)}}}',
        "".join(
            f'{{\n"ts": "{clock(n)}",\n"level": "FATAL",\n"level": "info",\n"msg": "case {n} is over"}}\n'
            for n in range(9)
        ),
    ],
    ids=["a text", "a fact", "a sequence"],
)
def test_an_object_that_names_a_member_twice_is_no_envelope(text: str) -> None:
    once = text.replace('"out": "FATAL', '"err": "FATAL').replace('"code": 1, "code"', '"code": 1, "exit"')
    assert open_envelope(once.replace('"level": "FATAL"', '"was": "FATAL"').encode()) is not None
    assert open_envelope(text.encode()) is None


@pytest.mark.parametrize(
    ("text", "around"),
    [
        (
            repr(CompletedProcess(["make"], 1, LOG, "")),
            "CompletedProcess(args=['make'], returncode=1, stdout=…, stderr='')",
        ),
        (repr({"rc": 1, "stdout": LOG}), "{'rc': 1, 'stdout': …}"),
        (json.dumps({"code": 1, "stdout": LOG})[:-9], '{"code": 1, "stdout": …'),
        (json.dumps({"stdout": 'Größe: "x" C:\\temp\n' * 9})[:-3], '{"stdout": …'),
    ],
    ids=["a value of Python", "a dict of Python", "JSON cut off", "escapes"],
)
def test_a_literal_is_a_text(text: str, around: str) -> None:
    envelope = open_envelope(text.encode())
    assert envelope is not None
    [(name, shown)] = envelope.texts
    assert (name, envelope.facts) == ("stdout", [("around", around)])
    assert shown in {LOG, LOG[: len(shown)], ('Größe: "x" C:\\temp\n' * 9)[: len(shown)]}


def test_objects_of_several_lines_in_a_row_are_records() -> None:
    text = "".join(
        json.dumps({"HOST": "a", "__REALTIME_TIMESTAMP": f"17732203341{n:05d}", "MESSAGE": line}, indent="\t") + "\n"
        for n, line in enumerate(LINES)
    )
    envelope = open_envelope(text.encode())
    assert envelope is not None
    fields = find_fields(f"{envelope.texts[0][1]}\n".encode())
    assert read_lines(fields, f"{envelope.texts[0][1]}\n".encode()).decode().splitlines() == LINES


def test_a_literal_in_pieces_among_lines_is_a_text() -> None:
    pieces = " +\n    ".join(repr(f"{line}\n") for line in LINES)
    envelope = open_envelope(f"{{\n  code: 2,\n  signal: null,\n  stdout: {pieces},\n  stderr: ''\n}}\n".encode())
    assert envelope is not None
    assert [name for name, _ in envelope.texts] == ["around", "stdout"]
    assert envelope.texts[1][1] == LOG
    assert envelope.texts[0][1] == "{\n  code: 2,\n  signal: null,\n  stdout: …,\n  stderr: ''\n}"


def test_code_with_literals_is_no_envelope() -> None:
    messages = "".join(
        f'msgid "case {n}:\\n"\n"  done\\n"\nmsgstr "Fall {n}:\\n"\n"  fertig\\n"\n\n' for n in range(40)
    )
    assert open_envelope(messages.encode()) is None
    code = "".join(f'    print("case {n}:\\n\\tdone\\n")\n' for n in range(40))
    assert open_envelope(code.encode()) is None
    assert open_envelope("\n".join(json.dumps({"role": "tool", "content": LOG}) for _ in range(2)).encode()) is None
    assert open_envelope(json.dumps({f"k{n}": "a\nb\n" for n in range(40)}).encode()) is None


def test_several_texts_are_named() -> None:
    envelope = open_envelope(
        json.dumps({"code": 1, "stdout": LOG, "stderr": "warning: a\nwarning: b\nfatal: c\n"}).encode()
    )
    assert envelope is not None
    assert render(envelope) == f"code: 1\nstdout:\n{LOG}stderr:\nwarning: a\nwarning: b\nfatal: c\n"


@pytest.mark.parametrize(
    "value",
    [
        {"rows": [{"id": 7 + n, "text": LOG} for n in range(3)]},
        {"results": [{"url": "https://e.org/", "title": "T", "content": LOG}]},
        {f"k{n}": n for n in range(90)} | {"body": LOG},
        {"name": "x", "version": "1.0"},
        [LOG],
        {"image": "QUJD" * 400, "caption": LOG},
    ],
    ids=["records", "search results", "many members", "no text", "a list", "base64"],
)
def test_data_is_no_envelope(value: object) -> None:
    assert open_envelope(json.dumps(value).encode()) is None


def test_envelopes_in_envelopes_end_somewhere() -> None:
    text = LOG
    for _ in range(11):
        text = json.dumps({"o": text})
    opened = open_envelope(text.encode())
    assert opened is None or len(render(opened)) <= len(text)
    assert open_envelope(b'{"a":' * 20_000 + b"1" + b"}" * 20_000) is None
    assert open_envelope(b'{"a":' + b"[" * 500 + b"]" * 500 + b"}") is None


def test_an_emoji_in_json_that_was_cut_off_is_one_character() -> None:
    written = json.dumps({"content": "\n".join(f"line {n} says \U0001f600 and Grüße" for n in range(60))})[:-300]
    envelope = open_envelope(written.encode())
    assert envelope is not None
    assert "line 7 says \U0001f600 and Grüße\n" in envelope.texts[0][1]
