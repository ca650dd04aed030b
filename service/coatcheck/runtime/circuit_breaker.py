"""A circuit breaker for a store: while the store does not respond, only one caller waits for it, not all of them.

After a fault, the breaker refuses calls at once, until a background probe finds that the store responds again. If there
is no probe, one caller may try the store every PATIENCE seconds.
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
"""Codes of the errors with which a store refuses a valid operation. Only STORAGE_UNAVAILABLE opens the breaker."""

PATIENCE = 30.0
"""Seconds after which one caller may try a silent store although no probe has succeeded. Calls to a store that is only
full are never refused."""


class CircuitBreaker:
    """The circuit breaker of one store. It logs when the store refuses payloads, and when it takes them again."""

    def __init__(self, name: StoreName, clock: Callable[[], float] = time.monotonic, meter: Meter = UNMETERED) -> None:
        """`clock` is monotonic, in seconds."""
        self.name: StoreName = name
        """Name of the store, for the log, the metrics and answers about its health."""
        self.full = False
        """Whether the store reported that it is full, and no call or probe has succeeded since."""
        self._meter = meter
        self._clock = clock
        self._reported = False
        self._fault: CoatcheckError | None = None
        self._since = 0.0

    @property
    def silent(self) -> bool:
        """Whether the breaker is open, because the store did not respond to the last call."""
        return self._fault is not None

    @contextmanager
    def guard_call(self) -> Generator[None]:
        """Wraps a call to the store, and notes whether the call fails.

        Raises:
            CoatcheckError: `storage_unavailable`, before the call is made, while the breaker is open.
        """
        fault = self._fault
        if fault is not None:
            if self._clock() - self._since < PATIENCE:
                raise CoatcheckError(fault.code, fault.detail)
            self._since = self._clock()  # only this caller tries the store; calls of all others are still refused
        try:
            yield
        except CoatcheckError as error:
            if error.code in FAULTS:
                self._meter.record_refusal(self.name, error.code)
            if error.code in REFUSALS:
                self._log_refusal(error)
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
        """Closes the breaker, because a probe found that the store responds and has room."""
        self._fault = None
        self.full = False

    def _log_refusal(self, error: CoatcheckError) -> None:
        if not self._reported:
            self._reported = True
            log.warning("the %s takes no payloads; the log will say when it does again: %s", self.name, error.detail)
