"""Forms: what is found of a payload's beginning, and that opening it gives UTF-8 whatever it is."""

import random

import pytest

from coatcheck.core.artifact import Charset, PayloadForm, PayloadSample
from coatcheck.core.parts.form import FormDecoder, find_form, open_payload, words_of


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


@pytest.mark.parametrize(
    ("data", "nuls", "text"),
    [
        (
            b"a line of a log\n" * 50 + b"\0" * 64 + b"more\n" * 50,
            "dropped",
            b"a line of a log\n" * 50 + b"more\n" * 50,
        ),
        (b"HOME=/root\0PATH=/bin:/usr/bin\0LANG=C\0", "line ends", b"HOME=/root\nPATH=/bin:/usr/bin\nLANG=C\n"),
        (b"x\n" * 20 + "later\n".encode("utf-16-le") * 20, "dropped", b"x\n" * 20 + b"later\n" * 20),
        (bytes(range(1, 32)) * 9 + b"\0" * 99, None, b""),
        (b"\x7fELF" + b"\0\1\2" * 300, None, b""),
    ],
    ids=["a hole", "an environment", "half UTF-16", "controls", "a program"],
)
def test_nuls_in_a_text_end_lines_or_are_no_text(data: bytes, nuls: str | None, text: bytes) -> None:
    form = find_form(PayloadSample(data, b"", len(data)), None)
    assert (None if form is None else form.nuls) == nuls
    assert form is None or open_payload(form, data) == text


def decode_blocks(form: PayloadForm, data: bytes, size: int) -> bytes:
    decoder = FormDecoder(form)
    blocks = [decoder.decode(data[at : at + size]) for at in range(0, len(data), size)]
    return b"".join([*blocks, decoder.decode(b"", is_last=True)])


MIXED = PayloadForm(Charset("utf-8", "cp1252", is_guess=True))
WORDS = "größe über straße — "


@pytest.mark.parametrize("size", [100_000, 100_001, 300_007])
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_lines_of_two_charsets_are_decoded_alike_in_blocks_of_any_size(size: int, end: str) -> None:
    lines = f"{WORDS * 3}{end}".encode() * 400 + f"straße größer{end}".encode("cp1252")
    assert decode_blocks(MIXED, lines * 20, size) == open_payload(MIXED, lines * 20)


@pytest.mark.parametrize("line", [WORDS, WORDS.replace(" ", ""), "—"])
def test_a_long_line_is_divided_between_characters(line: str) -> None:
    whole = line * (400_000 // len(line.encode())) + "\n"
    legacy = "größer\n".encode("cp1252")
    for size in (100_000, 100_001, 100_002):
        assert decode_blocks(MIXED, legacy + whole.encode(), size).decode() == f"größer\n{whole}"


@pytest.mark.parametrize("codec", ["iso2022_jp_ext", "iso2022_kr"])
@pytest.mark.parametrize("size", [1, 5, 100])
def test_escapes_without_an_end_are_decoded_alike_in_blocks_of_any_size(codec: str, size: int) -> None:
    rng, form = random.Random(6), PayloadForm(Charset(codec))
    pieces = [
        b"\x1b(",
        b"\x1b[31m",
        b"hello world ",
        b"\x1b$B<jNAK\x1b(B",
        b"A\n",
        b"\x1b$)C",
        b"\x0e<j\x0f",
        b"\x1b$",
        b"\x1b",
    ]
    for _ in range(300):
        data = b"".join(rng.choices(pieces, k=rng.randrange(1, 40)))
        assert decode_blocks(form, data, size) == open_payload(form, data)
