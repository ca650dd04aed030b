"""Describes a JSON document: the short values near its top, and every distinct key once, breadth first, by path."""

import re
from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import chain
from typing import Final, cast

from msgspec.json import encode
from msgspec.structs import replace

from coatcheck.core.jsonpath.location import step
from coatcheck.core.kinds.description import NOTHING, Description, PayloadProbe, named_parts
from coatcheck.core.kinds.json_records import WRONG, inside, next_path, recurring, stating
from coatcheck.core.outline.model import Entry
from coatcheck.core.outline.notebook import FAILED, of_notebook
from coatcheck.core.structure.record_values import counts_of
from coatcheck.core.survey.members import ObjectMember
from coatcheck.core.survey.tallies import tallied
from coatcheck.core.text.plural import counted, first_of

_CELLS: Final = 40
_LINES: Final = 120
_CHARS: Final = 16_000
_VALUE: Final = 80
"""Maximum characters of a short value."""
_SCALARS: Final = 24
_NESTED: Final = 12
"""Maximum members of an object below the top whose values are all named too."""
_IDENTITY: Final = frozenset(["id", "name", "title", "version", "status", "state", "summary", "error", "message"])
"""Members of a larger one whose values are named: what it is, and how it is."""
_FEW: Final = 0.05
"""Maximum share of the objects at a place that have a rare member, whose values are then named."""
_DIFFERENT: Final = 3
"""Maximum different values of such a member that are named."""
_KEYS: Final = 200
"""Maximum keys that are named at one place."""
_OF_LINES: Final = 24
"""Maximum keys that are named at one place in JSON lines, which are shown themselves."""
_TOLD: Final = 8
"""Maximum rare members whose values are named; with more, records differ in everything."""
_TELLS: Final = re.compile(r"(?i)(?:^|[.\]])(?:\w*(?:message|error|reason|description)|msg|detail|text|title)?$")
"""Matches the names of texts that tell it, rather than where it happened."""
_DESCRIBES: Final = re.compile(r"(?i)(?:^|\.)description$")
_CONTAINERS: Final = frozenset([dict, list])
_MAP: Final = 40
"""Members from which an object with similar members is a map: its keys are data."""


def describe_json(payload: PayloadProbe) -> Description:
    """Returns short values near the top, then keys by path; those of the beginning, if that is all there is."""
    sample, reading = payload.sample, payload.json
    if reading is None:
        return NOTHING
    value = reading.value
    if reading.complete and (notebook := of_notebook(sample.head)) is not None:
        return _notebook(notebook.entries)
    if reading.lines:
        first = f"JSON lines; keys of {'all' if reading.all_lines else 'the first'} {reading.lines}:"
    elif not reading.complete:
        first = (
            "Not well-formed JSON; keys as far as it can be read:" if sample.whole else "Keys of its beginning only:"
        )
    else:
        first = scalars(value)
    found = recurring(value)
    lines, few = key_lines(value, complete=reading.complete, most=_OF_LINES if reading.lines else _KEYS)
    path = next_path(value, found, few, lines=reading.lines > 0)
    if payload.survey is not None and payload.survey.members:
        lines = [*_members("$", payload.survey.members), *([first or "", *lines[1:]] if lines[1:] else [])]
        return Description(facts=tuple(lines), path=stating("$", payload.survey.members) or path)
    counts: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    if reading.all_of_it:
        told = next((each.failed for each in found if each.failed), ())
        counts = tuple(each.line for each in found)
    elif reading.lines and sample.whole:
        counts = (*tallied(sample.head), *counts_of(sample.head))
    rare = counts[: bool(reading.all_of_it and found and found[0].rare)]
    return Description(facts=(*([first] if first else []), *rare, *told, *lines, *counts[len(rare) :]), path=path)


def _notebook(cells: Sequence[Entry]) -> Description:
    """Returns the cells with what those that failed raised, or if none did, with what each printed."""
    failed = [cell for cell in cells if (cell.detail or "").startswith(FAILED)]
    beginning = FAILED if failed else ""
    told = [
        f"{cell.title} ({cell.detail})" if cell.detail and cell.detail.startswith(beginning) else cell.title
        for cell in cells
    ]
    fact = f"Notebook, {counted(len(told), 'cell')}: {first_of(told, _CELLS)}"
    return Description(
        facts=(fact,), parts=named_parts([replace(cell, title=cell.title.partition(":")[0]) for cell in failed])
    )


def _members(path: str, members: tuple[ObjectMember, ...]) -> list[str]:
    """Returns the short values of an object that is not available in full, and the keys of its members, and of most."""
    values = [f"{each.name}={each.value}" for each in members if each.value and len(each.value) <= _VALUE]
    keys = [f"{_quoted(each.name)}{f'[{each.elements}]' if (each.elements or 0) > 1 else ''}" for each in members]
    lines = [*([", ".join(values[:_SCALARS])] if values and path == "$" else []), f"{path}: {', '.join(keys)}"]
    return lines + [line for each in members if each.members for line in _members(inside(path, each), each.members)]


def scalars(value: object) -> str | None:
    """Returns the short values of an object and of small objects in it, as `status="failed", error.code=7`.

    Of larger objects in it, what they are called; also the values of the first of its `errors`, and of what is wrong
    the beginning of long texts.
    """
    if not isinstance(value, dict):
        return None
    named: list[tuple[str, object]] = []
    members = cast("dict[str, object]", value)
    for key, member in members.items():
        name, told = key, member
        if isinstance(member, list) and member and WRONG.fullmatch(key):
            name, told = f"{key}[0]", cast("list[object]", member)[0]
        inner = cast("dict[str, object]", told) if isinstance(told, dict) and len(members) <= _MAP else {}
        if len(inner) > _NESTED:
            inner = {each: inner[each] for each in inner if each in _IDENTITY}
        named += [(f"{name}.{each}", scalar) for each, scalar in inner.items()] if inner else [(name, told)]
    parts = [f"{name}={shown}" for name, each in named if len(name) <= _VALUE and (shown := _clipped(name, each))]
    return ", ".join(parts[:_SCALARS]) or None


def _clipped(name: str, value: object) -> str | None:
    """Returns a value as JSON; of a long text, the beginning if it tells what is wrong, or what the document is."""
    telling = _TELLS.search(name) and (WRONG.match(name) or _DESCRIBES.search(name))
    if isinstance(value, str) and len(value) > _VALUE and telling:
        value = f"{value[: 2 * _VALUE]}…" if len(value) > 2 * _VALUE else value
        return encode(value).decode()
    return _short(value)


def _short(value: object) -> str | None:
    """Returns a value as JSON; None where it is long, or holds others."""
    if isinstance(value, dict | list):
        return None
    shown = encode(value).decode()
    return shown if len(shown) <= _VALUE else None


def key_lines(value: object, *, complete: bool, most: int = _KEYS) -> tuple[list[str], dict[str, int]]:
    """Returns a line per place with an object, outermost first, with the keys that no earlier line names.

    Also returns the paths of members that only few of many records have, and how many have them: such a member is named
    with its short values, as it tells these records apart. A line ends with `…` if the objects have further keys: those
    that a line above it names, or more than `most`.
    """
    lines: list[str] = []
    queue: deque[tuple[str, list[object]]] = deque([("$", [value])])
    few: dict[str, int] = {}
    named: set[str] = set()
    while queue and len(lines) < _LINES and sum(map(len, lines)) < _CHARS:
        path, values = queue.popleft()
        objects = cast("list[dict[str, object]]", [each for each in values if type(each) is dict])
        lists = cast("list[list[object]]", [each for each in values if type(each) is list])
        elements = list(chain.from_iterable(lists))
        members: defaultdict[str, list[object]] = defaultdict(list)
        for each in objects:
            for key, member in each.items():
                members[key].append(member)
        parts = [counted(len(elements), "element")] if path == "$" and elements and complete else []
        if elements:
            queue.append((f"{path}[*]", elements))
            few.update({f"{path}[*]": len(elements)} if path in few else {})
        if len(members) > _MAP and len({type(member) for inner in members.values() for member in inner}) == 1:
            queue.append((f"{path}.*", list(chain.from_iterable(members.values()))))
            count = counted(len(members), "key") if complete else "keys"
            parts.append(f"{count} such as {', '.join(map(_quoted, list(filter(None, members))[:3]))}")
        elif members:
            rare = [key for key, inner in members.items() if path in few or len(inner) <= len(objects) * _FEW]
            told = frozenset(rare if len(rare) <= _TOLD else ())
            few.update({f"{path}{step(key)}": len(members[key]) for key in rare if key in told})
            keys = [key for key in members if key in told or key not in named]
            new = [_member(key, members[key], complete, key in told) for key in keys[:most]]
            more = 0 < len(keys) < len(members) or len(keys) > most
            parts.append(", ".join([*new, "…"] if more else new))
            named.update(members)
            nested = ((key, inner) for key, inner in members.items() if not _CONTAINERS.isdisjoint(map(type, inner)))
            queue.extend((f"{path}{step(key)}", inner) for key, inner in nested)
        if any(parts):
            lines.append(f"{path}: {'; '.join(part for part in parts if part)}")
    return lines, few


def _member(key: str, values: list[object], exact: bool, valued: bool) -> str:
    if valued and (shown := _values(values, exact)) is not None:
        return f"{_quoted(key)}={shown}"
    lengths = set(map(len, cast("list[list[object]]", [value for value in values if type(value) is list])))
    return (
        f"{_quoted(key)}[{max(lengths)}]" if exact and len(lengths) == 1 and lengths not in ({0}, {1}) else _quoted(key)
    )


def _values(values: list[object], exact: bool) -> str | None:
    """Returns `"one" or "another"`, and `or …` where there may be more; None where one is long or holds others."""
    different = list(dict.fromkeys(map(_short, values)))
    named = [shown for shown in different[:_DIFFERENT] if shown is not None]
    if len(named) < min(len(different), _DIFFERENT):
        return None
    return " or ".join(named if exact and len(different) <= _DIFFERENT else [*named, "…"])


def _quoted(key: str) -> str:
    clipped = key if len(key) <= _VALUE else f"{key[: _VALUE - 1]}…"
    return clipped if clipped and not set(clipped) & set(' ,;:"[]{}\n\r\t') else f'"{clipped}"'
