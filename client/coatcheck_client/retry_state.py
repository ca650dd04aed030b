"""How a request continues after a failed attempt, and whether the next one is sent at all. Independent of sockets."""

import time
from collections.abc import Callable
from typing import Final

from coatcheck_client.answers import worth_repeating
from coatcheck_client.errors import UNREACHABLE, ServiceError
from coatcheck_client.retry import AGAIN, Retries, delay

SINGLE_ATTEMPT_SECONDS: Final = 30.0
"""Seconds for which a service that failed gets only one attempt per request; also the first rest for a silent one."""
LONGEST_REST: Final = 300.0
SLOW_SECONDS: Final = 1.0
"""An attempt that failed sooner, like a refused connection, costs a caller too little to avoid it; a shorter deadline
replaces it."""
PROBE_SECONDS: Final = 1.0


class CircuitBreaker:
    """The state of the service, by the last requests.

    After a request that waited in vain, none is sent for a while, so a silent service costs an agent only one wait.
    Then one request briefly checks the service's health; while that fails, each rest is twice as long, up to
    LONGEST_REST. After a request that failed quickly, requests are sent, but only once each.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is monotonic, in seconds."""
        self._clock = clock
        self._failed: float | None = None
        self._rest = 0.0
        self._until = 0.0

    def needs_probe(self, url: str) -> bool:
        """Returns whether to check the service's health before a request; only one caller gets true.

        Raises:
            ServiceError: `unreachable` during a rest.
        """
        if not self._rest:
            return False
        left = self._until - self._clock()
        if left > 0:
            raise ServiceError(
                UNREACHABLE, f"Coatcheck at {url} did not answer a moment ago. It is asked again in {left:.0f} seconds."
            )
        self._until = self._clock() + PROBE_SECONDS  # meanwhile the others need not wait
        return True

    def retry_state(self, retries: Retries, patience: float | None) -> "RetryState":
        """Returns the state of a new request, which takes at most `patience` seconds, or those of `retries`."""
        recent = self._failed is not None and self._clock() - self._failed < SINGLE_ATTEMPT_SECONDS
        attempts = 1 if recent else retries.attempts
        patient = retries.patience if patience is None else min(patience, retries.patience)
        slow = SLOW_SECONDS if patience is None else min(SLOW_SECONDS, patience)
        return RetryState(self, self._clock, attempts=(attempts, retries.attempts), patience=patient, slow=slow)

    def heard(self) -> None:
        """Records that the service answered."""
        self._failed = None
        self._rest = 0.0

    def failed(self, seconds: float, slow: float = SLOW_SECONDS) -> None:
        """Records that an attempt failed, after `seconds`; from `slow` seconds on, it waited in vain."""
        now = self._clock()
        self._failed = now
        if seconds < slow or self._until > now:  # a rest that has begun is not extended
            return
        self._rest = min(self._rest * 2, LONGEST_REST) if self._rest else SINGLE_ATTEMPT_SECONDS
        self._until = now + self._rest


class RetryState:
    """The attempts of one request."""

    def __init__(
        self,
        breaker: CircuitBreaker,
        clock: Callable[[], float],
        *,
        attempts: tuple[int, int],
        patience: float,
        slow: float,
    ) -> None:
        """Begins before the first attempt. `attempts` are those allowed now, and those after an answer."""
        self._breaker = breaker
        self._clock = clock
        self._attempts, self._usual = attempts
        self._patience = patience
        self._slow = slow
        self._done = 0
        self._since = self._begun = clock()

    def after(self, error: ServiceError, *, again: bool = True) -> float | None:
        """Returns the seconds to wait before the next attempt; None to give up.

        Args:
            error: how the attempt ended.
            again: whether the request may be sent twice.
        """
        self._done += 1
        now = self._clock()
        if again and self._done < self._attempts and worth_repeating(error):
            wait = delay(self._done, error.retry_after)
            if now - self._since + wait <= self._patience:
                self._begun = now + wait
                return wait
        if error.code == UNREACHABLE or (error.status in AGAIN and error.retry_after is None):
            self._breaker.failed(now - self._begun, self._slow)
        elif error.status is not None:  # what was never sent says nothing about the service
            self._breaker.heard()
        return None

    def answered(self) -> None:
        """Records an answer; a later failure has all attempts and all the time again."""
        self._breaker.heard()
        self._attempts = self._usual
        self._done = 0
        self._since = self._begun = self._clock()
