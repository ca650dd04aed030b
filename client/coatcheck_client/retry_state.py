"""Decides whether a request is sent, and whether and when it is sent again after a failure. Independent of sockets."""

import time
from collections.abc import Callable
from typing import Final

from coatcheck_client.answers import worth_repeating
from coatcheck_client.errors import UNREACHABLE, ServiceError
from coatcheck_client.retry import AGAIN, Retries, delay

SINGLE_ATTEMPT_SECONDS: Final = 30.0
"""Seconds after a failure during which every request gets only one attempt; also the length of the first rest."""
LONGEST_REST: Final = 300.0
"""Maximum seconds of a rest, during which no request is sent."""
SLOW_SECONDS: Final = 1.0
"""An attempt that fails in fewer seconds, such as a refused connection, costs a caller too little to begin a rest. If a
request has a shorter deadline, the deadline replaces this number."""
PROBE_SECONDS: Final = 1.0
"""Maximum seconds without any progress in a check of the service's health. Meanwhile other requests fail at once."""


class CircuitBreaker:
    """Whether the service answers, judged by the last requests.

    If a request waits in vain, a rest begins, during which no request is sent. So a silent service costs an agent only
    one wait. After the rest, one request first checks the service's health. If that check waits in vain too, another
    rest begins, twice as long, up to LONGEST_REST. If a request fails quickly, no rest begins, but for the next
    SINGLE_ATTEMPT_SECONDS each request is sent only once.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts without any failure. `clock` returns seconds and is monotonic."""
        self._clock = clock
        self._failed: float | None = None
        self._rest = 0.0
        self._until = 0.0

    def needs_probe(self, url: str) -> bool:
        """Returns whether the caller must check the service's health first; only one caller at a time gets true.

        Raises:
            ServiceError: `unreachable` during a rest, and while another caller checks.
        """
        if not self._rest:
            return False
        left = self._until - self._clock()
        if left > 0:
            raise ServiceError(
                UNREACHABLE, f"Coatcheck at {url} did not answer a moment ago. It is asked again in {left:.0f} seconds."
            )
        self._until = self._clock() + PROBE_SECONDS  # meanwhile other callers fail at once instead of waiting
        return True

    def retry_state(self, retries: Retries, patience: float | None) -> "RetryState":
        """Returns the state of a new request, whose patience is the smaller of `patience` and that of `retries`."""
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
        """Records that an attempt failed after `seconds`. From `slow` seconds on, it has waited in vain."""
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
        """Starts before the first attempt. `attempts`: the number allowed now, and the number after an answer."""
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
            again: whether the request may be sent again.
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
        elif error.status is not None:  # a request that was never sent says nothing of the service
            self._breaker.heard()
        return None

    def answered(self) -> None:
        """Records an answer. If the request fails after it, all attempts and all the time are available again."""
        self._breaker.heard()
        self._attempts = self._usual
        self._done = 0
        self._since = self._begun = self._clock()
