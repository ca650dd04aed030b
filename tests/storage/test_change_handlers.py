"""Every change that a port names is carried out by some function."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

from coatcheck import ports
from coatcheck.adapters.sql.change_group import HANDLERS
from coatcheck.ports.artifacts import StoreArtifact
from coatcheck.ports.decisions import ArtifactChange, BatchChange, CatalogChange, NamespaceBatchChange, NamespaceChange


def kinds(of: type[CatalogChange[Any]]) -> Iterator[type[CatalogChange[Any]]]:
    for kind in of.__subclasses__():
        yield kind
        yield from kinds(kind)


def test_every_change_of_the_ports_has_a_handler() -> None:
    for module in pkgutil.iter_modules(ports.__path__):
        importlib.import_module(f"{ports.__name__}.{module.name}")
    changes = {kind for kind in kinds(CatalogChange) if kind.__module__.startswith(f"{ports.__name__}.")}
    # Ingests are carried out together, by `apply_stores`.
    bases = {NamespaceChange, ArtifactChange, BatchChange, NamespaceBatchChange}
    assert changes - bases - {StoreArtifact} == set(HANDLERS)
