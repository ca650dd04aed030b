"""How a request goes on after a failed attempt, and whether the next one is sent at all. Knows seconds, no sockets."""

import time
from collections.abc import Callable
from typing import Final

from coatcheck_client.answers import worth_repeating
from coatcheck_client.errors import UNREACHABLE, ServiceError
from coatcheck_client.retry import AGAIN, Retries, delay

DOUBT_SECONDS: Final = 30.0
"""How long a service that failed is asked once only for each request; also the first rest of one that is silent."""
LONGEST_REST: Final = 300.0
SLOW_SECONDS: Final = 1.0
"""An attempt that failed sooner, as a refused connection does, costs a caller nothing worth sparing."""
PROBE_SECONDS: Final = 1.0


class CircuitBreaker:
    """What the last requests said of the service.

    After one that waited for nothing, none is sent for a while, so a silent service costs an agent once. Then one
    request asks for the service's health, briefly; while that fails, each rest is twice as long, up to LONGEST_REST.
    After one that failed quickly, requests are sent, but once each.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is in seconds and never steps back."""
        self._clock = clock
        self._failed: float | None = None
        self._rest = 0.0
        self._until = 0.0

    def needs_probe(self, url: str) -> bool:
        """Whether to ask for the service's health before a request; who is told so is the only one.

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
        """The course of a new request, which takes `patience` seconds at most, or as many as `retries` says."""
        recent = self._failed is not None and self._clock() - self._failed < DOUBT_SECONDS
        attempts = 1 if recent else retries.attempts
        patient = retries.patience if patience is None else min(patience, retries.patience)
        return RetryState(self, self._clock, attempts=(attempts, retries.attempts), patience=patient)

    def heard(self) -> None:
        """Notes that the service answered."""
        self._failed = None
        self._rest = 0.0

    def failed(self, seconds: float) -> None:
        """Notes that an attempt failed, after so many seconds."""
        now = self._clock()
        self._failed = now
        if seconds < SLOW_SECONDS or self._until > now:  # a rest that has begun is not made longer
            return
        self._rest = min(self._rest * 2, LONGEST_REST) if self._rest else DOUBT_SECONDS
        self._until = now + self._rest


class RetryState:
    """The attempts of one request."""

    def __init__(
        self, breaker: CircuitBreaker, clock: Callable[[], float], *, attempts: tuple[int, int], patience: float
    ) -> None:
        """Begin before the first attempt. `attempts` are those now, and those after an answer."""
        self._breaker = breaker
        self._clock = clock
        self._attempts, self._usual = attempts
        self._patience = patience
        self._done = 0
        self._since = self._begun = clock()

    def after(self, error: ServiceError, *, again: bool = True) -> float | None:
        """Seconds to wait before the next attempt; None to give up.

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
            self._breaker.failed(now - self._begun)
        elif error.status is not None:  # what was never sent says nothing of the service
            self._breaker.heard()
        return None

    def answered(self) -> None:
        """The service answered; what fails after it has all attempts and all time before it again."""
        self._breaker.heard()
        self._attempts = self._usual
        self._done = 0
        self._since = self._begun = self._clock()
