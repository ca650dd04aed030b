"""Writing values as JSON, also those that hold a `LongText`, which is written in pieces.

Values without one are written as `json.dumps` writes them, and every value as if all its texts were a `str`.
"""

import json
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Final, final

from msgspec import Raw, Struct

from coatcheck.core.context.body.shape import Value, as_list, as_object
from coatcheck.core.text.long_text import LongText, Text, small, strings, text_of


class JsonForm(Struct, frozen=True):
    """How JSON is written."""

    comma: str = ", "
    colon: str = ": "
    ascii: bool = False
    """Everything beyond ASCII is escaped."""
    sort: bool = False
    """Objects have their keys in order."""

    def dumps(self, value: Value) -> str:
        """A value without long texts.

        Raises:
            TypeError: there is a long text in it.
        """
        return json.dumps(value, ensure_ascii=self.ascii, separators=(self.comma, self.colon), sort_keys=self.sort)


SPACED: Final = JsonForm()
COMPACT: Final = JsonForm(",", ":")
CANONICAL: Final = JsonForm(",", ":", sort=True)


def dump_value(value: Value, form: JsonForm = SPACED) -> Text:
    """Returns a value as JSON."""
    try:
        return small(form.dumps(value))
    except TypeError:
        return text_of(_join_parts(pieces(value, form)))


def serialise_canonical(value: Value) -> Text:
    """Returns a value as the JSON that ingest stores: no spaces, sorted keys, so that clients' habits do not matter."""
    return dump_value(value, CANONICAL)


def pieces(value: Value, form: JsonForm = SPACED) -> Iterator[bytes]:
    """A value as JSON in UTF-8, piece by piece.

    Raises:
        UnicodeEncodeError: a text holds half of a surrogate pair, and the form is not ASCII.
    """
    if isinstance(value, LongText):
        yield b'"'
        for text in strings(value):
            yield form.dumps(text)[1:-1].encode()
        yield b'"'
        return
    try:
        whole = form.dumps(value).encode()
    except TypeError:
        if not isinstance(value, dict | list):
            raise
        yield from _members(as_object(value), form) if isinstance(value, dict) else _elements(as_list(value), form)
    else:
        yield whole


def _members(value: dict[str, Value], form: JsonForm) -> Iterator[bytes]:
    start = "{"
    for key in sorted(value) if form.sort else value:
        yield f"{start}{form.dumps(key)}{form.colon}".encode()
        yield from pieces(value[key], form)
        start = form.comma
    yield b"}"


def _elements(value: list[Value], form: JsonForm) -> Iterator[bytes]:
    start = b"["
    for one in value:
        yield start
        yield from pieces(one, form)
        start = form.comma.encode()
    yield b"]"


def as_raw(value: object) -> Raw:
    """A long text for msgspec's encoder, as its hook for what it does not know."""
    if not isinstance(value, LongText):
        raise NotImplementedError(type(value).__name__)
    return Raw(_join_parts(pieces(value)))


def _join_parts(parts: Iterable[bytes]) -> bytes:
    """Returns the parts as one: a buffer that grows, where `join` would hold all parts beside it."""
    whole = BytesIO()
    for part in parts:
        whole.write(part)
    return whole.getvalue()


def plain(value: Value) -> Value:
    """The value with a `str` for every long text."""
    if isinstance(value, LongText):
        return str(value)
    if isinstance(value, dict):
        return {key: plain(one) for key, one in as_object(value).items()}
    return [plain(one) for one in as_list(value)] if isinstance(value, list) else value


@final
class MessageLines:
    """Messages as JSON, each on a line of its own: they are written whenever they are read, and never kept."""

    def __init__(self, values: Iterable[Value]) -> None:
        self._values = list(values)
        self.sizes: Final = [sum(map(len, _line(value))) for value in self._values]
        """Bytes of each line without its end."""

    def __iter__(self) -> Iterator[bytes]:
        for number, value in enumerate(self._values):
            if number:
                yield b"\n"
            yield from _line(value)


def _line(value: Value) -> list[bytes]:
    try:
        return list(pieces(value, COMPACT))
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can spell
        return [json.dumps(plain(value), separators=(",", ":")).encode()]
