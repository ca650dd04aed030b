"""Describes records in a few lines: failed records, odd records, how often values occur, and the ranges of values.

The lines have the same form for every format of records:

    Failing: 3 of 150 testcases                 failed records, by name if there are more than three
    test_b (line 12): time=30.2, "refused"      a record: name, place, odd fields, message
    Odd: web-17 ($.items[17]): no owner         a record with a rare value, or without a field that others have
    First: $.results[0]: ruleId=S101, "eval"    the first record, if none failed or is odd
    150 testcases: class A 90, B 60; time 0.1 to 30.2 (test_b), none 4

A list in a JSON document is named by its JSONPath with `[*]` in place of indices. `none` counts the records without the
field. Every number refers to all records of the list.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.json import encode
from msgspec.structs import replace

from coatcheck.core.jsonpath.query import bracket_step
from coatcheck.core.records.counts import (
    LONGEST_TEXT,
    count_fields,
    main_line,
    message_of,
    name_of,
    show_message,
    show_record,
    show_size,
)
from coatcheck.core.records.examine import FEW, Examined, examine_list, examine_lists
from coatcheck.core.records.model import RecordList, is_failing
from coatcheck.core.text.count import first_of
from coatcheck.core.text.lexicon import SURE, classify

_LISTS: Final = 2
"""Maximum lists that are described."""
_EXAMINED: Final = 12
"""Maximum lists that are examined, longest first."""
_MIN_RECORDS: Final = 8
"""Minimum records of a list that is described although no record failed."""
_MIN_WITH_FAILURE: Final = 3
"""Minimum records of a list that is described because a record failed."""
_NAMED: Final = 10
"""Maximum failed records that are listed by name."""
_MAX_MESSAGES: Final = 3
"""Maximum failed records that are shown with their messages, and maximum odd records that are shown."""
_RARELY: Final = 0.1
"""Maximum share of the records that a path to a rare value leads to."""
_EVENTS: Final = 1_000
"""Maximum failed records, and maximum events, whose messages are compared."""
_SHOWN_SHARE: Final = 0.9
"""Maximum share of a card's tokens, without those of its names, that facts get if they show records."""
_COUNTED_SHARE: Final = 0.5
"""Maximum share of these tokens if facts only count records: more would take space from excerpts that tell more."""
_SHOWS: Final = ("Failing: ", "Odd: ", "First: ")
_COUNTS: Final = re.compile(r"\d+ (?!lines: )\S.*?: ")
"""Matches a line that counts records, unless the records are lines, which excerpts show."""


def shows_records(facts: Sequence[str]) -> bool:
    """Returns whether facts show records, instead of only counting them."""
    return any(line.startswith(_SHOWS) for line in facts)


def share_of(facts: Sequence[str]) -> float:
    """Returns the share of a card's tokens, without those of its names, that facts about records get; 0 if none do."""
    if shows_records(facts):
        return _SHOWN_SHARE
    return _COUNTED_SHARE if any(map(_COUNTS.match, facts)) else 0.0


class RecordFacts(Struct):
    """Facts about lists of records, for a card."""

    facts: list[str] = field(default_factory=list[str])
    """Lines, most important first."""
    path: str | None = None
    """A JSONPath to the records that failed, or are odd."""
    rare: str | None = None
    """A JSONPath to the records with a rare value, if they are more than a card shows. A value that states a failure is
    preferred."""


def tell_first_failed(records: RecordList, failed: int, size: int) -> list[str]:
    """Returns lines on the failures in a longer list: how many records failed, and what the first of these say.

    `records` has the first failed records, `failed` is the number of all failed records, and `size` that of all
    records.
    """
    each = examine_list(records)
    each.failed = range(records.size)
    line = f"Failing: {failed} of {show_size(replace(each, records=replace(records, size=size)))}"
    if each.title is not None and records.size > _MAX_MESSAGES:
        names = dict.fromkeys(name_of(each, number) for number in each.failed)
        line = f"{line}, the first: {', '.join(names)}"
    return [line, *(show_record(each, number, _fields_of(each, number)) for number in each.failed[:_MAX_MESSAGES])]


def tell(lists: Iterable[RecordList]) -> RecordFacts:
    """Returns facts about lists of records. The lists must be complete."""
    # Lists with a failure come first, then lists with messages, then outer lists, then longer lists.
    longest = sorted((each for each in lists if each.columns), key=lambda each: -each.size)[:_EXAMINED]
    every = examine_lists(longest)
    every = [each for each in every if each.records.size >= (_MIN_WITH_FAILURE if each.failed else _MIN_RECORDS)]
    every.sort(key=lambda each: (not each.failed, not each.messages, each.records.place.count("*"), -each.records.size))
    out = RecordFacts()
    for number, each in enumerate(every[:_LISTS]):
        odd = _odd(each)
        out.facts += [*_failing(each), *odd]
        if not number and not (each.failed or odd) and each.records.steps and show_message(each, 0):
            out.facts.append(f"First: {show_record(each, 0, _identity(each, 0))}")
        out.facts += filter(None, [count_fields(each)])
        if each.records.steps:
            out.path = out.path or _path(each)
            out.rare = out.rare or _rare_path(each)
    return out


def _others(each: Examined) -> dict[object, str]:
    """Returns messages for failed records by name, from other records of the same name; empty if none are needed.

    A message that states a failure is preferred to the first one.
    """
    out: dict[object, str] = {}
    if each.title is None or all(message_of(each, number) for number in each.failed[:_EVENTS]):
        return out
    titles = {each.records.columns[each.title][number] for number in each.failed[:_EVENTS]}
    for number, name in enumerate(each.records.columns[each.title]):
        message = message_of(each, number) if name is not None and name in titles else None
        if message and (name not in out or (number < _EVENTS and classify(message.encode()) & SURE)):
            out[name] = message
    return out


def _failing(each: Examined) -> list[str]:
    """Returns lines about the failed records: their number, their names or most common messages, and a few examples."""
    if not each.failed:
        return []
    size = f"Failing: {len(each.failed)} of {show_size(each)}"
    lines = [size]
    others = _others(each)
    # Few failed records are shown whole. Of many, the names or else the most common messages are shown, and a few
    # examples.
    if len(each.failed) <= _MAX_MESSAGES:
        return [size, *(show_record(each, number, _fields_of(each, number), others) for number in each.failed)]
    if each.title or each.above:
        names = Counter(name_of(each, number) for number in each.failed)
        examples = [f"{name} {count}" if count > 1 else name for name, count in names.items()]
        lines = [f"{size}: {first_of(examples, _NAMED, separator=', ')}"]
    else:
        counts = Counter(filter(None, (message_of(each, number) for number in each.failed)))
        if counts and 2 * len(counts) <= counts.total():
            lines_of: Counter[str] = Counter()
            for message, count in counts.items():
                lines_of[main_line(message)] += count
            examples = [f"{message} {count}" for message, count in lines_of.most_common()]
            return [f"{size}: {first_of(examples, _MAX_MESSAGES, 'more messages', separator=', ')}"]
    first: dict[str, int] = {}
    for number in each.failed[:_EVENTS]:
        if len(first) < _MAX_MESSAGES and (message := show_message(each, number, others)):
            first.setdefault(message, number)
    examples = list(first.values()) or ([] if each.title or each.above else each.failed[:_MAX_MESSAGES])
    return [*lines, *(show_record(each, number, _fields_of(each, number), others) for number in examples)]


def _fields_of(each: Examined, number: int) -> list[str]:
    """Returns the fields to show of a failed record: its odd fields, or those that distinguish it from others."""
    return each.odd.get(number) or _identity(each, number)


def _identity(each: Examined, number: int) -> list[str]:
    """Returns the fields that distinguish a record from others, if records have no names; at most half of FEW."""
    if each.title:
        return []
    varied = [
        name
        for name, statistic in each.statistics.items()
        if name not in each.messages and (statistic.counts is None or len(statistic.counts) > 1)
    ]
    values = {name: value for name in varied if (value := each.records.columns[name][number]) is not None}
    return [name for name, value in values.items() if len(str(value)) <= LONGEST_TEXT // 2][: FEW // 2]


def _odd(each: Examined) -> list[str]:
    """Returns a line for each of the records with the most odd fields, without failed records."""
    numbers = sorted(each.odd.keys() - set(each.failed), key=lambda number: (-len(each.odd[number]), number))
    return [f"Odd: {show_record(each, number, each.odd[number])}" for number in numbers[:_MAX_MESSAGES]]


def _path(each: Examined) -> str | None:
    """Returns a JSONPath to the failed records if they share one value, or to the only failed or the oddest record.

    None if there is no such path.
    """
    records, failed = each.records, each.failed
    if len(failed) > 1 and each.verdict is not None:
        values = {records.columns[each.verdict][number] for number in failed}
        return _filter(each, each.verdict, values.pop()) if len(values) == 1 else None
    odd = sorted(each.odd, key=lambda number: (-len(each.odd[number]), number))
    return next((records.locate(number) for number in [*failed, *odd]), None) if len(failed) <= 1 else None


def _rare_path(each: Examined) -> str | None:
    few = [(name, statistic.counts) for name, statistic in each.statistics.items() if statistic.counts is not None]
    rare = [
        (not is_failing(value), count, name, value)
        for name, counts in few
        if 1 < len(counts) <= FEW and name[0] in ".["  # not the key of a record
        for value, count in counts.items()
        if _MAX_MESSAGES < count <= _RARELY * each.records.size
    ]
    return _filter(each, *min(rare, key=lambda candidate: candidate[:2])[2:]) if rare else None


def _filter(each: Examined, name: str, value: object) -> str:
    literal = bracket_step(value)[1:-1] if isinstance(value, str) else encode(value).decode()
    return f"{each.records.place.removesuffix('[*]').removesuffix('.*')}[?@{name}=={literal}]"
