"""Finds the lists of records in nested values: lists of objects, and maps whose members are similar objects.

A place is a path without the indices of elements. Lists at the same place are merged.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final, cast

from msgspec import Struct, field

from coatcheck.core.jsonpath.query import step
from coatcheck.core.records.model import FIELDS, LONGEST, WRONG, Column, RecordList

Members = dict[str, object]
Keys = tuple[str | int, ...]

_DEPTH: Final = 16
"""Maximum nesting of containers that are searched for lists."""
_DEEP: Final = 6
"""Maximum nesting of objects inside a record whose members are fields of the record."""
_MAX_OBJECTS: Final = 100_000
"""Maximum objects at one place; a list with more, and lists inside it, are left out."""
_ALIKE: Final = 3
"""Minimum members of a map, whose members are records named by their keys. Fewer members are parts of one object."""
_NEARLY: Final = 0.8
"""Minimum share of a map's members that have a common key."""
_KEY: Final = "key"
"""Name of the field that holds the key of a map's record."""
_MAX_MEMBERS: Final = 200
"""Maximum keys at one place that are searched for lists; twice as many are examined as fields."""
_NAMES: Final = 12
"""Number of different keys up to which the keys of objects are always names of fields, however rare each is."""
_OFTEN: Final = 4
"""The keys of objects are data if even the most frequent key occurs in fewer than one in this many objects."""
_SAMPLE: Final = 200
"""Number of records, evenly spread, by which the fields of a list are found."""
_BRACKETED: Final = re.compile(r"\['((?:[^'\\]|\\.)*)'\]")
_PART: Final = re.compile(r".*?(?:\[\*\]|\.\*)")
"""A place up to the next list."""
_CONTAINERS: Final = frozenset([dict, list])
_Path = tuple["_Place | None", int, str, "str | int"]
"""The path of an object: the place of the record around it (None: there is none), the number of that record, the steps
from there, and the last step."""


class _Place(Struct):
    """The objects at one place."""

    objects: list[Members] = field(default_factory=list[Members])
    paths: list[_Path] = field(default_factory=list[_Path])
    origins: list[int] = field(default_factory=list[int])
    """The `id()` of each object in the document. `objects` holds copies of the records of a map."""
    keyed: bool = False
    """Whether the objects are the members of a map, whose keys become a field."""
    several: bool = False
    """Whether any list at this place has more than one element. If not, its element is a part of the record around
    it."""
    partial: bool = False
    """Whether there are more objects than are visited."""


def lists_in(value: object, lines: Mapping[int, int] | None = None) -> list[RecordList]:
    """Returns the lists of records in a document, with their fields, in the order of their beginnings.

    All lists at the same place form one list. `lines` are the line numbers of objects, by the objects' `id()`. If they
    are given, they locate the records, and fields are not named by JSONPaths.
    """
    by_name: dict[str, _Place] = {}
    _visit([(-1, value)], "$", (None, "$"), by_name)
    lists: dict[int, RecordList] = {}
    partial = tuple(name for name, place in by_name.items() if place.partial)
    for path, place in by_name.items():
        name = path
        if place.several and not path.startswith(partial):
            columns = columns_of(place.objects, keyed=place.keyed)
            if lines is not None:
                columns = {_plain(field): column for field, column in columns.items()}
                name = (
                    _plain(name).removesuffix("[*]").removesuffix(".*").rpartition(".")[2].removeprefix("$") or "item"
                )
            locate, size = _locator(place, lines), len(place.objects)
            lists[id(place)] = RecordList(name, size, columns, locate, steps=lines is None)
    for place in by_name.values():
        if id(place) in lists:
            lists[id(place)].owners = [_owner(path, lists) for path in place.paths]
    return list(lists.values())


def _owner(path: _Path, lists: Mapping[int, RecordList]) -> tuple[RecordList, int] | None:
    """Returns the record that contains the object at a path. Lists of a single element in between are skipped."""
    owner, number, *_ = path
    while owner is not None and id(owner) not in lists:
        owner, number, *_ = owner.paths[number]
    return None if owner is None else (lists[id(owner)], number)


def _plain(field: str) -> str:
    return _BRACKETED.sub(r".\1", field).replace("[0]", "").removeprefix(".")


def _locator(place: _Place, lines: Mapping[int, int] | None) -> Callable[[int], str]:
    if lines is not None:
        return lambda number: f"line {lines.get(place.origins[number], 0)}"
    return lambda number: _path(place, number)


def _path(place: _Place, number: int) -> str:
    owner, within, steps, last = place.paths[number]
    path = f"{steps}{_render_key(last)}"
    return path if owner is None else f"{_path(owner, within)}{path}"


def _visit(
    values: list[tuple[int, object]],
    name: str,
    path: tuple[_Place | None, str],
    by_name: dict[str, _Place],
    depth: int = 0,
) -> None:
    """Collects the objects in containers at one place. Each container has the number of the record around it.

    The containers of all records are visited together, so that the work grows with the values, not with the places.
    """
    if depth > _DEPTH:
        return
    owner, steps = path
    # The elements of lists are records if most of them are objects.
    lists = [(number, cast("list[object]", each)) for number, each in values if type(each) is list and each]
    objects: list[Members] = []
    paths: list[_Path] = []
    for number, every in lists if any(type(each[0]) is dict for _, each in lists) else ():
        elements = [(at, cast("Members", each)) for at, each in enumerate(every) if type(each) is dict]
        objects += [each for _, each in elements]
        paths += [(owner, number, steps, at) for at, _ in elements]
    if objects and 2 * len(objects) > sum(len(every) for _, every in lists):
        place = by_name.setdefault(_merge_repeats(f"{name}[*]"), _Place())
        place.several = place.several or max(len(every) for _, every in lists) > 1
        place.origins += map(id, objects)
        _enter(objects, paths, place, f"{name}[*]", by_name, depth)
    # Objects: either maps from keys to records, or parts of the record that they are in, which are searched further.
    inner = _merge_repeats(f"{name}.*")
    parts: list[tuple[int, Members]] = []
    for number, each in values:
        if type(each) is dict:
            members = cast("Members", each)
            kinds = {*map(type, members.values())}
            if kinds == {dict} and (inner in by_name or _is_map(members)):
                place = by_name.setdefault(inner, _Place(keyed=True, several=True))
                objects = [{_KEY: key, **cast("Members", member)} for key, member in members.items()]
                place.origins += map(id, members.values())
                _enter(objects, [(owner, number, steps, key) for key in members], place, inner, by_name, depth)
            else:
                parts.append((number, members))
    for key, elements in _containers_in(parts):
        _visit(elements, f"{name}{step(key)}", (owner, f"{steps}{step(key)}"), by_name, depth + 1)


def _enter(
    objects: list[Members], paths: list[_Path], place: _Place, name: str, by_name: dict[str, _Place], depth: int
) -> None:
    first = len(place.objects)
    place.partial = place.partial or first + len(objects) > _MAX_OBJECTS
    del objects[max(0, _MAX_OBJECTS - first) :]
    place.objects += objects
    place.paths += paths[: len(objects)]
    for key, elements in _containers_in(list(enumerate(objects, first))):
        _visit(elements, f"{_merge_repeats(name)}{step(key)}", (place, step(key)), by_name, depth + 1)


def _containers_in(objects: list[tuple[int, Members]]) -> Iterator[tuple[str, list[tuple[int, object]]]]:
    """Yields the keys of numbered objects at which any of them has a container, each with all containers there."""
    keys = list(islice(dict.fromkeys(chain.from_iterable(each for _, each in objects)), _MAX_MEMBERS))
    for key in keys:
        values = [each.get(key) for _, each in objects]
        if not _CONTAINERS.isdisjoint(map(type, values)):
            pairs = zip(objects, values, strict=True)
            yield key, [(number, each) for (number, _), each in pairs if type(each) in _CONTAINERS]


def _merge_repeats(name: str) -> str:
    """Returns a place in which repeated parts occur once: `$.suites[*]` for `$.suites[*].suites[*]`."""
    parts: list[str] = []
    for part in _PART.findall(name):
        if not parts or (part != parts[-1] and parts[-1] != f"${part}"):
            parts.append(part)
    return "".join(parts)


def _is_map(members: Members) -> bool:
    """Returns whether an object is a map: its members, which must be objects, have mostly the same keys."""
    objects = cast("list[Members]", list(members.values()))
    if len(objects) < _ALIKE:
        return False
    keys = Counter(chain.from_iterable(objects))
    common = [count for count in keys.values() if count >= _NEARLY * len(objects)]
    return bool(common) and 2 * sum(common) >= keys.total()


def columns_of(records: list[Members], *, keyed: bool = False) -> dict[str, Column]:
    """Returns the fields of records by name: their members, and the members of objects inside them.

    The only element of a list inside a record counts as if it stood in place of the list.
    """
    columns = {"".join(map(_render_key, keys)): values for keys, values in islice(fields_of(records), FIELDS)}
    if keyed and f".{_KEY}" in columns:
        columns = {_KEY: columns.pop(f".{_KEY}"), **columns}
    return columns


def _render_key(key: str | int) -> str:
    return f"[{key}]" if isinstance(key, int) else step(key)


def fields_of(records: list[Members], above: Keys = ()) -> Iterator[tuple[Keys, Column]]:
    """Yields the fields of records, each with the keys that lead to the field; 0 stands for a list's first element."""
    sample = records if len(records) <= _SAMPLE else records[:: len(records) // _SAMPLE]
    for key in islice(dict.fromkeys(chain.from_iterable(sample)), 2 * _MAX_MEMBERS):
        values = [record.get(key) for record in records]
        types = {*map(type, values)}
        keys = (*above, key)
        if list in types and dict not in types:
            firsts = [_first(each) for each in values]
            alone = max(map(len, _lists(values))) < 2 or WRONG.fullmatch(key)  # noqa: PLR2004
            if alone or {*map(type, firsts)} <= {str, type(None)}:
                values, keys, types = firsts, (*keys, 0), {*map(type, firsts)}
        if not types <= {dict, list, type(None)}:
            yield keys, [_scalar(each) for each in values] if types & {dict, list, str} else values
        if dict in types and len(above) < _DEEP:
            inner = [cast("Members", each) if isinstance(each, dict) else {} for each in values]
            if not _are_data([each for each in inner if each]):
                yield from fields_of(inner, keys)


def _are_data(objects: list[Members]) -> bool:
    """Returns whether the keys of objects are data, such as names of packages, and not names of fields."""
    keys = Counter(chain.from_iterable(objects[:: max(1, len(objects) // _SAMPLE)]))
    return len(keys) > _NAMES and _OFTEN * max(keys.values()) < min(len(objects), _SAMPLE)


def _first(value: object) -> object:
    """Returns the first element of a list, or None if the list is empty; returns any other value as it is."""
    return next(iter(cast("list[object]", value)), None) if isinstance(value, list) else value


def _lists(values: Iterable[object]) -> Iterator[list[object]]:
    return (cast("list[object]", each) for each in values if isinstance(each, list))


def _scalar(value: object) -> object:
    if isinstance(value, str):
        return value[:LONGEST] or None
    return None if isinstance(value, dict | list) else value


def values_at(records: list[Members], keys: Keys) -> Column:
    """Returns the scalars of a field, given the keys that lead to it."""
    values: list[Any] = [record.get(str(keys[0])) for record in records]
    for key in keys[1:]:
        values = [each.get(key) if type(each) is dict else None for each in values]  # pyright: ignore[reportUnknownMemberType]
    return [_scalar(each) for each in values] if _CONTAINERS & {*map(type, values)} else values
