"""Check whether the service can serve: ask the catalogue, and tell those who have stopped asking it."""

from coatcheck.ports.catalog import Catalog
from coatcheck.runtime.circuit_breaker import CircuitBreaker


class CheckReadiness:
    """Checks whether the service can serve."""

    def __init__(self, catalog: Catalog, breaker: CircuitBreaker) -> None:
        """`breaker` is the catalogue's circuit breaker, which ingest uses."""
        self._catalog = catalog
        self._breaker = breaker

    async def __call__(self) -> None:
        """Returns if the catalogue answers. The next payload is then offered to it, whatever it said to the last one.

        Raises:
            CoatcheckError: what the catalogue says, `storage_unavailable`, `storage_full` or `schema_outdated`.
        """
        await self._catalog.ready()
        self._breaker.answers()
