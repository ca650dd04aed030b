"""Lists of records, in the same form for every format of payload: fields by name, each with one value per record.

The module also finds the records that state a failure: by a value of a field, or because they have a field that is
named like a failure.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct, field

from coatcheck.core.records.statistics import FieldStatistic
from coatcheck.core.text.lexicon import BENIGN, STRONG, SURE, WORD, classify

LONGEST: Final = 4_096
"""Maximum characters of a value; the rest is left out."""
FIELDS: Final = 100
"""Maximum fields of a list; further fields are left out."""

LINE: Final = "line"
"""Value of `RecordList.place` for records that are lines."""

Column = Sequence[object]
"""The values of a field, one per record: text, a number or a truth value; None if the record lacks the field."""


class RecordList(Struct):
    """Records of one kind, in the order of the payload."""

    place: str
    """The place of the records, as a card names it: a JSONPath, the name of an element, `row` or `line`."""
    size: int
    """Number of records."""
    columns: dict[str, Column] = field(default_factory=dict[str, Column])
    """The values of each field, by its name."""
    locate: Callable[[int], str] = str
    """Returns where a record is, given its number from 0: a JSONPath or a line."""
    owners: Sequence[tuple["RecordList", int] | None] = ()
    """For each record, the list and the number of the record that contains it; None if no record does. Empty if no
    record of the list is inside another."""
    steps: bool = False
    """Whether the name of a field is the end of a JSONPath, so that it begins with a dot."""

    def last_step(self, name: str) -> str:
        """Returns the last part of a field's name: `message` of `failure.message`."""
        return name.rpartition(".")[2].removesuffix("[0]")


WRONG: Final = re.compile(
    r"(?i)(?:error|failure|fault|exception|crash|violation|problem|failed|err)(?:s|_?info|_?messages?|_?details?)?"
    r"|(?:errors?|failures?|failed|failing)_?(?:count|tests|total)"
)
"""Matches the names of fields that only failed records have, or that are numbers above zero only in failed records."""
STATES: Final = re.compile(
    r"(?i)\w*(?:status|state|result|outcome|conclusion|verdict|phase|health|condition|reason|action|event|level|severity)"
)
"""Matches the names of fields that state an outcome."""
_ALL: Final = re.compile(r"(?i)\w*(?:level|severity)")
"""Matches the names of such fields that say nothing if all their values state a failure: a list of findings may contain
only errors."""
_WORDS: Final = re.compile(r"[A-Za-z]+(?:[ _-][A-Za-z]+){0,2}")
_GOOD: Final = re.compile(r"(?i)(?:is_?)?(?:success(?:ful|_?flag)?|passed|pass|ok|succeeded|healthy|ready|valid)")
_NOTHING: Final = frozenset(["", "0", "false", "no", "none", "null", "off"])


def find_failures(records: RecordList, statistics: dict[str, FieldStatistic]) -> tuple[str | None, Sequence[int]]:
    """Returns the field that says which records failed, and the numbers of these records.

    The outermost field of states decides. If there is none, the field is None, and the records that have a field named
    like a failure have failed. If all records have one, none has failed, unless the field is a part of an object
    (`failure.message`).
    """
    verdict = find_verdict(records, statistics)
    if verdict is not None:
        name, bad = verdict
        return name, [
            number for number, value in enumerate(records.columns[name]) if value is not None and value in bad
        ]
    numbers: set[int] = set()
    parts = False
    for name in statistics:
        if any(WRONG.fullmatch(part) for part in parts_of(name)):
            numbers.update(number for number, value in enumerate(records.columns[name]) if _is_given(value))
            parts = parts or len(parts_of(name.removeprefix("."))) > 1
    return None, sorted(numbers) if len(numbers) < records.size or parts else ()


def find_verdict(
    records: RecordList, statistics: Mapping[str, FieldStatistic]
) -> tuple[str, Mapping[object, int]] | None:
    """Returns the outermost field of states, and how often it has each value that states a failure.

    None if there is no such field.
    """
    states = [
        (name.count("."), name)
        for name, each in statistics.items()
        if 4 * each.present > records.size and _states(records.last_step(name), each)
    ]
    if not states:
        return None
    name = min(states)[1]
    counts = statistics[name].counts or {}
    return name, {value: counts[value] for value in _failing_values(records.last_step(name), counts)}


def failing_among(last: str, values: Iterable[object]) -> set[object]:
    """Returns the values of a field that state a failure; empty if `last`, the end of its name, names no states."""
    return _failing_values(last, values) if STATES.fullmatch(last) or _GOOD.fullmatch(last) else set()


def parts_of(name: str) -> list[str]:
    """Returns the keys in the name of a field, without indices of elements."""
    return [part.removesuffix("[0]") for part in name.split(".")]


def _failing_values(name: str, values: Iterable[object]) -> set[object]:
    if _GOOD.fullmatch(name):
        return {value for value in values if value is False or str(value).lower() == "false"}
    return {value for value in values if is_failing(value)}


def _states(name: str, statistic: FieldStatistic) -> bool:
    """Returns whether a field, by its name and values, says which records failed."""
    bad = set[object]() if statistic.is_number else failing_among(name, statistic.counts or ())
    return bool(bad) and not (_ALL.fullmatch(name) and len(statistic.counts or ()) == len(bad))


@lru_cache(4096)
def is_failing(value: object) -> bool:
    """Returns whether a value states a failure, in one to three words."""
    if not isinstance(value, str) or len(value) > 40 or not _WORDS.fullmatch(value):  # noqa: PLR2004
        return False
    flags = classify(value.encode())
    return bool(flags & (SURE | STRONG | WORD)) and not flags & BENIGN


def _is_given(value: object) -> bool:
    """Returns whether the value of a field that is named like a failure says that there is a failure."""
    return value is not None and value is not False and value != 0 and str(value).strip().lower() not in _NOTHING
