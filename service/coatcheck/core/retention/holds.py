"""Holds: which artifact, session or namespace must not be deleted, why, by whose order, until when.

Values and their IDs. The deleting statements enforce them.
"""

import re
from datetime import datetime

from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code

PREFIX = "hold_"
_SHAPE = re.compile(r"hold_[0-9a-f]{16}", re.ASCII)
MAX_REASON = 1000
"""Characters."""
NAMED = 10
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
    """IDs of the holds, in order, at most NAMED."""


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
