"""Artifact IDs: `art_`, 16 digits, 2 check digits. Derived, never random.

The same payload for the same tool call in the same session and namespace gets the same ID, so that posting a history
again finds what is already stored. An ID is a handle, not a secret: every look-up is authorised.
"""

import hashlib
import re

from coatcheck.core.errors import CoatcheckError, Code

PREFIX = "art_"
EXAMPLE_ID = "art_447226963802976146"
"""The artifact of the documentation's example of a search response, posted as Python's `json.dumps` writes it. The
other examples refer to it, so that each of them can be tried."""
DIGITS = 16
"""Digits of an ID before the two that check them: all of them fit a signed 64-bit column."""
ID_LENGTH = len(PREFIX) + DIGITS + 2
"""Number of characters of an ID."""
_SPACE = 10**DIGITS
_SHAPE = re.compile(r"art_[0-9]{18}", re.ASCII)
SECTION_LENGTH = 200
"""Maximum characters of a section's name or title in a citation."""


def identity(namespace: str, session: str | None, tool_call_id: str | None, sha256: bytes) -> bytes:
    """Returns what identifies an artifact: 32 bytes over namespace, session, tool call ID and payload digest.

    Parts are length-prefixed, so that two different calls never have the same spelling; an absent part differs from an
    empty one.
    """
    h = hashlib.sha256()
    for part in (namespace.encode(), _optional(session), _optional(tool_call_id), sha256):
        h.update(len(part).to_bytes(8, "big"))
        h.update(part)
    return h.digest()


def _optional(value: str | None) -> bytes:
    return b"\x00" if value is None else b"\x01" + value.encode()


def number(identity: bytes, probe: int = 0) -> int:
    """Returns the 18-digit number (16 digits and 2 check digits) of an identity's `probe`-th candidate ID.

    Two identities may want the same number; the store keeps the identity beside it, compares, and tries the next probe.
    16 digits collide with even odds at about 10^8 artifacts of one namespace, so probing is rare but must work.
    """
    digest = hashlib.sha256(identity + probe.to_bytes(4, "big")).digest()
    return check_digits(int.from_bytes(digest[:16], "big") % _SPACE)


def check_digits(sixteen: int) -> int:
    """Appends the two check digits of ISO/IEC 7064 MOD 97-10: the whole number is 1 modulo 97."""
    shifted = sixteen * 100
    return shifted + 98 - shifted % 97


def render(eighteen: int) -> str:
    """Returns the ID as callers see it, 22 characters."""
    return f"{PREFIX}{eighteen:018d}"


def parse_citation(text: str) -> tuple[int, str | None]:
    """Returns the number and the section of a citation: `art_…#r3`, or an ID alone.

    Raises:
        CoatcheckError: `invalid_artifact_id`, as for `parse`, and for an invalid section.
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
        CoatcheckError: `invalid_artifact_id`, saying whether the form or a digit is wrong.
    """
    if not _SHAPE.fullmatch(text):
        excerpt = text[:40].encode("ascii", "backslashreplace").decode().replace("\r", "\\r").replace("\n", "\\n")
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
