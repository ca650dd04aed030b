"""Decodes JSON bodies, strictly except for lone surrogates, which JavaScript agents produce when they cut text.

Anything else that is not JSON is refused with its position; JSON of the wrong shape is refused with the name of the
field; and so is a body with too many values to turn into objects. All passes over a body run in C, in time linear in
its size; larger bodies are decoded in a thread.
"""

import asyncio
import re
from functools import cache
from typing import TypeVar

import msgspec

from coatcheck.api.http.problems import constraint_text
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck_client.contract.answers import Notice

T = TypeVar("T")

BOM = b"\xef\xbb\xbf"
"""UTF-8's byte order mark. JSON must not begin with it, but a parser may ignore it (RFC 8259 section 8.1)."""
MAX_VALUES = 1_000_000
"""Commas and opening brackets outside strings in one body: objects take 30 times the memory of the JSON that they come
from, and creating them delays all other requests."""
INLINE = 64 * 1024
"""Size up to which a body is decoded on the event loop."""
MENDED = Notice(
    "lone_surrogates_replaced",
    "The JSON contained halves of surrogate pairs, which are not characters; U+FFFD replaced each.",
)
"""The warning beside what was read from JSON that was mended."""
_LONE = re.compile(
    rb"\\u[dD](?:"
    rb"[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F][0-9a-fA-F]{2})"
)
"""Matches one half of a surrogate pair, provided that every backslash begins an escape."""
_BETWEEN = re.compile(rb"\\(?!u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\")
"""Matches an escape that does not belong to the one before it."""
_VALUES = (b",", b"[", b"{")
"""Each of these bytes adds at most one value."""
_SEARCHED_BYTES = 256 * 1024
"""Bytes that are searched before another thread may run."""
# msgspec reports position, field and type only within its messages; these patterns take them apart.
_BYTE = re.compile(r"\(byte ([0-9]+)\)")
_PLACE = re.compile(r"^(.*?)(?: - at `\$\.?(.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_GOT = re.compile(r", got `(str|int|bool|null|array|object)`")
_KINDS = {
    "str": "text",
    "int": "a number",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
"""What a value that was sent is called in an error, by msgspec's name of its type."""
_BODY = "the body"
"""What a refusal calls the place of a field unless its caller names another."""
_QUOTED_CHARS = 80
"""Number of characters of a caller's text that an error repeats."""


@cache
def _decoder(model: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(model)


async def decode_aside(data: bytes, model: type[T]) -> tuple[T, bool]:
    """Decodes like `decode`, in a thread if the body is large enough to delay others."""
    if len(data) > INLINE:
        return await asyncio.to_thread(decode, data, model)
    return decode(data, model)


def decode(data: bytes, model: type[T]) -> tuple[T, bool]:
    """Returns the value, and whether lone surrogates were replaced by U+FFFD.

    Raises:
        CoatcheckError: `invalid_json` with the position, `invalid_request` naming the field, `invalid_content` for too
            many values.
    """
    data = data.removeprefix(BOM)
    _bound(data)
    try:
        return _decode(data, model), False
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        # Mending is tried only now, so that valid JSON does not pay for the search.
        mended = mend(data)
        if mended == data:
            raise _malformed_error(data, _locate_error(data, e)) from e
    try:
        return _decode(mended, model), True
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise _malformed_error(data, _locate_error(mended, e)) from e


def as_sent(data: bytes, items: list[msgspec.Raw]) -> list[bytes]:
    """Returns the items of a mended body as they were sent, so that each can be mended and warned about separately.

    Mending preserves every position: an escape has six bytes before and after.
    """
    data = data.removeprefix(BOM)
    mended = mend(data)
    originals: list[bytes] = []
    end = 0
    for item in items:
        text = bytes(item)
        # A raw item does not know its position. The search begins after the item before, so equal items get positions
        # of their own.
        start = mended.find(text, end)
        end = start + len(text)
        originals.append(data[start:end])
    return originals


def _bound(data: bytes) -> None:
    """Refuses a body with too many values.

    Only bodies that could have them are examined, as text contains commas too.
    """
    if sum(map(data.count, _VALUES)) <= MAX_VALUES:
        return
    # Escaped backslashes go first: after that, every backslash before a quote escapes it, and every quote that remains
    # begins or ends a string.
    plain = data.replace(rb"\\", b"__").replace(rb"\"", b"__")
    inside = values = 0
    for at in range(0, len(plain), _SEARCHED_BYTES):
        pieces = plain[at : at + _SEARCHED_BYTES].split(b'"')
        # Every second piece lies outside strings; `inside` says whether this block began within one.
        outside = b"".join(pieces[inside::2])
        values += sum(map(outside.count, _VALUES))
        inside ^= (len(pieces) - 1) & 1
        if values > MAX_VALUES:
            raise CoatcheckError(
                Code.INVALID_CONTENT,
                f"The JSON has more than {MAX_VALUES:,} values. Send it unchanged to /v1/artifacts/raw, or as text.",
                limit=MAX_VALUES,
            )


def mend(data: bytes) -> bytes:
    """Returns the JSON with U+FFFD for each half of a surrogate pair; unchanged if it cannot be JSON.

    Escaped backslashes are first replaced by a byte that cannot occur in JSON, so that every backslash begins an
    escape. The work is done in pieces, because a search does not release the interpreter.
    """
    if b"\0" in data or _LONE.search(data) is None:
        return data
    text = data.replace(rb"\\", b"\0\0")
    pieces: list[bytes] = []
    start = 0
    while start < len(text):
        # A piece must not end between the halves of a valid pair, which would each count as lone.
        boundary = _BETWEEN.search(text, min(start + _SEARCHED_BYTES, len(text)))
        end = boundary.start() if boundary else len(text)
        pieces.append(_LONE.sub(rb"\\ufffd", text[start:end]))
        start = end
    return b"".join(pieces).replace(b"\0\0", rb"\\")


def _decode(data: bytes, model: type[T]) -> T:
    try:
        return _decoder(model).decode(data)
    except msgspec.ValidationError as e:
        whole = _locate_error(data, e)
        raise refusal_of(whole if isinstance(whole, msgspec.ValidationError) else e, model) from e
    except RecursionError as e:
        raise CoatcheckError(Code.INVALID_JSON, "The JSON is nested too deeply.") from e


def _locate_error(data: bytes, error: Exception) -> Exception:
    """The error with its position in all of the JSON: a field that is decoded by itself knows only its own."""
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as whole:
        return whole
    except RecursionError:  # in a field that the model keeps undecoded, or before the mistake
        return error
    return error


def _malformed_error(data: bytes, error: Exception) -> CoatcheckError:
    position = _position(data, error)
    where = "" if position is None else f" at byte {position}"
    if not data.strip():
        what = "The body is empty; it must be a JSON object."
    elif _utf8_error(data) is not None:
        what = f"The body is not valid UTF-8{where}. Send other encodings to /v1/artifacts/raw."
    else:
        what = f"The body is not valid JSON{where}: {_reason(error)}."
    extra = {} if position is None else {"position": position}
    return CoatcheckError(Code.INVALID_JSON, what, **extra)


def _utf8_error(data: bytes) -> int | None:
    try:
        data.decode()
    except UnicodeDecodeError as e:
        return e.start
    return None


def _position(data: bytes, error: Exception) -> int | None:
    bad = _utf8_error(data)
    if bad is not None:
        return bad
    # The message has no position if the JSON ended too early.
    place = _BYTE.search(str(error))
    return int(place[1]) if place else len(data)


def _reason(error: Exception) -> str:
    text = _BYTE.sub("", str(error)).removeprefix("JSON is malformed:").strip()
    return "it ends too early" if text == "Input data was truncated" else text


def refusal_of(error: msgspec.ValidationError, model: object, *, where: str = _BODY) -> CoatcheckError:
    """Returns the error for well-formed JSON that does not fit `model`.

    It names the field and what the field accepts.
    """
    place = _PLACE.match(str(error))
    what, name = (place[1], place[2] or "") if place else (str(error), "")
    # For unknown and missing fields, msgspec gives the position of the object around them.
    unknown = _UNKNOWN.fullmatch(what)
    if unknown:
        name = f"{name}.{unknown[1]}" if name else unknown[1]
        return CoatcheckError(Code.INVALID_REQUEST, f"Unknown field '{_short(name)}' in {where}.", field=_short(name))
    missing = _MISSING.fullmatch(what)
    if missing:
        name = f"{name}.{missing[1]}" if name else missing[1]
        return CoatcheckError(
            Code.INVALID_REQUEST, f"'{_short(name)}' is missing in {where}.{_takes(model, name)}", field=_short(name)
        )
    words = constraint_text(model, name)
    got = _GOT.search(what)
    if words is not None and got and where == _BODY:  # in a query string, every value is text
        words += f", not {_KINDS[got[1]]}"
    if not name:
        detail = f"In {where}: {_short(what)}." if words is None else f"{where[0].upper()}{where[1:]} must be {words}."
        return CoatcheckError(Code.INVALID_REQUEST, detail)
    detail = f"'{_short(name)}': {_short(what)}." if words is None else f"'{_short(name)}' must be {words}."
    return CoatcheckError(Code.INVALID_REQUEST, detail, field=_short(name))


def _takes(model: object, name: str) -> str:
    words = constraint_text(model, name)
    return "" if words is None else f" It must be {words}."


def _short(text: str) -> str:
    return text if len(text) <= _QUOTED_CHARS else text[:_QUOTED_CHARS] + "…"
