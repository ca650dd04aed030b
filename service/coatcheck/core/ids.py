"""Artifact IDs: `art_`, 16 digits and 2 check digits. An ID is derived, never random.

The same payload for the same tool call in the same session and namespace has the same ID, so that posting a history
again finds the artifacts that are already stored. An ID is a handle, not a secret: every look-up is authorised.
"""

import hashlib
import re

from coatcheck.core.errors import CoatcheckError, Code

PREFIX = "art_"
EXAMPLE_ID = "art_447226963802976146"
"""ID of the artifact in the documentation's examples: an example search response, posted as Python's `json.dumps`
writes it. The other examples refer to this artifact, so that each of them can be tried."""
DIGITS = 16
"""Digits of an ID before its two check digits. The whole number fits into a signed 64-bit column."""
ID_LENGTH = len(PREFIX) + DIGITS + 2
"""Number of characters of an ID."""
_SPACE = 10**DIGITS
_SHAPE = re.compile(r"art_[0-9]{18}", re.ASCII)
SECTION_LENGTH = 200
"""Maximum characters of a section's name or title in a citation."""


def identity(namespace: str, session: str | None, tool_call_id: str | None, sha256: bytes) -> bytes:
    """Returns the identity of an artifact: a 32-byte hash of its namespace, session, tool call ID and payload digest.

    The length of each part is hashed as well, so that different parts never give the same input of the hash. An absent
    part differs from an empty one.
    """
    h = hashlib.sha256()
    for part in (namespace.encode(), _optional(session), _optional(tool_call_id), sha256):
        h.update(len(part).to_bytes(8, "big"))
        h.update(part)
    return h.digest()


def _optional(value: str | None) -> bytes:
    return b"\x00" if value is None else b"\x01" + value.encode()


def number(identity: bytes, probe: int = 0) -> int:
    """Returns the number for an identity's ID, 16 digits and 2 check digits; `probe` selects a candidate, from 0.

    Two identities may have the same number. So the store keeps the identity beside the number, and takes the next
    candidate if another identity has the number already. With 16 digits, a first collision becomes likely at about 10^8
    artifacts of one namespace, so that further candidates are rarely needed.
    """
    digest = hashlib.sha256(identity + probe.to_bytes(4, "big")).digest()
    return check_digits(int.from_bytes(digest[:16], "big") % _SPACE)


def check_digits(sixteen: int) -> int:
    """Returns a number with the two check digits of ISO/IEC 7064 MOD 97-10 appended. The result is 1 modulo 97."""
    shifted = sixteen * 100
    return shifted + 98 - shifted % 97


def render(eighteen: int) -> str:
    """Returns an ID as callers see it, in 22 characters."""
    return f"{PREFIX}{eighteen:018d}"


def parse_citation(text: str) -> tuple[int, str | None]:
    """Returns the number and the section of a citation: `art_…#r3`, or an ID alone.

    Raises:
        CoatcheckError: `invalid_artifact_id` for the same reasons as in `parse`, and for an invalid section.
    """
    artifact_id, mark, section = text.partition("#")
    if mark and not 1 <= len(section) <= SECTION_LENGTH:
        raise CoatcheckError(
            Code.INVALID_ARTIFACT_ID,
            f"To cite a section, write an artifact ID, '#' and the section's name of at most {SECTION_LENGTH} "
            "characters.",
        )
    return parse(artifact_id), section or None


def is_id(text: str) -> bool:
    """Returns whether a text is an artifact ID with correct check digits."""
    return _SHAPE.fullmatch(text) is not None and int(text[len(PREFIX) :]) % 97 == 1


def parse(text: str) -> int:
    """Returns the number of an artifact ID.

    Raises:
        CoatcheckError: `invalid_artifact_id`; the message says whether the form or a digit is wrong.
    """
    if not _SHAPE.fullmatch(text):
        excerpt = text[:40].encode("unicode_escape").decode()
        raise CoatcheckError(
            Code.INVALID_ARTIFACT_ID,
            f"'{excerpt}' is not an artifact ID. An ID is 'art_' and 18 digits; copy it from the card.",
        )
    value = int(text[len(PREFIX) :])
    if value % 97 != 1:
        raise CoatcheckError(
            Code.INVALID_ARTIFACT_ID,
            f"'{text}' has a wrong digit: its check digits do not match. Copy the ID from the card again.",
        )
    return value
