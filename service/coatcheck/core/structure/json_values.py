"""Reads JSON as far as possible: whole if it is complete and well-formed, otherwise its longest readable beginning.

Never raises and never recurses into a document's depth. NaN, trailing data, a BOM and 100,000 open brackets give what
could be read before them.
"""

import re
from itertools import islice
from typing import Final

import msgspec
from msgspec import Struct, structs

_BOM: Final = b"\xef\xbb\xbf"
START_BYTES: Final = 64 * 1024
"""Bytes at the beginning that are read of a document that cannot be decoded as a whole."""
_LINES: Final = 1_000
_OTHERS: Final = 10
"""Minimum number of lines that are documents per line that is not, in JSON lines."""
_FAULTS: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
_STRING: Final = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*")', re.DOTALL)
_check: Final = msgspec.json.Decoder(msgspec.Raw).decode
"""Parses without creating values."""
_LAST: Final = re.compile(rb'[^"]*(?:(?=,)|[\[{}\]]|true|false|null)')
"""Matches what is between two strings, up to the end of the last complete member."""
_BEGINS: Final = re.compile(rb"^[ \t]*[\[{]", re.MULTILINE)
_AROUND: Final = 16 * 1024
"""Bytes before a document in a text."""
_TRIALS: Final = 8
"""Lines that may begin it."""
_MOST: Final = 0.5
"""Minimum share of the document in the text."""
_SMALL: Final = 64
"""Bytes of a document that is worth more than the text that it is in."""
_FAULT_AT: Final = re.compile(r"\(byte (\d+)\)")
_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
"""Deleted by a translation that leaves only brackets."""
_CLOSED: Final = bytes.maketrans(b"[{", b"]}")
_NESTED: Final = 200
"""Containers open at once, and rounds of removing innermost pairs, beyond which a beginning is not read."""


class JsonReading(Struct, frozen=True):
    """A value, and whether it is the entire document."""

    value: object
    complete: bool
    lines: int = 0
    """For NDJSON: number of documents that were read; 0 for a single document."""
    all_lines: bool = False
    """For NDJSON: whether these are all."""
    size: int = 0
    """For an incomplete document: bytes that were read before it ended or broke."""

    @property
    def all_of_it(self) -> bool:
        """Whether the value contains everything in the payload."""
        return self.complete or self.all_lines


def read_json(data: bytes, *, whole: bool) -> JsonReading | None:
    """Returns the content of a document; None if it does not begin like JSON, or nothing of it can be read."""
    text = data.removeprefix(_BOM).lstrip(b" \t\r\n")
    if text[:1] not in {b"{", b"["}:
        return None
    if whole:
        try:
            return JsonReading(msgspec.json.decode(text), complete=True)
        except _FAULTS:
            pass
    reading, mixed = _read_lines(text[: 4 * START_BYTES])
    if reading is not None and whole and len(text) <= 4 * START_BYTES:
        all_lines = reading.lines == sum([bool(line.strip()) for line in text.split(b"\n")])
        reading = structs.replace(reading, all_lines=all_lines)
    return None if mixed else reading or _read_start(text[:START_BYTES])


def find_document(text: bytes) -> tuple[int, int] | None:
    """Returns where a text is one JSON document with a little around it; None if that is all of it, or there is none.

    Around it are a sentence, a warning, the fence of Markdown; inside, whatever is well-formed.
    """
    end = max(text.rfind(b"}"), text.rfind(b"]")) + 1
    for match in islice(_BEGINS.finditer(text, 0, _AROUND), _TRIALS):
        start = match.end() - 1
        if end - start < len(text) * _MOST or end - start < _SMALL:
            return None
        if start == len(text) - len(text.lstrip()) and end == len(text.rstrip()):
            continue
        try:
            _check(text[start:end])
        except _FAULTS:
            continue
        return start, end
    return None


def _read_lines(text: bytes) -> tuple[JsonReading | None, bool]:
    """Returns NDJSON, at least two lines that are documents each, and whether the text is a mixture instead.

    A log may begin with JSON: if more than a tenth of the lines are something else, they are lines of text.
    """
    values: list[object] = []
    right = wrong = 0
    if b"\n" not in text[:START_BYTES]:
        return None, False
    lines = [line for line in text.split(b"\n", _LINES)[:_LINES] if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            value = msgspec.json.decode(line)
        except _FAULTS:
            if not right:
                return None, False
            wrong += number < len(lines)  # the last one may be cut
        else:
            right += 1
            if not wrong:
                values.append(value)
    if wrong * _OTHERS > right:
        return None, True
    return (JsonReading(values, complete=False, lines=len(values)) if right > 1 else None), False


def _read_start(text: bytes) -> JsonReading | None:
    """Returns the value of the longest prefix that ends with a complete member, with open containers closed.

    None if that is a complete document followed by something else: a text that begins with JSON.
    """
    everything = text
    try:
        _check(text)
    except _FAULTS as fault:
        at = _FAULT_AT.search(str(fault))
        text = text[: int(at[1]) - 1] if at else text
    # Splitting at strings runs in C: for 64 KiB it takes 0.3 ms, where a parser that reports each token takes 10.
    parts = _STRING.split(text)
    while (last := _LAST.match(parts[-1])) is None and len(parts) > 1:
        del parts[-2:]  # a key, or a string that may be one
    parts[-1] = last[0] if last is not None else b""
    pending = b"".join(parts[::2]).translate(None, _BRACKETS)
    for _ in range(_NESTED):
        size = len(pending)
        pending = pending.replace(b"[]", b"").replace(b"{}", b"")
        if len(pending) == size:
            break
    if last is None or len(pending) > _NESTED:
        return None
    start = b"".join(parts)
    below = everything[len(start) :].lstrip()
    if not pending and len(below) > len(start) and below[:1] not in {b"{", b"["}:
        return None
    try:
        value = msgspec.json.decode(start + pending[::-1].translate(_CLOSED))
    except UnicodeDecodeError:
        return _read_start(text.decode("utf-8", "replace").encode())
    except _FAULTS:
        return None
    return JsonReading(value, complete=False, size=len(start))
