"""Lines as a reader takes them: every line keeps its place and size, and a place in one leads back to the payload."""

import random

import pytest

from coatcheck.core.parts.blobs import hidden_parts
from coatcheck.core.parts.fields import find_fields
from coatcheck.core.text.visible_text import (
    decode_in_place,
    find_parts,
    find_shown_position,
    find_written_positions,
    plain_lines,
    show_parts,
)


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        (rb"note Gr\u00f6\u00dfe 42", "note Größe 42"),
        (rb"a \"b\" \\\"c\\\" \/ \\ C:\\temp", 'a "b" "c" / \\ C:\\temp'),
        (rb"\ud83d\ude00 \ud83d!", "\U0001f600 ?!"),
        (b'x,"File ""m.py"", line"', 'x,"File "m.py", line"'),
        (b"&lt;b&gt; &amp; &#246;&nbsp;&#x20AC;", "<b> & ö\u00a0€"),
        (b"int \x1b[01;31m\x1b[Kbuffer\x1b[m\x1b[K_size;", "int buffer_size;"),
        (b"10%\r50%\r== done", "== done"),
        ("zero\u200bwidth so\u00adft N\bNA\bA".encode(), "zerowidth soft NA"),
        (b"plain text", "plain text"),
    ],
)
def test_signs_are_what_they_stand_for(written: bytes, plain: str) -> None:
    data = b"before\n" + written + b"\nafter\n"
    lines = plain_lines(data, find_parts(data)).split(b"\n")
    assert [len(line) for line in lines] == [len(line) for line in data.split(b"\n")]
    assert lines[1].rstrip(b"\r").decode("utf-8", "replace") == plain


def test_every_word_leads_back_to_where_it_is_written() -> None:
    rng = random.Random(4)
    for _ in range(200):
        words = [f"word{number}" for number in range(12)]
        signs = [rb"\u00e9", rb"\"", b"&quot;", b"\x1b[1m", b" ", b"\\t", b'""']
        data = b"first\n" + b"".join(word.encode() + rng.choice(signs) for word in words) + b"\n"
        parts = find_parts(data)
        plain = plain_lines(data, parts)
        for word in words:
            at = plain.index(word.encode(), 6)
            start, end = find_written_positions(parts, (at, at + len(word)))
            assert data[start:end].startswith(word.encode()[:-1])
            assert data.startswith(word.encode(), start)


def test_a_place_inside_a_replacement_leads_there_and_back() -> None:
    data = rb"a \u4e2d\u6587\u4e2d &quot;b&quot; " + b"\x1b[1mc\x1b[m" + rb" \u00e9"
    parts = find_parts(data)
    shown = show_parts(data, parts)
    written = find_written_positions(parts, range(len(shown) + 1), inside=True)
    assert [find_shown_position(parts, place) for place in written] == list(range(len(shown) + 1))
    assert [find_shown_position(parts, end) for _, end, _ in parts] == [
        len(show_parts(data[:end], parts)) for _, end, _ in parts
    ]


def test_decoded_in_place_every_word_stays_near_where_it_is_written() -> None:
    signs = [rb"\n", rb"\"", b"&quot; ", b"\x1b[1m \x1b[m", rb" Gr\u00f6\u00dfe ", b'""']
    rng = random.Random(5)
    words = [f"a-word/{number}.py" for number in range(4_000)]
    data = b'{"text":"' + b"".join(word.encode() + rng.choice(signs) for word in words) + b'"}\nlast\n'
    shown = decode_in_place(data, find_parts(data))
    assert [len(line) for line in shown.split(b"\n")] == [len(line) for line in data.split(b"\n")]
    assert "Größe".encode() in shown
    for word in words:
        assert abs(shown.index(word.encode()) - data.index(word.encode())) <= 8


def test_no_end_of_a_line_is_cut_for_a_value_whose_column_has_a_long_name() -> None:
    column = "kubernetes.labels.app_kubernetes_io/instance"
    lines = [f"time,level,{column},message"]
    lines += [f"2026-01-01T00:00:{n:02d}Z,INFO,web,the request number {n} was served in {n * 7} ms" for n in range(40)]
    quotes = '""a'
    lines += [f'2026-01-01T00:01:00Z,INFO,canary-7,"failed: {quotes * n} end"' for n in (1, 50)]
    data = "\n".join(lines).encode()
    fields = find_fields(data)
    *before, longer, shorter = plain_lines(data, find_parts(data, hidden_parts(fields, data))).decode().split("\n")
    assert [len(line) for line in [*before, longer, shorter]] == [len(line) for line in lines]
    assert before[1].rstrip("\r") == "the request number 0 was served in 0 ms"
    # The name of the column is shown where there is room for it.
    assert longer.rstrip("\r") == '2026-01-01T00:01:00Z,INFO,canary-7,"failed: "a end'
    assert shorter.rstrip("\r") == f"{column}=canary-7 failed: {quotes[1:] * 50} end"
    for plain, written in zip((longer, shorter), lines[-2:], strict=True):
        parts = find_parts(written.encode(), hidden_parts(fields, written.encode()))
        assert find_written_positions(parts, [plain.index("failed")]) == [written.index("failed")]
