"""Which values lead among the records of JSON lines and of arrays, in memory and streamed."""

import json

from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.kinds import recognise
from coatcheck.core.structure.record_values import RecordTotals, counts_of
from core.sample_payloads import sample_of, survey_of

RULES = [f"E{number:03d}" for number in range(40) for _ in range(1 + 400 // (number + 1))]
RECORDS = [{"rule": rule, "row": n, "text": f"about {n}", "fix": {"safe": n % 3 == 0}} for n, rule in enumerate(RULES)]
LINES = "\n".join(map(json.dumps, RECORDS)).encode()
RULE_COUNTS = (
    'Counts of $[*].rule: "E000" 401, "E001" 201, "E002" 134, "E003" 101, "E004" 81, "E005" 67, "E006" 58, "E007" 51,'
    " … 32 more values"
)
SAFE_COUNTS = "Counts of $[*].fix.safe: false 1158, true 580"


def _counts(data: bytes) -> list[str]:
    facts = recognise(sample_of(data), DeclaredMetadata(), survey_of(data))
    return [line for line in facts.shape if line.startswith("Counts")]


def test_rules_that_lead_are_counted_in_lines_and_in_arrays() -> None:
    for data in (LINES, json.dumps(RECORDS).encode(), json.dumps(RECORDS, indent=1).encode()):
        assert set(counts_of(data)) == {RULE_COUNTS, SAFE_COUNTS}
        assert set(_counts(data)) == {RULE_COUNTS, SAFE_COUNTS}


def test_rules_that_lead_are_counted_in_a_list_inside_a_document() -> None:
    report = json.dumps({"tool": "lint", "results": RECORDS}).encode()
    assert set(_counts(report)) == {each.replace("$[*]", "$.results[*]") for each in (RULE_COUNTS, SAFE_COUNTS)}


def test_of_two_members_that_tell_the_same_the_one_with_words_is_counted() -> None:
    rows = [
        {"row": n, "status": "Not Found" if n % 9 == 0 else "OK", "code": 404 if n % 9 == 0 else 200} for n in range(90)
    ]
    assert _counts(json.dumps(rows).encode()) == ['Counts of $[*].status: "OK" 80, "Not Found" 10']
    for n, each in enumerate(rows):  # as often, but not together
        each["code"] = 404 if n < 10 else 200
    assert len(_counts(json.dumps(rows).encode())) == 2


def test_a_streamed_payload_is_counted_whole() -> None:
    many = RECORDS * 12
    wanted = 'Counts of $[*].rule: "E000" 4812, "E001" 2412,'
    for data in ("\n".join(map(json.dumps, many)).encode(), json.dumps(many).encode()):
        assert len(data) > 600_000
        assert any(line.startswith(wanted) for line in _counts(data))


def test_the_counts_are_the_same_however_the_text_is_split() -> None:
    totals = RecordTotals(array=False)
    for start in range(0, len(LINES), 70_001):
        totals.feed(LINES[start : start + 70_001])
    assert totals.facts() == counts_of(LINES)


def test_a_line_that_is_no_record_is_told_and_many_are_not_counted() -> None:
    assert counts_of(LINES + b"\n{cut")[0].startswith("Counts of $[*].rule in 1738 of 1739 lines: ")
    assert counts_of(LINES + b"\nsome words" * 200) == ()


def test_what_breaks_off_or_goes_on_has_no_counts() -> None:
    whole = json.dumps(RECORDS).encode()
    assert counts_of(whole[:-1]) == ()
    assert counts_of(whole + b" and more") == ()
    assert counts_of(whole.replace(b"E003", b"E003\xff", 1)) == ()


def test_numbers_sentences_and_different_texts_do_not_lead() -> None:
    records = [{"size": n % 90, "id": f"k{n}", "text": f"a sentence of words {n % 7}"} for n in range(900)]
    assert counts_of(json.dumps(records).encode()) == ()


def test_a_member_with_values_of_two_types_is_not_counted() -> None:
    records = [*RECORDS, {"rule": 7}]
    assert counts_of("\n".join(map(json.dumps, records)).encode()) == (SAFE_COUNTS,)
