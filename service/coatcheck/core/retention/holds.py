"""What a hold is: an artifact, a session or a namespace that nobody may delete, why, by whose word, until when.

Values and their IDs. That a hold is kept is the business of the statements that delete.
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
"""Holds that a refusal names; there may be more."""


class Hold(Struct, frozen=True, kw_only=True):
    """A hold. It forbids to delete what it covers now and what comes to be covered later."""

    id: str
    namespace: str
    session: str | None = None
    """Covers a session; with neither this nor a number it covers the namespace."""
    number: int | None = None
    """Covers one artifact."""
    reason: str
    made_by: str
    at: datetime
    until: datetime | None = None
    """From when on it holds no more; None: until it is released."""


class HoldConflict(Struct, frozen=True):
    """The answer of a delete that a hold forbids."""

    holds: tuple[str, ...]
    """IDs of the holds, at most NAMED, in their order."""


def hold_id(random: bytes) -> str:
    """The ID of a new hold from eight random bytes."""
    return PREFIX + random.hex()


def is_hold_id(text: str) -> bool:
    """Whether a text can be the ID of a hold."""
    return _SHAPE.fullmatch(text) is not None


def check_hold_id(text: str) -> str:
    """A hold's ID as it was given.

    Raises:
        CoatcheckError: `invalid_request` for what cannot be one.
    """
    if is_hold_id(text):
        return text
    raise CoatcheckError(
        Code.INVALID_REQUEST,
        "A hold's ID is hold_ and 16 hexadecimal digits, as `coatcheck hold list` prints it.",
        field="hold",
    )


def held(holds: HoldConflict, *, deleted: int | None = None) -> CoatcheckError:
    """The refusal of a delete. `deleted`: artifacts that no hold covers and that are gone."""
    names = ", ".join(holds.holds)
    gone = "" if not deleted else f" {deleted:,} artifacts that are not held were deleted."
    release = "these holds" if len(holds.holds) > 1 else "the hold"
    return CoatcheckError(
        Code.HELD,
        f"Held by {names}: what it covers was not deleted.{gone} An administrator may release {release}.",
        holds=names,
        **({} if not deleted else {"deleted": deleted}),
    )
