"""What plain counting says of lines: how many have each value of a field, or each word."""

from collections.abc import Iterable

from facts.says_records import Records, RecordsOracle


def lines_of(text: str, **fields: Iterable[str]) -> RecordsOracle:
    """Understands how often each value of a field is in lines, given that of each line that has one, and each word."""
    every = [(line.split(), at) for at, line in enumerate(text.split("\n"), 1) if line.strip()]
    numbered = [(row, at) for row, at in every if not (len(row) == 2 and "total" in row)]
    rows = [row for row, _ in numbered]
    words: dict[str, list[object]] = {
        f"word {at + 1}": [row[at] if len(row) > at else None for row in rows] for at in range(12)
    }
    words["last word"] = [row[-1] for row in rows]
    columns: list[dict[str, list[object]]] = [{name: list[object](values)} for name, values in fields.items()]
    fields_of = [Records("line", each, [""] * len(next(iter(each.values())))) for each in columns]
    return RecordsOracle(*fields_of, Records("line", words, [f"line {at}" for _, at in numbered]))
