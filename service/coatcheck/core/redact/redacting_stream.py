"""Masks secrets in an incoming payload before anything of it is stored, or refuses the payload.

The payload is searched in units at fixed positions, each with its surroundings, so that the result does not depend on
how the payload arrives. Markers replace the secrets: the stored text differs from the one that was sent.
"""

import re
from collections import Counter
from typing import Final

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.redact.filler import SecretRange, marker
from coatcheck.core.redact.find import MARGIN
from coatcheck.core.redact.mask import Mask, MaskedSecrets

_GAP: Final = re.compile(rb"[^\0](\0{1,3})[^\0]\1[^\0]")
UNIT: Final = 128 * 1024
"""Bytes that are searched at a time."""


class RedactingStream:
    """One payload being masked: `feed` its bytes, then `end` it. Holds one unit and its surroundings."""

    def __init__(self, mask: Mask, *, refuse: bool, inside: bool = False) -> None:
        """Begins a payload, or the text `inside` one. With `refuse`, the first secret raises an error."""
        self._mask = mask
        self._inside = inside
        self._refuse = refuse
        self._held = bytearray()
        self._at = 0
        """Where the held bytes begin in the payload."""
        self._done = 0
        """Bytes of the payload that have been passed on, masked or not."""
        self._unit = 0
        self._lines = 1
        self._counts: Counter[str] = Counter()

    @property
    def masked_secrets(self) -> MaskedSecrets:
        """Counts what has been masked so far."""
        return MaskedSecrets.of(self._counts)

    def feed(self, data: bytes) -> bytes:
        """Takes the next bytes and returns those that are ready to be stored, possibly none.

        Raises:
            CoatcheckError: `secret_refused`, naming the rule and the place.
        """
        self._held += data
        out = bytearray()
        while self._at + len(self._held) >= (self._unit + 1) * UNIT + MARGIN:
            out += self._next(ends=False)
        return bytes(out)

    def end(self) -> bytes:
        """Returns the last bytes.

        Raises:
            CoatcheckError: as `feed`.
        """
        out = bytearray()
        while self._done < self._at + len(self._held):
            out += self._next(ends=self._at + len(self._held) <= (self._unit + 1) * UNIT + MARGIN)
        return bytes(out)

    def _next(self, *, ends: bool) -> bytes:
        """Returns the next unit, masked."""
        size = self._at + len(self._held)
        low, stop = max(0, self._unit * UNIT - MARGIN), min(size, (self._unit + 1) * UNIT)
        high = min(size, stop + MARGIN)
        data = bytes(self._held[low - self._at : high - self._at])
        secrets = self._mask.find(data, begins=low == 0, ends=ends)
        out = self._redact_range(data, low, stop, secrets)
        self._unit += 1
        keep = min(size, max(self._at, self._unit * UNIT - MARGIN))
        del self._held[: keep - self._at]
        self._at = keep
        return out

    def _redact_range(self, data: bytes, low: int, stop: int, secrets: list[SecretRange]) -> bytes:
        out: list[bytes] = []
        for each in secrets:
            start, end = max(each.start + low, self._done), each.end + low
            if end <= start or start >= stop:
                continue
            plain = data[self._done - low : start - low]
            self._lines += plain.count(b"\n")
            name = self._mask.names[each.rule]
            if self._refuse:
                raise refusal_of_secret(name, self._lines, start, inside=self._inside)
            out += [plain, _marker(name, data[start - low : end - low])]
            self._lines += data[start - low : end - low].count(b"\n")
            self._counts[name] += 1
            self._done = end
        if self._done < stop:
            plain = data[self._done - low : stop - low]
            self._lines += plain.count(b"\n")
            out.append(plain)
            self._done = stop
        return b"".join(out)


def _marker(rule: str, secret: bytes) -> bytes:
    """Returns the marker in a secret's place, in code units of its size: NULs stand between those of UTF-16."""
    gap = _GAP.match(secret)
    return (b"" if gap is None else gap[1]).join(bytes((byte,)) for byte in marker(rule).encode())


def refusal_of_secret(rule: str, line: int, byte: int, *, inside: bool = False) -> CoatcheckError:
    """Returns the error for a payload that contains a secret: it tells the place, and nothing of the secret.

    `inside`: the place is in the text that the payload is read as, where none can be masked before it is stored.
    """
    part = "text in the payload" if inside else "payload"
    why = "it cannot be masked there" if inside else "the policy refuses to store any"
    return CoatcheckError(
        Code.SECRET_REFUSED,
        f"The {part} has a secret in it ({rule}, line {line}, byte {byte}), and {why}: "
        "nothing was stored. Take it out, then send the payload again.",
        rule=rule,
        line=line,
        byte=byte,
    )


def refusal_of_name(rule: str, field: str) -> CoatcheckError:
    """Returns the error for a payload with a secret in its metadata, naming the field."""
    return CoatcheckError(
        Code.SECRET_REFUSED,
        f"'{field}' has a secret in it ({rule}), and the policy refuses to store any: nothing was stored. Take it out.",
        rule=rule,
        field=field,
    )
