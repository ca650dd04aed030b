"""Decodes JSON text that a walk has found, and locates a value in such a text.

Decoding is lenient where that is safe: it accepts NaN, long numbers, unpaired surrogates and invalid UTF-8. It reports
such deviations (`DecodedText.odd`), so that an answer can mention them. Text that is not JSON is never interpreted.
"""

import json
from typing import Final, cast

import msgspec
import numpy as np
from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.jsonpath.query import Step

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ELEMENTS: Final = msgspec.json.Decoder(list[msgspec.Raw])
DECODED_BYTES: Final = 8 * 1024 * 1024
"""Maximum bytes of JSON text that are decoded at a time, and of a line of NDJSON. As many bytes become about 60 MB of
values, in 50 to 150 ms."""
_MAX_DIGITS: Final = 4_000
"""Maximum digits of an integer; a longer integer becomes a double. CPython refuses to convert more than 4,300."""

ODD: Final = "The document is not strict JSON (NaN, Infinity, a lone surrogate, or bytes that are not UTF-8)."


class BrokenError(Exception):
    """The text is not JSON."""


class TooDeepError(Exception):
    """The text is nested more deeply than values in memory may be (about 1,000 levels)."""


class DecodedText(Struct, frozen=True):
    """A decoded value."""

    value: object
    odd: bool = False
    """Whether the text is not strict JSON."""


def decode(raw: bytes) -> DecodedText:
    """Returns the value of `raw`.

    Raises:
        BrokenError: the text is not JSON, or is cut off.
        TooDeepError: the text is nested too deeply.
    """
    # The fast decoder for strict JSON comes first. Python's decoder also accepts NaN, lone surrogates and long
    # integers.
    try:
        return DecodedText(msgspec.json.decode(raw))
    except RecursionError:
        raise TooDeepError from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        text = raw.decode("utf-8", "replace")
        return DecodedText(json.loads(text, parse_int=_int), odd=True)
    except RecursionError:
        raise TooDeepError from None
    except ValueError:
        raise BrokenError from None


def _int(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MAX_DIGITS else float(digits)


def span_of(data: bytes, path: list[Step]) -> tuple[int, int] | None:
    """Returns the range of bytes of the value at `path` in `data`, which is one JSON value.

    None if there is no such value, or the text is not strict JSON on the way. Values beside the path are not decoded.
    Of members with the same name, the last counts.
    """
    if not path:
        return len(data) - len(data.lstrip()), len(data.rstrip())
    raw: bytes | msgspec.Raw = data
    try:
        for step in path:
            raw = _ELEMENTS.decode(raw)[step] if isinstance(step, int) else _MEMBERS.decode(raw)[step]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError):
        return None
    start = _address(raw) - _address(data)
    return start, start + len(memoryview(raw))


def _address(raw: bytes | msgspec.Raw) -> int:
    return cast("int", np.frombuffer(raw, np.uint8).__array_interface__["data"][0])


def too_large(where: str, size: str) -> CoatcheckError:
    """Returns the error for a value that is too large to be decoded; `where` and `size` describe the value."""
    return CoatcheckError(
        Code.JSON_TOO_LARGE,
        f"This path needs {where[:300]} ({size}) in memory, and at most {DECODED_BYTES >> 20} MiB may be. Go further "
        "down by names and indices first, or use one filter, slice or * over records ($.items[?@.id == 7].name), which "
        "may be any number; `read` and `search` work at any size.",
    )
