"""Holds, which forbid deletion, and the lines of the audit log: who did what, when and why.

A hold covers an artifact, a session or a namespace; the SQL statements that delete enforce it. Lines are added, never
changed, and pruned by age. They are no proof, since anyone who can write to the database can change them; see
docs/decisions/0031.
"""

import re
import struct
from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code

Detail: TypeAlias = str | int | float | bool | None
"""A value in a line's details."""


class By(Struct, frozen=True):
    """The author of an action."""

    actor: str = "local"
    """Name of a caller, or `schedule` for the service itself."""
    key_id: str | None = None
    """ID of the key with which the caller authenticated; None without a key."""
    run_id: str | None = None
    """ID of the run that the action is part of; None if it is part of none."""

    @classmethod
    def of(cls, caller: Caller) -> "By":
        """Returns the author for a caller."""
        return cls(caller.name, caller.key_id)


SCHEDULE = By("schedule")
"""The service itself as the author of an action."""


class AuditLine(Struct, frozen=True, kw_only=True):
    """A line of the audit log. Names and texts contain no NUL."""

    seq: int = 0
    """Number of the line. Numbers increase from line to line, with gaps; 0 for a line that is not stored yet."""
    at: datetime
    action: str
    """Name of the action: a noun, a dot and a participle, as in `artifact.removed`, `artifact.restored`,
    `key.created`."""
    by: By
    namespace: str | None = None
    """The namespace that the action concerns; None: the whole store."""
    reason: str = ""
    """The reason of the action: that of the tombstone, or an administrator's words."""
    size: int = 0
    """Bytes of content of the artifacts that the action concerns."""
    numbers: tuple[int, ...] = ()
    """Numbers of all artifacts that the action concerns."""
    details: dict[str, Detail] = field(default_factory=dict)
    """Further facts, such as a policy's scope or a hold's reason."""


def pack_numbers(numbers: Sequence[int]) -> bytes:
    """Returns artifact numbers in their stored form: eight bytes each, big-endian."""
    return struct.pack(f">{len(numbers)}q", *numbers)


def unpack_numbers(blob: bytes) -> tuple[int, ...]:
    """Returns artifact numbers from their stored form."""
    return struct.unpack(f">{len(blob) // 8}q", blob)


def merge_lines(lines: Sequence[AuditLine]) -> list[AuditLine]:
    """Merges those lines of one transaction that are equal except for their artifacts, sizes and times."""
    together: dict[tuple[object, ...], list[AuditLine]] = {}
    for at, line in enumerate(lines):
        # Lines that concern no artifact are not merged, since all they say is in their details.
        alone = () if line.numbers else (at,)
        details = tuple(sorted((name, repr(value)) for name, value in line.details.items()))
        key = (line.action, line.by, line.namespace, line.reason, details, *alone)
        together.setdefault(key, []).append(line)
    return [group[0] if len(group) == 1 else _join_lines(group) for group in together.values()]


def _join_lines(lines: list[AuditLine]) -> AuditLine:
    return replace(
        lines[0],
        at=max(line.at for line in lines),
        size=sum(line.size for line in lines),
        numbers=tuple(number for line in lines for number in line.numbers),
    )


PREFIX = "hold_"
_SHAPE = re.compile(r"hold_[0-9a-f]{16}", re.ASCII)
MAX_REASON_CHARS = 1000
"""Maximum characters of a reason."""
MAX_NAMED_HOLDS = 10
"""Maximum holds that a refusal names."""


class Hold(Struct, frozen=True, kw_only=True):
    """A hold, which forbids deleting the artifacts that it covers now or will cover later."""

    id: str
    namespace: str
    session: str | None = None
    """The session that the hold covers; without a session and a `number`, it covers the whole namespace."""
    number: int | None = None
    """Number of the one artifact that the hold covers."""
    reason: str
    made_by: str
    at: datetime
    until: datetime | None = None
    """Time at which the hold ends; None: it ends when it is released."""


class HoldConflict(Struct, frozen=True):
    """The result of a deletion that holds forbid."""

    holds: tuple[str, ...]
    """IDs of the holds, in order, at most MAX_NAMED_HOLDS."""


def hold_id(random: bytes) -> str:
    """Returns the ID of a new hold from eight random bytes."""
    return PREFIX + random.hex()


def is_hold_id(text: str) -> bool:
    """Returns whether a text can be the ID of a hold."""
    return _SHAPE.fullmatch(text) is not None


def check_hold_id(text: str) -> str:
    """Returns a hold's ID unchanged after checking its form.

    Raises:
        CoatcheckError: `invalid_request` if the text cannot be the ID of a hold.
    """
    if is_hold_id(text):
        return text
    raise CoatcheckError(
        Code.INVALID_REQUEST,
        "A hold's ID is hold_ and 16 hexadecimal digits, as `coatcheck hold list` prints it.",
        field="hold",
    )


def refusal_of_delete(holds: HoldConflict, *, deleted: int | None = None) -> CoatcheckError:
    """Returns the error for a deletion that holds forbid; `deleted` is the number of artifacts deleted all the same."""
    names = ", ".join(holds.holds)
    note = "" if not deleted else f" {deleted:,} artifacts that are not held were deleted."
    release = "these holds" if len(holds.holds) > 1 else "the hold"
    return CoatcheckError(
        Code.HELD,
        f"Held by {names}: what it covers was not deleted.{note} An administrator may release {release}.",
        holds=names,
        **({} if not deleted else {"deleted": deleted}),
    )
