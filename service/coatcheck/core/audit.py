"""The audit's chain of hashes: how a line is sealed, and what a chain that was tampered with looks like.

Each line's hash covers every stored field and the hash of the line before, so that a changed, removed, inserted or
reordered line shows. It knows no database, and it does not stop who can write to one: whoever may change every row can
also write a new chain from any line on, with a head that fits. Only a head that was kept elsewhere shows that.
"""

import hashlib
import json
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from coatcheck.core.errors import CoatcheckError, Code

GENESIS = bytes(32)
"""What stands as the hash before the first line."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGEST_HEX = 64

Detail: TypeAlias = str | int | float | bool | None
"""What a line may say in its own words' place."""


class By(Struct, frozen=True):
    """By whose hand something is done."""

    actor: str = "local"
    key_id: str | None = None
    run_id: str | None = None
    """The run that it is part of."""


SCHEDULE = By("schedule")
"""The service itself."""


class AuditLine(Struct, frozen=True, kw_only=True):
    """Something that was done, as whoever does it hands it over. Names and texts are without NUL."""

    at: datetime
    action: str
    """What was done: `artifact.removed`, `artifact.restored`, `key.created`; a noun, a dot, a participle."""
    actor: str
    """Who did it: a caller's name, or `schedule`."""
    key_id: str | None = None
    """The key that the caller came with."""
    namespace: str | None = None
    """Whose it was; None: about the whole store."""
    reason: str = ""
    """Why, as the tombstone has it, or in an administrator's words."""
    run_id: str | None = None
    size: int = 0
    """Bytes of content of the artifacts that it is about."""
    numbers: tuple[int, ...] = ()
    """All artifacts that it is about."""
    details: dict[str, Detail] = field(default_factory=dict)
    """What else there is to say: the policy's scope, the hold's reason."""


class SealedAuditLine(Struct, frozen=True, kw_only=True):
    """A line as it is stored: sealed."""

    seq: int
    """Its place, from 1 on without a gap."""
    at: datetime
    action: str
    actor: str
    key_id: str | None
    namespace: str | None
    reason: str
    run_id: str | None
    artifacts: int
    size: int
    numbers: bytes
    """Eight bytes each, the highest first; see `unpack_numbers`."""
    details: str
    """JSON: an object with its keys in order."""
    previous: bytes
    """The hash of the line before; of the first: 32 zero bytes."""
    digest: bytes
    """SHA-256 over all of the above; see `seal`."""


class Head(Struct, frozen=True):
    """Where a chain ends."""

    seq: int = 0
    digest: bytes = GENESIS

    def __str__(self) -> str:
        """As it is exported: the number of the last line, a colon, its hash in hexadecimal."""
        return f"{self.seq}:{self.digest.hex()}"

    @classmethod
    def parse(cls, text: str) -> "Head":
        """Read an exported head.

        Raises:
            CoatcheckError: `invalid_request`.
        """
        number, colon, digest = text.strip().partition(":")
        try:
            head = cls(int(number), bytes.fromhex(digest))
        except ValueError:
            colon = ""
            head = cls()
        if not colon or head.seq < 0 or len(digest) != _DIGEST_HEX:
            raise CoatcheckError(
                Code.INVALID_REQUEST,
                "A head is the number of a line, a colon and its hash of 64 hexadecimal digits, as "
                "`coatcheck audit head` prints it.",
            )
        return head


def seal(head: Head, line: AuditLine) -> SealedAuditLine:
    """The entry that follows a head."""
    unsealed = SealedAuditLine(
        seq=head.seq + 1,
        at=line.at,
        action=line.action,
        actor=line.actor,
        key_id=line.key_id,
        namespace=line.namespace,
        reason=line.reason,
        run_id=line.run_id,
        artifacts=len(line.numbers),
        size=line.size,
        numbers=pack_numbers(line.numbers),
        details=json.dumps(line.details, sort_keys=True, separators=(",", ":")),
        previous=head.digest,
        digest=b"",
    )
    return replace(unsealed, digest=digest_of(unsealed))


def head_of(entry: SealedAuditLine) -> Head:
    """The head of a chain that ends with this entry."""
    return Head(entry.seq, entry.digest)


def digest_of(entry: SealedAuditLine) -> bytes:
    """SHA-256 over a JSON array in ASCII without spaces.

    In this order: "coatcheck audit 1", seq, microseconds since 1970, action, actor, key ID, namespace, reason, run ID,
    artifacts, bytes, the artifacts' numbers in hexadecimal (16 digits each), details as text, the previous hash in
    hexadecimal. What is absent is null.
    """
    fields = [
        "coatcheck audit 1",
        entry.seq,
        (entry.at - _EPOCH) // timedelta(microseconds=1),
        entry.action,
        entry.actor,
        entry.key_id,
        entry.namespace,
        entry.reason,
        entry.run_id,
        entry.artifacts,
        entry.size,
        entry.numbers.hex(),
        entry.details,
        entry.previous.hex(),
    ]
    return hashlib.sha256(json.dumps(fields, separators=(",", ":")).encode()).digest()


def pack_numbers(numbers: Sequence[int]) -> bytes:
    """Artifacts' numbers as they are stored."""
    return struct.pack(f">{len(numbers)}q", *numbers)


def unpack_numbers(packed: bytes) -> tuple[int, ...]:
    """The contrary. What is no multiple of eight bytes was tampered with: its rest is left out."""
    whole = len(packed) // 8
    return struct.unpack(f">{whole}q", packed[: whole * 8])


def merged(lines: Sequence[AuditLine]) -> list[AuditLine]:
    """Lines of one transaction, with one for all artifacts that went for the same reason by the same hand."""
    together: dict[tuple[object, ...], list[AuditLine]] = {}
    for at, line in enumerate(lines):
        alone = () if line.numbers else (at,)
        details = tuple(sorted((name, repr(value)) for name, value in line.details.items()))
        key = (line.action, line.actor, line.key_id, line.namespace, line.reason, line.run_id, details, *alone)
        together.setdefault(key, []).append(line)
    return [group[0] if len(group) == 1 else _joined(group) for group in together.values()]


def _joined(lines: list[AuditLine]) -> AuditLine:
    first = lines[0]
    return AuditLine(
        at=max(line.at for line in lines),
        action=first.action,
        actor=first.actor,
        key_id=first.key_id,
        namespace=first.namespace,
        reason=first.reason,
        run_id=first.run_id,
        size=sum(line.size for line in lines),
        numbers=tuple(number for line in lines for number in line.numbers),
        details=first.details,
    )


class Breach(Struct, frozen=True):
    """Where a chain stops being what was written."""

    seq: int
    """The first line that is wrong, or missing."""
    what: str
    """`changed`, `missing`, `inserted`, `unlinked`, `truncated`, `head` or `not_kept`."""
    detail: str


class Chain:
    """Verifies a chain line by line, in the order of their numbers, from the first on."""

    def __init__(self, kept: Head | None = None) -> None:
        """Begin. `kept` is a head that was exported before: the line of its number must have its hash."""
        self.head = Head()
        self._kept = kept

    def follow(self, entry: SealedAuditLine) -> Breach | None:
        """Look at the next line; None when it follows the one before."""
        expected = self.head.seq + 1
        if entry.seq > expected:
            gone = f"line {expected}" if entry.seq == expected + 1 else f"lines {expected} to {entry.seq - 1}"
            return Breach(expected, "missing", f"{gone} removed: line {self.head.seq} is followed by {entry.seq}")
        if entry.seq < expected:
            return Breach(entry.seq, "inserted", f"a line with the number {entry.seq} is there twice or out of order")
        if digest_of(entry) != entry.digest or entry.artifacts * 8 != len(entry.numbers):
            return Breach(entry.seq, "changed", f"line {entry.seq} is not what was written: its hash does not fit")
        if entry.previous != self.head.digest:
            return Breach(
                entry.seq,
                "unlinked",
                f"line {entry.seq} does not follow the line before it: one of the two was replaced",
            )
        self.head = head_of(entry)
        if self._kept is not None and self._kept.seq == entry.seq and self._kept.digest != entry.digest:
            return Breach(
                entry.seq, "not_kept", f"line {entry.seq} is not the one whose hash was kept: the chain was rewritten"
            )
        return None

    def end(self, stored: Head | None) -> Breach | None:
        """Compare the end with the head that is stored beside the lines, and with the one that was kept elsewhere."""
        if self._kept is not None and self._kept.seq > self.head.seq:
            return Breach(
                self.head.seq + 1,
                "truncated",
                f"line {self._kept.seq} was kept as a head, and the audit ends with line {self.head.seq}",
            )
        if stored is None:
            return None if not self.head.seq else Breach(self.head.seq, "head", "the head row was removed")
        if stored.seq > self.head.seq:
            return Breach(
                self.head.seq + 1,
                "truncated",
                f"the head says that there are {stored.seq} lines, and the audit ends with line {self.head.seq}",
            )
        if stored != self.head:
            return Breach(self.head.seq, "head", f"the head row does not fit the last line, {self.head.seq}")
        return None
