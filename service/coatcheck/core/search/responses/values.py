"""Reads JSON of any form by paths, never raising: what is missing, or of another type, is simply not found.

A path is names joined by dots; `[]` after a name goes through the items of a list, `[name=value]` through those items
with that member. Names are compared without case, `_` and `-`, so `publishedDate` equals `published_date`. A string
that contains a JSON document counts as that document.
"""

import re
from collections.abc import Iterable
from itertools import islice
from typing import Final, cast

import msgspec

from coatcheck.core.caches import remember
from coatcheck.core.search.model import MAX_TEXT
from coatcheck_client.contract.canonical import MAX_URL

Record = dict[str, object]

_STEP: Final = re.compile(r"([^.\[\]]*)(\[([^=\]]*)(?:=([^\]]*))?\])?(?:\.|$)")
_URL: Final = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]{1,20}:)?//[^\s/]\S*")
_FALSE_START: Final = 4_000_000
"""Maximum characters of a string that is searched for a document inside it."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SHORT_NAME: Final = 64
_NAMES: Final = 400
"""Names of one object that are compared."""
_LISTED: Final = 2_000
"""Items of one list that are read."""
_SIGNIFICANT: Final = 15


def key(name: str) -> str:
    """Returns a name in compared form."""
    return _known_key(name) if len(name) <= _SHORT_NAME else _key(name)


def _key(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


_known_key: Final = remember("names", 2_048, 290)(_key)
"""`_key`, cached: the same names occur in every result."""


def fold_names(record: Record) -> Record:
    """Returns a record under compared names; of two that coincide, the first counts."""
    out: Record = {}
    for name, value in record.items():
        out.setdefault(key(name), value)
    return out


def decode_document(value: object, depth: int = 2) -> object:
    """Returns a value, or the document in a string."""
    if not isinstance(value, str) or depth == 0 or len(value) > _FALSE_START:
        return value
    text = value.strip()
    if text[:1] + text[-1:] not in {"{}", "[]", '""'} or len(text) < 2:  # noqa: PLR2004 - brackets
        return value
    try:
        return decode_document(msgspec.json.decode(text), depth - 1)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return value


def record_of(value: object) -> Record | None:
    """Returns a value as an object with string names, if it is one."""
    inner = decode_document(value)
    return cast("Record", inner) if isinstance(inner, dict) else None


def items_of(value: object) -> list[object] | None:
    """Returns a value as a list, if it is one, as far as it is read."""
    inner = decode_document(value)
    return cast("list[object]", inner)[:_LISTED] if isinstance(inner, list) else None


def find_values(value: object, path: str) -> list[object]:
    """Returns everything that a path leads to, in order. The empty path leads to the value itself."""
    here = [value]
    for name, goes_in, member, expected in _steps(path):
        here = [child for each in here for child in _child(each, name)]
        if goes_in:
            here = [item for each in here for item in items_of(each) or ()]
        if member:
            here = [item for item in here if text_of(_first(record_of(item), member)) == expected]
    return here


@remember("names", 1_024, 700)
def _steps(path: str) -> tuple[tuple[str, bool, str, str], ...]:
    steps = [match.groups() for match in _STEP.finditer(path) if match.group()]
    return tuple(
        (key(name), bool(inside), key(member or ""), expected or "") for name, inside, member, expected in steps
    )


def _child(value: object, name: str) -> Iterable[object]:
    if not name:
        return (value,)
    record = record_of(value)
    if record is None:
        return ()
    member = _first(record, name, missing=_MISSING)
    return () if member is _MISSING else (member,)


def head(condition: str) -> str:
    """Returns the name that a path begins with, in compared form; empty if it goes into a list."""
    return _steps(condition.partition("==")[0])[0][0]


_MISSING: Final = object()


def _first(record: Record | None, name: str, missing: object = None) -> object:
    if record is None:
        return missing
    if name in record:
        return record[name]
    return next((value for member_name, value in islice(record.items(), _NAMES) if key(member_name) == name), missing)


def text_at(value: object, *paths: str) -> str:
    """Returns the first text that one of the paths leads to, the paths in order; empty where none does."""
    return next((text for path in paths for each in find_values(value, path) if (text := text_of(each))), "")


def holds(value: object, condition: str) -> bool:
    """Returns whether a path leads anywhere, or, for `path==text`, to that text."""
    path, equals, expected = condition.partition("==")
    there = find_values(value, path)
    return any(text_of(each) == expected for each in there) if equals else bool(there)


def text_of(value: object) -> str:
    """Returns a string that can be shown, or that of a number or truth value; empty for everything else."""
    if isinstance(value, str):
        text = value[:MAX_TEXT].strip()
        return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.{_SIGNIFICANT}g}" if isinstance(value, (int, float)) and abs(value) < 10.0**_SIGNIFICANT else ""


def texts_of(value: object) -> list[str]:
    """Returns the strings of a list of strings, or of objects with a text; a single string is one."""
    if isinstance(value, str):
        return [text] if (text := text_of(value)) else []
    out: list[str] = []
    for item in items_of(value) or ():
        record = record_of(item)
        members = (_first(record, name) for name in ("text", "content", "snippet", "highlight"))
        text = text_of(item) if record is None else next((t for member in members if (t := text_of(member))), "")
        if text:
            out.append(text)
    return out


def is_url(text: str) -> bool:
    """Returns whether a text begins like an absolute URL and has no blanks."""
    return len(text) <= MAX_URL and _URL.fullmatch(text) is not None


def is_plain(value: object) -> bool:
    """Returns whether a value cannot contain others."""
    return value is None or isinstance(value, (bool, int, float))


def is_empty(value: object) -> bool:
    """Returns whether a member is empty."""
    return value is None or value in ("", False, 0) or (isinstance(value, (list, dict)) and not value)
