"""How one request goes on after a failed attempt. Knows attempts and seconds, no sockets and no sleep."""

import time
from collections.abc import Callable
from typing import Final

from coatcheck_client.answers import worth_repeating
from coatcheck_client.errors import UNREACHABLE, ServiceError
from coatcheck_client.retry import Retries, delay

DOUBT_SECONDS: Final = 30.0
"""How long a service that could not be reached is asked once only, so that an agent waits for an outage once."""


class CircuitBreaker:
    """Whether the service was out of reach a moment ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is in seconds and never steps back."""
        self._clock = clock
        self._since: float | None = None

    def retry_state(self, retries: Retries) -> "RetryState":
        """The course of a new request."""
        recent = self._since is not None and self._clock() - self._since < DOUBT_SECONDS
        return RetryState(retries, self, self._clock, attempts=1 if recent else retries.attempts)

    def heard(self) -> None:
        """Notes that the service answered."""
        self._since = None

    def missed(self) -> None:
        """Notes that the service did not answer."""
        self._since = self._clock()


class RetryState:
    """The attempts of one request."""

    def __init__(self, retries: Retries, breaker: CircuitBreaker, clock: Callable[[], float], *, attempts: int) -> None:
        """Begin before the first attempt."""
        self._retries = retries
        self._breaker = breaker
        self._clock = clock
        self._attempts = attempts
        self._done = 0
        self._since = clock()

    def after(self, error: ServiceError, *, again: bool = True) -> float | None:
        """Seconds to wait before the next attempt; None to give up.

        Args:
            error: how the attempt ended.
            again: whether the request may be sent twice.
        """
        self._done += 1
        if again and self._done < self._attempts and worth_repeating(error):
            wait = delay(self._done, error.retry_after)
            if self._clock() - self._since + wait <= self._retries.patience:
                return wait
        if error.code == UNREACHABLE:
            self._breaker.missed()
        elif error.status is not None:  # what was never sent says nothing of the service
            self._breaker.heard()
        return None

    def answered(self) -> None:
        """The service answered; what fails after it has all attempts and all time before it again."""
        self._breaker.heard()
        self._attempts = self._retries.attempts
        self._done = 0
        self._since = self._clock()
