"""Brings identifiers from outside within the service's bounds. Identifiers that differ still differ afterwards."""

import hashlib
import re
from typing import Final

CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters and line separators, which no name, label or URL may contain."""
SESSION_CHARS: Final = 256
"""Maximum characters of a session's name."""
CALL_ID_CHARS: Final = 512
"""Maximum characters of a tool call's ID. LiteLLM's IDs with a thought signature have up to 1,500."""
_HEAD: Final = 40
"""Characters of an identifier that precede its digest, for people who look for it."""


def bound_identifier(value: str, limit: int) -> str:
    """Returns an identifier of 1 to `limit` characters, without control characters. `limit` must be at least 80.

    An identifier that is empty, too long, or contains control characters becomes its first characters and 128 bits of
    its SHA-256. So the same identifier always has the same result, and two identifiers have two results.
    """
    if 0 < len(value) <= limit and CONTROL.search(value) is None:
        return value
    digest = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()[:32]
    return f"{CONTROL.sub(' ', value[:_HEAD])}…{digest}"
