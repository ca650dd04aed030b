"""Words that a catalogue keeps permanently, the same for all replicas: the first writer of a name decides.

Each is a lease without an end. Crash story: taking it is one conditional statement, harmless to repeat.
"""

from typing import Final

from coatcheck.ports.clock import Clock
from coatcheck.ports.maintenance import TakeLease, Upkeep

_FOREVER: Final = 100 * 365 * 86400.0


async def write_once(upkeep: Upkeep, clock: Clock, name: str, word: str) -> str:
    """Returns the word that is kept under a name: `word`, unless another was kept before.

    Raises:
        CoatcheckError: `storage_unavailable`.
    """
    await upkeep.commit(TakeLease(name=name, holder=word, seconds=_FOREVER, now=clock.now()))
    return await upkeep.lease_holder(name) or word
