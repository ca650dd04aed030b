"""Evaluates the conditions and ranges of a request (RFC 9110).

Conditions (section 13) are evaluated in the order of section 13.2.2. Validators are compared as sections 8.8.3.2 and
13.1 say.

A Range field (section 14.2) is ignored if it is malformed, has an unknown unit or is too long, as sections 14.1.1 and
14.2 allow. The client then gets the whole representation, which it must always expect.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

from msgspec import Struct

from coatcheck.core.views.window import FromTo, HttpByteRange, RangeSpec, Suffix, resolve

Fields = Callable[[str], list[str]]
"""A function that returns the values of a header field, given its name in lower case: one per field line, in order."""
Outcome = Literal["perform", "not_modified", "failed"]
"""The outcome of the conditions: perform the request, answer 304, or answer 412."""


class Validators(Struct, frozen=True):
    """The validators of the current representation.

    Both are strong: an artifact's bytes never change, so that its date cannot belong to two representations (section
    8.8.2.2).
    """

    etag: str
    """The entity tag, including its quotes; never weak."""
    last_modified: datetime
    """When the artifact was stored, to the second, in UTC."""


def evaluate(fields: Fields, current: Validators, *, safe: bool) -> Outcome:
    """Returns the outcome of the conditions, after steps 1 to 4 of section 13.2.2.

    Args:
        fields: returns the request's header fields.
        current: the validators of the current representation.
        safe: whether the method is GET or HEAD.
    """
    # Steps 1 and 2: the date is evaluated only if there is no list of entity tags.
    if match := fields("if-match"):
        if not _contains(match, current.etag, weak=False):
            return "failed"
    elif (since := _date(fields("if-unmodified-since"))) and current.last_modified > since:
        return "failed"
    # Steps 3 and 4: here, too, the date is evaluated only without a list of entity tags. Weak tags match as well: they
    # suffice to tell whether a copy is current.
    if none_match := fields("if-none-match"):
        if _contains(none_match, current.etag, weak=True):
            return "not_modified" if safe else "failed"
    elif safe and (since := _date(fields("if-modified-since"))) and current.last_modified <= since:
        return "not_modified"
    return "perform"


def range_applies(fields: Fields, current: Validators) -> bool:
    """Returns whether the Range field applies, given the If-Range field (step 5 of section 13.2.2).

    Entity tags are compared strongly, dates exactly (section 13.1.5).
    """
    lines = fields("if-range")
    if not lines:
        return True
    # If If-Range is malformed, the range does not apply: the whole representation is always a correct answer.
    if len(lines) > 1:
        return False
    value = lines[0].strip(" \t")
    # The current tag is strong, so that no weak tag equals it, as section 13.1.5 requires.
    if value.startswith(('"', "W/")):
        return value == current.etag
    return _date(lines) == current.last_modified


_TAG = re.compile(r'(W/)?("[\x21\x23-\x7e\x80-\xff]*")')
"""Matches an entity tag (RFC 9110 section 8.8.3), and captures its `W/` if it is weak."""
_GAP = re.compile(r"[ \t]*(?:,[ \t]*)*")
"""Matches white space and commas between two elements of a list, which may enclose empty elements."""


def _contains(lines: list[str], etag: str, *, weak: bool) -> bool:
    """Returns whether a list of entity tags contains `etag` or is `*`. A malformed list contains no tag.

    If `weak` is true, a weak tag in the list matches as well.
    """
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
    """Returns an HTTP-date in any of the three forms of section 5.6.7; None if the text is not a date."""
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # a time zone of many digits raises OverflowError
        return None
    # The third form, that of C's asctime, has no time zone and is in UTC.
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _date(lines: list[str]) -> datetime | None:
    """Returns the date in a field; None if the field is absent, invalid or has several lines (section 13.1.3)."""
    return parse_date(lines[0].strip(" \t")) if len(lines) == 1 else None


RANGES_LIMIT = 64
"""Maximum number of ranges in a request. A field with more is ignored. Players and archive readers request fewer than
20."""
FIELD_LIMIT = 16 * 1024
"""Maximum bytes of a Range field. A longer field is ignored."""

_SPECIFIER = re.compile(r"[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(.*)", re.DOTALL)
"""Matches a Range field, and captures its unit and its ranges."""
_SPEC = re.compile(r"(?:([0-9]+)-([0-9]*)|-([0-9]+))", re.ASCII)
"""Matches one range: `first-`, `first-last` or `-suffix`."""
_PAST_ANY_END = 2**63 - 1
"""A position that stands for all positions beyond the end of any representation."""
_POSITION_DIGITS = 18
"""Maximum digits of a number that is certainly below `_PAST_ANY_END`."""


def parse_range(fields: list[str]) -> list[RangeSpec] | None:
    """Returns the ranges that a request asks for; None if it has no Range field, or one that is ignored.

    `fields` are the lines of the field. The time is linear in their length: positions of more than 18 digits are not
    converted, because they are beyond any end.
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
        # Ignore the whole field: no client expects an answer with only some of the requested ranges.
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
    return int(digits or "0") if len(digits) <= _POSITION_DIGITS else _PAST_ANY_END


def _larger(a: str, b: str) -> bool:
    a, b = a.lstrip("0"), b.lstrip("0")
    # Compare the digits as text, which takes linear time in their number. A conversion to integers takes longer.
    return (len(a), a) > (len(b), b)


def select(specs: list[RangeSpec] | None, size: int) -> list[HttpByteRange] | Literal["all", "none"]:
    """Returns the ranges to send (206), `all` for the whole representation (200), or `none` if no range exists (416).

    Section 14.1.2 calls a suffix of an empty representation satisfiable. As Content-Range could not name a range of
    zero bytes, the answer is the whole representation.
    """
    if specs is None:
        return "all"
    if size == 0 and any(isinstance(spec, Suffix) and spec.length for spec in specs):
        return "all"
    return resolve(specs, size) or "none"
