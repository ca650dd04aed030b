"""Retention for a face whose catalogue keeps neither plans nor an audit: whoever calls it finds that out."""

from datetime import timedelta
from typing import Any, cast

from coatcheck.ports.clock import Clock
from coatcheck.storing.content import OpenContent
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.upkeep.job_schedule import JobSchedule
from coatcheck.usecases.administer_retention import AdministerRetention
from coatcheck.usecases.plan_retention import PlanRetention
from coatcheck.usecases.run_retention import RunRetention
from coatcheck.usecases.undo_removal import UndoRemoval


def no_retention(clock: Clock, deps: IngestDeps, content: OpenContent) -> AdministerRetention:
    """The real use cases over nothing."""
    nothing = cast("Any", None)
    minute = timedelta(minutes=1)
    planning = PlanRetention(nothing, clock, str, grace=minute, settled=nothing)
    return AdministerRetention(
        retention=nothing,
        accounts=nothing,
        clock=clock,
        planning=planning,
        running=RunRetention(nothing, clock, planning, str, me="nobody", tombstone_life=minute),
        undoing=UndoRemoval(nothing, deps, content, grace=minute),
        job_schedule=JobSchedule(nothing, clock, default=60),
    )
