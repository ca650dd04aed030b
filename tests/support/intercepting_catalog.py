"""A catalogue before whose commits of an artifact something happens."""

from collections.abc import Awaitable, Callable
from typing import Any

from coatcheck.ports.artifacts import StoreArtifact
from coatcheck.ports.decisions import CatalogChange


class InterceptingCatalog:
    """Passes everything on to a real catalogue; `before` is awaited first where an artifact is to be stored."""

    def __init__(self, catalog: object, before: Callable[[], Awaitable[object]]) -> None:
        self._catalog: Any = catalog
        self.before = before

    async def commit(self, change: CatalogChange[Any]) -> Any:  # noqa: ANN401 - the change's own answer
        if isinstance(change, StoreArtifact):
            await self.before()
        return await self._catalog.commit(change)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else a catalogue does
        return getattr(self._catalog, name)
