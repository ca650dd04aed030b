"""Reads a request's Content-Digest and Repr-Digest (RFC 9530) and compares them at the body's end.

Both cover the content as sent, including its content coding. A Repr-Digest is also accepted if it is the digest of the
decoded bytes, because clients differ in what they consider the representation. Only sha-256 and sha-512 are verified;
other algorithms are ignored, as the RFC asks. Anything but a dictionary of byte sequences is refused.
"""

import base64
import binascii
import hashlib
import re
from hmac import compare_digest
from typing import Final

from coatcheck.core.errors import CoatcheckError, Code

ALGORITHMS: Final = {"sha-256": ("sha256", 32), "sha-512": ("sha512", 64)}

_MEMBER = re.compile(
    r"([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/]*={0,2}):"
    r'((?:;[ ]*[a-z*][a-z0-9_.*-]*(?:=(?:[A-Za-z0-9:/!#$%&\'*+.^_`|~?-]+|"(?:[^"\\]|\\["\\])*"))?)*)'
)
_SEPARATOR = re.compile(r"[ \t]*,[ \t]*")


def parse_digests(name: str, value: str) -> dict[str, bytes]:
    """Returns the digests that can be verified, by algorithm. Multiple field lines come joined by commas.

    Raises:
        CoatcheckError: `invalid_digest` when the field is malformed or a digest has the wrong length.
    """
    digests: dict[str, bytes] = {}
    at = 0
    text = value.strip(" \t")
    while text:
        member = _MEMBER.match(text, at)
        if member is None:
            raise _malformed_error(name)
        digest = _bytes(name, member[2])
        if member[1] in ALGORITHMS:
            if len(digest) != ALGORITHMS[member[1]][1]:
                raise CoatcheckError(
                    Code.INVALID_DIGEST, f"{name}: a {member[1]} digest has {ALGORITHMS[member[1]][1]} bytes."
                )
            digests[member[1]] = digest
        at = member.end()
        if at == len(text):
            return digests
        separator = _SEPARATOR.match(text, at)
        if separator is None or separator.end() == len(text):
            raise _malformed_error(name)
        at = separator.end()
    return digests


def _bytes(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise _malformed_error(name) from None


def _malformed_error(name: str) -> CoatcheckError:
    return CoatcheckError(
        Code.INVALID_DIGEST,
        f"{name} is malformed. Write it as sha-256=:<base64 of the digest>:, several separated by commas (RFC 9530).",
    )


class Digests:
    """The digests that a request announces for its bytes, and the running hashes to check them with."""

    def __init__(self, content: dict[str, bytes], representation: dict[str, bytes], *, coded: bool) -> None:
        self._content = content
        self._representation = representation
        self._wire = {name: hashlib.new(ALGORITHMS[name][0]) for name in {*content, *representation}}
        self._plain = {name: hashlib.new(ALGORITHMS[name][0]) for name in representation} if coded else {}

    @property
    def hashes_wire(self) -> bool:
        """Whether the bytes as sent must be fed to `wire`."""
        return bool(self._wire)

    @property
    def hashes_plain(self) -> bool:
        """Whether the decoded bytes must be fed to `plain`."""
        return bool(self._plain)

    def wire(self, data: bytes) -> None:
        """Takes bytes as they were sent."""
        for running in self._wire.values():
            running.update(data)

    def plain(self, data: bytes) -> None:
        """Takes decoded bytes."""
        for running in self._plain.values():
            running.update(data)

    def verify(self) -> None:
        """Checks every announced digest, at the end of the body.

        Raises:
            CoatcheckError: `digest_mismatch`, naming the field and the algorithm.
        """
        for name, promised in self._content.items():
            if not compare_digest(self._wire[name].digest(), promised):
                raise _mismatch("Content-Digest", name)
        for name, promised in self._representation.items():
            plain = self._plain.get(name)
            same = compare_digest(self._wire[name].digest(), promised)
            if not same and not (plain is not None and compare_digest(plain.digest(), promised)):
                raise _mismatch("Repr-Digest", name)


def _mismatch(field: str, algorithm: str) -> CoatcheckError:
    return CoatcheckError(
        Code.DIGEST_MISMATCH,
        f"The body's {algorithm} differs from the one in {field}: it was changed in transit. "
        "Nothing was stored; send it again.",
        field=field,
        algorithm=algorithm,
    )
