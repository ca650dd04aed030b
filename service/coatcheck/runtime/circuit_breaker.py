"""A circuit breaker for a store: only one caller waits for a silent store, not all of them.

After a fault, calls are refused at once until a background probe finds that the store responds again; without a probe,
one caller may try after a while.
"""

import logging
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.catalog import FAULTS
from coatcheck.ports.telemetry import Meter, StoreName
from coatcheck.runtime.noop_telemetry import UNMETERED

log = logging.getLogger(__name__)

REFUSALS = frozenset({Code.STORAGE_UNAVAILABLE, Code.STORAGE_FULL, Code.OVERLOADED})
"""Codes of a store that refuses a valid operation. Only the first one means that it is silent."""

PATIENCE = 30.0
"""Seconds after which a caller may try although no probe has succeeded. A full store is tried every time."""


class CircuitBreaker:
    """The circuit breaker of one store. Logs when it opens and when it closes."""

    def __init__(self, name: StoreName, clock: Callable[[], float] = time.monotonic, meter: Meter = UNMETERED) -> None:
        """`clock` is monotonic, in seconds."""
        self.name: StoreName = name
        """Name of the store in the log, the metrics and the answers about its health."""
        self.full = False
        """Whether the store had no room for what it was last offered."""
        self._meter = meter
        self._clock = clock
        self._reported = False
        self._fault: CoatcheckError | None = None
        self._since = 0.0

    @property
    def silent(self) -> bool:
        """Whether the breaker is open: the last call to the store failed."""
        return self._fault is not None

    @contextmanager
    def guard_call(self) -> Generator[None]:
        """Wraps a call to the store.

        Raises:
            CoatcheckError: `storage_unavailable`, without a call, while the store is silent.
        """
        fault = self._fault
        if fault is not None:
            if self._clock() - self._since < PATIENCE:
                raise CoatcheckError(fault.code, fault.detail)
            self._since = self._clock()  # the others wait for the result of this call
        try:
            yield
        except CoatcheckError as error:
            if error.code in FAULTS:
                self._meter.record_refusal(self.name, error.code)
            if error.code in REFUSALS:
                self._tell(error)
            if error.code is Code.STORAGE_UNAVAILABLE:
                self._fault, self._since = error, self._clock()
            self.full = self.full or error.code is Code.STORAGE_FULL
            raise
        self._fault = None
        self.full = False
        if self._reported:
            self._reported = False
            log.info("the %s takes payloads again", self.name)

    def answers(self) -> None:
        """Closes the breaker: a probe found that the store responds, and has room."""
        self._fault = None
        self.full = False

    def _tell(self, error: CoatcheckError) -> None:
        if not self._reported:
            self._reported = True
            log.warning("the %s takes no payloads; the log will say when it does again: %s", self.name, error.detail)
