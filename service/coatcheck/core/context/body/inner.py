"""Texts inside a JSON document that is itself a string, as the arguments of a call are at OpenAI.

What is not replaced keeps its bytes, spaces and escapes, because providers cache by bytes: the new text is spliced in
for the old one's literal. Only what is no strict JSON is written anew.
"""

import json
from collections.abc import Mapping

import msgspec

from coatcheck.core.context.body import splice
from coatcheck.core.context.body.pointer import Pointer, edited
from coatcheck.core.context.body.shape import Value

MAX_DEPTH = 64
"""Nesting that is looked into; arguments of tools are flat."""


def parsed(text: str) -> Value:
    """The document in a string; None when there is none, or it is nested too deeply to be looked into."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def spliced(text: str, edits: Mapping[Pointer, Value]) -> str:
    """The document with other values at these places."""
    written = {
        pointer: msgspec.Raw(json.dumps(new, ensure_ascii=text.isascii()).encode()) for pointer, new in edits.items()
    }
    try:
        return splice.spliced(text.encode(), written).decode()
    except (msgspec.DecodeError, ValueError, RecursionError):  # NaN, or half of a surrogate pair: Python takes them
        return _rewritten(text, edited(parsed(text), edits))


def _rewritten(text: str, document: Value) -> str:
    separators = (", ", ": ") if '": ' in text else (",", ":")
    written = json.dumps(document, ensure_ascii=text.isascii(), separators=separators)
    try:
        _ = written.encode()
    except UnicodeEncodeError:
        return json.dumps(document, separators=separators)
    return written
