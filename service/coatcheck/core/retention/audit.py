"""Holds, which forbid deleting, and the audit log's lines: who did what, when and why.

A hold covers an artifact, a session or a namespace; the deleting statements enforce it. Lines are only added, and
pruned by age. They are no proof: whoever can write to the database can change them; see docs/decisions/0031.
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
    """Who does something."""

    actor: str = "local"
    """A caller's name, or `schedule`."""
    key_id: str | None = None
    """The key that the caller came with."""
    run_id: str | None = None
    """The run that it belongs to."""

    @classmethod
    def of(cls, caller: Caller) -> "By":
        """Returns the actor for a caller."""
        return cls(caller.name, caller.key_id)


SCHEDULE = By("schedule")
"""The service itself."""


class AuditLine(Struct, frozen=True, kw_only=True):
    """Something that was done. Names and texts are without NUL."""

    seq: int = 0
    """Its number, which increases from line to line, with gaps; 0 before it is stored."""
    at: datetime
    action: str
    """What was done: `artifact.removed`, `artifact.restored`, `key.created`; a noun, a dot, a participle."""
    by: By
    namespace: str | None = None
    """The namespace concerned; None: the whole store."""
    reason: str = ""
    """The reason, as in the tombstone, or in an administrator's words."""
    size: int = 0
    """Bytes of content of the artifacts concerned."""
    numbers: tuple[int, ...] = ()
    """All artifacts concerned."""
    details: dict[str, Detail] = field(default_factory=dict)
    """Further facts: the policy's scope, the hold's reason."""


def pack_numbers(numbers: Sequence[int]) -> bytes:
    """Returns artifacts' numbers as they are stored: eight bytes each, big-endian."""
    return struct.pack(f">{len(numbers)}q", *numbers)


def unpack_numbers(blob: bytes) -> tuple[int, ...]:
    """Returns artifacts' numbers from their stored form."""
    return struct.unpack(f">{len(blob) // 8}q", blob)


def merge_lines(lines: Sequence[AuditLine]) -> list[AuditLine]:
    """Merges lines of one transaction about artifacts removed for the same reason by the same actor."""
    together: dict[tuple[object, ...], list[AuditLine]] = {}
    for at, line in enumerate(lines):
        # Lines about no artifact stay apart: their details are all they say.
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
    """A hold. It forbids deleting what it covers now and what it will cover later."""

    id: str
    namespace: str
    session: str | None = None
    """Covers a session; with neither this nor `number`, the namespace is covered."""
    number: int | None = None
    """Covers one artifact."""
    reason: str
    made_by: str
    at: datetime
    until: datetime | None = None
    """When it ends; None: on release."""


class HoldConflict(Struct, frozen=True):
    """The answer to a delete that a hold forbids."""

    holds: tuple[str, ...]
    """IDs of the holds, in order, at most MAX_NAMED_HOLDS."""


def hold_id(random: bytes) -> str:
    """Returns the ID of a new hold from eight random bytes."""
    return PREFIX + random.hex()


def is_hold_id(text: str) -> bool:
    """Returns whether a text can be the ID of a hold."""
    return _SHAPE.fullmatch(text) is not None


def check_hold_id(text: str) -> str:
    """Returns a hold's ID unchanged.

    Raises:
        CoatcheckError: `invalid_request` if it cannot be one.
    """
    if is_hold_id(text):
        return text
    raise CoatcheckError(
        Code.INVALID_REQUEST,
        "A hold's ID is hold_ and 16 hexadecimal digits, as `coatcheck hold list` prints it.",
        field="hold",
    )


def refusal_of_delete(holds: HoldConflict, *, deleted: int | None = None) -> CoatcheckError:
    """Returns the refusal of a delete. `deleted`: number of artifacts without holds that were deleted."""
    names = ", ".join(holds.holds)
    note = "" if not deleted else f" {deleted:,} artifacts that are not held were deleted."
    release = "these holds" if len(holds.holds) > 1 else "the hold"
    return CoatcheckError(
        Code.HELD,
        f"Held by {names}: what it covers was not deleted.{note} An administrator may release {release}.",
        holds=names,
        **({} if not deleted else {"deleted": deleted}),
    )
