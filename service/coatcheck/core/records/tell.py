"""Tells records in a few lines: those that failed, those that are odd, how often values occur, and their ranges.

One way for every format:

    Failing: 3 of 150 testcases                 failed records, by name if there are more than three
    test_b (line 12): time=30.2, "refused"      a record: name, place, odd fields, message
    Odd: web-17 ($.items[17]): no owner         a record with a rare value, or without a field that others have
    First: $.results[0]: ruleId=S101, "eval"    the first record, if none failed or is odd
    150 testcases: class A 90, B 60; time 0.1 to 30.2 (test_b), none 4

A list in a JSON document is named by its JSONPath, in which what is repeated stands once; `none` counts records
without the field. Every number is of all records of the list.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, cast

import numpy as np
from msgspec import Struct, field
from msgspec.json import encode

from coatcheck.core.jsonpath.location import bracketed
from coatcheck.core.records.model import LINE, Column, RecordList
from coatcheck.core.records.statistics import Extreme, FieldStatistic, examine, ordered
from coatcheck.core.records.verdicts import STATES, WRONG, find_failures, is_failing, parts_of
from coatcheck.core.text.lexicon import SURE, classify
from coatcheck.core.text.plural import counted, first_of

_LISTS: Final = 2
"""Lists that are told."""
_EXAMINED: Final = 12
"""Lists, longest first, that are examined."""
_LEAST: Final = 8
"""Minimum records of a list without a failing one."""
_FEWEST: Final = 3
"""Minimum records of a list with a failing one."""
_NAMED: Final = 10
"""Failing records that are named."""
_SHOWN: Final = 3
"""Failing records whose messages are shown, and odd ones."""
_FIELDS: Final = 12
"""Fields of a list that are counted."""
_VALUES: Final = 12
"""Values of a field that are named, most frequent first."""
_CHARS: Final = 40
_SAID: Final = 160
"""Maximum characters of a value, and of a message."""
_PLAIN: Final = re.compile(r"(?!(?:true|false|null)\Z)[A-Za-z_][\w./+-]*", re.ASCII)
"""Matches texts that need no quotation marks to be told from what is around them."""
_PRINTED: Final = re.compile(r"[\w./+%-][\w./:+%-]*", re.ASCII)
"""Matches those of formats in which everything is text."""
_TITLES: Final = (
    "fullname", "fulltitle", "full_name", "nodeid", "name", "testname", "test", "title",
    "full_description", "fulldescription", "description", "key", "id",
)  # fmt: skip
_NAME: Final = "name"
_SURELY: Final = 8
"""How many of these are names in every format; the others name only records that no other field tells apart."""
_HEX: Final = re.compile(r"(?=.*\d)[0-9a-fA-F:-]{8,}")
"""Matches identifiers that say nothing to a reader."""
_MESSAGES: Final = (
    "message", "msg", "longrepr", "failuremessages", "reason", "error", "detail", "description",
    "output", "text", "title", "summary", "stack",
)  # fmt: skip
"""Names of fields that say what happened, those first that do so in most words."""
_PATH: Final = re.compile(r"\S*[/\\.]\S*")
_USUAL: Final = 20
"""Minimum records beside which one is odd."""
_RARE: Final = 0.05
"""Maximum share of the records that are odd in the same way; at most three are."""
_RARELY: Final = 0.1
"""Maximum share of the records that a path to a rare value leads to."""
_FEW: Final = 8
"""Maximum different values of a field in which one is odd."""
_NUMBERS: Final = 3
"""Different numbers that are counted rather than told by their range."""
_OFTEN: Final = 10
"""How often each of a few more numbers occurs, on average, that are counted, too."""
_CLASSES: Final = re.compile(r"(?i)\w*(?:rule|code|check|symbol|type|kind|category|class)(?:_?id|_?name)?")
"""Matches the names of fields that say which sort of thing a record is."""
_ID: Final = re.compile(
    r"(?:\w*_)?(?:id|ID|Id)|\w*[a-z](?:Id|ID)|(?i:\w*(?:line|lineno|line_?number|column|col|row|offset|index))"
)
"""Matches the names of numbers of which nobody asks for the range."""
_REFERENCE: Final = re.compile(r"(.*\w)(?:ID|Id|_id)")
_DISTINCT: Final = 0.9
_EVENTS: Final = 1_000
"""Failed records, or events, whose messages are compared."""
_LOOKED: Final = 50
"""Records that tell which field names them, if none failed; lines of a message that are read."""


SHARE: Final = 0.9
"""Maximum share of a card's tokens after the names that facts get if records are shown among them."""
_SHOWS: Final = ("Failing: ", "Odd: ", "First: ")


def shows_records(facts: Sequence[str]) -> bool:
    """Returns whether records are shown among facts, not only counted."""
    return any(line.startswith(_SHOWS) for line in facts)


class RecordFacts(Struct):
    """What a card says of lists of records."""

    facts: list[str] = field(default_factory=list[str])
    """Most important first."""
    path: str | None = None
    """A JSONPath to the records that failed, or are odd."""
    rare: str | None = None
    """A JSONPath to those with a rare value of few, if more than a card shows: failed ones first."""


class _Examined(Struct):
    records: RecordList
    statistics: dict[str, FieldStatistic]
    verdict: str | None
    failed: Sequence[int]
    title: str | None
    messages: list[str]
    """Fields that may say what happened, best first."""
    odd: dict[int, list[str]]
    """Odd fields by the number of the record."""
    above: dict[int, str] = {}
    """What failed records are in, by their number."""


def tell_counts(records: RecordList, statistics: dict[str, FieldStatistic] | None = None) -> list[str]:
    """Returns only how often values occur in records that excerpts show, or of which only the statistics are left."""
    if statistics is None:
        statistics = {name: examine(column) for name, column in records.columns.items()}
    return list(filter(None, [_counts(_Examined(records, statistics, None, (), None, [], {}))]))


def may_be_told(name: str, records: RecordList, statistic: FieldStatistic) -> bool:
    """Returns whether a field of these records may be worth counting in many more."""
    return _is_told(_Examined(records, {}, None, (), None, [], {}), name, statistic)


def tell(lists: Iterable[RecordList]) -> RecordFacts:
    """Returns the facts of lists of records, which are complete."""
    longest = sorted((each for each in lists if each.columns), key=lambda each: -each.size)[:_EXAMINED]
    every = [_examine(each) for each in longest]
    by_list = {id(each.records): each for each in every}
    containing = {
        (id(records), at) for each in every for number in each.failed for records, at in _owners(each, number)
    }
    for each in every:  # what contains a failed record states its failure again
        if any((id(each.records), number) in containing for number in each.failed):
            each.failed = ()
    for each in every:
        each.above = _above(each, by_list)
    every = [each for each in every if each.records.size >= (_FEWEST if each.failed else _LEAST)]
    every.sort(key=lambda each: (not each.failed, not each.messages, each.records.place.count("*"), -each.records.size))
    out = RecordFacts()
    for number, each in enumerate(every[:_LISTS]):
        odd = _odd(each)
        out.facts += [*_failing(each), *odd]
        if not number and not (each.failed or odd) and each.records.steps and _message(each, 0):
            out.facts.append(f"First: {_shown(each, 0, _identity(each, 0))}")
        out.facts += filter(None, [_counts(each)])
        if each.records.steps:
            out.path = out.path or _path(each)
            out.rare = out.rare or _rare_path(each)
    return out


def _owners(each: _Examined, number: int) -> Iterator[tuple[RecordList, int]]:
    """Yields the records that a record is in, the nearest first."""
    owner = each.records.owners[number] if each.records.owners else None
    while owner is not None:
        yield owner
        owner = owner[0].owners[owner[1]] if owner[0].owners else None


def _above(each: _Examined, by_list: dict[int, _Examined]) -> dict[int, str]:
    """Returns what the nearest records with a name are called that failed records are in, if each has its own.

    A scenario is called so beside its failed step, a suite with many failed tests is not.
    """
    found: dict[int, tuple[int, int, str]] = {}
    for number in each.failed:
        for records, at in _owners(each, number):
            owner = by_list.get(id(records))
            if owner is not None and owner.title is not None and (name := owner.records.columns[owner.title][at]):
                found[number] = (id(records), at, " ".join(str(name).split()))
                break
    if len({owner[:2] for owner in found.values()}) * 4 < len(each.failed) * 3:
        return {}
    return {number: name for number, (_, _, name) in found.items()}


def _examine(records: RecordList) -> _Examined:
    _resolve(records)
    statistics = {name: examine(column) for name, column in records.columns.items()}
    verdict, failed = find_failures(records, statistics)
    title = _title(records, statistics, failed)
    messages = [each for each in _messages(records, statistics) if each != title]
    return _Examined(records, statistics, verdict, failed, title, messages, _odd_fields(records, statistics, failed))


def _resolve(records: RecordList) -> None:
    """Names the records that refer by an ID to something that another one names: `testID` to `test.id`, `test.name`."""
    columns = dict(records.columns)
    for reference, values in columns.items():
        found = _REFERENCE.fullmatch(reference)
        if found is not None and f"{found[1]}.id" in columns and f"{found[1]}.name" in columns:
            ids, names = columns[f"{found[1]}.id"], columns[f"{found[1]}.name"]
            known = {key: name for key, name in zip(ids, names, strict=True) if key is not None}
            named = [name if name is not None else known.get(key) for key, name in zip(values, names, strict=True)]
            records.columns[f"{found[1]}.name"] = named


def _title(records: RecordList, statistics: dict[str, FieldStatistic], failed: Sequence[int]) -> str | None:
    """Returns the field that names records: by its name, the outermost first; else the first that tells all apart."""
    looked = failed or range(min(records.size, _LOOKED))
    best: tuple[bool, int, int, str] | None = None
    for name in statistics:
        last = records.last_step(name).lower()
        rank = _TITLES.index(last) if last in _TITLES else len(_TITLES) if last.endswith("name") else -1
        texts = [value for number in looked if isinstance(value := records.columns[name][number], str)]
        if rank >= 0 and 2 * len(texts) >= len(looked) and texts and max(map(len, texts)) <= 2 * _SAID:
            several = len(set(texts)) > 1 or len(texts) == 1
            distinct = 2 * len(set(texts)) >= len(texts) or (failed and last == _NAME and several)
            if distinct and not _HEX.fullmatch(texts[0]):
                best = min(best or (True, 99, 0, ""), (rank >= _SURELY, name.count("."), rank, name))
    if best is not None and not best[0]:
        return best[-1]
    for name, each in statistics.items():
        texts = [value for value in records.columns[name] if isinstance(value, str) and len(value) <= 2 * _CHARS]
        apart = len(texts) == records.size and len(set(texts)) >= _DISTINCT * len(texts)
        if each.least is None and apart and not _HEX.fullmatch(texts[0]):
            if not _ID.fullmatch(records.last_step(name)):
                return name
            best = best or (True, 0, 0, name)
    return None if best is None else best[-1]


def _messages(records: RecordList, statistics: dict[str, FieldStatistic]) -> list[str]:
    """Returns the fields that may say what happened, those of a failure first."""
    ranked: list[tuple[bool, int, int, str]] = []
    for name in statistics:
        last = records.last_step(name).lower()
        rank = next((nth for nth, word in enumerate(_MESSAGES) if last == word or last.endswith(f"_{word}")), -1)
        if rank >= 0:
            wrong = any(WRONG.fullmatch(part) for part in parts_of(name))
            ranked.append((not wrong, rank, name.count("."), name))
    return [name for *_, name in sorted(ranked)]


def _value(value: object, records: RecordList, most: int = _CHARS) -> str:
    """Returns a value as a card says it: a plain word as it is, a text in quotation marks, `…` where it is cut."""
    if isinstance(value, str):
        if len(value) <= most and (_PLAIN if records.steps else _PRINTED).fullmatch(value):
            return value
        if len(value) > most:  # of a path, the end tells most
            value = f"…{value[-most:]}" if _PATH.fullmatch(value) else f"{value[:most]}…"
    return encode(value).decode()


def _name(each: _Examined, number: int, most: int = _SAID) -> str:
    """Returns what a record is called, behind what it is in where that tells it apart; or else its place."""
    own = each.records.columns[each.title][number] if each.title else None
    names = [above for above in [each.above.get(number)] if above] + (
        [] if own is None else [" ".join(str(own).split())]
    )
    return _value(" > ".join(names), each.records, most) if names else each.records.locate(number)


def _message(each: _Examined, number: int, others: Mapping[object, str] | None = None) -> str:
    """Returns the line of a record's message that says most, in quotation marks; `others` are those of events."""
    said = _said(each, number)
    if said is None and others is not None and each.title is not None:
        said = others.get(each.records.columns[each.title][number])
    return _telling_line(said) if said else ""


def _telling_line(said: str) -> str:
    lines = [" ".join(line.split()) for line in said.splitlines()[:_LOOKED] if line.strip()]
    telling = next((line for line in lines if classify(line.encode()) & SURE), None)
    line = telling or next(iter(lines), "")
    return encode(line if len(line) <= _SAID else f"{line[:_SAID]}…").decode() if line else ""


def _said(each: _Examined, number: int) -> str | None:
    values = (each.records.columns[name][number] for name in each.messages)
    return next((value for value in values if isinstance(value, str)), None)


def _others(each: _Examined) -> dict[object, str]:
    """Returns what events of the same name say, for failed records without a message: a failure, or else the first."""
    out: dict[object, str] = {}
    if each.title is None or all(_said(each, number) for number in each.failed[:_LOOKED]):
        return out
    wanted = {each.records.columns[each.title][number] for number in each.failed[:_LOOKED]}
    for number, name in enumerate(each.records.columns[each.title]):
        said = _said(each, number) if name is not None and name in wanted else None
        if said and (name not in out or (number < _EVENTS and classify(said.encode()) & SURE)):
            out[name] = said
    return out


def _shown(each: _Examined, number: int, fields: Sequence[str], others: Mapping[object, str] | None = None) -> str:
    """Returns a record in one line."""
    records = each.records
    values = {name.removeprefix("."): records.columns[name][number] for name in fields}
    told = [
        f"no {name}" if value in {None, ""} else f"{name}={_value(value, records)}" for name, value in values.items()
    ]
    name, place, message = _name(each, number), records.locate(number), _message(each, number, others)
    said = (
        told
        if message in {encode(value).decode() for value in values.values()} or message == name
        else [*told, message]
    )
    return f"{name}{'' if name == place else f' ({place})'}: {', '.join(filter(None, said))}".removesuffix(": ")


def _size(each: _Examined) -> str:
    records = each.records
    is_plural = records.steps or records.place.endswith("s")
    return f"{records.size} {records.place}" if is_plural else counted(records.size, records.place)


def _failing(each: _Examined) -> list[str]:
    """Returns which records failed, and what the first of them say, or what many of them say."""
    if not each.failed:
        return []
    size = f"Failing: {len(each.failed)} of {_size(each)}"
    lines = [size]
    others = _others(each)
    if len(each.failed) <= _SHOWN:
        return [size, *(_shown(each, number, _told_fields(each, number), others) for number in each.failed)]
    if each.title or each.above:
        names = Counter(_name(each, number) for number in each.failed)
        told = [f"{name} {count}" if count > 1 else name for name, count in names.items()]
        lines = [f"{size}: {first_of(told, _NAMED, separator=', ')}"]
    else:
        counts = Counter(filter(None, (_said(each, number) for number in each.failed)))
        if counts and 2 * len(counts) <= counts.total():
            said: Counter[str] = Counter()
            for message, count in counts.items():
                said[_telling_line(message)] += count
            told = [f"{message} {count}" for message, count in said.most_common()]
            return [f"{size}: {first_of(told, _SHOWN, 'more messages', separator=', ')}"]
    first: dict[str, int] = {}
    for number in each.failed[:_EVENTS]:
        if len(first) < _SHOWN and (message := _message(each, number, others)):
            first.setdefault(message, number)
    shown = list(first.values()) or ([] if each.title or each.above else each.failed[:_SHOWN])
    return [*lines, *(_shown(each, number, _told_fields(each, number), others) for number in shown)]


def _told_fields(each: _Examined, number: int) -> list[str]:
    """Returns the fields that are shown of a failed record: odd ones, or what tells it from others."""
    return each.odd.get(number) or _identity(each, number)


def _identity(each: _Examined, number: int) -> list[str]:
    """Returns the fields that tell a record without a name from others."""
    if each.title:
        return []
    varied = [
        name
        for name, statistic in each.statistics.items()
        if name not in each.messages and (statistic.counts is None or len(statistic.counts) > 1)
    ]
    values = {name: each.records.columns[name][number] for name in varied}
    return [name for name, value in values.items() if value is not None and len(str(value)) <= _SAID // 2][: _FEW // 2]


def _odd(each: _Examined) -> list[str]:
    """Returns the records with most odd values."""
    failed = set(each.failed)
    chosen = sorted(
        (number for number in each.odd if number not in failed), key=lambda number: (-len(each.odd[number]), number)
    )
    return [f"Odd: {_shown(each, number, each.odd[number])}" for number in chosen[:_SHOWN]]


def _odd_fields(
    records: RecordList, statistics: dict[str, FieldStatistic], failed: Sequence[int]
) -> dict[int, list[str]]:
    """Returns the odd fields of the records that have any; none if many have."""
    odd: dict[int, list[str]] = {}
    if records.size >= _USUAL:
        for name, statistic in statistics.items():
            for number in _odd_in(records.columns[name], statistic, records.size):
                odd.setdefault(number, []).append(name)
    others = odd.keys() - set(failed)
    return {number: names[: _FEW // 2] for number, names in odd.items() if number not in others or len(others) <= _FEW}


def _odd_in(column: Column, statistic: FieldStatistic, size: int) -> list[int]:
    """Returns the records with a rare value of few, one that few have, or a number far from all others."""
    most = min(_FEWEST, max(1, int(size * _RARE)))
    if statistic.present <= most:
        return [number for number, value in enumerate(column) if value is not None]
    if statistic.present < size <= statistic.present + most:
        return [number for number, value in enumerate(column) if value is None or value == ""]
    counts = statistic.counts
    if counts is not None and len(counts) <= _FEW and 2 * statistic.present > size:
        rare = {value for value, count in counts.items() if count <= most and count * _USUAL <= size}
        if rare and sum(counts[value] for value in rare) <= most:
            return [number for number, value in enumerate(column) if value in rare]
        return []
    if statistic.is_number and statistic.present == size:
        _, keys = ordered(column)
        far = _far(cast("Sequence[float]", keys))
        return [number for number, value in enumerate(keys) if value in far]
    return []


def _far(numbers: Sequence[float]) -> set[float]:
    """Returns the one or two numbers that are farther from the next than nearly all others are apart."""
    ordered = np.sort(np.array(numbers))
    if len(ordered) <= 2 * _USUAL or all(above > below for below, above in pairwise(numbers)):
        return set()
    tail = max(1, len(ordered) // (2 * _USUAL))
    reach = float(ordered[-1 - tail] - ordered[tail])
    sides: list[list[float]] = [ordered[:3].tolist(), ordered[:-4:-1].tolist()]
    return {
        number
        for side in sides
        for few in (2, 1)
        if reach and abs(side[few] - side[few - 1]) > reach
        for number in side[:few]
    }


def _counts(each: _Examined) -> str:
    """Returns how often the values of each field occur, and from where to where numbers and times go."""
    told: list[str] = []
    same: list[Counter[object]] = []
    columns: list[Column] = []
    for name in sorted(each.statistics, key=lambda name: _order(each, name)):
        statistic = each.statistics[name]
        column = each.records.columns[name]
        if not _is_told(each, name, statistic):
            continue
        counts = None if _is_ranged(each.records.last_step(name), statistic) else statistic.counts
        if counts is not None and any(
            sorted(other.values()) == sorted(counts.values()) and _correspond(column, others)
            for other, others in zip(same, columns, strict=True)
        ):
            continue
        shown = _said_of(each, name, statistic)
        if shown and len(told) < min(_FIELDS, each.records.size // 4):
            told.append(f"{name.removeprefix('.') if each.records.steps else name} {shown}")
            if counts is not None:
                same.append(counts)
                columns.append(column)
    if not told:
        return ""
    return f"{_size(each)}: {'; '.join(told)}"


def _is_told(each: _Examined, name: str, statistic: FieldStatistic) -> bool:
    """Returns whether a reader can do something with the values of a field: they recur, or are from here to there."""
    last = each.records.last_step(name)
    if 4 * statistic.present <= each.records.size:
        return False
    if _is_ranged(last, statistic):
        if _ID.fullmatch(last):
            return False
        return statistic.least.value != statistic.greatest.value  # pyright: ignore[reportOptionalMemberAccess]
    counts = statistic.counts
    if counts is not None and len(counts) == 1:
        return each.records.place == LINE or STATES.fullmatch(last) is not None
    if counts is None or any(isinstance(value, str) and len(value) > 2 * _CHARS for value in counts):
        return False
    words = all(not isinstance(value, str) or " " not in value for value in counts)
    least = 1 if _CLASSES.fullmatch(last) else 2 if words or len(counts) <= _FEW else 4
    return least * len(counts) < statistic.present


def _is_ranged(last: str, statistic: FieldStatistic) -> bool:
    """Returns whether a field is told by its range: times, and numbers, unless they are codes, or few that recur."""
    counts = statistic.counts
    if statistic.least is None or counts is None or not statistic.is_number:
        return statistic.least is not None
    if _CLASSES.fullmatch(last) or STATES.fullmatch(last):
        return False
    few = len(counts) <= _NUMBERS or (len(counts) <= _FEW and len(counts) * _OFTEN <= statistic.present)
    return not few or any("." in str(value) for value in counts)


def _order(each: _Examined, name: str) -> tuple[bool, int, int, int]:
    """What is counted first: the verdict, states, classes, other texts, those of few values first, then numbers."""
    statistic, last = each.statistics[name], each.records.last_step(name)
    kind = 0 if STATES.fullmatch(last) else 1 if _CLASSES.fullmatch(last) else 2
    return (
        name != each.verdict,
        3 if _is_ranged(last, statistic) else kind,
        name.count("."),
        len(statistic.counts or ()),
    )


def _said_of(each: _Examined, name: str, statistic: FieldStatistic) -> str:
    counts = statistic.counts
    if _is_ranged(each.records.last_step(name), statistic):
        return f"{_extreme(each, statistic.least)} to {_extreme(each, statistic.greatest)}"  # pyright: ignore[reportArgumentType]
    ordered = sorted((counts or Counter()).items(), key=lambda item: (-item[1], encode(item[0])))
    items = [f"{_value(value, each.records)} {count}" for value, count in ordered]
    chars = most = 0
    for item in items[:_VALUES]:
        chars += len(item)
        most += not most or chars <= 2 * _SAID
    missing = each.records.size - statistic.present
    listed = first_of(items, most, "more values", separator=", ")
    return f"{listed}, none {missing}" if missing and most == len(items) else listed


def _extreme(each: _Examined, extreme: Extreme) -> str:
    shown = str(extreme.value) if not isinstance(extreme.value, float) else encode(extreme.value).decode()
    named = each.title is not None and extreme.alone
    name = _name(each, extreme.record) if named else ""
    return f"{shown} ({name})" if name and len(name) <= _CHARS else shown


def _correspond(one: Column, other: Column) -> bool:
    """Returns whether the values of two fields in the same records correspond one to one."""
    if not one or not other:  # of a text that streamed in
        return False
    return len(set(zip(one, other, strict=True))) == len(set(one)) == len(set(other))


def _path(each: _Examined) -> str | None:
    """Returns a JSONPath to the records that failed, if one value tells them, or to one that failed or is odd."""
    records, failed = each.records, each.failed
    if len(failed) > 1 and each.verdict is not None:
        values = {records.columns[each.verdict][number] for number in failed}
        return _filter(each, each.verdict, values.pop()) if len(values) == 1 else None
    odd = sorted(each.odd, key=lambda number: (-len(each.odd[number]), number))
    return next((records.locate(number) for number in [*failed, *odd]), None) if len(failed) <= 1 else None


def _rare_path(each: _Examined) -> str | None:
    few = [(name, statistic.counts) for name, statistic in each.statistics.items() if statistic.counts is not None]
    rare = [
        (not is_failing(value), count, name, value)
        for name, counts in few
        if 1 < len(counts) <= _FEW and name[0] in ".["  # not the key of a record
        for value, count in counts.items()
        if _SHOWN < count <= _RARELY * each.records.size
    ]
    return _filter(each, *min(rare, key=lambda found: found[:2])[2:]) if rare else None


def _filter(each: _Examined, name: str, value: object) -> str:
    shown = bracketed(value)[1:-1] if isinstance(value, str) else encode(value).decode()
    return f"{each.records.place.removesuffix('[*]').removesuffix('.*')}[?@{name}=={shown}]"
