"""The opened adapters of a store, whichever they are."""

from dataclasses import dataclass, field
from typing import Protocol

from coatcheck.ports import BlobStore, Catalog, Clock, TextIndex, Upkeep
from coatcheck.usecases.audit import Examination


class Rows(Catalog, Upkeep, TextIndex, Protocol):
    """A catalogue with its upkeep and its full-text index: one database."""


@dataclass(frozen=True)
class Engines:
    """What a store is made of."""

    catalog: Rows
    blobs: BlobStore
    clock: Clock
    examinations: tuple[Examination, ...] = ()
    """What knows of the engines' own health; for checks."""
    warnings: list[str] = field(default_factory=list[str])
    """Sentences for whoever starts the service: what is not wrong but should be known."""
