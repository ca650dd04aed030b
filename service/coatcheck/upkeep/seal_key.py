"""The key that seals positions before a caller sees them: one for all replicas, created when first needed."""

from collections.abc import Callable
from typing import Final

from coatcheck.ports.clock import Clock
from coatcheck.ports.maintenance import Upkeep
from coatcheck.upkeep.write_once import write_once

_NAME: Final = "cursors"
_LONGEST: Final = 64
"""Maximum bytes of a BLAKE2b key."""


class SealKey:
    """Provides the sealing key; reads it once and caches it."""

    def __init__(self, upkeep: Upkeep, clock: Clock, new_token: Callable[[], str]) -> None:
        """`new_token` returns an unguessable token of at most 64 ASCII characters."""
        self._upkeep = upkeep
        self._clock = clock
        self._new = new_token
        self._key: bytes | None = None

    async def __call__(self) -> bytes:
        """Returns the sealing key.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        if self._key is None:
            token = await self._upkeep.lease_holder(_NAME)
            if token is None:
                token = await write_once(self._upkeep, self._clock, _NAME, self._new())
            self._key = token.encode()[:_LONGEST]
        return self._key
