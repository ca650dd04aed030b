"""A key that positions are sealed with, where there is no catalogue that keeps one."""

from typing import cast

from coatcheck.ports.clock import Clock
from coatcheck.ports.maintenance import TakeLease, Upkeep
from coatcheck.upkeep.seal_key import SealKey


class _Leases:
    def __init__(self) -> None:
        self._holders: dict[str, str] = {}

    async def lease_holder(self, name: str) -> str | None:
        return self._holders.get(name)

    async def commit(self, change: TakeLease) -> bool:
        return self._holders.setdefault(change.name, change.holder) == change.holder


def seal_key(clock: Clock, key: str = "a key for tests") -> SealKey:
    """The key, by its word."""
    return SealKey(cast("Upkeep", _Leases()), clock, lambda: key)
