"""What a store can be asked about its health, and what a component reports that keeps the service from being ready."""

from typing import Final, Literal, Protocol

from msgspec import Struct

from coatcheck.core.errors import Code

Health = Literal["ready", "degraded", "away"]
"""`degraded`: it does part of its work, for example reads but no writes; `away`: it does none of it."""


FAULTS: Final = frozenset({Code.STORAGE_UNAVAILABLE, Code.STORAGE_FULL, Code.OVERLOADED, Code.INTEGRITY})
"""Codes of a store that fails to serve a call."""


class HealthReason(Struct, frozen=True, kw_only=True):
    """Why the service is not ready: which component, and what is wrong with it."""

    component: str
    """Such as `catalogue` or `blob store`."""
    health: Health
    code: Code
    detail: str
    """A sentence or two that a stranger may read."""


class CheckedStore(Protocol):
    """A store whose health can be checked. Each check is a cheap real call that needs what serving needs."""

    async def check_reads(self) -> None:
        """Returns if the store can be read.

        Raises:
            CoatcheckError: why it cannot be, in a sentence for an operator.
        """
        ...

    async def check_writes(self, *, room: bool = False) -> None:
        """Returns if the store accepts a small write, which changes nothing.

        Args:
            room: whether there must be room for as much as a small payload takes, because storage was full before.

        Raises:
            CoatcheckError: why it does not, in a sentence for an operator.
        """
        ...
