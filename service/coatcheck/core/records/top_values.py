"""What is at the top of a document that is an object: its short values, and the way to its largest."""

import re
from typing import Final, cast

from msgspec.json import encode

from coatcheck.core.jsonpath.location import step
from coatcheck.core.records.verdicts import WRONG, parts_of

_VALUE: Final = 80
"""Maximum characters of a short value."""
_SCALARS: Final = 24
"""Maximum values that are named."""
_MAP: Final = 40
"""Members from which the values of objects in them are not named."""
_NESTED: Final = 12
"""Maximum members of an object below the top whose values are all named too."""
_IDENTITY: Final = frozenset(["id", "name", "title", "version", "status", "state", "summary", "error", "message"])
"""Members of a larger one whose values are named: what it is, and how it is."""
_TELLS: Final = re.compile(r"(?i)(?:^|[.\]])(?:\w*(?:message|error|reason|description)|msg|detail|text|title)?$")
"""Matches the names of texts that tell it, rather than where it happened."""
_DESCRIBES: Final = re.compile(r"(?i)(?:^|\.)description$")
_STATING: Final = re.compile(
    r"(?i)\w*(?:error|warning|fail|problem|violation|vulnerab|issue|alert|finding|diagnostic|result)\w*"
)
"""Matches the names of members that say what is wrong, or what was found."""
_FEWEST: Final = 8
"""Minimum elements of a list of which a page is requested."""
_DEEPEST: Final = 6
_BULK: Final = 0.5
"""Share of the largest value from which one of its members is more worth reading than its list of members."""
_PAGE: Final = 20
"""Elements of a list that a path requests."""


def top_values(value: object) -> str | None:
    """Returns the short values of an object and of small objects in it, as `status="failed", error.code=7`.

    Of larger objects in it, what they are called; also the values of the first of its `errors`, and of what is wrong
    the beginning of long texts.
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
    """Returns a value as JSON; None where it is long, or holds others."""
    if isinstance(value, dict | list):
        return None
    text = encode(value).decode()
    return text if len(text) <= _VALUE else None


def largest_path(value: object) -> str | None:
    """Returns the path of what says what was found, or of the largest value, as far down as one is most of another."""
    path, inner, size, is_stated = "$", value, 0, False
    for _ in range(_DEEPEST):
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
        name, is_stated = (
            stating_names[0] if stating_names else max(containers, key=lambda each: containers[each]),
            bool(stating_names),
        )
        if path != "$" and containers[name] < _BULK * size and not is_stated:
            break
        path, inner, size = f"{path}{name}", steps[name], containers[name]
    return path if path != "$" else None
