"""What administrators have decided, kept up with: policies learned, namespaces emptied, room made where limits sank.

None of it is urgent for one process alone: others do the same, and every step is harmless when two do it. A round that
fails is logged and the next one comes all the same; one that is under way when the service stops is finished first.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from coatcheck.jobs.schedule import rounds
from coatcheck.ports.decisions import Decisions
from coatcheck.storing.evict import Evict
from coatcheck.storing.policies import REFRESH_SECONDS, Policies
from coatcheck.usecases.tenants.empty_namespace import EmptyNamespace, EmptyRound

log = logging.getLogger(__name__)


@asynccontextmanager
async def deciding(
    policies: Policies, empty: EmptyNamespace, make_room: Evict, decisions: Decisions, pause: float
) -> AsyncGenerator[None]:
    """Learn of new policies every two seconds; every `pause` seconds go on with what they and deletions ask for."""
    stop = asyncio.Event()

    async def carried_out() -> None:
        done = await empty()
        if done != EmptyRound():
            log.info("namespaces: %s", done)
        await make_room.relieve_all(decisions)

    workers = [
        asyncio.create_task(rounds("learning policies", policies.refresh, REFRESH_SECONDS, stop), name="policies"),
        asyncio.create_task(rounds("carrying out decisions", carried_out, pause, stop), name="decisions"),
    ]
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait(workers)
