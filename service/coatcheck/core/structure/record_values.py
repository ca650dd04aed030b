"""Values that lead among the records of JSON lines, or of an array, that stream in: exact counts, in bounded memory.

The first records decide which members are counted; then a typed decoder reads only these of every record. Of a text in
which more than a few lines are something else, nothing is said.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from operator import attrgetter
from typing import Any, Final, final

import msgspec
from msgspec.json import encode

from coatcheck.core.jsonpath.location import step
from coatcheck.core.structure.few_values import LONGEST, leading, leads
from coatcheck.core.structure.record_members import RecordMember, leading_members, values_at

_LOOKED: Final = 1_000
"""Records at the beginning that decide what is counted."""
_LEAST: Final = 8
"""Minimum records."""
_DIFFERENT: Final = 5_000
"""Maximum different values that are counted."""
_OTHERS: Final = 10
"""Minimum number of records per line that is none."""
_CARRY: Final = 1024 * 1024
"""Maximum bytes of a record."""
_START: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(\[\s*)?\{")
_FIRST: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*(\[)\s*\{\s*("[^"\\]{1,200}")')
_NEXT: Final = rb"\}\s*,\s*\{\s*%b"
"""What is between two elements of an array that begin with the same name: no string can contain it."""
_FAULTS: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
_elements: Final = msgspec.json.Decoder(list[dict[str, object]])


class _CountedMember(RecordMember):
    """A member that is counted."""

    inside: str = ""
    """The attribute of a record that was read which has it, if it is in an object."""
    known: bool = True

    def add(self, values: list[Any]) -> None:
        """Counts the values of some records; null is none."""
        self.counts.update(values)
        del self.counts[None]
        if len(self.counts) > _DIFFERENT or (self.kind is str and any(len(each) > LONGEST for each in self.counts)):
            self.known = False


@final
class RecordTotals:
    """Counts values: `feed` the text, then ask for `facts`."""

    def __init__(self, *, array: bool) -> None:
        """Takes whether the records are elements of an array, rather than a line each."""
        self._between = None if array else b"\n"
        """What is between two records; None: not known yet."""
        self._array = array
        self._carry = b""
        self._members: list[_CountedMember] | None = None
        """None: not decided yet; empty: nothing is counted, or can be."""
        self._read: Callable[[bytes], list[Any]] = list
        """Reads complete records."""
        self._records = self._others = 0

    def feed(self, data: bytes) -> None:
        """Counts the values in the next bytes, as far as records are complete. Costs nothing if none are counted."""
        if self._members == []:
            return
        if self._between is None:
            data, self._carry = self._carry + data, b""
            begun = _FIRST.match(data)
            second = None if begun is None else re.compile(_NEXT % re.escape(begun[2])).search(data, begun.end())
            if begun is not None and second is not None:
                self._between, data = second[0], data[begun.end(1) :]
        end = -1 if self._between is None else data.rfind(self._between)
        if end >= 0:
            end += 1  # a line feed, or a bracket that ends a record
            self._count(self._carry + data[:end])
            data, self._carry = data[end:].lstrip()[self._array :], b""
        self._carry += data
        if len(self._carry) > _CARRY:
            self._members = []

    def facts(self) -> tuple[str, ...]:
        """Returns the leading values of each member, once all bytes have been fed."""
        rest = self._carry.strip()
        if self._array and not rest.endswith(b"]"):
            return ()
        if rest:
            self._count(rest[: len(rest) - self._array])
        self._carry = b"]" * self._array
        count = self._records
        if count < _LEAST or self._others * _OTHERS > count:
            return ()
        where = f" in {count} of {count + self._others} lines" if self._others else ""
        return tuple([_told(each, where) for each in self._members or [] if each.known and leads(each.counts, count)])

    def _count(self, text: bytes) -> None:
        """Counts the records in a text: its lines, or elements with commas between them."""
        if self._members is None:
            looked = islice(_plainly(text, array=self._array), _LOOKED)
            members = leading_members([each for each in looked if each is not None])
            self._members = [_CountedMember(each.keys, each.kind, Counter()) for each in members]
            self._read = _reader(self._members, array=self._array)
        if not self._members:
            return
        try:
            records = self._read(text)
        except _FAULTS:
            self._one_by_one(text)
            return
        self._records += len(records)
        for number, each in enumerate(self._members):
            each.add(_values(records, number, each))

    def _one_by_one(self, text: bytes) -> None:
        """Counts the records in a text of which some are none, or have a value of another type."""
        for record in _plainly(text, array=self._array):
            if record is None:
                self._others += 1
                continue
            self._records += 1
            for each in self._members or []:
                (value,) = values_at([record], each.keys)
                each.known = each.known and (type(value) is each.kind or not isinstance(value, str | int))
                each.add([value] if type(value) is each.kind else [])
        if self._array and self._others:
            self._members = []


def record_totals(head: bytes) -> RecordTotals | None:
    """Returns what counts values of a text that begins like this; None if it begins with no record."""
    found = _START.match(head)
    return None if found is None else RecordTotals(array=found[1] is not None)


def counts_of(text: bytes) -> tuple[str, ...]:
    """Returns the leading values of the records that are a whole text."""
    totals = record_totals(text)
    if totals is None:
        return ()
    totals.feed(text)
    return totals.facts()


def _plainly(text: bytes, *, array: bool) -> Iterator[dict[str, object] | None]:
    """Yields the records of a text, decoded whole; None for a line that is none, or for all elements of an array."""
    for part in [b"[%b]" % text] if array else text.split(b"\n"):
        if part.strip():
            try:
                yield from _elements.decode(part if array else b"[%b]" % part)
            except _FAULTS:
                yield None


def _told(member: _CountedMember, where: str = "") -> str:
    shown = leading({encode(value).decode(): times for value, times in member.counts.items()})
    return f"Counts of $[*]{''.join(map(step, member.keys))}{where}: {shown}"


def _reader(members: list[_CountedMember], *, array: bool) -> Callable[[bytes], list[Any]]:
    """Returns what reads only the members of records, and refuses values of another type."""
    fields: dict[str, tuple[str, Any, None]] = {}
    for number, each in enumerate(members):
        key, name = each.keys[0], f"m{number}"
        if len(each.keys) == 1:
            fields[key] = (name, each.kind | None, None)
            continue
        inner = [(f"m{at}", other.kind | None, None) for at, other in enumerate(members) if other.keys[0] == key]
        keys = {f"m{at}": other.keys[-1] for at, other in enumerate(members) if other.keys[0] == key}
        fields.setdefault(key, (name, msgspec.defstruct("Inner", inner, rename=keys) | None, None))
        each.inside = fields[key][0]
    record = msgspec.defstruct("Record", fields.values(), rename={name: key for key, (name, _, _) in fields.items()})
    if not array:
        return msgspec.json.Decoder(record).decode_lines
    decode = msgspec.json.Decoder(list[record]).decode
    return lambda text: decode(b"[%b]" % text)


def _values(records: list[Any], number: int, member: _CountedMember) -> list[Any]:
    """Returns the values of a member of records that were read."""
    if member.inside:
        records = [each for each in map(attrgetter(member.inside), records) if each is not None]
    return list(map(attrgetter(f"m{number}"), records))
