"""What plain counting says of lists of records: how many there are, which failed or are odd, what their fields have.

Lists are found by other programs, or known to what made them; no code is shared with what tells them.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, cast

from facts.paths import leading_path

_CHARS: Final = 40
_SAID: Final = 160
_WORD: Final = r'"(?:[^"\\]|\\.)*"|[^\s,;="()]+'
_COUNT: Final = re.compile(rf"({_WORD}) (\d+)(?=, |; |$)")
_MORE: Final = re.compile(r"… (\d+) more(?: values| messages)?(?=; |$)")
_NAME: Final = rf"{_WORD}|line \d+|\$[^\s,;]+"
_NAMED: Final = re.compile(rf"({_NAME})(?: (\d+))?(?=, |$)")
_WRITTEN: Final = r"(?:\w{3},? )?\w{1,9} +\w{1,9} [\w :+-]*?"
_END: Final = re.compile(
    rf"([^\s,;\"()]+|\d{{4}}\D\d\d\D\d\d [^()]*?|{_WRITTEN}|[\d.,+-]+ [%a-zA-Zµ]+)(?: \(({_NAME})\))?(?= to |; |$)"
)
_TIME: Final = re.compile(r"(\d{4}([-/.])\d\d\2\d\d(?:[ T]\d\d:\d\d(?::\d\d)?)?)([.,]\d+)?(Z| ?[+-]\d\d:?\d\d)?")
_MEASURE: Final = re.compile(r"\s*([-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:[eE][-+]?\d+)?)(\s?[%a-zA-Zµ]*)\s*")
_BAD: Final = re.compile(
    r"(?i)(?:\w+[ _-])?(?:fail|failed|failure|error|errored|fatal|critical|crash\w*|timeout|refused)"
)
_WRONG: Final = re.compile(r"(?i)(?:error|failure|fault|exception|failed|problem|violation)(?:s|_?message)?")
_STATES: Final = re.compile(r"(?i)\w*(?:status|state|result|outcome|phase|level|severity|conclusion|action|reason)")

_NOTHING: Final = (None, "", 0, "0", "false", "no", "none", "null", "off")


class Records(NamedTuple):
    """A list of records, as whoever made it knows it."""

    place: str
    """What it is called: `$.items[*]`, `row`, `testcase`, `line`."""
    columns: Mapping[str, Sequence[object]]
    """The values of each field, one per record; None where there is none."""
    where: Sequence[str]
    """The place of each record."""
    above: Sequence[Mapping[str, object]] = ()
    """The values of what each record is in, by a name of its own each."""
    failed: frozenset[int] | None = None
    """Those that failed; None: those that say so in a usual word."""

    @property
    def size(self) -> int:
        return len(self.where)


class RecordsOracle:
    """Understands every line about records."""

    def __init__(self, *lists: Records, find: Callable[[str], Records | None] | None = None, others: int = 0) -> None:
        """`find` returns the list at a JSONPath; `others`: lines that are no record."""
        self._lists = lists
        self._find = find
        self._others = others

    def __call__(self, line: str) -> bool:
        if found := re.match(r"Failing: (\d+) of ", line):
            number, lists, at = self._sized(line, found.end())
            assert any(_fail(each, int(found[1]), number, line[at:]) for each in lists), line[:300]
            return True
        if re.match(r"\d+ ", line):
            number, lists, at = self._sized(line, 0)
            if not lists:
                return False
            assert line[at : at + 2] == ": ", line[:300]
            assert any(self._counts(each, number, line, at + 2) for each in lists), line[:600]
            return True
        kind = re.match(r"(Odd|First): ", line)
        told = line[kind.end() :] if kind else line
        known = False
        for name, place, rest in _heads(told):
            for each, number in self._located(place):
                known = True
                if _shows(each, number, name, rest, odd=kind is not None and kind[1] == "Odd"):
                    assert kind is None or kind[1] == "Odd" or number == 0, line
                    return True
        assert kind is None, line[:400]
        assert not known or " (" not in told, line[:400]
        return False

    def _sized(self, line: str, at: int) -> tuple[int, list[Records], int]:
        """The number of a list at a place in the line, the lists of that name, and where the name ends."""
        found = re.compile(r"(\d+) ").match(line, at)
        assert found is not None, line
        at, count = found.end(), int(found[1])
        if line.startswith("$", at):
            end = at + leading_path(line[at:])[1]
            each = self._find(line[at:end]) if self._find is not None else None
            assert each is not None, line
            return count, [each], end
        lists: list[Records] = []
        end = at
        for each in self._lists:
            noun = _plural(each.place, count)
            if line.startswith(noun, at) and re.match(r"$|: ", line[at + len(noun) :]):
                lists.append(each)
                end = at + len(noun)
        return count, lists, end

    def _located(self, place: str) -> Iterator[tuple[Records, int]]:
        lists = list(self._lists)
        if place.startswith("$") and self._find is not None:
            ends = [found.end() for found in re.finditer(r"\[\d+\]|\.\w+|\['(?:[^'\\]|\\.)*'\]", place)]
            above = place[: ends[-2]] if len(ends) > 1 else "$"
            lists += filter(None, [self._find(f"{above}[*]"), self._find(f"{above}.*")])
        for each in lists:
            for number, where in enumerate(each.where):
                if where == place:
                    yield each, number

    def _counts(self, each: Records, size: int, line: str, at: int) -> bool:
        """Whether all that is told of the fields is true."""
        if size != each.size:
            return False
        if found := re.compile(r"(\d+) other lines?$").match(line, at):
            return int(found[1]) == self._others
        for name in sorted(each.columns, key=len, reverse=True):
            if line.startswith(f"{name} ", at):
                for end in _field(each, name, line, at + len(name) + 1):
                    if end == len(line) or (line.startswith("; ", end) and self._counts(each, size, line, end + 2)):
                        return True
        return False


def _plural(noun: str, count: int) -> str:
    return noun + ("" if count == 1 or noun.endswith("s") else "es" if noun.endswith("x") else "s")


def _heads(told: str) -> Iterator[tuple[str | None, str, str]]:
    """The name, the place and the rest of a line about one record, in every way it can be read."""
    for found in re.finditer(r"^(?=line \d|\$[.\[])| \((?=line \d|\$[.\[])", told):
        begin = found.end()
        size = leading_path(told[begin:])[1] if told[begin] == "$" else len(re.split(r"[^line \d]", told[begin:])[0])
        end, inside = begin + size, begin > 0
        if inside and not told.startswith(")", end):
            continue
        rest = told[end + inside :]
        if not rest or rest.startswith(": "):
            yield told[: found.start()] if inside else None, told[begin:end], rest[2:]


def _field(each: Records, name: str, line: str, at: int) -> Iterator[int]:
    """Where the rest of a field ends, in every way in which it is true."""
    column = each.columns[name]
    if (end := _counted(column, line, at)) is not None:
        yield end
    if (end := _ranged(each, column, line, at)) is not None:
        yield end


def _held(column: Sequence[object]) -> list[object]:
    return [value for value in column if value is not None and value != ""]


def _counted(column: Sequence[object], line: str, at: int) -> int | None:
    """Where counts end that are told from here, if they are those of the column."""
    counts = Counter((isinstance(value, bool), value) for value in _held(column))
    missing, least = len(column) - counts.total(), len(column)
    while True:
        if more := _MORE.match(line, at):
            return more.end() if int(more[1]) == len(counts) and max(counts.values()) <= least else None
        item = _COUNT.match(line, at)
        if item is None:
            return None
        count = int(item[2])
        same = next((key for key, number in counts.items() if number == count and _is_said(item[1], key[1])), None)
        if same is not None:
            del counts[same]
            least = count
        elif item[1] == "none" and count == missing:
            missing = 0
        else:
            return None
        at = item.end()
        if not line.startswith(", ", at):
            return at if not counts and not missing else None
        at += 2


def _ranged(each: Records, column: Sequence[object], line: str, at: int) -> int | None:
    """Where a range ends that is told from here, if it is that of the column, and its ends are named rightly."""
    keys = _compared(_held(column))
    if not keys:
        return None
    by_record = iter(keys)
    known = [None if value is None or value == "" else next(by_record) for value in column]
    for key in (min(keys), max(keys)):
        end = _END.match(line, at)
        numbers = [number for number, other in enumerate(known) if other == key]
        if end is None or not any(_is_end(end[1], column[number]) for number in numbers):
            return None
        if end[2] is not None and (len(numbers) > 1 or not _is_called(each, numbers[0], end[2])):
            return None
        at = end.end()
        if key is not max(keys) and line.startswith(" to ", at):
            at += 4
        else:
            return at
    return None


def _is_end(told: str, value: object) -> bool:
    return (
        told == value
        if isinstance(value, str)
        else float(told) == value and ("." in told or "e" in told or str(value) == told)
    )


def _compared(values: Sequence[object]) -> list[tuple[float | str, float]]:
    """By what values are compared that are all numbers of one unit, or all times in one form; nothing for others."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return [(cast("float", value), 0) for value in values]
    if not all(isinstance(value, str) for value in values):
        return []
    texts = cast("Sequence[str]", values)
    times = [_TIME.fullmatch(text) for text in texts]
    if all(times):
        parts = [(time[1], float(f"0{(time[3] or '').replace(',', '.') or '.0'}"), time[4]) for time in times if time]
        forms = {(re.sub(r"\d", "0", text), zone) for text, _, zone in parts}
        return [(text, fraction) for text, fraction, _ in parts] if len(forms) == 1 else []
    written = [_written(text) for text in texts]
    if all(written):
        return [(time, 0) for time in written] if len({text[-5:] for text in texts if text[-5] in "+-"}) < 2 else []
    measures = [_MEASURE.fullmatch(text) for text in texts]
    units = {measure[2].strip() for measure in measures if measure is not None}
    if len(units) != 1 or not all(measure is not None and re.search(r"\d", measure[1]) for measure in measures):
        return []
    return [(float(measure[1].replace(",", "")), 0) for measure in measures if measure is not None]


def _written(text: str) -> str:
    """A time with the name of a month, in the order of ISO 8601; empty if it is none."""
    for form in ("%d %b %Y", "%a %b %d %H:%M:%S %Y", "%b %d %H:%M:%S %Y", "%a, %d %b %Y %H:%M:%S", "%d/%b/%Y:%H:%M:%S"):
        try:
            return datetime.strptime(re.sub(r" ([+-]\d{4}|[A-Z]{3})$", "", text), form).isoformat()  # noqa: DTZ007
        except ValueError:
            continue
    return ""


def _text(token: str) -> str:
    return str(json.loads(token)) if token.startswith('"') else token


def _is_said(token: str, value: object) -> bool:
    """Whether a token is what is said of a value."""
    if not isinstance(value, str):
        return not token.startswith('"') and _parsed(token) == (type(value), value)
    return _is_cut(_text(token), value, _CHARS)


def _parsed(token: str) -> tuple[type, object]:
    try:
        value: object = json.loads(token)
    except ValueError:
        return str, token
    return value.__class__, value


def _is_cut(told: str, whole: str, most: int) -> bool:
    """Whether this is told of a text."""
    return told == _cut(whole, most)


def _cut(whole: str, most: int) -> str:
    """A text as it is, or cut at its end; a path or a dotted word, at its front."""
    if len(whole) <= most:
        return whole
    if not re.search(r"\s", whole) and re.search(r"[/\\.]", whole):
        return f"…{whole[-most:]}"
    return f"{whole[:most]}…"


def _one_line(value: object) -> str:
    return " ".join(str(value).split())


def _names(each: Records, number: int) -> Iterator[str]:
    """Everything that a record may be called: a text in it, behind one of what it is in, or one of that alone."""
    own = [_one_line(value) for column in each.columns.values() if isinstance(value := column[number], str)]
    above = [
        _one_line(value) for value in (each.above[number].values() if each.above else ()) if isinstance(value, str)
    ]
    yield each.where[number]
    yield from own
    yield from above
    for outer in dict.fromkeys(above):
        yield from (f"{outer} > {name}" for name in dict.fromkeys(own))


def _is_called(each: Records, number: int, token: str) -> bool:
    told = _text(token)
    return any(_is_cut(told, name, _SAID) for name in _names(each, number))


def _lines(each: Records, number: int) -> Iterator[str]:
    """The lines of texts in a record, and these as one."""
    for column in each.columns.values():
        if isinstance(value := column[number], str):
            yield from (_one_line(line) for line in [*value.splitlines(), value] if line.strip())


def _says(each: Records, number: int, message: str) -> bool:
    """Whether a line of a text in a record, or in another one of the same name, is this message."""
    if any(_is_message(message, line) for line in _lines(each, number)):
        return True
    own = {*_names(each, number)} - {each.where[number]}
    return any(
        not own.isdisjoint(_names(each, other)) and any(_is_message(message, line) for line in _lines(each, other))
        for other in range(each.size)
    )


def _is_message(told: str, line: str) -> bool:
    return told == (line if len(line) <= _SAID else f"{line[:_SAID]}…")


def _shows(each: Records, number: int, name: str | None, rest: str, *, odd: bool) -> bool:
    """Whether a record is called so, and has what is told of it; `odd`: in fields in which few are like it."""
    if name is not None and not _is_called(each, number, name):
        return False
    at = 0
    while at < len(rest):
        if rest.startswith('"', at):
            message, end = json.JSONDecoder().raw_decode(rest, at)
            ends = [end] if _says(each, number, message) else []
        else:
            ends = [end for field in each.columns if (end := _told(each, number, field, rest, at, odd=odd)) is not None]
        at = max((end for end in ends if rest[end : end + 2] in {"", ", "}), default=-1) + 2
        if at < 2:
            return False
    return True


def _told(each: Records, number: int, name: str, rest: str, at: int, *, odd: bool) -> int | None:
    """Where that ends which is told of a field from here, if it is true."""
    column = each.columns[name]
    value = column[number]
    if value is None or value == "":
        end = at + len(f"no {name}")
        return end if rest.startswith(f"no {name}", at) and (not odd or len(_held(column)) >= each.size - 3) else None
    token = re.compile(_WORD).match(rest, at + len(name) + 1)
    if not rest.startswith(f"{name}=", at) or token is None or not _is_said(token[0], value):
        return None
    return token.end() if not odd or _is_odd(column, value) else None


def _is_odd(column: Sequence[object], value: object) -> bool:
    """Whether few records have a value, or any, or it is among the ends of all."""
    held = _held(column)
    keys = _compared(held)
    far = keys and keys[held.index(value)] in [*sorted(keys)[:2], *sorted(keys)[-2:]]
    return held.count(value) <= 3 and (len(held) <= 3 or 20 * held.count(value) <= len(column) or bool(far))


def _fail(each: Records, count: int, size: int, rest: str) -> bool:
    """Whether so many records of a list failed, and these are called so, or say so."""
    if size != each.size:
        return False
    for failed in [each.failed] if each.failed is not None else _failures(each):
        if len(failed) == count and (
            not rest or (len(rest) > 2 and _are_called(each, failed, rest.removeprefix(": ")))
        ):
            return True
    return False


def _failures(each: Records) -> Iterator[frozenset[int]]:
    """The records that state a failure in one field, or have a field that is called so."""
    wrong: dict[bool, set[int]] = {True: set(), False: set()}
    for name, column in each.columns.items():
        last = re.split(r"\.|\['", name.replace("[0]", ""))
        if _STATES.fullmatch(last[-1]):
            yield frozenset(n for n, value in enumerate(column) if isinstance(value, str) and _BAD.fullmatch(value))
        if any(_WRONG.fullmatch(part) for part in last):
            wrong["[0]" in name].update(n for n, value in enumerate(column) if value not in _NOTHING)
    yield frozenset(wrong[False])  # where others have an object, a list states nothing
    yield frozenset(wrong[False] | wrong[True])


def _are_called(each: Records, failed: frozenset[int], told: str) -> bool:
    """Whether failed records have these names, or say these messages, so often, and so many others."""
    items: list[tuple[str, int]] = []
    more = at = 0
    while at < len(told):
        if found := _MORE.match(told, at):
            more, at = int(found[1]), found.end()
            continue
        item = _NAMED.match(told, at)
        if item is None:
            return False
        items.append((_text(item[1]), int(item[2] or 1)))
        at = item.end() + 2
    return any(_are_counted(names, items, more) for names in [*_namings(each, failed), *_messages(each, failed)])


def _are_counted(names: list[list[str]], items: list[tuple[str, int]], more: int) -> bool:
    """Whether as many records have each of these texts, and the others have so many more."""
    shown = {text for text, _ in items}
    if any(sum(text in each for each in names) != count for text, count in items):
        return False
    return len({each[0] for each in names if each and shown.isdisjoint(each)}) == more


def _namings(each: Records, failed: frozenset[int]) -> Iterator[list[list[str]]]:
    """What failed records are called, in each way in which all of them may be."""
    outer = {key: None for number in failed if each.above for key in each.above[number]}
    for name in [None, *each.columns]:
        for above in [None, *outer]:
            names: list[list[str]] = []
            for number in sorted(failed):
                parts = [each.above[number].get(above) if above is not None else None]
                parts.append(each.columns[name][number] if name is not None else None)
                called = " > ".join(_one_line(part) for part in parts if part)
                names.append([_cut(called, _SAID) if called else each.where[number]])
            yield names


def _messages(each: Records, failed: frozenset[int]) -> Iterator[list[list[str]]]:
    """The lines that failed records have in each field."""
    for column in each.columns.values():
        yield [
            [
                line if len(line) <= _SAID else f"{line[:_SAID]}…"
                for line in (_one_line(part) for part in value.splitlines() if part.strip())
            ]
            for number in sorted(failed)
            if isinstance(value := column[number], str) and value
        ]
