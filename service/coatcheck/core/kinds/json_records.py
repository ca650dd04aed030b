"""The records of a JSON document: values that recur in a member of them, how often each, and where to read on.

A member recurs where its values are few, as a status or a level is; what a rare one of them belongs to is what a reader
asks for first.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, cast

from msgspec import Struct
from msgspec.json import encode

from coatcheck.core.jsonpath.location import bracketed

_FEWEST: Final = 8
"""Elements of a list of records."""
_LOOKED: Final = 200
"""Records, evenly spread, that decide which members are counted."""
_VALUES: Final = 6
"""Different values of a member that recurs."""
_EACH: Final = 4
"""Records for each of these values, at the least, on average."""
_CHARS: Final = 40
_MEMBERS: Final = 3
"""Members whose values are counted."""
_RARE: Final = 0.1
"""Share of the records up to which a value is rare."""
_DEEPEST: Final = 6
_PAGE: Final = 20
"""Elements of a list that a path asks for."""


class Recurring(Struct, frozen=True):
    """How often each value of a member occurs in the records of a list."""

    path: str
    """Of the list."""
    key: str
    counts: tuple[tuple[str | int | bool, int], ...]
    """Most frequent first; a record without the member is in none of them."""
    records: int

    @property
    def line(self) -> str:
        """The counts in words, as `Counts of $.items[*].status: "ok" 499, "failed" 1`."""
        told = ", ".join(f"{encode(value).decode()} {count}" for value, count in self.counts)
        return f"Counts of {self.path}[*]{step(self.key)}: {told}"

    @property
    def rare(self) -> tuple[str, int] | None:
        """A path to the records with the rarest value, and how many they are; None where no value is rare."""
        value, count = self.counts[-1]
        if count > _RARE * self.records:
            return None
        shown = bracketed(value)[1:-1] if isinstance(value, str) else encode(value).decode()
        return f"{self.path}[?@{step(self.key)}=={shown}]", count


def recurring(value: object) -> list[Recurring]:
    """Returns the members that recur in the document's longest list of records, those with the rarest value first."""
    lists = [each for each in _lists("$", value, 2) if len(each[1]) >= _FEWEST]
    if not lists:
        return []
    path, records = max(lists, key=lambda each: len(each[1]))
    found: list[Recurring] = []
    looked = records[:: max(1, len(records) // _LOOKED)]
    for key in looked[0]:
        if _is_few(_counted(looked, key), len(looked)):
            counts = _counted(records, key)
            if len(counts) > 1 and _is_few(counts, len(records)):
                ordered = sorted(((cast("str | int | bool", each), n) for (_, each), n in counts.items()), key=_order)
                found.append(Recurring(path, key, tuple(ordered), len(records)))
    return sorted(found, key=lambda each: each.counts[-1][1])[:_MEMBERS]


def _order(counted: tuple[str | int | bool, int]) -> tuple[int, str]:
    return -counted[1], str(counted[0])


def _lists(path: str, value: object, deeper: int) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """Returns the lists of nothing but objects, with where they are; not those within lists."""
    if isinstance(value, list):
        elements = cast("list[object]", value)
        if all(isinstance(each, dict) for each in elements):
            yield path, cast("list[dict[str, object]]", elements)
    elif isinstance(value, dict) and deeper:
        for key, member in cast("dict[str, object]", value).items():
            yield from _lists(f"{path}{step(key)}", member, deeper - 1)


def _counted(records: list[dict[str, object]], key: str) -> Counter[tuple[type, object]]:
    """Returns the counts of a member's values by type: `true` is not 1."""
    values = [record[key] for record in records if key in record]
    return Counter([(type(value), value) for value in values if isinstance(value, str | int)])


def _is_few(counts: Counter[tuple[type, object]], records: int) -> bool:
    few = len(counts) <= _VALUES and len(counts) * _EACH <= counts.total() and counts.total() * 2 > records
    return few and all(len(str(value)) <= _CHARS for _, value in counts)


def next_path(value: object, found: list[Recurring], *, lines: bool) -> str | None:
    """Returns a path to what a card is least likely to show: records with a rare value, or what takes most room.

    Args:
        value: the document, as far as it was read.
        found: what recurs in its records.
        lines: whether each record is a line, so that a card shows the few odd ones whole.
    """
    rare = next((each.rare for each in found if each.rare is not None), None)
    if rare is not None and not (lines and rare[1] <= _MEMBERS):
        return rare[0]
    path, inner = "$", value
    for _ in range(_DEEPEST):
        if isinstance(inner, list):
            elements = cast("list[object]", inner)
            if len(elements) >= _FEWEST:
                middle = len(elements) // 3
                return f"{path}[{middle}:{min(len(elements), middle + _PAGE)}]"
            steps = {f"[{number}]": element for number, element in enumerate(elements)}
        else:
            members = cast("dict[str, object]", inner) if isinstance(inner, dict) else {}
            steps = {step(key): member for key, member in members.items()}
        containers = {name: len(encode(each)) for name, each in steps.items() if isinstance(each, dict | list) and each}
        if not containers:
            break
        name = max(containers, key=lambda each: containers[each])
        path, inner = f"{path}{name}", steps[name]
    return path if path != "$" else None


def step(key: str) -> str:
    """Returns the step of a JSONPath to a member."""
    return f".{key}" if key.isascii() and key.isidentifier() else bracketed(key)
