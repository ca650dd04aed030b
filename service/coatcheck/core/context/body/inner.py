"""Texts inside a JSON document that is itself a string, like the arguments of a call in OpenAI's formats.

Whatever is not replaced keeps its bytes, spaces and escapes, because providers cache by bytes: the new text replaces
only the old one's literal. Only text that is not strict JSON is rewritten.
"""

import json
from collections.abc import Mapping

import msgspec

from coatcheck.core.context.body import splice
from coatcheck.core.context.body.pointer import Pointer, edited
from coatcheck.core.context.body.shape import Value

MAX_DEPTH = 64
"""Maximum depth that is read; arguments of tools are flat."""


def parsed(text: str) -> Value:
    """Returns the document in a string; None if there is none, or it is nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def spliced(text: str, edits: Mapping[Pointer, Value]) -> str:
    """Returns the document with other values at these places."""
    written = {
        pointer: msgspec.Raw(json.dumps(new, ensure_ascii=text.isascii()).encode()) for pointer, new in edits.items()
    }
    try:
        return splice.spliced(text.encode(), written).decode()
    except (msgspec.DecodeError, ValueError, RecursionError):  # NaN, or half of a surrogate pair, which Python accepts
        return _rewritten(text, edited(parsed(text), edits))


def _rewritten(text: str, document: Value) -> str:
    separators = (", ", ": ") if '": ' in text else (",", ":")
    written = json.dumps(document, ensure_ascii=text.isascii(), separators=separators)
    try:
        _ = written.encode()
    except UnicodeEncodeError:
        return json.dumps(document, separators=separators)
    return written
