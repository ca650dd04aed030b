"""The opened adapters of a store of either kind."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from coatcheck.ports.blobs import BlobStore
from coatcheck.ports.catalog import Catalog
from coatcheck.ports.clock import Clock
from coatcheck.ports.decisions import Decisions
from coatcheck.ports.keys import Keys
from coatcheck.ports.maintenance import Upkeep
from coatcheck.ports.overview import Overview
from coatcheck.ports.retention import Retention
from coatcheck.ports.session_accounts import SessionAccounts
from coatcheck.ports.telemetry import Accounts
from coatcheck.ports.text_index import TextIndex
from coatcheck.usecases.operations.verify_store import Examination


class Rows(Catalog, Upkeep, Retention, TextIndex, Keys, Accounts, SessionAccounts, Decisions, Overview, Protocol):
    """A catalogue with its upkeep, full-text index, keys and accounts: one database."""

    def gather_commits(self, approaching: Callable[[], int]) -> None:
        """Sets what returns how many changes are on their way, for which a group may wait briefly."""
        ...

    def watch_commits(self, watch: Callable[[int, float, float], None]) -> None:
        """Registers a callback for every group of changes: their number, how long the first waited, the duration."""
        ...


@dataclass(frozen=True)
class Engines:
    """The parts of a store."""

    catalog: Rows
    blobs: BlobStore
    clock: Clock
    examinations: tuple[Examination, ...] = ()
    """Examinations of the engines' own health, for checks."""
    warnings: list[str] = field(default_factory=list[str])
    """Sentences for whoever starts the service: not faults, but worth knowing."""
    damage: Callable[[], str | None] = lambda: None
    """Returns what is known of damage that leaves the catalogue readable at best; None while nothing is."""
