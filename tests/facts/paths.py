"""Paths into JSON as cards write them, followed without the service's own evaluator."""

import json
import re
from collections.abc import Iterator
from typing import Final, cast

Step = str | int | None
"""A member's name, an element's number, or all of them."""
_STEP: Final = re.compile(r"\.\*|\[\*\]|\.([A-Za-z_]\w*)|\['((?:[^'\\]|\\.)*)'\]|\[(\d+)\]", re.ASCII)


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
            steps.append(json.loads('"' + found[2].replace("\\'", "'").replace('"', '\\"') + '"'))
        else:
            steps.append(None if found[3] is None else int(found[3]))
    return steps, at


def values_at(value: object, steps: list[Step]) -> Iterator[object]:
    """All values that a path leads to."""
    if not steps:
        yield value
        return
    first, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        chosen = list(members.values()) if first is None else [members[first]] if first in members else []
    elif isinstance(value, list):
        elements = cast("list[object]", value)
        chosen = (
            elements if first is None else [elements[first]] if isinstance(first, int) and first < len(elements) else []
        )
    else:
        chosen = []
    for each in chosen:
        yield from values_at(each, rest)
