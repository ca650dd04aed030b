"""What a card says of a table's columns: ranges of numbers and dates, and values that are few or lead."""

from coatcheck.core.artifact import DeclaredMetadata, Kind
from coatcheck.core.kinds import recognise
from coatcheck.core.structure.column_values import column_facts
from core.sample_payloads import sample_of, survey_of

ROWS = [["day", "value", "state", "id"]] + [
    [f"2026-03-{1 + n % 28:02d}", str(n / 4 - 2), "late" if n == 7 else "up", f"k{n}"] for n in range(90)
]


def _facts(data: bytes) -> tuple[str, ...]:
    facts = recognise(sample_of(data), DeclaredMetadata(), survey_of(data))
    assert facts.kind is Kind.TABLE
    return facts.shape


def test_a_table_says_from_where_to_where_its_columns_reach() -> None:
    assert _facts("\n".join(map(",".join, ROWS)).encode())[2:] == (
        "Ranges: day 2026-03-01 to 2026-03-28; value -2.0 to 20.25",
        'Counts of state: "up" 89, "late" 1',
    )


def test_of_a_large_table_the_first_rows_are_told() -> None:
    text = "".join(f"{n},{n % 70},x{n}\n" for n in range(60_000))
    shape = _facts(f"number,rest,name\n{text}".encode())
    rows = int(shape[2].removeprefix("Ranges of the first ").partition(" rows: ")[0])
    assert 8_000 < rows < 60_000
    assert shape[2] == f"Ranges of the first {rows} rows: number 0 to {rows - 1}; rest 0 to 69"


def test_a_column_without_a_name_is_told_by_its_number() -> None:
    rows = [[str(n), "a;b"] for n in range(8)]
    assert column_facts([["5", "x: y"], *rows]) == ["Ranges: column 1 0 to 7"]


def test_cells_that_are_blank_or_of_two_sorts_have_no_range() -> None:
    rows = [["", str(n) if n % 2 else f"w{n}", f"{n}-05"] for n in range(12)]
    assert column_facts([["a", "b", "c"], *rows]) == []


def test_values_that_lead_are_named_with_their_counts() -> None:
    rows = [[code, f"row {n}"] for n, code in enumerate(["E1"] * 40 + ["E2"] * 9 + [f"F{n % 8}" for n in range(32)])]
    assert column_facts([["code", "text"], *rows])[0].startswith('Counts of code: "E1" 40, "E2" 9, "F0" 4, ')
