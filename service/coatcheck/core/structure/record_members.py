"""Members of records whose values lead: a status, a level, the rules that findings break."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from types import NoneType
from typing import Any, Final, cast

from msgspec import Struct

from coatcheck.core.structure.few_values import VALUES, leads

_LOOKED: Final = 200
"""Records, evenly spread, whose members are examined."""
_MEMBERS: Final = 3
"""Members of the records of one list whose values are counted."""
_KINDS: Final = (str, bool, int)
"""Types of values that are counted."""

Record = dict[str, object]


class RecordMember(Struct):
    """A member of records."""

    keys: tuple[str, ...]
    """The keys that lead to it: one, or two."""
    kind: type
    """The one type of its values; null is none."""
    counts: Counter[Any]

    @property
    def few(self) -> bool:
        """Whether it has so few values that all are named."""
        return len(self.counts) <= VALUES


def keys_of(record: Record) -> Iterator[tuple[str, ...]]:
    """Yields the keys that lead to members of a record, and to those of objects in it."""
    for key, value in record.items():
        if isinstance(value, dict):
            yield from ((key, inner) for inner in cast("Record", value))
        else:
            yield (key,)


def values_at(records: list[Record], keys: tuple[str, ...]) -> list[object]:
    """Returns the value of a member of each record; None for one that does not have it."""
    values = [record.get(keys[0]) for record in records]
    for key in keys[1:]:
        inner = cast("list[Record]", [each if isinstance(each, dict) else {} for each in values])
        values = [each.get(key) for each in inner]
    return values


def leading_members(records: list[Record]) -> list[RecordMember]:
    """Returns the members whose values lead among records: texts first, of those few values first, then the rarest.

    Of members whose values correspond one to one, such as a status and its text, only the one that says most in words.
    """
    found: list[tuple[RecordMember, list[object]]] = []
    for keys, values in _columns(records):
        kinds = set(map(type, values)) - {NoneType}
        if len(kinds) == 1 and kinds <= set(_KINDS):
            counts: Counter[Any] = Counter(values)
            del counts[None]
            if leads(counts, len(records)):
                found.append((RecordMember(keys, kinds.pop(), counts), values))
    found.sort(key=lambda each: (_KINDS.index(each[0].kind), not each[0].few, min(each[0].counts.values())))
    told: list[tuple[RecordMember, list[object]]] = []
    for member, values in found:
        if len(told) < _MEMBERS and not any(_correspond(values, others) for _, others in told):
            told.append((member, values))
    return [member for member, _ in told]


def _columns(records: list[Record]) -> Iterator[tuple[tuple[str, ...], list[object]]]:
    """Yields the keys of members that a quarter of the records have, and of objects in them, each with all values."""
    looked = records[:: max(1, len(records) // _LOOKED)]
    for key, count in Counter(chain.from_iterable(looked)).items():
        if 4 * count > len(looked):
            values = [record.get(key) for record in looked]
            objects = cast("list[Record]", [each for each in values if isinstance(each, dict)])
            if 4 * (count - len(objects)) > len(looked):
                yield (key,), values_at(records, (key,))
            for inner, held in Counter(chain.from_iterable(objects)).items():
                if 4 * held > len(looked):
                    yield (key, inner), values_at(records, (key, inner))


def _correspond(one: list[object], other: list[object]) -> bool:
    """Returns whether the values of two members in the same records correspond one to one."""
    return len(set(zip(one, other, strict=True))) == len(set(one)) == len(set(other))
