"""Evaluates conditions and ranges of a request (RFC 9110): is this the representation that is meant, and which part?

Conditions (section 13) are evaluated in the order of section 13.2.2; validators are compared as in sections 8.8.3.2 and
13.1.

A Range field (section 14.2) that is malformed, in an unknown unit or too long is ignored, as sections 14.1.1 and 14.2
allow: the client gets the whole representation, which it must expect anyway. If-Range is evaluated elsewhere.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

from msgspec import Struct

from coatcheck.core.views.window import FromTo, HttpByteRange, RangeSpec, Suffix, resolve

Fields = Callable[[str], list[str]]
"""Returns the values of a request's field, by lower-case name: one string per field line, in order."""
Outcome = Literal["perform", "not_modified", "failed"]
"""Of the conditions: go on, 304, or 412."""


class Validators(Struct, frozen=True):
    """What identifies the current representation.

    Both validators are strong: an ID stands for the same bytes forever, so its date cannot belong to two
    representations (section 8.8.2.2).
    """

    etag: str
    """Including its quotes; never weak."""
    last_modified: datetime
    """To the second, in UTC."""


def evaluate(fields: Fields, current: Validators, *, safe: bool) -> Outcome:
    """Carries out steps 1 to 4 of section 13.2.2: perform (200, or 206 after `range_applies`), 304, or 412.

    Args:
        fields: the request's fields.
        current: the representation's validators.
        safe: whether the method is GET or HEAD.
    """
    # Steps 1 and 2: a date counts only if there is no list of tags.
    if match := fields("if-match"):
        if not _lists(match, current.etag, weak=False):
            return "failed"
    elif (since := _date(fields("if-unmodified-since"))) and current.last_modified > since:
        return "failed"
    # Steps 3 and 4, likewise. Here weak tags match, too: they suffice for the question whether a copy is current.
    if none_match := fields("if-none-match"):
        if _lists(none_match, current.etag, weak=True):
            return "not_modified" if safe else "failed"
    elif safe and (since := _date(fields("if-modified-since"))) and current.last_modified <= since:
        return "not_modified"
    return "perform"


def range_applies(fields: Fields, current: Validators) -> bool:
    """Returns whether If-Range lets the Range field apply (step 5).

    Compares strongly, and dates exactly (section 13.1.5).
    """
    lines = fields("if-range")
    if not lines:
        return True
    # A malformed If-Range never lets a range apply: the whole is always a correct answer.
    if len(lines) > 1:
        return False
    value = lines[0].strip(" \t")
    # Our tag is strong, so a weak one never equals it, as the section requires.
    if value.startswith(('"', "W/")):
        return value == current.etag
    return _date(lines) == current.last_modified


_TAG = re.compile(r'(W/)?("[\x21\x23-\x7e\x80-\xff]*")')
"""Matches an entity tag, and captures whether it is weak (RFC 9110 section 8.8.3)."""
_GAP = re.compile(r"[ \t]*(?:,[ \t]*)*")
"""Matches what may separate two elements of a list, empty elements included."""


def _lists(lines: list[str], etag: str, *, weak: bool) -> bool:
    """Returns whether a list of entity tags (or `*`) contains ours. A malformed list contains nothing."""
    value = ",".join(lines).strip(" \t")
    if value == "*":
        return True
    at, is_listed = _skip(value, 0), False
    while at < len(value):
        tag = _TAG.match(value, at)
        if tag is None:
            return False
        is_listed = is_listed or (tag[2] == etag and (weak or tag[1] is None))
        # Two tags without a comma between them make the list malformed.
        after = _skip(value, tag.end())
        if after < len(value) and "," not in value[tag.end() : after]:
            return False
        at = after
    return is_listed


def _skip(value: str, at: int) -> int:
    gap = _GAP.match(value, at)
    return gap.end() if gap else at


def parse_date(text: str) -> datetime | None:
    """Returns an HTTP-date in any of the three forms of section 5.6.7; None for what is no date."""
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # the latter for a time zone of many digits
        return None
    # The third form, that of C's asctime, has no time zone.
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _date(lines: list[str]) -> datetime | None:
    """Returns a single valid date; a field with several members or an invalid one counts as absent (section 13.1.3)."""
    return parse_date(lines[0].strip(" \t")) if len(lines) == 1 else None


RANGES_LIMIT = 64
"""Maximum number of ranges in a request. Players and archive readers request fewer than 20; longer sets are ignored."""
FIELD_LIMIT = 16 * 1024
"""Maximum bytes of a Range field. Longer fields are ignored."""

_SPECIFIER = re.compile(r"[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(.*)", re.DOTALL)
"""Matches a Range field, and captures its unit and its ranges."""
_SPEC = re.compile(r"(?:([0-9]+)-([0-9]*)|-([0-9]+))", re.ASCII)
"""Matches one range: `first-`, `first-last` or `-suffix`."""
_BEYOND = 2**63 - 1
"""Stands for every position beyond the end of any representation."""
_POSITION_DIGITS = 18
"""Digits of a position that is certainly below `_BEYOND`."""


def parse_range(fields: list[str]) -> list[RangeSpec] | None:
    """Returns the ranges that a request asks for; None if there is no field, or it is ignored.

    The time is linear in the field's length: positions of more than 18 digits are beyond any end.
    """
    if len(fields) != 1 or len(fields[0]) > FIELD_LIMIT:
        return None
    specifier = _SPECIFIER.fullmatch(fields[0])
    if specifier is None or specifier[1].lower() != "bytes":
        return None
    specs: list[RangeSpec] = []
    for element in specifier[2].split(","):
        text = element.strip(" \t")
        if not text:  # RFC 9110 section 5.6.1.2: a recipient must accept empty list elements
            continue
        spec = _parse_spec(text)
        # The field is ignored as a whole: part of the requested ranges would be an answer that no client expects.
        if spec is None or len(specs) == RANGES_LIMIT:
            return None
        specs.append(spec)
    return specs or None


def _parse_spec(text: str) -> RangeSpec | None:
    match = _SPEC.fullmatch(text)
    if match is None:
        return None
    first, last, suffix = match.groups()
    if suffix is not None:
        return Suffix(_position(suffix))
    if last and _larger(first, last):
        return None
    return FromTo(_position(first), _position(last) if last else None)


def _position(digits: str) -> int:
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= _POSITION_DIGITS else _BEYOND


def _larger(a: str, b: str) -> bool:
    a, b = a.lstrip("0"), b.lstrip("0")
    # A comparison of digits is linear in their number; a conversion to integers is not.
    return (len(a), a) > (len(b), b)


def select(specs: list[RangeSpec] | None, size: int) -> list[HttpByteRange] | Literal["all", "none"]:
    """Returns what to send: `all` (200), these ranges (206), or `none` if none of them exists (416).

    An empty representation has no byte that Content-Range could name, so a suffix of it, which section 14.1.2 calls
    satisfiable, is answered with the whole.
    """
    if specs is None:
        return "all"
    if size == 0 and any(isinstance(spec, Suffix) and spec.length for spec in specs):
        return "all"
    return resolve(specs, size) or "none"
