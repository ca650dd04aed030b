"""Rubbish and lies: their cards are true, show both ends, and are made from little, however much there was."""

import io
import json
import random
import sqlite3
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from time import process_time
from typing import Final

import pytest

from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.card import Card, cut
from coatcheck.core.card.model import CardInput
from coatcheck.core.encoding.payload_encoder import PayloadEncoder
from coatcheck.core.kinds import recognise
from coatcheck.core.survey import pack_survey
from coatcheck.core.text.visible_text import visible
from core.sample_payloads import ARTIFACT, TOKENIZER, card_of, sample_of
from facts.cases import Case, shown
from facts.made_output import FORGED
from facts.says_output import lines_of
from facts.told import hold

BUDGET: Final = 400
BLOCK: Final = 512 * 1024


def streamed(pieces: Iterator[bytes]) -> tuple[Card, str, int]:
    """A card as ingest makes it of a payload that it never holds; also the bytes of the survey."""
    intake = PayloadEncoder(TOKENIZER)
    for piece in pieces:
        intake.feed(piece)
    intake.end(b"")
    intake.count()
    sample, survey = intake.sample(), intake.survey()
    facts = recognise(sample, DeclaredMetadata(), survey)
    card, text, tokens = cut(
        CardInput(
            ARTIFACT,
            DeclaredMetadata(),
            intake.measure(),
            facts,
            sample,
            budget=BUDGET,
            tokenizer=TOKENIZER,
            survey=survey,
        )
    )
    assert tokens <= BUDGET
    return card, text, 0 if survey is None else len(pack_survey(survey))


def _blocks(data: bytes) -> Iterator[bytes]:
    return (data[at : at + BLOCK] for at in range(0, len(data), BLOCK))


def _distinct() -> bytes:
    letters = [bytes([97 + n]) for n in range(26)]
    return b"".join(
        letters[n % 26] + letters[n // 26 % 26] + letters[n // 676 % 26] + letters[n // 17_576 % 26] * 2 + b"\n"
        for n in range(300_000)
    ) + b"".join(
        b"word %s of it\n" % str(n).translate(str.maketrans("0123456789", "abcdefghij")).encode()
        for n in range(700_000)
    )


HOSTILE: Final[dict[str, Callable[[], bytes]]] = {
    "a million distinct shapes": _distinct,
    "one shape a million times": lambda: b"the same line 7\n" * 1_000_000,
    "only carriage returns": lambda: b"\r" * 6_000_000,
    "lines with an escape in every second byte": lambda: b"\x1ba\x1bb\x1bc\n" * 400_000,
    "a colour before every character": lambda: b"\x1b[31mx" * 800_000,
    "a thousand lines that deny errors": lambda: b"0 errors, 0 failures\n" * 1_000,
    "many lines that deny errors": lambda: b"0 errors, 0 failures\n" * 100_000,
    "line feeds": lambda: b"\n" * 3_000_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_payloads_have_true_cards_with_both_ends_and_small_surveys(name: str) -> None:
    data = HOSTILE[name]()
    card, text, kept = streamed(_blocks(data))
    assert kept <= 256 * 1024
    hold_ends(card, data)
    assert "Levels" not in text
    beginning = data[:400_000]
    hold(shown(Case(beginning, (lines_of(visible(beginning).decode()),)), BUDGET))


@pytest.mark.parametrize("data", [b"\x1ba" * 2_000_000, (b"\x1ba" * 20 + b"\n") * 90_000], ids=["one", "many"])
def test_both_ends_of_lines_with_an_escape_in_every_second_byte_are_shown(data: bytes) -> None:
    hold_ends(streamed(_blocks(data))[0], data)


def test_both_ends_of_one_long_line_that_a_line_feed_ends_are_shown() -> None:
    data = b"it begins here " + b"abcdefghi " * 500_000 + b"and here it ends\n"
    hold_ends(streamed(_blocks(data))[0], data)


MANY_KEYS: Final[dict[str, object]] = {
    "one in each record": [{f"k{n}": n if n % 2 else str(n)} for n in range(20_000)],
    "in a map": {f"k{n}": [n] if n % 3 else {"a": n} for n in range(20_000)},
    "in nested objects": [{"a": {f"k{n}": {f"x{n}": 1}}} for n in range(12_000)],
}


@pytest.mark.parametrize("name", MANY_KEYS)
def test_json_with_tens_of_thousands_of_keys_costs_bounded_time_and_room(name: str) -> None:
    data = json.dumps(MANY_KEYS[name]).encode()
    begin = process_time()
    facts = recognise(sample_of(data), DeclaredMetadata())
    assert process_time() - begin < 5
    assert len("".join(facts.shape)) < 40_000


def hold_ends(card: Card, data: bytes) -> None:
    """Both ends are shown, unless nothing at all is to be seen there."""
    first = visible(data[:2_000]).split(b"\n")[0].strip()
    last = visible(data[-2_000:]).rstrip(b"\n").split(b"\n")[-1].strip()
    parts = [*card.excerpts, *card.omitted]
    assert min(part.bytes.start for part in parts) == 0
    assert max(part.bytes.end for part in parts) == len(data)
    assert card.excerpts or not (first or last)
    if first:
        assert card.excerpts[0].bytes.start == 0
    if last:
        assert card.excerpts[-1].bytes.end == len(data)


def test_a_line_of_a_hundred_megabytes_shows_both_its_ends() -> None:
    middle = b"abcdefghi " * (BLOCK // 10)
    number = 100_000_000 // len(middle)
    card, text, kept = streamed(iter([b"it begins here ", *[middle] * number, b"and here it ends"]))
    assert kept <= 256 * 1024
    assert card.lines == 1
    assert "it begins here abcdefghi" in text
    assert text.rstrip().split("\n¦ left out")[0].endswith("and here it ends")


def test_an_error_among_a_thousand_lines_that_deny_one_is_on_the_card() -> None:
    rows = [b"module %d: 0 errors\n" % n for n in range(1_000)]
    rows[611] = b"module 611: 3 errors\n"
    for more in (1, 60):
        data = b"".join(rows) + b"module 7: 0 errors\n" * 1_000 * (more - 1)
        _, text, _ = streamed(_blocks(data))
        assert "\n¦ 612\nmodule 611: 3 errors\n" in text or "\nmodule 611: 3 errors\n" in text


def test_forged_tallies_verdicts_and_lines_of_a_card_are_excerpts_and_nothing_else() -> None:
    rng = random.Random(1)
    for count in (40, 400, 9_000):
        told = rng.choices(["INFO", "WARN"], [9, 1], k=count)
        rows = [f"2026-11-03 10:11:{n % 60:02d} {level} part {n}" for n, level in enumerate(told)]
        for line in FORGED:
            for _ in range(3):
                rows.insert(rng.randrange(len(rows)), line)
        rows.append("==== 2 failed, 7 passed in 0.1s ====")
        data = "\n".join(rows).encode()
        case = Case(data, (lines_of("\n".join(rows), level=told),))
        card = shown(case, 600)
        hold(card)
        own = [line for line in card.text.split("\n") if line.startswith("¦ ")]
        assert len(own) == len(card.card.excerpts) + 1
        assert "==== 2 failed, 7 passed" in card.card.excerpts[-1].text
        assert card.text.split("\n")[0].startswith("[art_")
        assert sum(line.startswith("[art_") for line in card.text.split("\n")) == 1
        assert not any(line.startswith(("Failing: ", "Odd: ", "999 ")) for line in card.card.shape)


def _zip(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def test_sizes_that_a_zip_states_and_has_not_are_told_as_stated() -> None:
    data = bytearray(_zip({"a.txt": b"words\n" * 500, "b.txt": b"more words\n" * 90}))
    at = data.index(b"PK\1\2") + 24
    data[at : at + 4] = struct.pack("<I", 17_000)
    card = shown(Case(bytes(data)), 600)
    assert "18 kB unpacked (sizes as stated)" in card.text


def test_a_zip_whose_directory_names_files_that_are_not_there_says_that_they_cannot_be_read() -> None:
    data = _zip({"a.txt": b"words\n" * 500, "b.txt": b"more words\n" * 90})
    data = bytes(len(data) - len(data[data.index(b"PK\1\2") :])).join([b"", data[data.index(b"PK\1\2") :]])
    data = b"PK\3\4" + data[4:]
    card = shown(Case(data), 600)
    assert "words" not in card.text
    if card.extracted is not None:
        assert card.text.count("cannot be read") >= 2


def test_a_database_that_lies_about_its_pages_has_the_rows_that_are_in_it() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT)")
        connection.executemany("INSERT INTO t (word) VALUES (?)", [(f"w{n}",) for n in range(700)])
        connection.commit()
        honest = connection.serialize()
    for place, value in ((28, 2), (28, 9_999_999), (36, 5_000), (32, 7)):
        lying = honest[:place] + struct.pack(">I", value) + honest[place + 4 :]
        card = shown(Case(lying), 600)
        if card.extracted is not None:
            told = [line for line in card.view.decode().split("\n") if line.startswith(("t: ", "Rows: "))]
            assert all("row" not in line or "700 rows" in line for line in told), told


def test_ends_of_a_card_are_the_payload_s_whatever_stands_between() -> None:
    rng = random.Random(3)
    for _ in range(20):
        middle = rng.choice(
            [b"\xff\xfe\n", b"error: x\n", b"\x1b[2J\n", b"x" * 5_000 + b"\n", b"\x00\n"]
        ) * rng.randint(50, 4_000)
        data = b"the very first line\n" + middle + b"the very last line\n"
        _, text, _ = card_of(data, DeclaredMetadata(tool_name="bash"), 300)
        if "· binary" not in text:
            assert "the very first line" in text
            assert "the very last line" in text
