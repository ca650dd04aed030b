"""Describes the records of a JSON document: recurring values of a member, how often each occurs, and where to read on.

A member recurs if it has few values, like a status or a level; a reader first asks which record has a rare one. Of
others, like the rules that findings break, the most frequent lead.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Final, cast

from msgspec import Struct
from msgspec.json import encode

from coatcheck.core.jsonpath.location import bracketed, step
from coatcheck.core.structure.few_values import VALUES, leading
from coatcheck.core.structure.record_members import Record, RecordMember, keys_of, leading_members, values_at
from coatcheck.core.survey.lexicon import BENIGN, STRONG, SURE, WORD, classify
from coatcheck.core.survey.members import ObjectMember

_FEWEST: Final = 8
"""Minimum elements of a list of records."""
_LOOKED: Final = 200
"""Records, evenly spread, that a single one is compared with."""
_MEMBERS: Final = 3
"""Members whose values are counted."""
_LISTS: Final = 3
"""Lists of records, longest first, whose members are counted."""
_DEEP: Final = 3
"""Depth of objects and lists in which lists are searched for."""
_SAID: Final = 80
"""Maximum characters of a value that tells a record from others; of several, twice as many."""
_RARE: Final = 0.1
"""Maximum share of the records of a rare value."""
_DEEPEST: Final = 6
_BULK: Final = 0.5
"""Share of the largest value from which one of its members is more worth reading than its list of members."""
_FAILING: Final = 2
"""Failing values of one member whose records are asked what they say."""
_MESSAGES: Final = ("message", "msg", "reason", "error", "detail", "description", "title", "summary", "text")
"""Names of members that say what happened, those first that do so in most words."""
_PAGE: Final = 20
"""Elements of a list that a path requests."""
_STATING: Final = re.compile(
    r"(?i)\w*(?:error|warning|fail|problem|violation|vulnerab|issue|alert|finding|diagnostic|result)\w*"
)
"""Matches the names of members that say what is wrong, or what was found."""
WRONG: Final = re.compile(r"(?i)(?:error|failure|problem|violation)s?(?=$|\[|\.)|error_?message|fault")
"""Matches the names of members that say what is wrong, and only that."""


class Recurring(Struct, frozen=True):
    """How often each value of a member occurs in the records of a list, or of all lists at one place in records."""

    path: str
    """The path of the list, or of the lists: `$.jobs[*].steps`."""
    member: str
    """Steps from a record to the member: `.status`, `.response.status`."""
    counts: tuple[tuple[object, int], ...]
    """Most frequent first, of equally frequent ones failures last; a record without the member is not counted."""
    records: int
    few: bool = True
    """Whether these are few and short; otherwise some of many lead."""
    alone: str = ""
    """What tells the only record with the rarest value from others, if one has it: `.id=317, .name="x"`."""
    failed: tuple[str, ...] = ()
    """What records with a value that states a failure say: `Where $[*].level is "error": .msg "refused" 2`."""

    @property
    def line(self) -> str:
        """The counts in words, as `Counts of $.items[*].status: "ok" 499, "failed" 1 (.id=317)`."""
        counts = {encode(value).decode(): count for value, count in self.counts}
        told = ", ".join(f"{value} {count}" for value, count in counts.items()) if self.few else leading(counts)
        return f"Counts of {self.path}[*]{self.member}: {told}{f' ({self.alone})' if self.alone else ''}"

    @property
    def rare(self) -> list[tuple[str, int]]:
        """Paths to the records with each rare value, and their number: failures, commonest first, then rarest first.

        Of many values, only failures.
        """
        failed = [each for each in self.counts if _states_failure(each[0])]
        others = [each for each in reversed(self.counts) if self.few and each not in failed]
        few = [(value, count) for value, count in failed + others if count <= _RARE * self.records]
        shown = [bracketed(value)[1:-1] if isinstance(value, str) else encode(value).decode() for value, _ in few]
        return [(f"{self.path}[?@{self.member}=={each}]", count) for each, (_, count) in zip(shown, few, strict=True)]


def _states_failure(value: object) -> bool:
    stated = classify(value.encode()) if isinstance(value, str) else 0
    return stated & (SURE | STRONG | WORD) > 0 and not stated & BENIGN


def recurring(value: object) -> list[Recurring]:
    """Returns the recurring members in the document's longest lists of records, those with the rarest value first."""
    lists = [each for each in _lists("$", value, _DEEP) if len(each[1]) >= _FEWEST]
    found: list[Recurring] = []
    for path, records in sorted(lists, key=lambda each: -len(each[1]))[:_LISTS]:
        for member in leading_members(records):
            counts = list(member.counts.items())
            counts.sort(key=lambda each: (-each[1], _states_failure(each[0]), encode(each[0])))
            alone = _alone(records, member.keys, counts[-1][0]) if member.few and counts[-1][1] == 1 else ""
            keys = "".join(map(step, member.keys))
            failed = _failed(f"{path}[*]{keys}", records, member)
            found.append(Recurring(path, keys, tuple(counts), len(records), few=member.few, alone=alone, failed=failed))
    return sorted(found, key=lambda each: (not each.few, each.counts[-1][1] / each.records))[:_MEMBERS]


def _failed(place: str, records: list[Record], member: RecordMember) -> tuple[str, ...]:
    """Returns what the records with each failing value of a member say in the member that is named like a message."""
    facts: list[str] = []
    values = values_at(records, member.keys) if member.few else []
    for value, count in member.counts.items():
        if 2 * count <= len(values) and _states_failure(value):
            failed = [record for record, each in zip(records, values, strict=True) if each == value]
            named = {keys[-1].lower(): keys for keys in keys_of(failed[0])}
            message = next((named[name] for name in _MESSAGES if name in named), None)
            said = [each for each in values_at(failed, message) if isinstance(each, str) and each] if message else []
            clipped = [each if len(each) <= 2 * _SAID else f"{each[: 2 * _SAID]}…" for each in said]
            if message and clipped:
                told = leading(Counter(encode(each).decode() for each in clipped))
                facts.append(f"Where {place} is {encode(value).decode()}: {''.join(map(step, message))} {told}")
    return tuple(facts[:_FAILING])


def _alone(records: list[Record], keys: tuple[str, ...], value: object) -> str:
    """Returns the first short values of the only record with a value, at places where nearly all have another each."""
    only = records[values_at(records, keys).index(value)]
    others = [each for each in records[:: max(1, len(records) // _LOOKED)] if each is not only]
    said: list[str] = []
    for place in keys_of(only):
        (told,), unlike = values_at([only], place), set(map(str, values_at(others, place)))
        shown = encode(told).decode() if isinstance(told, str | int) else ""
        fits = 0 < len(shown) <= _SAID and len(said) < _MEMBERS and sum(map(len, said)) + len(shown) <= 2 * _SAID
        if fits and len(unlike) > VALUES and str(told) not in unlike:
            said.append(f"{''.join(map(step, place))}={shown}")
    return ", ".join(said)


def _lists(path: str, value: object, deeper: int) -> Iterator[tuple[str, list[Record]]]:
    """Yields lists of only objects, with their paths; those at one place in such objects are merged."""
    if isinstance(value, list):
        elements = cast("list[object]", value)
        if {*map(type, elements)} != {dict}:
            return
        records = cast("list[Record]", elements)
        yield path, records
        for key, inner in records[0].items() if deeper else ():
            if isinstance(inner, list) and not any(isinstance(record.get(key), dict) for record in records):
                lists = [record[key] for record in records if isinstance(record.get(key), list)]
                joined = list(chain.from_iterable(cast("list[list[object]]", lists)))
                yield from _lists(f"{path}[*]{step(key)}", joined, deeper - 1)
    elif isinstance(value, dict) and deeper:
        for key, member in cast("Record", value).items():
            yield from _lists(f"{path}{step(key)}", member, deeper - 1)


def next_path(value: object, found: list[Recurring], few: dict[str, int], *, lines: bool) -> str | None:
    """Returns a path to what a card hardly shows: errors, records with a rare value or member, or the largest value.

    Args:
        value: the document, as far as it was read.
        found: what recurs in its records.
        few: the paths of members that only few records have, outermost first, and how many have them.
        lines: whether each record is a line, so that a card shows the few odd ones in full.
    """
    return _errors(value) or _rare(found, few, lines=lines) or _largest(value)


def _errors(value: object) -> str | None:
    """Returns the path of the list at the top that says what is wrong; None if there is none, or it is empty."""
    for key, member in cast("Record", value).items() if isinstance(value, dict) else ():
        if isinstance(member, list) and member and WRONG.fullmatch(key):
            return stating("$", (ObjectMember(key, elements=len(cast("list[object]", member))),))
    return None


def _rare(found: list[Recurring], few: dict[str, int], *, lines: bool) -> str | None:
    """Returns the path of records with a rare value or member, unless these are lines and too few not to be shown."""
    values = [each.rare for each in found]
    rare = [each[0] for each in values if each]
    for member, count in few.items():
        before, _, after = member.partition("[*]")
        if after and not after.endswith("[*]") and "'" not in before:  # a quoted key may contain `[*]`
            rare.append((f"{before}[?@{after}]", count))
    for wanted, count in chain(rare, *[each[1:] for each in values]):
        if not (lines and count <= _MEMBERS):
            return wanted
    return None


def _largest(value: object) -> str | None:
    """Returns the path of what says what was found, or of the largest value, as far down as one is most of another."""
    path, inner, size, told = "$", value, 0, False
    for _ in range(_DEEPEST):
        if isinstance(inner, list):
            elements = cast("list[object]", inner)
            if len(elements) >= _FEWEST:
                first = 0 if told else len(elements) // 3
                return f"{path}[{first}:{min(len(elements), first + _PAGE)}]"
            steps = {f"[{number}]": element for number, element in enumerate(elements)}
        else:
            members = cast("Record", inner) if isinstance(inner, dict) else {}
            steps = {step(key): member for key, member in members.items()}
        containers = {name: len(encode(each)) for name, each in steps.items() if isinstance(each, dict | list) and each}
        if not containers:
            break
        stated = [name for name in containers if _STATING.fullmatch(name[1:])]
        name, told = stated[0] if stated else max(containers, key=lambda each: containers[each]), bool(stated)
        if path != "$" and containers[name] < _BULK * size and not told:
            break
        path, inner, size = f"{path}{name}", steps[name], containers[name]
    return path if path != "$" else None


def inside(path: str, member: ObjectMember) -> str:
    """Returns the path of the object that a member is, or of its only element, given the path around it."""
    return f"{path}{step(member.name)}{'' if member.elements is None else '[0]'}"


def stating(path: str, members: tuple[ObjectMember, ...]) -> str | None:
    """Returns the path of a list whose name states something, or of its first elements; None if there is none."""
    for each in members:
        if each.elements and _STATING.fullmatch(each.name):
            return f"{path}{step(each.name)}{f'[0:{_PAGE}]' if each.elements > _PAGE else ''}"
    return next(filter(None, [stating(inside(path, each), each.members) for each in members if each.members]), None)
