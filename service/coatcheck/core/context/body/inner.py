"""Texts inside a JSON document that is itself a string, like the arguments of a call in OpenAI's formats.

Whatever is not replaced keeps its bytes, spaces and escapes, because providers cache by bytes: the new text replaces
only the old one's literal. Only text that is not strict JSON is rewritten.
"""

import contextlib
import json
from collections.abc import Mapping

import msgspec

from coatcheck.core.context.body import splice
from coatcheck.core.context.body.decoding import decode
from coatcheck.core.context.body.encoding import JsonForm, pieces, plain
from coatcheck.core.context.body.pointer import Pointer, apply_edits
from coatcheck.core.context.body.shape import Value
from coatcheck.core.text.long_text import LEAST, LongText, Text, is_ascii, text_of

MAX_DEPTH = 64
"""Maximum depth that is read; arguments of tools are flat."""


def parse_document(text: Text) -> Value:
    """Returns the document in a string; None if there is none, or it is nested too deeply."""
    try:
        if isinstance(text, LongText) or (len(text) >= LEAST and "\\u" in text):
            with contextlib.suppress(msgspec.DecodeError, ValueError):  # Python takes more than JSON allows
                return decode(_bytes(text), _loads)
        return json.loads(str(text))
    except (ValueError, RecursionError):
        return None


def splice_inner(text: Text, edits: Mapping[Pointer, Value]) -> Text:
    """Returns the document with other values at these places."""
    form = JsonForm(ascii=is_ascii(text))
    raw_edits = {pointer: msgspec.Raw(b"".join(pieces(new, form))) for pointer, new in edits.items()}
    try:
        new = splice.splice_body(_bytes(text), raw_edits)
    except (msgspec.DecodeError, ValueError, RecursionError):  # NaN, or half of a surrogate pair, which Python accepts
        return _rewritten(str(text), apply_edits(plain(parse_document(text)), edits))
    return new.decode() if isinstance(text, str) else text_of(new)


def _bytes(text: Text) -> bytes:
    return text.encode() if isinstance(text, str) else text.data


def _loads(raw: memoryview) -> Value:
    return json.loads(bytes(raw))


def _rewritten(text: str, document: Value) -> str:
    separators = (", ", ": ") if '": ' in text else (",", ":")
    json_text = json.dumps(document, ensure_ascii=text.isascii(), separators=separators)
    try:
        _ = json_text.encode()
    except UnicodeEncodeError:
        return json.dumps(document, separators=separators)
    return json_text
