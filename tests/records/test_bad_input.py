"""Records of every size, sort and malice: facts that are true, or none, soon and from little memory."""

import json
import re
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from time import process_time
from typing import Final

import pytest

from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.kinds import recognise
from coatcheck.core.records.counts import documents_in, records_in
from coatcheck.core.records.describe import tell
from coatcheck.core.records.objects import lists_in
from coatcheck.core.records.statistics import examine
from coatcheck.core.records.stream import read_records
from coatcheck.core.records.tables import rows_of as table_rows
from coatcheck.core.records.yaml import read_xml, read_yaml
from coatcheck.core.survey import Surveyor
from core.sample_payloads import sample_of, survey_of
from facts.found_records import JsonLists, xml_lists, yaml_lists
from facts.says_records import RecordsOracle
from facts.says_tables import TableOracle

HANGS: Final = 20.0
"""Seconds that nothing takes which ends at all."""


def _facts(data: bytes) -> tuple[str, ...]:
    return recognise(sample_of(data), DeclaredMetadata(), survey_of(data)).shape


def _hold(facts: list[str], oracle: RecordsOracle) -> None:
    assert facts
    for line in facts:
        assert oracle(line), line


def _within(work: Callable[[], object], megabytes: int = 400) -> None:
    """The work ends soon, in bounded memory."""
    tracemalloc.start()
    begin = process_time()
    try:
        work()
        assert process_time() - begin < HANGS
        assert tracemalloc.get_traced_memory()[1] < megabytes * 1_000_000
    finally:
        tracemalloc.stop()


def test_records_of_a_million_fields() -> None:
    wide = {f"k{n}": n for n in range(1_000_000)}
    assert tell(lists_in([wide] * 2)).facts == []
    data = json.dumps([{f"k{n}": n for n in range(4_000)} for _ in range(9)]).encode()
    _within(lambda: read_records(data))


def test_a_field_of_a_million_values() -> None:
    values = [f"v{n}" for n in range(1_000_000)]
    statistic = examine(values)
    assert (statistic.present, statistic.counts, statistic.least) == (1_000_000, None, None)
    numbers = examine(range(1_000_000))
    assert numbers.least is not None
    assert numbers.greatest is not None
    assert (numbers.least.value, numbers.greatest.value) == (0, 999_999)


NUMBERS: Final[dict[str, Sequence[object]]] = {
    "text among numbers": [*range(40), "n/a"],
    "NaN": [*map(float, range(40)), float("nan")],
    "infinite": [*map(float, range(40)), float("inf")],
    "four hundred digits": [*range(40), 10**400],
    "four hundred digits among fractions": [*range(40), 10**400, 0.5],
    "texts of four hundred digits": [*map(str, range(40)), "9" * 400],
    "signs and blanks": [*map(str, range(40)), "-", " "],
    "two units": [f"{n} ms" for n in range(40)] + ["7 s"],
}


@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_not_all_finite_numbers_of_one_unit_has_no_range(name: str) -> None:
    statistic = examine(NUMBERS[name])
    assert statistic.least is None
    assert statistic.present == sum(each != "" for each in NUMBERS[name])


def test_columns_without_a_name_take_no_name_of_another() -> None:
    for names in (["column 2", ""], ["", "column 1"], ["a", "a", "column 2"]):
        rows = [[f"{name} {at}" for at, name in enumerate(names)] for _ in range(5)]
        assert len(table_rows(names, rows, range(2, 7)).columns) == len(names)


def test_numbers_as_text_are_compared_as_numbers() -> None:
    for values, least, greatest in (
        (["9", "10", "1,204", "-0.5"], "-0.5", "1,204"),
        (["9ms", "10ms", "0.1ms"], "0.1ms", "10ms"),
        ([" 9 ", "+10"], " 9 ", "+10"),
        (["1e-05", "0.5", "2."], "1e-05", "2."),
        (["1e3 ms", "10 ms"], "10 ms", "1e3 ms"),
    ):
        statistic = examine(values)
        assert statistic.least is not None
        assert statistic.greatest is not None
        assert (statistic.least.value, statistic.greatest.value) == (least, greatest)


TIMES: Final = (
    "2026-03-01",
    "2026/03/01",
    "2026-03-01 10:00",
    "2026-03-01 10:00:00",
    "2026-03-01T10:00:00",
    "2026-03-01T10:00:00Z",
    "2026-03-01T10:00:00+01:00",
    "2026-03-01 10:00:00,123",
    "01.03.2026",
    "1 Mar 2026 10:00",
)


def test_times_in_ten_formats_have_no_range_and_those_in_one_have() -> None:
    assert examine(list(TIMES)).least is None
    for time in TIMES[:8]:
        later = examine([time, time.replace("2026", "2031"), time.replace("2026", "1999")])
        assert later.least is not None
        assert later.greatest is not None
        assert (later.least.record, later.greatest.record) == (2, 1)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("2026-03-01T10:00:00Z", "2026-03-01T10:00:00.5Z"),
        ("2026-03-01T10:00:00.5Z", "2026-03-01T10:00:00.55Z"),
        ("2026-03-01 10:00:00-01:00", "2026-03-01 10:00:00,5-01:00"),
    ],
)
def test_fractions_of_seconds_of_any_length_are_in_order(earlier: str, later: str) -> None:
    statistic = examine([later, earlier])
    assert statistic.least is not None
    assert statistic.least.value == earlier


@pytest.mark.parametrize("time", ["2026-03-01T10:00:00{}", "2026-03-01T10:00{}", "2026-03-01 10:00:00.5 {}"])
def test_times_in_two_zones_have_no_range(time: str) -> None:
    assert examine([time.format("+01:00")] * 3).least is not None
    assert examine([time.format("+01:00"), time.format("+02:00")]).least is None


def test_a_list_of_more_objects_than_are_visited_has_no_wrong_number() -> None:
    many: list[object] = [{"a": n % 2} for n in range(150_000)]
    data = json.dumps(many, separators=(",", ":")).encode()
    assert len(data) < 2_000_000
    for line in read_records(data).facts:
        assert "150000 $[*]" in line, line


def test_ragged_rows_and_open_quotes() -> None:
    rows = [["id", "state", "took"], *([str(n), "ok", str(n % 7)][: 1 + n % 3] for n in range(60))]
    data = "\n".join(",".join(row) for row in rows).encode()
    oracle = TableOracle(data, ",")
    for line in _facts(data):
        assert oracle(line), line
    for line in _facts(b"id,state\n" + b"".join(b'%d,"open %d\n' % (n, n) for n in range(60))):
        assert not re.match(r"\d+ rows?", line)
        assert not line.startswith(("Failing", "Odd"))


def test_quoted_cells_with_line_feeds_are_one_row_each_in_memory_and_streamed() -> None:
    for count in (90, 30_000):
        rows = "".join(f'{n},{"late" if n % 9 == 0 else "up"},"first\nsecond {n}, ""x"""\n' for n in range(count))
        data = f"id,state,note\n{rows}".encode()
        oracle = TableOracle(data, ",")
        facts = _facts(data)
        assert any(line.startswith(f"{count} rows: state up ") for line in facts)
        for line in facts:
            assert oracle(line), line


XML_REFUSED: Final[dict[str, Callable[[], bytes]]] = {
    "100,000 open elements": lambda: b"<a>" * 100_000,
    "a hundred thousand levels": lambda: b"<a>" * 100_000 + b"</a>" * 100_000,
    "an entity": lambda: b'<!DOCTYPE r [<!ENTITY x "y">]><r>' + b"<i a='1'>&x;</i>" * 30 + b"</r>",
    "billion laughs": lambda: (
        b"<?xml version='1.0'?><!DOCTYPE r [<!ENTITY a0 'ha'>"
        + b"".join(b"<!ENTITY a%d '%s'>" % (n, b"&a%d;" % (n - 1) * 10) for n in range(1, 12))
        + b"]><r>"
        + b"<i a='1'>&a11;</i>" * 30
        + b"</r>"
    ),
    "a file as an entity": lambda: (
        b'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><r>' + b"<i>&x;</i>" * 30 + b"</r>"
    ),
    "not closed": lambda: b"<r>" + b"<i a='1'/>" * 30,
    "two roots": lambda: b"<i a='1'/>" * 30,
    "no UTF-8": lambda: b"<r>" + b"<i a='\xff'/>" * 30 + b"</r>",
}


@pytest.mark.parametrize("name", XML_REFUSED)
def test_xml_that_is_refused_has_no_facts(name: str) -> None:
    data = XML_REFUSED[name]()

    def read() -> None:
        assert read_xml(data) is None
        assert documents_in(data) == []

    _within(read, 40)


def test_wide_xml_is_counted() -> None:
    data = b"<r>" + b"<i/>" * 500_000 + b"</r>"
    assert len(data) < 2 * 1024 * 1024
    _within(lambda: documents_in(data))
    data = (
        b"<r>\n" + b"".join(b"<i s='%s' n='%d'/>\n" % (b"bad" if n == 7 else b"ok", n) for n in range(60_000)) + b"</r>"
    )
    _hold(read_records(data).facts, RecordsOracle(*xml_lists(data)))


YAML_TEXT: Final[dict[str, str]] = {
    "anchors": "base: &base\n  state: ok\nitems:\n" + "".join(f"- name: n{n}\n  all: *base\n" for n in range(30)),
    "merges": "base: &base\n  state: ok\nitems:\n" + "".join(f"- name: n{n}\n  <<: *base\n" for n in range(30)),
    "a bomb": "a: &a [x, x]\n"
    + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(20))
    + "items:\n"
    + "".join(f"- name: n{n}\n  size: {n}\n" for n in range(30)),
    "tags": "items:\n" + "".join(f"- name: !!python/object:os.system n{n}\n  size: {n}\n" for n in range(30)),
}


@pytest.mark.parametrize("name", YAML_TEXT)
def test_anchors_aliases_and_tags_of_yaml_are_text(name: str) -> None:
    data = YAML_TEXT[name].encode()

    def read() -> None:
        facts = tell(documents_in(data)).facts
        assert "ok" not in " ".join(facts)
        for line in facts:
            assert line.startswith(("30 items", "Odd: ")), line

    _within(read, 40)


def test_deep_yaml_is_refused() -> None:
    data = "\n".join(f"{' ' * n}k{n}:" for n in range(2_000)).encode() + b"\n"
    _within(lambda: documents_in(data), 40)
    assert read_yaml(data) is None


def test_yaml_lists_are_told() -> None:
    text = "items:\n" + "".join(
        f"- name: web-{n}\n  phase: {'Pending' if n == 17 else 'Running'}\n  restarts: {57 if n == 17 else 0}\n"
        for n in range(24)
    )
    facts = tell(documents_in(text.encode())).facts
    _hold(facts, RecordsOracle(*yaml_lists(text)))
    assert any(line.startswith(("Odd: web-17 (line 53): ", "web-17 (line 53): ")) for line in facts)


def test_findings_of_fifty_runs_are_one_list() -> None:
    runs = [
        {
            "tool": {"driver": {"name": f"lint {n}"}},
            "results": [
                {"ruleId": f"S{k % 3}", "level": "error" if k else "note", "message": {"text": f"text {n} {k}"}}
                for k in range(1 + n % 5)
            ],
        }
        for n in range(50)
    ]
    value = {"version": "2.1.0", "runs": runs}
    facts = read_records(json.dumps(value).encode()).facts
    assert any(line.startswith("Failing: 100 of 150 $.runs[*].results[*]") for line in facts)
    oracle = RecordsOracle(find=JsonLists(value).at)
    for line in facts[1:]:
        assert oracle(line), line


def test_findings_are_told_before_keys_in_few_tokens() -> None:
    results = [
        {"ruleId": f"R{n % 4}", "level": "note" if n % 4 == 3 else "error", "message": {"id": "default"}}
        for n in range(15)
    ]
    strings = {f"message_{n}": {"text": "words " * 9} for n in range(40)}
    driver = {"name": "lint", "rules": [{"id": f"R{n}", "messageStrings": strings} for n in range(4)]}
    value = {"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    facts = _facts(json.dumps(value).encode())
    told = [at for at, line in enumerate(facts) if line.startswith("15 $.runs[*].results[*]: level error 12, note 3; ")]
    keys = [at for at, line in enumerate(facts) if line.startswith("$: ")]
    assert told < keys
    assert "ruleId R0 4, R1 4, R2 4, R3 3" in facts[told[0]]


def test_lists_of_lists_are_no_records() -> None:
    assert read_records(json.dumps({"rows": [[n, "failed"] for n in range(90)]}).encode()).facts == []
    nested = [[{"state": "failed", "n": n}] for n in range(90)]
    oracle = RecordsOracle(find=JsonLists(nested).at)
    for line in read_records(json.dumps(nested).encode()).facts:
        assert oracle(line), line


def test_keys_that_are_ids_are_names_of_records() -> None:
    users = {f"user_{n}": {"state": "failed" if n == 7 else "ok", "size": n} for n in range(60)}
    facts = read_records(json.dumps(users).encode()).facts
    _hold(facts, RecordsOracle(find=JsonLists(users).at))
    assert facts[:2] == ["Failing: 1 of 60 $.*", "user_7 ($.user_7): state=failed"]


def test_a_few_lines_that_are_no_json_are_told_beside_the_records() -> None:
    lines = [json.dumps({"level": "info" if n % 9 else "warn", "n": n, "pad": "x" * 60}) for n in range(9_000)]
    for at in (300, 4_000, 8_000):
        lines.insert(at, "-- rotated --")
    (told, *_) = _facts("\n".join(lines).encode())
    assert told.startswith("9000 $[*]: level info 8000, warn 1000")
    assert told.endswith("; 3 other lines")


def _made() -> Iterator[tuple[str, bytes]]:
    records = [{"state": "up" if n % 7 else "late", "took": n % 50, "pad": "größe " * 9} for n in range(9_000)]
    yield "lines", "\n".join(json.dumps(each, ensure_ascii=False) for each in records).encode()
    yield "array", json.dumps(records, ensure_ascii=False).encode()
    yield "document", json.dumps({"items": records}).encode()
    rows = "".join(f'{each["state"]},{each["took"]},"{each["pad"]}\nmore"\n' for each in records)
    yield "table", f"state,took,pad\n{rows}".encode()
    cells = "".join(f'<i state="{each["state"]}" took="{each["took"]}">{each["pad"]}</i>\n' for each in records)
    yield "xml", f"<r>\n{cells}</r>\n".encode()
    yield (
        "yaml",
        ("items:\n" + "".join(f"- state: {each['state']}\n  took: {each['took']}\n" for each in records)).encode(),
    )


@pytest.mark.parametrize(("name", "data"), list(_made()), ids=lambda each: each if isinstance(each, str) else "")
def test_facts_are_the_same_however_a_stream_is_split(name: str, data: bytes) -> None:
    told: set[tuple[str, ...]] = set()
    for sizes in ((len(data),), (600_000, 1, 17, 300_000), (70_001,), (4_093,)):
        surveyor, at, number = Surveyor(), 0, 0
        while at < len(data):
            size = sizes[number % len(sizes)]
            surveyor.feed(data[at : at + size])
            at, number = at + size, number + 1
        told.add(surveyor.finish().facts)
    (facts,) = told
    assert any("state up 7714, late 1286" in line and "took 0 to 49" in line for line in facts), (name, facts)


def test_texts_without_records_have_no_facts() -> None:
    for text in (b"", b"\n", b"a: b", b"word " * 900, b"<", b"<!--", b"- \n" * 30, b"{" * 5_000, b"\x00" * 5_000):
        assert tell(records_in(text)).facts == []
        assert read_records(text).facts == []


def test_failed_records_without_a_message_cost_no_more_the_more_there_are() -> None:
    """Tens of thousands of them: work for each pair of them would take an hour."""
    data = json.dumps(
        [{"name": f"t{n % 9}", "status": "failed" if n % 2 else "passed"} for n in range(50_000)]
    ).encode()
    facts = read_records(data).facts
    assert facts[0].startswith("Failing: 25000 of 50000 $[*]: t1 2778, t3 2778, t5 2778, t7 2778, ")


def test_what_an_event_says_is_told_of_the_failed_event_of_its_name() -> None:
    said = [{"event": "output", "test": f"t{n % 30}", "output": f"line {n}"} for n in range(600)]
    said[77]["output"] = "panic: no such desk"
    ended = [{"event": "fail" if n in {3, 17} else "pass", "test": f"t{n}"} for n in range(30)]
    facts = read_records(b"\n".join(json.dumps(each).encode() for each in [*said, *ended])).facts
    assert facts[:3] == [
        "Failing: 2 of 630 $[*]",
        't3 ($[603]): event=fail, "line 3"',
        't17 ($[617]): event=fail, "panic: no such desk"',
    ]


def test_records_with_a_key_in_a_text_stand_where_they_begin() -> None:
    services = [f"  s{n}:\n    image: r/x:{n}\n    state: {'failed' if n == 7 else 'up'}\n" for n in range(30)]
    facts = tell(documents_in(f"services:\n{''.join(services)}".encode())).facts
    assert facts[:2] == ["Failing: 1 of 30 services", "s7 (line 24): state=failed"]


def test_rows_that_stream_in_below_no_header_are_all_counted() -> None:
    rows = [f"2026-03-{1 + n % 28:02d},{('paid', 'open')[n % 4 == 0]},{n % 9}.5" for n in range(40_000)]
    facts = _facts("".join(f"{row}\n" for row in rows).encode())
    assert any(line.startswith("40000 rows: column 2 paid 30000, open 10000; ") for line in facts), facts


def test_signs_that_end_lines_elsewhere_are_parts_of_cells() -> None:
    cells = ("plain", "a\x0cb\u2028c")
    rows = [f"{n},{cells[n > 5_000]},{('x', 'y')[n % 2]}" for n in range(40_000)]
    facts = _facts("".join(f"{row}\n" for row in ["id,note,sort", *rows]).encode())
    assert any("40000 rows: " in line and "sort x 20000, y 20000" in line for line in facts), facts


@pytest.mark.parametrize("streamed", [False, True])
def test_true_and_one_are_not_counted_as_one_value(*, streamed: bool) -> None:
    records = [{"sort": ("a", "b")[n % 2], "on": (1, True, 0)[n % 3]} for n in range(100_000 if streamed else 300)]
    facts = _facts(b"\n".join(json.dumps(each).encode() for each in records))
    assert any("sort a " in line for line in facts)
    assert not any(re.search(r"\bon (?:1|true|0|false) ", line) for line in facts), facts
