"""Decodes JSON bodies, strictly except for lone surrogates, which JavaScript agents produce when they cut text.

A body that is not JSON is refused with the position of the mistake, JSON of the wrong shape with the name of the field.
A body with so many values that their objects would take too much memory is refused, too. All passes over a body run in
C, in time linear in its size. Large bodies are decoded in a thread.
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
"""Maximum values of one body, counted as commas and opening brackets outside strings. Objects take 30 times the memory
of their JSON, and creating them delays all other requests."""
INLINE = 64 * 1024
"""Maximum bytes of a body that is decoded on the event loop. A larger one goes to a thread."""
MENDED = Notice(
    "lone_surrogates_replaced",
    "The JSON contained halves of surrogate pairs, which are not characters; U+FFFD replaced each.",
)
"""The warning in the answer to a request whose JSON was mended."""
_LONE_SURROGATE = re.compile(
    rb"\\u[dD](?:"
    rb"[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F][0-9a-fA-F]{2})"
)
"""Matches an escaped half of a surrogate pair that has no other half. Every backslash in the text must begin an
escape."""
_PIECE_BOUNDARY = re.compile(rb"\\(?!u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\")
"""Matches an escape that does not complete a surrogate pair, so that a piece may end before it."""
_VALUE_BYTES = (b",", b"[", b"{")
"""Bytes that separate or begin values. Each of them adds at most one value."""
_SEARCHED_BYTES = 256 * 1024
"""Maximum bytes that are searched at once. Between two searches, another thread may run."""
# msgspec reports position, field and type only in its messages. These patterns extract them.
_ERROR_POSITION = re.compile(r"\(byte ([0-9]+)\)")
_ERROR_PATH = re.compile(r"^(.*?)(?: - at `\$\.?(.*)`)?$", re.DOTALL)
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
"""By msgspec's name of a type, the words for a value of this type in an error."""
_BODY = "the body"
"""The words in an error for the place of a field, unless the caller names another place."""
_QUOTED_CHARS = 80
"""Maximum characters of a caller's text that an error repeats."""


@cache
def _decoder(model: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(model)


async def decode_aside(data: bytes, model: type[T]) -> tuple[T, bool]:
    """Decodes like `decode`, but in a thread if the body is so large that it would delay other requests."""
    if len(data) > INLINE:
        return await asyncio.to_thread(decode, data, model)
    return decode(data, model)


def decode(data: bytes, model: type[T]) -> tuple[T, bool]:
    """Returns a JSON body as a `model`, and whether lone surrogates were replaced by U+FFFD.

    Raises:
        CoatcheckError: `invalid_json` with the position of the mistake, `invalid_request` with the name of the field,
            `invalid_content` if the body has more than MAX_VALUES values.
    """
    data = data.removeprefix(BOM)
    _check_value_count(data)
    try:
        return _decode(data, model), False
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        # Try to mend the body only after an error, so that valid JSON does not pay for the search.
        mended = mend(data)
        if mended == data:
            raise _malformed_error(data, _locate_error(data, e)) from e
    try:
        return _decode(mended, model), True
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise _malformed_error(data, _locate_error(mended, e)) from e


def as_sent(data: bytes, items: list[msgspec.Raw]) -> list[bytes]:
    """Returns the items of a mended body as they were sent, so that each can be mended separately with its own warning.

    Every position is the same in `data` and in the mended body: the escape of a surrogate has as many bytes as that of
    U+FFFD.
    """
    data = data.removeprefix(BOM)
    mended = mend(data)
    originals: list[bytes] = []
    end = 0
    for item in items:
        text = bytes(item)
        # A raw item does not know its position. Search from the end of the previous item, so that equal items get
        # different positions.
        start = mended.find(text, end)
        end = start + len(text)
        originals.append(data[start:end])
    return originals


def _check_value_count(data: bytes) -> None:
    """Refuses a body with more than MAX_VALUES values.

    Strings contain commas and brackets, too. These are counted first, because counting all is fast. Only if the sum is
    too large, the commas and brackets outside strings are counted separately.

    Raises:
        CoatcheckError: `invalid_content`.
    """
    if sum(map(data.count, _VALUE_BYTES)) <= MAX_VALUES:
        return
    # Replace escaped backslashes first: then every backslash before a quote escapes that quote. Without the escaped
    # quotes, every quote begins or ends a string.
    plain = data.replace(rb"\\", b"__").replace(rb"\"", b"__")
    inside = values = 0
    for at in range(0, len(plain), _SEARCHED_BYTES):
        pieces = plain[at : at + _SEARCHED_BYTES].split(b'"')
        # Every second piece is outside strings. `inside` is 1 if this block began inside a string.
        outside = b"".join(pieces[inside::2])
        values += sum(map(outside.count, _VALUE_BYTES))
        inside ^= (len(pieces) - 1) & 1
        if values > MAX_VALUES:
            raise CoatcheckError(
                Code.INVALID_CONTENT,
                f"The JSON has more than {MAX_VALUES:,} values. Send it unchanged to /v1/artifacts/raw, or as text.",
                limit=MAX_VALUES,
            )


def mend(data: bytes) -> bytes:
    """Returns JSON with U+FFFD in place of each lone half of a surrogate pair.

    Data with a NUL byte, which cannot be JSON, is returned unchanged. Escaped backslashes are first replaced by a byte
    that cannot occur in JSON, so that every backslash begins an escape. The data is searched in pieces, because other
    threads cannot run during a search.
    """
    if b"\0" in data or _LONE_SURROGATE.search(data) is None:
        return data
    text = data.replace(rb"\\", b"\0\0")
    pieces: list[bytes] = []
    start = 0
    while start < len(text):
        # A piece must not end between the halves of a valid pair: each half would then count as lone.
        boundary = _PIECE_BOUNDARY.search(text, min(start + _SEARCHED_BYTES, len(text)))
        end = boundary.start() if boundary else len(text)
        pieces.append(_LONE_SURROGATE.sub(rb"\\ufffd", text[start:end]))
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
    """Returns an error with its position in the whole JSON; the given error if decoding the whole does not raise one.

    An error in a field that is decoded by itself has only the position in that field.
    """
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as whole:
        return whole
    except RecursionError:  # the JSON is nested too deeply before the mistake, or in a field that the model keeps raw
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
    # If the JSON ended too early, the message has no position.
    place = _ERROR_POSITION.search(str(error))
    return int(place[1]) if place else len(data)


def _reason(error: Exception) -> str:
    text = _ERROR_POSITION.sub("", str(error)).removeprefix("JSON is malformed:").strip()
    return "it ends too early" if text == "Input data was truncated" else text


def refusal_of(error: msgspec.ValidationError, model: object, *, where: str = _BODY) -> CoatcheckError:
    """Returns the error for well-formed JSON that does not fit `model`.

    The error names the field and says what the field accepts. `where` is the place of the field in words.
    """
    place = _ERROR_PATH.match(str(error))
    what, name = (place[1], place[2] or "") if place else (str(error), "")
    # For an unknown or missing field, msgspec names only the object that contains it.
    unknown = _UNKNOWN.fullmatch(what)
    if unknown:
        name = f"{name}.{unknown[1]}" if name else unknown[1]
        return CoatcheckError(Code.INVALID_REQUEST, f"Unknown field '{_short(name)}' in {where}.", field=_short(name))
    missing = _MISSING.fullmatch(what)
    if missing:
        name = f"{name}.{missing[1]}" if name else missing[1]
        return CoatcheckError(
            Code.INVALID_REQUEST, f"'{_short(name)}' is missing in {where}.{_needs(model, name)}", field=_short(name)
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


def _needs(model: object, name: str) -> str:
    words = constraint_text(model, name)
    return "" if words is None else f" It must be {words}."


def _short(text: str) -> str:
    return text if len(text) <= _QUOTED_CHARS else text[:_QUOTED_CHARS] + "…"
