"""The Range field (RFC 9110 section 14.2): which bytes of a representation to send.

A field that is malformed, in an unknown unit or too long is ignored, as sections 14.1.1 and 14.2 allow: the client gets
the whole representation, which it must expect anyway. If-Range is evaluated elsewhere.
"""

import re
from typing import Literal

from coatcheck.core.views.ranges import FromTo, HttpByteRange, RangeSpec, Suffix, resolve

RANGES_LIMIT = 64
"""Maximum number of ranges in a request. Players and archive readers request fewer than 20; longer sets are ignored."""
FIELD_LIMIT = 16 * 1024
"""Maximum bytes of a Range field. Longer fields are ignored."""

_SPECIFIER = re.compile(r"[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(.*)", re.DOTALL)
_SPEC = re.compile(r"(?:([0-9]+)-([0-9]*)|-([0-9]+))", re.ASCII)
_BEYOND = 2**63 - 1
"""Stands for every position beyond the end of any representation."""
_BEYOND_DIGITS = 18


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
    return int(digits or "0") if len(digits) <= _BEYOND_DIGITS else _BEYOND


def _larger(a: str, b: str) -> bool:
    a, b = a.lstrip("0"), b.lstrip("0")
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
