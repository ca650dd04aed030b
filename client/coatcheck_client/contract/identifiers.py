"""Identifiers from outside, brought within the bounds of the service without two of them becoming one."""

import hashlib
import re
from typing import Final

CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters and line separators, which no name, label or URL may contain."""
SESSION_CHARS: Final = 256
"""Maximum characters of a session's name."""
CALL_ID_CHARS: Final = 512
"""Maximum characters of a tool call's ID. LiteLLM's with a thought signature have up to 1,500."""
_HEAD: Final = 40
"""Characters of an identifier that stay in front of its digest, for people who look for it."""


def bound_identifier(value: str, limit: int) -> str:
    """Returns an identifier of 1 to `limit` characters, at least 80, without control characters.

    One that is longer or has control characters becomes its beginning and 128 bits of its SHA-256: the same identifier
    always becomes the same one, and no two become one.
    """
    if 0 < len(value) <= limit and CONTROL.search(value) is None:
        return value
    digest = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()[:32]
    return f"{CONTROL.sub(' ', value[:_HEAD])}…{digest}"
