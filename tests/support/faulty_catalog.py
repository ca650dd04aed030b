"""A SQLite catalogue that fails when a test says so."""

from datetime import datetime
from typing import Any

from typing_extensions import override

from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.catalog import ArtifactFilter, ArtifactPage
from coatcheck.ports.change import CatalogChange


class FaultyCatalog(SqliteCatalog):
    """A catalogue that refuses changes, lists and readiness while `fault` is set; single rows can still be read."""

    fault: Exception | None = None

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
    async def check_reads(self) -> None:
        if self.fault is not None:
            raise CoatcheckError(Code.STORAGE_UNAVAILABLE, "The database does not answer. Retry the same call.")
        await super().check_reads()
