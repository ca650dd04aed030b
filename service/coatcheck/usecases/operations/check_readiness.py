"""Whether the service can serve: asked of the catalogue, and told to all who would otherwise not ask it."""

from coatcheck.ports.catalog import Catalog
from coatcheck.runtime.circuit_breaker import CircuitBreaker


class CheckReadiness:
    """Checks whether the service can serve."""

    def __init__(self, catalog: Catalog, breaker: CircuitBreaker) -> None:
        """`breaker` is the circuit breaker of the catalogue that ingest uses."""
        self._catalog = catalog
        self._breaker = breaker

    async def __call__(self) -> None:
        """Return if the catalogue answers: then the next payload is offered to it, whatever it said to the last one.

        Raises:
            CoatcheckError: what the catalogue says, `storage_unavailable`, `storage_full` or `schema_outdated`.
        """
        await self._catalog.ready()
        self._breaker.answers()
