"""Examines the health of a PostgreSQL catalogue. It changes nothing, as others may be serving it.

Damage in the server's files is found by the server's own tools (`pg_amcheck`, data checksums).
"""

from datetime import datetime

from coatcheck.adapters.sql.contradictions import contradictions
from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.core.findings import EngineReport


class PostgresExamination:
    """Examines one database."""

    def __init__(self, catalog: PostgresCatalog) -> None:
        self._catalog = catalog

    async def __call__(self, *, deep: bool, repair: datetime | None) -> EngineReport:
        """Examines it; `deep` and `repair` make no difference.

        Raises:
            CoatcheckError: `storage_unavailable` if the database cannot be queried.
        """
        del deep, repair
        findings = await self._catalog.ask(None, contradictions)
        return EngineReport(findings=tuple(findings), notes=tuple(await self._catalog.warnings()))
