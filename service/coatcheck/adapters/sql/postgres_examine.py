"""What a PostgreSQL catalogue says of its own health. It changes nothing: others may be serving it.

Damage in the server's files is for the server's own tools (`pg_amcheck`, data checksums) to find.
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
        """Examine it; `deep` and `repair` make no difference.

        Raises:
            CoatcheckError: `storage_unavailable` when the database cannot be asked.
        """
        del deep, repair
        found = await self._catalog.ask(None, contradictions)
        return EngineReport(findings=tuple(found), notes=tuple(await self._catalog.warnings()))
