"""Checks that bytes belong to a database, with unique names."""

import uuid

from coatcheck.bootstrap.engines import Rows
from coatcheck.ports.clock import Clock
from coatcheck.upkeep.store_binding import StoreBinding


def belonging(rows: Rows, clock: Clock, *, looking: bool) -> StoreBinding:
    """Returns the check that a catalogue and its blobs belong together; with `looking`, it writes nothing."""
    return StoreBinding(rows, clock, lambda: str(uuid.uuid4()), looking=looking)
