"""Forms of records and of values that tools print: what a card says of each, and what it must not take for one."""

import json
import re

import pytest

from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.kinds import recognise
from coatcheck.core.records.counts import records_in
from coatcheck.core.records.describe import tell
from coatcheck.core.records.lines import facts_of_pairs, facts_of_words
from coatcheck.core.records.objects import lists_in
from coatcheck.core.records.stream import RecordStream
from coatcheck.core.records.tables import read_columns
from core.sample_payloads import sample_of

_BLOCK = 1 << 18
_FAILED = (17, 5_020, 9_999)


def _facts(text: str) -> list[str]:
    return tell(records_in(text.encode())).facts


@pytest.mark.parametrize(
    ("times", "span"),
    [
        (["16 Apr 2026", "2 Jan 2027", "3 Nov 2025"], "3 Nov 2025 to 2 Jan 2027 (b)"),
        (
            ["Mar  3 12:09:48 2023 GMT", "Dec 31 09:37:37 2030 GMT", "Mar  4 00:00:00 2023 GMT"],
            "Mar  3 12:09:48 2023 GMT (a) to Dec 31 09:37:37 2030 GMT (b)",
        ),
        (
            ["Thu, 16 Apr 2026 18:00:00 +0000", "Mon, 23 Nov 2026 18:00:00 +0000", "Tue, 17 Nov 2026 18:00:00 +0000"],
            "Thu, 16 Apr 2026 18:00:00 +0000 (a) to Mon, 23 Nov 2026 18:00:00 +0000 (b)",
        ),
        (
            ["02/May/2026:06:00:00", "01/Jun/2026:05:00:00", "01/May/2026:07:00:00"],
            "01/May/2026:07:00:00 to 01/Jun/2026:05:00:00 (b)",
        ),
    ],
)
def test_times_with_months_in_words_have_a_range(times: list[str], span: str) -> None:
    records = [{"name": name, "at": at} for name, at in zip("abc", times, strict=True)]
    others = [{"name": f"n{n}", "at": times[2]} for n in range(8)]
    assert tell(lists_in([*records, *others])).facts == [f"11 $[*]: at {span}"]


def test_times_of_several_forms_have_none() -> None:
    forms = ["16 Apr 2026", "Apr 16 2026", "2026-04-16", "16 Apr 2026 GMT", "soon"]
    records = [{"name": f"n{n}", "at": f"{forms[n % 5]}"} for n in range(20)]
    assert " to " not in " ".join(tell(lists_in(records)).facts)


def test_an_extreme_is_that_of_a_record_by_its_name_its_time_or_its_place() -> None:
    named = [{"command": f"./render --scene attic-{n} --threads {n}", "max": (n * 7) % 20 + 0.5} for n in range(20)]
    assert tell(lists_in(named)).facts[-1].endswith('to 19.5 ("./render --scene attic-17 --threads 17")')
    series = [{"ele": (n * 7) % 80 + 0.5, "time": f"2026-11-27T06:{n:02}:00Z"} for n in range(60)]
    series[30]["ele"] = 99.5
    assert "to 99.5 (2026-11-27T06:30:00Z)" in tell(lists_in(series)).facts[-1]
    placed = [{"ele": (n * 7) % 80 + 0.5, "lat": n % 9} for n in range(60)]
    placed[30]["ele"] = 89.5
    assert "to 89.5 ($[30])" in tell(lists_in(placed)).facts[-1]


def test_records_are_named_by_what_is_called_like_them() -> None:
    instances = [{"address": f"10.0.0.{n}", "instanceId": f"i-{n}x", "cost": (n * 7) % 30} for n in range(30)]
    assert tell(lists_in({"instances": instances})).facts[-1].endswith("cost 0 (i-0x) to 29 (i-17x)")


def test_keys_that_are_data_are_no_fields() -> None:
    packages = {
        f"node_modules/p{n}": {"dependencies": {f"d{n}": "1", f"e{n}": "2"}, "license": "ISC" if n % 3 else "MIT"}
        for n in range(200)
    }
    assert tell(lists_in({"packages": packages})).facts == ["200 $.packages.*: license ISC 133, MIT 67"]


TITLED = "Symbol table '.dynsym' contains 30 entries:\n   Num:  Size Type    Ndx Name\n" + "".join(
    f"{n:6}: {n * 7 % 30:5} {'FUNC  ' if n % 3 else 'OBJECT'}  {'UND' if n % 4 == 0 else ' 15'} name_{n}\n"
    for n in range(30)
)
RECURRING = "Linux 6.1 (host)\t11/27/2026\n\n" + "".join(
    f"avg-cpu:  %user  %idle\n          {block}.19  64.63\n\nDevice    tps  %util\n"
    + "".join(f"sd{each}     {(block * 31 + at * 17) % 90:4}.5  {block + at:4}.5\n" for at, each in enumerate("abcdef"))
    + "\n"
    for block in range(6)
)
PROSE = "Notes of today:\nwe had three points\n" + "".join(
    f"point number {word} was long\nand then it was not\n" for word in ("one", "two", "three", "four")
)


def test_a_table_may_have_a_title() -> None:
    assert _facts(TITLED)[-1].startswith("30 rows: Type FUNC 20, OBJECT 10; Ndx 15 22, UND 8; Size 0")


def test_a_table_may_recur() -> None:
    assert _facts(RECURRING)[-1].startswith("36 rows: Device sda 6, sdb 6")
    assert "%util 0.5 to 10.5" in _facts(RECURRING)[-1]


def test_prose_is_no_table() -> None:
    assert read_columns(PROSE) is None
    assert read_columns("\n".join(f"src/a.py:{n}: error: it is wrong  [misc]" for n in range(9))) is None


def test_paragraphs_of_pairs_may_have_texts_and_any_fields() -> None:
    packages = "\n".join(
        f"Package: lib{n}\nInstalled-Size: {n * 7 % 90 + 10}\nSection: {'libs' if n % 3 else 'perl'}\n"
        + "".join(f"Extra-{each}: x\n" for each in range(n % 12))
        + "Description: a library\n It goes on for a while.\n .\n With: signs that look like pairs.\n"
        for n in range(60)
    )
    line = _facts(packages)[-1]
    assert line.startswith("60 items: ")
    assert "Section libs 40, perl 20" in line
    assert line.endswith("Installed-Size 10 (lib0) to 97 (lib51)")


def test_codes_in_a_column_of_words_are_counted() -> None:
    lines = [
        f"10.8.2.{n}:4 [27/Nov:{n}] web~ api/w{n} 8/0/{n} {503 if n % 10 == 3 else 200} {n * 31}" for n in range(200)
    ]
    assert "word 6 200 180, 503 20" in facts_of_words("\n".join(lines).encode())[-1]


def _streamed(data: bytes) -> list[str]:
    stream = RecordStream()
    for at in range(0, len(data), _BLOCK):
        stream.feed(data[at : at + _BLOCK])
    return stream.collect_facts().facts


def _outcome(number: int) -> dict[str, object]:
    failed = number in _FAILED
    return {
        "test": {"name": f"test_{number}"},
        "status": "failed" if failed else "passed",
        "message": f"assert {number} == 0" if failed else "",
        "text": "x" * 200,
    }


@pytest.mark.parametrize("form", ["array", "lines", "rows"])
def test_failed_records_of_a_large_stream_are_named(form: str) -> None:
    records = [_outcome(number) for number in range(12_000)]
    if form == "array":
        data = json.dumps(records)
    elif form == "lines":
        data = "\n".join(map(json.dumps, records))
    else:
        data = "name,status,message,text\n" + "".join(
            f"test_{number},{each['status']},{each['message']},{each['text']}\n" for number, each in enumerate(records)
        )
    assert len(data) > 2 * 1024 * 1024
    place, noun = ("row {}", "rows") if form == "rows" else ("$[{}]", "$[*]")
    assert _streamed(data.encode())[:4] == [
        f"Failing: 3 of 12000 {noun}",
        *(f'test_{each} ({place.format(each + (form == "rows"))}): "assert {each} == 0"' for each in _FAILED),
    ]


def test_of_many_failed_records_of_a_stream_the_first_are_named_and_all_counted() -> None:
    records = [_outcome(number) | {"status": "failed" if number % 5 == 1 else "passed"} for number in range(12_000)]
    first = _streamed(json.dumps(records).encode())[0]
    names = ", ".join(f"test_{number}" for number in range(1, 51, 5))
    assert first == f"Failing: 2400 of 12000 $[*], the first: {names}"


def test_a_stream_without_failed_records_names_none() -> None:
    records = [_outcome(number) | {"status": "passed", "message": ""} for number in range(12_000)]
    assert not any(line.startswith("Failing") for line in _streamed(json.dumps(records).encode()))


def test_numbers_in_a_column_of_lines_have_a_range_named_by_the_last_word() -> None:
    sizes = "".join(f"{n * 37 % 101 * 4}\tservice/part_{n}.py\n" for n in range(60))
    assert facts_of_words(sizes.encode()) == ["60 lines: word 1 0 (service/part_0.py) to 400 (service/part_30.py)"]
    counted = "".join(f"{n * 37 % 101:6} service/part_{n}.py\n" for n in range(60)) + "  9999 total\n"
    assert facts_of_words(counted.encode()) == ["60 lines: word 1 0 (service/part_0.py) to 100 (service/part_30.py)"]


def test_numbers_of_lines_of_several_sorts_have_none() -> None:
    lines = "".join(f"took {n} ms\nthen went on to the next one, {n}\n" for n in range(60))
    assert facts_of_words(lines.encode()) == ["120 lines: word 1 then 60, took 60"]


def test_pairs_in_lines_have_values_and_ranges() -> None:
    threads = "".join(
        f'"render-{n}" #{n} prio={5 + 3 * (n % 3 == 0)} cpu={n * 37 % 61 / 100:.2f}ms elapsed={n}.5s\n'
        f"   java.lang.Thread.State: RUNNABLE\n\tat a.b.C.run(C.java:{n})\n"
        for n in range(40)
    )
    (line,) = facts_of_pairs(threads.encode())
    assert line.startswith("40 lines with prio: prio 5 26, 8 14; cpu 0.00ms ")
    assert line.endswith('elapsed 0.5s ("\\"render-0\\" #0") to 39.5s ("\\"render-39\\" #39")')


@pytest.mark.parametrize(
    "lines",
    [
        [f"GET /a/{n}?error={n} HTTP/1.1" for n in range(60)],
        [f"cc -O2 -DLEVEL={n} --std=c{n % 3} -c part_{n}.c" for n in range(60)],
        [f"step {n} says rate={n}" for n in range(60)],
        [*(f"took={n} of={n}" for n in range(30)), "error: could not write the result: no space left"],
    ],
    ids=["addresses", "options", "one key", "a failure"],
)
def test_other_signs_of_equality_are_no_fields(lines: list[str]) -> None:
    assert facts_of_pairs("\n".join(lines).encode()) == []


def test_a_word_that_many_lines_end_with_is_counted() -> None:
    tree = "".join(f"+-- part-{n}@{n}.0 {'deduped' if n % 2 else ''}\n" for n in range(100))
    assert facts_of_words(tree.encode()) == ["100 lines: last word deduped 50, … 50 more values"]
    failed = tree + "error: could not write the result: no space left\n"
    assert facts_of_words(failed.encode()) == []


def test_the_header_of_a_table_may_be_a_comment() -> None:
    rows = "".join(f"chr{n % 3}\t{n * 977 % 5_000}\t{'LowQual' if n % 5 == 0 else 'PASS'}\n" for n in range(60))
    table = f"##fileformat=4.2\n##source=a caller\n#CHROM\tPOS\tFILTER\n{rows}"
    facts = recognise(sample_of(table.encode()), DeclaredMetadata()).shape
    assert facts[0] == "60 rows below the first, 3 columns, tab-separated"
    assert facts[1].startswith("60 rows: FILTER PASS 48, LowQual 12; CHROM chr0 20, chr1 20, chr2 20; POS 0 ")
    large = f"##fileformat=4.2\n#CHROM\tPOS\tFILTER\n{rows * 3_000}"
    assert _streamed(large.encode())[0].startswith("180000 rows: FILTER PASS 144000, LowQual 36000; CHROM chr0 60000, ")


def test_a_comment_above_a_header_is_none() -> None:
    table = "# made, by, hand\nname,size,kind\n" + "".join(f"n{n},{n},x{n % 3}\n" for n in range(60))
    facts = recognise(sample_of(table.encode()), DeclaredMetadata()).shape
    assert facts[0] == "60 rows below the first, 3 columns, comma-separated"
    assert "size 0" in facts[1]


def test_records_below_rules_are_read() -> None:
    settings = "".join(
        f"-[ RECORD {n} ]---+-----\nname    | setting_{n}\ncontext | {'postmaster' if n % 4 == 0 else 'user'}\n"
        for n in range(1, 61)
    )
    assert _facts(settings) == ["60 items: context user 45, postmaster 15"]


def test_an_odd_record_is_told_with_what_it_is_in() -> None:
    hosts = "".join(
        f'<host name="lathe-{n}"><ports><port id="22"><service name="{"telnet" if n == 17 else "ssh"}"/></port>'
        f'<port id="80"><service name="http"/></port></ports></host>\n'
        for n in range(40)
    )
    facts = _facts(f'<?xml version="1.0"?>\n<run>\n{hosts}</run>\n')
    assert "Odd: lathe-17 (line 20): service.name=telnet" in facts


def test_pairs_of_very_long_lines_are_not_counted_in_part() -> None:
    lines = "".join(f"a={n} b={n} {'x' * 5_000} c={n}\n" for n in range(40))
    assert facts_of_pairs(lines.encode()) == []
    wide = "".join(f"a={n} b={n} {'x' * 2_000} c={n % 2}\n" for n in range(40))
    assert "c 0 20, 1 20" in facts_of_pairs(wide.encode())[0]


def test_signs_that_end_lines_elsewhere_do_not_move_the_header_below_comments() -> None:
    rows = "".join(f"n{n}\t{n}\tx{n % 3}\n" for n in range(60))
    table = f"# a\u2028b\x0bc\n#name\tsize\tkind\n{rows}"
    facts = recognise(sample_of(table.encode()), DeclaredMetadata()).shape
    assert not any(re.match(r"(?!60)\d+ rows", line) for line in facts)
