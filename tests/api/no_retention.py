"""Retention for a face whose catalogue keeps neither plans nor an audit: whoever calls it finds that out."""

from datetime import timedelta
from typing import Any, cast

from coatcheck.ports.clock import Clock
from coatcheck.usecases.administer_retention import AdministerRetention
from coatcheck.usecases.agenda import Agenda
from coatcheck.usecases.content import OpenContent
from coatcheck.usecases.ingest_places import IngestPlaces
from coatcheck.usecases.plan_retention import PlanRetention
from coatcheck.usecases.run_retention import RunRetention
from coatcheck.usecases.trail import Trail
from coatcheck.usecases.undo_removal import UndoRemoval


def no_retention(clock: Clock, places: IngestPlaces, content: OpenContent) -> AdministerRetention:
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
        undoing=UndoRemoval(nothing, places, content, grace=minute),
        trail=Trail(nothing),
        agenda=Agenda(nothing, clock, default=60),
    )
