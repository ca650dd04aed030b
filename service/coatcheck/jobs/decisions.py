"""Applies decisions in the background: loads policies, compares clocks, empties namespaces, evicts when limits drop.

None of it is urgent for a single process: others do the same, and every step is harmless if two do it. A round that
fails is logged, and the next one starts as usual; a round in progress when the service stops is finished first.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from coatcheck.jobs.schedule import rounds
from coatcheck.ports.decisions import Decisions
from coatcheck.ports.telemetry import Meter
from coatcheck.storing.evict import Evict
from coatcheck.storing.policies import REFRESH_SECONDS, Policies
from coatcheck.upkeep.clock_jumps import CHECK_SECONDS, ClockJumpGuard
from coatcheck.usecases.tenants.empty_namespace import EmptyNamespace, EmptyRound

log = logging.getLogger(__name__)


@asynccontextmanager
async def deciding(
    policies: Policies,
    empty: EmptyNamespace,
    make_room: Evict,
    deletions: ClockJumpGuard,
    decisions: Decisions,
    pause: float,
    meter: Meter,
) -> AsyncGenerator[None]:
    """Carries out what policies and deletions of namespaces require every `pause` seconds.

    Loads new policies every two seconds, and every second learns whether anything may be deleted by time.
    """
    stop = asyncio.Event()

    async def carry_out_decisions() -> None:
        empty_round = await empty()
        if empty_round != EmptyRound():
            log.info("namespaces: %s", empty_round)
        await make_room.relieve_all(decisions)

    workers = [
        asyncio.create_task(
            rounds("learning policies", policies.refresh, REFRESH_SECONDS, stop, meter=meter), name="policies"
        ),
        asyncio.create_task(
            rounds("comparing clocks", deletions.check, CHECK_SECONDS, stop, meter=meter), name="clocks"
        ),
        asyncio.create_task(
            rounds("carrying out decisions", carry_out_decisions, pause, stop, meter=meter), name="decisions"
        ),
    ]
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait(workers)
