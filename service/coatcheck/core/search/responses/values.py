"""Reading JSON of any shape by paths, never raising: what is not there, or is of another type, is simply not found.

A path is names joined by dots; `[]` after a name goes through the items of a list, `[name=value]` through those of them
that have it. Names are compared without case, `_` and `-`, so that `publishedDate` and `published_date` are one. A
string that holds a JSON document counts as that document.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Final, cast

import msgspec

from coatcheck.core.search.model import MAX_TEXT, MAX_URL

Record = dict[str, object]

_STEP: Final = re.compile(r"([^.\[\]]*)(\[([^=\]]*)(?:=([^\]]*))?\])?(?:\.|$)")
_URL: Final = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]{1,20}:)?//[^\s/]\S*")
_FALSE_START: Final = 4_000_000
"""Characters of a string that is looked at for a document inside it."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SHORT_NAME: Final = 64
_NAMES: Final = 400
"""Names of one object that are compared."""
_LISTED: Final = 2_000
"""Items of one list that are looked at."""
_SIGNIFICANT: Final = 15


def key(name: str) -> str:
    """A name as it is compared."""
    return _known_key(name) if len(name) <= _SHORT_NAME else _key(name)


def _key(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


_known_key: Final = lru_cache(maxsize=2_048)(_key)
"""`_key`, remembered: the same names come with every result."""


def folded(record: Record) -> Record:
    """A record under the names that are compared; of two that fall together the first counts."""
    out: Record = {}
    for name, value in record.items():
        out.setdefault(key(name), value)
    return out


def opened(value: object, depth: int = 2) -> object:
    """A value, or the document that a string holds."""
    if not isinstance(value, str) or depth == 0 or len(value) > _FALSE_START:
        return value
    text = value.strip()
    if text[:1] + text[-1:] not in {"{}", "[]", '""'} or len(text) < 2:  # noqa: PLR2004 - brackets
        return value
    try:
        return opened(msgspec.json.decode(text), depth - 1)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return value


def record_of(value: object) -> Record | None:
    """The object that a value is, with strings for names."""
    inner = opened(value)
    return cast("Record", inner) if isinstance(inner, dict) else None


def items_of(value: object) -> list[object] | None:
    """The list that a value is, as far as it is looked at."""
    inner = opened(value)
    return cast("list[object]", inner)[:_LISTED] if isinstance(inner, list) else None


def found(value: object, path: str) -> list[object]:
    """Everything that a path leads to, in order. The empty path leads to the value itself."""
    here = [value]
    for name, goes_in, member, wanted in _steps(path):
        here = [child for each in here for child in _child(each, name)]
        if goes_in:
            here = [item for each in here for item in items_of(each) or ()]
        if member:
            here = [item for item in here if text_of(_first(record_of(item), member)) == wanted]
    return here


@lru_cache(maxsize=1_024)
def _steps(path: str) -> tuple[tuple[str, bool, str, str], ...]:
    steps = [match.groups() for match in _STEP.finditer(path) if match.group()]
    return tuple((key(name), bool(inside), key(member or ""), wanted or "") for name, inside, member, wanted in steps)


def _child(value: object, name: str) -> Iterable[object]:
    if not name:
        return (value,)
    record = record_of(value)
    if record is None:
        return ()
    member = _first(record, name, missing=_MISSING)
    return () if member is _MISSING else (member,)


def head(condition: str) -> str:
    """The name that a path begins with, as it is compared; empty where it goes into a list."""
    return _steps(condition.partition("==")[0])[0][0]


_MISSING: Final = object()


def _first(record: Record | None, name: str, missing: object = None) -> object:
    if record is None:
        return missing
    if name in record:
        return record[name]
    return next((value for known, value in islice(record.items(), _NAMES) if key(known) == name), missing)


def text_at(value: object, *paths: str) -> str:
    """Returns the first text that one of the paths leads to, the paths in order; empty where none does."""
    return next((text for path in paths for each in found(value, path) if (text := text_of(each))), "")


def holds(value: object, condition: str) -> bool:
    """Whether a path leads somewhere, or, for `path=text`, to that text."""
    path, equals, wanted = condition.partition("==")
    there = found(value, path)
    return any(text_of(each) == wanted for each in there) if equals else bool(there)


def text_of(value: object) -> str:
    """A string that can be shown, or a number's or truth value's; empty for everything else."""
    if isinstance(value, str):
        text = value[:MAX_TEXT].strip()
        return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.{_SIGNIFICANT}g}" if isinstance(value, (int, float)) and abs(value) < 10.0**_SIGNIFICANT else ""


def texts_of(value: object) -> list[str]:
    """The strings of a list of strings, or of objects that hold a text; a string alone is one."""
    if isinstance(value, str):
        return [text] if (text := text_of(value)) else []
    out: list[str] = []
    for item in items_of(value) or ():
        record = record_of(item)
        text = text_of(item) if record is None else text_of(_first(record, "text") or _first(record, "content"))
        if text:
            out.append(text)
    return out


def is_url(text: str) -> bool:
    """Whether this begins like an absolute URL and has no blanks."""
    return len(text) <= MAX_URL and _URL.fullmatch(text) is not None


def is_plain(value: object) -> bool:
    """Whether a value can hold no other."""
    return value is None or isinstance(value, (bool, int, float))


def is_empty(value: object) -> bool:
    """Whether a member holds nothing."""
    return value is None or value in ("", False, 0) or (isinstance(value, (list, dict)) and not value)
