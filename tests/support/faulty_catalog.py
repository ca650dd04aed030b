"""A SQLite catalogue that fails when a test says so."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from typing_extensions import override

from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.retention.audit import Hold
from coatcheck.ports.catalog import ArtifactFilter, ArtifactPage
from coatcheck.ports.decisions import CatalogChange


class FaultyCatalog(SqliteCatalog):
    """A catalogue that refuses changes, lists, holds and readiness while `fault` is set; single rows can be read."""

    fault: Exception | None = None
    hold_queries = 0
    """How often it was asked what holds artifacts."""

    def _refuse(self) -> None:
        if self.fault is not None:
            raise self.fault

    @override
    async def carry_out(self, change: CatalogChange[Any]) -> object:
        self._refuse()
        return await super().carry_out(change)

    @override
    async def list_artifacts(
        self, namespace: str, where: ArtifactFilter, now: datetime, *, before: int | None, limit: int
    ) -> ArtifactPage:
        self._refuse()
        return await super().list_artifacts(namespace, where, now, before=before, limit=limit)

    @override
    async def covering_holds(
        self, namespace: str, sessions: Mapping[int, str | None], now: datetime, /
    ) -> dict[int, list[Hold]]:
        self._refuse()
        self.hold_queries += 1
        return await super().covering_holds(namespace, sessions, now)

    @override
    async def check_reads(self) -> None:
        if self.fault is not None:
            raise CoatcheckError(Code.STORAGE_UNAVAILABLE, "The database does not answer. Retry the same call.")
        await super().check_reads()
