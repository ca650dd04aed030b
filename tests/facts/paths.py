"""Paths into JSON as cards write them, followed without the service's own evaluator."""

import json
import re
from collections.abc import Iterator
from typing import Final, cast

Step = str | int | slice | tuple[str, list["Step"], object] | None
"""A member's name, an element's number, some of them, those whose member has a value, or all of them."""
_STEP: Final = re.compile(
    r"\.\*|\[\*\]|\.([A-Za-z_]\w*)|\['((?:[^'\\]|\\.)*)'\]|\[(\d+)\]"
    r"|\[(\d+):(\d+)\]|\[\?@(.+?)==('(?:[^'\\]|\\.)*'|true|false|-?\d+)\]",
    re.ASCII,
)


def parsed_path(path: str) -> list[Step]:
    """The steps of a path; AssertionError for what is none."""
    steps, end = leading_path(path)
    assert end == len(path), path
    return steps


def leading_path(text: str) -> tuple[list[Step], int]:
    """The steps of the path that a text begins with, and where it ends."""
    assert text.startswith("$"), text
    steps: list[Step] = []
    at = 1
    while (found := _STEP.match(text, at)) is not None:
        at = found.end()
        if found[1] is not None:
            steps.append(found[1])
        elif found[2] is not None:
            steps.append(_unquoted(found[2]))
        elif found[4] is not None:
            steps.append(slice(int(found[4]), int(found[5])))
        elif found[6] is not None:
            (key, *inner) = parsed_path("$" + found[6])
            assert isinstance(key, str)
            steps.append((key, inner, _unquoted(found[7][1:-1]) if found[7].startswith("'") else json.loads(found[7])))
        else:
            steps.append(None if found[3] is None else int(found[3]))
    return steps, at


def _unquoted(text: str) -> str:
    return str(json.loads('"' + text.replace("\\'", "'").replace('"', '\\"') + '"'))


def values_at(value: object, steps: list[Step]) -> Iterator[object]:
    """All values that a path leads to."""
    if not steps:
        yield value
        return
    for each in _chosen(value, steps[0]):
        yield from values_at(each, steps[1:])


def _chosen(value: object, step: Step) -> list[object]:
    members = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    elements = cast("list[object]", value) if isinstance(value, list) else list(members.values())
    if step is None:
        return elements
    if isinstance(step, tuple):
        return [each for each in elements if isinstance(each, dict) and _is_at(cast("dict[str, object]", each), *step)]
    if isinstance(step, str):
        return [members[step]] if step in members else []
    if not isinstance(value, list):
        return []
    return elements[step] if isinstance(step, slice) else elements[step : step + 1]


def _is_at(record: dict[str, object], key: str, inner: list[Step], value: object) -> bool:
    found = list(values_at(record, [key, *inner]))
    return [(type(each), each) for each in found] == [(type(value), value)]
