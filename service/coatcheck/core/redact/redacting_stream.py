"""Secrets masked in a payload on its way in, before anything of it is stored; or the payload refused.

The payload is looked through in units that lie at the same places however it arrives, each with what lies around it, so
that the same payload is masked alike. What stands in a secret's place is its marker: what is stored is another text.
"""

from collections import Counter
from typing import Final

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.redact.filler import SecretRange, marker
from coatcheck.core.redact.find import MARGIN
from coatcheck.core.redact.mask import Mask, MaskedSecrets

UNIT: Final = 128 * 1024
"""Bytes that are looked through at a time."""


class RedactingStream:
    """One payload being masked: `feed` its bytes, then `end` it. Holds a unit and what lies around it."""

    def __init__(self, mask: Mask, *, refuse: bool) -> None:
        """Begins a payload; with `refuse`, the first secret raises an error and nothing is masked."""
        self._mask = mask
        self._refuse = refuse
        self._held = bytearray()
        self._at = 0
        """Where what is held begins in the payload."""
        self._done = 0
        """Bytes of the payload that were given on, masked or not."""
        self._unit = 0
        self._lines = 1
        self._counts: Counter[str] = Counter()

    @property
    def masked(self) -> MaskedSecrets:
        """What was masked so far."""
        return MaskedSecrets.of(self._counts)

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; answers those that are ready to be stored, perhaps none.

        Raises:
            CoatcheckError: `secret_refused`, naming the rule and the place.
        """
        self._held += data
        out = bytearray()
        while self._at + len(self._held) >= (self._unit + 1) * UNIT + MARGIN:
            out += self._next(ends=False)
        return bytes(out)

    def end(self) -> bytes:
        """The last bytes.

        Raises:
            CoatcheckError: as `feed`.
        """
        out = bytearray()
        while self._done < self._at + len(self._held):
            out += self._next(ends=self._at + len(self._held) <= (self._unit + 1) * UNIT + MARGIN)
        return bytes(out)

    def _next(self, *, ends: bool) -> bytes:
        """The next unit, masked."""
        size = self._at + len(self._held)
        low, stop = max(0, self._unit * UNIT - MARGIN), min(size, (self._unit + 1) * UNIT)
        high = min(size, stop + MARGIN)
        data = bytes(self._held[low - self._at : high - self._at])
        found = self._mask.find(data, begins=low == 0, ends=ends)
        out = self._given(data, low, stop, found)
        self._unit += 1
        keep = min(size, max(self._at, self._unit * UNIT - MARGIN))
        del self._held[: keep - self._at]
        self._at = keep
        return out

    def _given(self, data: bytes, low: int, stop: int, found: list[SecretRange]) -> bytes:
        out: list[bytes] = []
        for each in found:
            start, end = max(each.start + low, self._done), each.end + low
            if end <= start or start >= stop:
                continue
            plain = data[self._done - low : start - low]
            self._lines += plain.count(b"\n")
            name = self._mask.names[each.rule]
            if self._refuse:
                raise refused(name, self._lines, start)
            out += [plain, marker(name).encode()]
            self._lines += data[start - low : end - low].count(b"\n")
            self._counts[name] += 1
            self._done = end
        if self._done < stop:
            plain = data[self._done - low : stop - low]
            self._lines += plain.count(b"\n")
            out.append(plain)
            self._done = stop
        return b"".join(out)


def refused(rule: str, line: int, byte: int) -> CoatcheckError:
    """The answer to a payload with a secret in it, where these are refused. It says the place, and nothing of it."""
    return CoatcheckError(
        Code.SECRET_REFUSED,
        f"The payload has a secret in it ({rule}, line {line}, byte {byte}), and the policy refuses to store any: "
        "nothing was stored. Take it out, then send the payload again.",
        rule=rule,
        line=line,
        byte=byte,
    )


def refused_name(rule: str, field: str) -> CoatcheckError:
    """The refusal of a payload with a secret in its metadata, naming the field."""
    return CoatcheckError(
        Code.SECRET_REFUSED,
        f"'{field}' has a secret in it ({rule}), and the policy refuses to store any: nothing was stored. Take it out.",
        rule=rule,
        field=field,
    )
