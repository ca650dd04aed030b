"""Texts inside a JSON document that is itself a string, as the arguments of a call are at OpenAI.

What is not replaced keeps its bytes, spaces and escapes, because providers cache by bytes: the new text is spliced in
for the old one's literal. Only where that literal is not found exactly once is the document written anew.
"""

import json
from collections.abc import Mapping

from coatcheck.core.context.pointer import Pointer, edited, get
from coatcheck.core.context.shape import Value

MAX_DEPTH = 64
"""Nesting that is looked into; arguments of tools are flat."""


def parsed(text: str) -> Value:
    """The document in a string; None when there is none, or it is nested too deeply to be looked into."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def spliced(text: str, edits: Mapping[Pointer, str]) -> str:
    """The document with other strings at these places, each of which holds a string now."""
    document = parsed(text)
    result = text
    for pointer, new in edits.items():
        old = get(document, pointer)
        found = next(
            (ascii_ for ascii_ in (True, False) if result.count(json.dumps(old, ensure_ascii=ascii_)) == 1), None
        )
        if found is None:
            return _rewritten(text, edited(document, edits))
        result = result.replace(json.dumps(old, ensure_ascii=found), json.dumps(new, ensure_ascii=text.isascii()))
    return result


def _rewritten(text: str, document: Value) -> str:
    separators = (", ", ": ") if '": ' in text else (",", ":")
    written = json.dumps(document, ensure_ascii=text.isascii(), separators=separators)
    try:
        _ = written.encode()
    except UnicodeEncodeError:
        return json.dumps(document, separators=separators)
    return written
