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
    ],
    ids=["lines", "records", "a list of records", "pairs"],
)
def test_a_list_of_lines_is_a_text_of_lines(value: object) -> None:
    envelope = open_envelope(json.dumps(value).encode())
    assert envelope is not None
    [(_, text)] = envelope.texts
    fields = find_fields(f"{text}\n".encode())
    assert read_lines(fields, f"{text}\n".encode()).decode().splitlines() == LINES


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


def test_code_with_literals_is_no_envelope() -> None:
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
        {"rows": [{"id": n, "text": LOG} for n in range(3)]},
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
