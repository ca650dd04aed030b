"""Whether a store answered when it was last asked, so that not every caller waits for the same silence.

After a fault, calls are refused at once for a moment; then one of them may try again. Decides nothing else.
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, timedelta

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports import Clock

REFUSALS = frozenset({Code.STORAGE_UNAVAILABLE, Code.STORAGE_FULL})
"""What a store says when it does not take something that is right in itself."""

PAUSE = timedelta(seconds=2)
"""How long a store that was silent is left alone. One that is full answers at once, and is asked each time."""


log = logging.getLogger(__name__)


class Outage:
    """One store's. Says in the log when it begins and when it ends."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._told = False
        self._fault: CoatcheckError | None = None
        self._until: datetime | None = None

    @contextmanager
    def watched(self) -> Generator[None]:
        """Around a call to the store.

        Raises:
            CoatcheckError: `storage_unavailable` without calling, for a moment after the store did not answer.
        """
        now = self._clock.now()
        if self._fault is not None and self._until is not None and now < self._until:
            raise CoatcheckError(self._fault.code, self._fault.detail)
        if self._until is not None:
            self._until = now + PAUSE  # the others wait for what this call finds
        try:
            yield
        except CoatcheckError as error:
            if error.code in REFUSALS:
                self._tell(error)
            if error.code is Code.STORAGE_UNAVAILABLE:
                self._fault, self._until = error, self._clock.now() + PAUSE
            raise
        self._fault = self._until = None
        if self._told:
            self._told = False
            log.info("the %s takes payloads again", self._name)

    def _tell(self, error: CoatcheckError) -> None:
        if not self._told:
            self._told = True
            log.warning("the %s takes no payloads until it says so here: %s", self._name, error.detail)
