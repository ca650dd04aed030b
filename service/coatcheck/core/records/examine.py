"""Finds which field names records, which records failed or are odd, and which fields say what happened.

Also finds the short values at the top of a document that is an object, and the path to its largest value.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Final, cast

import numpy as np
from msgspec import Struct
from msgspec.json import encode

from coatcheck.core.jsonpath.query import step
from coatcheck.core.records.model import WRONG, Column, RecordList, find_failures, parts_of
from coatcheck.core.records.statistics import FieldStatistic, examine, find_far, make_sort_keys

_TITLES: Final = (
    "fullname", "fulltitle", "full_name", "nodeid", "name", "testname", "test", "title",
    "full_description", "fulldescription", "description", "key", "id",
)  # fmt: skip
_NAME: Final = "name"
_SURELY: Final = 8
"""Number of names at the beginning of _TITLES that name records in every format. A field with one of the other names is
the title only if no other field distinguishes the records."""
_HEX: Final = re.compile(r"(?=.*\d)[0-9a-fA-F:-]{8,}")
"""Matches hexadecimal identifiers, which mean nothing to a reader."""
_MESSAGES: Final = (
    "message", "msg", "longrepr", "failuremessages", "reason", "error", "detail", "description",
    "output", "text", "title", "summary", "stack",
)  # fmt: skip
"""Names of fields that say what happened, those with the most detailed texts first."""
_MIN_RECORDS: Final = 20
"""Minimum records of a list in which records may be odd."""
_RARE: Final = 0.05
"""Maximum share of records that are odd in the same way."""
_ODD: Final = 3
"""Maximum number of records that are odd in the same way."""
FEW: Final = 8
"""Maximum different values of a field in which a rare value is odd."""
_ID: Final = re.compile(
    r"(?:\w*_)?(?:id|ID|Id)|\w*[a-z](?:Id|ID)|(?i:\w*(?:line|lineno|line_?number|column|col|row|offset|index))"
)
"""Matches the names of numbers whose range is of no interest."""
_KEYS: Final = re.compile(r"(?i)_?(?:id|key|name|no|number)$")
"""Matches the end of the name of a field that names what stands before it: `instance_id` names instances."""
_REFERENCE: Final = re.compile(r"(.*\w)(?:ID|Id|_id)")
_DISTINCT: Final = 0.9
"""Minimum share of different texts in a field that distinguishes records."""
_TITLE_CHARS: Final = 80
"""Maximum characters of a text that distinguishes records; a longer text is a description."""
_MAX_TEXT_CHARS: Final = 320
"""Maximum characters of the values of a field that is a title by its name."""
_EXAMINED_RECORDS: Final = 50
"""Number of records by which the title is chosen, if no record failed."""


class Examined(Struct):
    """A list of records, with the results of its examination."""

    records: RecordList
    statistics: dict[str, FieldStatistic]
    """The statistic of each field, by its name."""
    verdict: str | None
    """The field whose values say which records failed; None: there is no such field."""
    failed: Sequence[int]
    """Numbers of the records that failed, from 0."""
    title: str | None
    """The field that names the records; None: there is no such field."""
    messages: list[str]
    """Fields that may say what happened, best first."""
    odd: dict[int, list[str]]
    """Odd fields by the number of the record."""
    above: dict[int, str] = {}
    """The name of the record around a failed or odd record, by the number of the latter."""


def examine_lists(lists: Sequence[RecordList]) -> list[Examined]:
    """Returns the examination of each complete list of one document.

    If a failed record contains a failed record of another list, its own list reports no failures, because the inner
    records say more.
    """
    every = [examine_list(each) for each in lists]
    by_list = {id(each.records): each for each in every}
    owners = chain.from_iterable(_owners(each, number) for each in every for number in each.failed)
    containing = {(id(records), at) for records, at in owners}
    for each in every:
        if any((id(each.records), number) in containing for number in each.failed):
            each.failed = ()
    for each in every:
        odd = [*each.odd.keys() - set(each.failed)]
        each.above = {**_above(each, odd, by_list), **_above(each, each.failed, by_list)}
    return every


def examine_list(records: RecordList) -> Examined:
    """Returns the examination of the records of one list."""
    _resolve(records)
    statistics = {name: examine(column) for name, column in records.columns.items()}
    verdict, failed = find_failures(records, statistics)
    title = _title(records, statistics, failed)
    messages = [each for each in _messages(records, statistics) if each != title]
    return Examined(records, statistics, verdict, failed, title, messages, _odd_fields(records, statistics, failed))


def _owners(each: Examined, number: int) -> Iterator[tuple[RecordList, int]]:
    """Yields the records that contain a record, the nearest first."""
    owner = each.records.owners[number] if each.records.owners else None
    while owner is not None:
        yield owner
        owner = owner[0].owners[owner[1]] if owner[0].owners else None


def _above(each: Examined, numbers: Sequence[int], by_list: dict[int, Examined]) -> dict[int, str]:
    """Returns, by record number, the name of the nearest named record that contains the record.

    Empty unless most of these records have a container of their own: a failed step is shown with the name of its
    scenario, but many failed tests are not shown with the name of their common suite.
    """
    owners: dict[int, tuple[int, int, str]] = {}
    for number in numbers:
        for records, at in _owners(each, number):
            owner = by_list.get(id(records))
            if owner is not None and owner.title is not None and (name := owner.records.columns[owner.title][at]):
                owners[number] = (id(records), at, " ".join(str(name).split()))
                break
    if len({owner[:2] for owner in owners.values()}) * 4 < len(numbers) * 3:
        return {}
    return {number: name for number, (_, _, name) in owners.items()}


def _resolve(records: RecordList) -> None:
    """Names records that refer by ID to something that another record names: `testID` to `test.id` and `test.name`."""
    columns = dict(records.columns)
    for reference, values in columns.items():
        match = _REFERENCE.fullmatch(reference)
        if match is not None and f"{match[1]}.id" in columns and f"{match[1]}.name" in columns:
            ids, names = columns[f"{match[1]}.id"], columns[f"{match[1]}.name"]
            names_by_id = {key: name for key, name in zip(ids, names, strict=True) if key is not None}
            pairs = zip(values, names, strict=True)
            records.columns[f"{match[1]}.name"] = [
                names_by_id.get(key) if name is None else name for key, name in pairs
            ]


def _title(records: RecordList, statistics: dict[str, FieldStatistic], failed: Sequence[int]) -> str | None:
    """Returns the field that names records: a field that is a title by its name, or one that distinguishes all records.

    Of several titles, the outermost is chosen. None if there is no such field.
    """
    numbers = failed or range(min(records.size, _EXAMINED_RECORDS))
    best: tuple[bool, int, int, str] | None = None
    for name in statistics:
        last = records.last_step(name).lower()
        rank = _TITLES.index(last) if last in _TITLES else len(_TITLES) if last.endswith("name") else -1
        texts = [value for number in numbers if isinstance(value := records.columns[name][number], str)]
        if rank >= 0 and 2 * len(texts) >= len(numbers) and texts and max(map(len, texts)) <= _MAX_TEXT_CHARS:
            several = len(set(texts)) > 1 or len(texts) == 1
            distinct = 2 * len(set(texts)) >= len(texts) or (failed and last == _NAME and several)
            if distinct and not _HEX.fullmatch(texts[0]):
                best = min(best or (True, 99, 0, ""), (rank >= _SURELY, name.count("."), rank, name))
    if best is not None and not best[0]:
        return best[-1]
    apart = [name for name, each in statistics.items() if each.least is None and _tells_apart(records, name)]
    kind = re.sub(r"[^a-z]", "", records.place.rpartition(".")[2].lower())
    own = (name for name in apart if kind.startswith(_KEYS.sub("", records.last_step(name)).lower() or "-"))
    plain = (name for name in apart if not is_reference(records.last_step(name)))
    fallback = best[-1] if best is not None else None
    return next(chain(own, plain), fallback or next(iter(apart), None))


def _tells_apart(records: RecordList, name: str) -> bool:
    """Returns whether a field distinguishes nearly all records by short texts that are not hexadecimal identifiers."""
    texts = [value for value in records.columns[name] if isinstance(value, str) and len(value) <= _TITLE_CHARS]
    distinct = len(texts) == records.size and len(set(texts)) >= _DISTINCT * len(texts)
    return distinct and not _HEX.fullmatch(texts[0])


def is_reference(last: str) -> bool:
    """Returns whether a field of this name is an identifier or a position, so that its range is of no interest."""
    return _ID.fullmatch(last) is not None


def _messages(records: RecordList, statistics: dict[str, FieldStatistic]) -> list[str]:
    """Returns the fields that may say what happened, those inside a failure first."""
    ranked: list[tuple[bool, int, int, str]] = []
    for name in statistics:
        last = records.last_step(name).lower()
        rank = next((nth for nth, word in enumerate(_MESSAGES) if last == word or last.endswith(f"_{word}")), -1)
        if rank >= 0:
            wrong = any(WRONG.fullmatch(part) for part in parts_of(name))
            ranked.append((not wrong, rank, name.count("."), name))
    return [name for *_, name in sorted(ranked)]


def _odd_fields(
    records: RecordList, statistics: dict[str, FieldStatistic], failed: Sequence[int]
) -> dict[int, list[str]]:
    """Returns the odd fields of each odd record, by its number.

    If more than FEW records are odd but did not fail, only the failed records are included.
    """
    odd: dict[int, list[str]] = {}
    if records.size >= _MIN_RECORDS:
        for name, statistic in statistics.items():
            for number in _odd_in(records.columns[name], statistic, records.size):
                odd.setdefault(number, []).append(name)
    others = odd.keys() - set(failed)
    return {number: names[: FEW // 2] for number, names in odd.items() if number not in others or len(others) <= FEW}


def _odd_in(column: Column, statistic: FieldStatistic, size: int) -> list[int]:
    """Returns the numbers of the records that are odd by a field.

    These have a rare value or an outlying number, or they are among the few records that have the field, or that lack
    it.
    """
    limit = min(_ODD, max(1, int(size * _RARE)))
    if statistic.present <= limit:
        return [number for number, value in enumerate(column) if value is not None]
    if statistic.present < size <= statistic.present + limit:
        return [number for number, value in enumerate(column) if value is None or value == ""]
    counts = statistic.counts
    if counts is not None and len(counts) <= FEW and 2 * statistic.present > size:
        rare = {value for value, count in counts.items() if count <= limit and count * _MIN_RECORDS <= size}
        if rare and sum(counts[value] for value in rare) <= limit:
            return [number for number, value in enumerate(column) if value in rare]
        return []
    if statistic.is_number and statistic.present == size:
        _, keys = make_sort_keys(column)
        far = _far(cast("Sequence[float]", keys))
        return [number for number, value in enumerate(keys) if value in far]
    return []


def _far(numbers: Sequence[float]) -> set[float]:
    """Returns the numbers at either end that are farther from the next one than nearly all other numbers are apart.

    These are at most two at each end. There are none among few numbers, or if each number is greater than the one
    before it.
    """
    ordered = np.sort(np.array(numbers))
    if len(ordered) <= 2 * _MIN_RECORDS or all(above > below for below, above in pairwise(numbers)):
        return set()
    tail = max(1, len(ordered) // (2 * _MIN_RECORDS))
    reach = float(ordered[-1 - tail] - ordered[tail])
    return find_far(ordered, reach) if reach else set()


_VALUE: Final = 80
"""Maximum characters of a short value."""
_SCALARS: Final = 24
"""Maximum values that are listed."""
_MAP: Final = 40
"""Maximum members of a document for which the values in its inner objects are listed as well."""
_NESTED: Final = 12
"""Maximum members of an inner object whose values are all listed."""
_IDENTITY: Final = frozenset(["id", "name", "title", "version", "status", "state", "summary", "error", "message"])
"""Members of a larger inner object whose values are listed: they say what it is, and in which state."""
_TELLS: Final = re.compile(r"(?i)(?:^|[.\]])(?:\w*(?:message|error|reason|description)|msg|detail|text|title)?$")
"""Matches the names of texts that say what is wrong, rather than where it happened."""
_DESCRIBES: Final = re.compile(r"(?i)(?:^|\.)description$")
_STATING: Final = re.compile(
    r"(?i)\w*(?:error|warning|fail|problem|violation|vulnerab|issue|alert|finding|diagnostic|result)\w*"
)
"""Matches the names of members that say what is wrong, or what was found."""
_FEWEST: Final = 8
"""Minimum elements of a list of which a path requests only some."""
_MAX_STEPS: Final = 6
"""Maximum steps of a path. A longer path would take up most of a call's line."""
_BULK: Final = 0.5
"""Minimum share of a value that its largest member must have for the path to continue to that member."""
_PAGE: Final = 20
"""Number of elements of a list that a path requests."""


def top_values(value: object) -> str | None:
    """Returns the short values of an object and of small objects inside it, such as `status="failed", error.code=7`.

    Of a larger inner object, only the values in `_IDENTITY` are included. Also included are the values of the first
    element of a list that is named like a failure, and the beginnings of long texts that say what is wrong.
    """
    if not isinstance(value, dict):
        return None
    entries: list[tuple[str, object]] = []
    members = cast("dict[str, object]", value)
    for key, member in members.items():
        name, inner_value = key, member
        if isinstance(member, list) and member and WRONG.fullmatch(key):
            name, inner_value = f"{key}[0]", cast("list[object]", member)[0]
        inner = cast("dict[str, object]", inner_value) if isinstance(inner_value, dict) and len(members) <= _MAP else {}
        if len(inner) > _NESTED:
            inner = {each: inner[each] for each in inner if each in _IDENTITY}
        entries += [(f"{name}.{each}", scalar) for each, scalar in inner.items()] if inner else [(name, inner_value)]
    parts = [f"{name}={text}" for name, each in entries if len(name) <= _VALUE and (text := _clip_value(name, each))]
    return ", ".join(parts[:_SCALARS]) or None


def _clip_value(name: str, value: object) -> str | None:
    """Returns a value as JSON; of a long text, the beginning if it tells what is wrong, or what the document is."""
    telling = _TELLS.search(name) and (any(map(WRONG.fullmatch, parts_of(name))) or _DESCRIBES.search(name))
    if isinstance(value, str) and len(value) > _VALUE and telling:
        value = f"{value[: 2 * _VALUE]}…" if len(value) > 2 * _VALUE else value
        return encode(value).decode()
    return _short(value)


def _short(value: object) -> str | None:
    """Returns a value as JSON; None if the value is long, an object or an array."""
    if isinstance(value, dict | list):
        return None
    text = encode(value).decode()
    return text if len(text) <= _VALUE else None


def largest_path(value: object) -> str | None:
    """Returns the JSONPath of the member that says what was found, or of the largest value; None if there is neither.

    The path leads further down as long as one member is at least half of the value around it.
    """
    path, inner, size, is_stated = "$", value, 0, False
    for _ in range(_MAX_STEPS):
        if isinstance(inner, list):
            elements = cast("list[object]", inner)
            if len(elements) >= _FEWEST:
                first = 0 if is_stated else len(elements) // 3
                return f"{path}[{first}:{min(len(elements), first + _PAGE)}]"
            steps = {f"[{number}]": element for number, element in enumerate(elements)}
        else:
            members = cast("dict[str, object]", inner) if isinstance(inner, dict) else {}
            steps = {step(key): member for key, member in members.items()}
        containers = {name: len(encode(each)) for name, each in steps.items() if isinstance(each, dict | list) and each}
        if not containers:
            break
        stating_names = [name for name in containers if _STATING.fullmatch(name[1:])]
        is_stated = bool(stating_names)
        name = stating_names[0] if is_stated else max(containers, key=lambda each: containers[each])
        if path != "$" and containers[name] < _BULK * size and not is_stated:
            break
        path, inner, size = f"{path}{name}", steps[name], containers[name]
    return path if path != "$" else None
