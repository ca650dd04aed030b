"""Forms: what is found of a payload's beginning, and that opening it gives UTF-8 whatever it is."""

import random

import pytest

from coatcheck.core.artifact import PayloadForm, PayloadSample
from coatcheck.core.parts.form import find_form, open_payload, words_of


def form_of(data: bytes, media_type: str | None = None) -> PayloadForm | None:
    return find_form(PayloadSample(data, b"", len(data)), media_type)


@pytest.mark.parametrize("seed", range(400))
def test_whatever_has_a_form_opens_as_utf_8(seed: int) -> None:
    rng = random.Random(seed)
    alphabet = rng.choice([bytes(range(256)), b"ab \r\n\xff", b"ab\r\xe9", b"\r\x80\x01", b'{"a":"b\\n"}\r\xff'])
    data = bytes(rng.choices(alphabet, k=rng.randrange(1, 300)))
    form = form_of(data, rng.choice([None, "text/plain; charset=utf-16", "text/plain; charset=gbk"]))
    if form is not None:
        open_payload(form, data).decode()
        assert words_of(form)


@pytest.mark.parametrize(
    ("text", "is_lines"),
    [
        ("one line\ranother of them\rand the third one\r", True),
        ("step 1 ok\rstep 2 ok\rstep 3 ok\r", True),
        ("10 %\r20 %\r30 %\r100 %\n", False),
        ("10 %\r20 %\r30 %\r100 %", False),
        ("a\r\nb\r\nc\r\n", False),
        ("plain\nlines\n", False),
        ("".join(f"{chr(97 + n % 26) * (n % 9 + 1)} of part {chr(97 + n // 26)}\r" for n in range(60)) + "end\n", True),
    ],
    ids=["prose", "steps", "progress", "progress without an end", "CRLF", "LF", "mostly CR"],
)
def test_cr_ends_lines_where_nothing_is_written_over(text: str, is_lines: bool) -> None:
    form = form_of(text.encode())
    assert (form is not None and form.ends_with_cr) is is_lines
