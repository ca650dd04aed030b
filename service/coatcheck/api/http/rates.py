"""Limits the requests and the bytes that each caller may send per minute. Each process counts for itself.

Bytes are charged as they arrive: as sent or as decoded, whichever is more. An upload is refused midway when its caller
has no bytes left, and before its first byte if it announces more bytes than the caller has left. The bytes of a request
are given back if it repeats, under the same Idempotency-Key, a request that was already answered. Health checks,
metrics and answers cost no bytes.

Two header fields tell callers about their limits: `RateLimit-Policy` and `RateLimit`, in the form that
draft-ietf-httpapi-ratelimit-headers defines since its revision 08 (a quota of `q` per `w` seconds, of which `r` are
left; `t` seconds until there are more).
"""

import math
import time
from collections.abc import Callable
from typing import Final, cast

from litestar.types import Scope

from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.rates import WINDOW, Rates, TokenBucket
from coatcheck.ports.telemetry import Meter, RateLimit

_REMEMBERED_CALLERS: Final = 10_000
"""If there are as many buckets as this, full ones are dropped: those of callers that have used nothing lately."""

_STATE: Final = "allowance"
"""Key of the request's allowance in the state of its scope."""

Header = tuple[bytes, bytes]


class RateAllowance:
    """The token buckets from which one request takes, and the bytes that it has taken. Created by Allowances."""

    def __init__(
        self, requests: TokenBucket | None, size: TokenBucket | None, meter: Meter, clock: Callable[[], float]
    ) -> None:
        self._requests = requests
        self._bytes = size
        self._meter = meter
        self._clock = clock
        self._charged = 0
        """Bytes that this request has taken from the bucket. They are given back if the request is a repetition."""

    def begin(self, announced: int | None) -> None:
        """Counts the request, and checks whether the caller has enough bytes left for its body.

        `announced` is the body's length in bytes; None: it is not announced.

        Raises:
            CoatcheckError: `rate_limited`; `payload_too_large` if the body exceeds the limit per minute, so that the
                caller never has enough.
        """
        now = self._clock()
        if self._requests is not None and not self._requests.take(1, now):
            raise self._refusal("requests", self._requests, 1, now)
        if self._bytes is None or announced is None:
            return
        # A bucket never contains more than its quota, so waiting would not help: answer 413 instead of 429.
        if announced > self._bytes.quota:
            raise CoatcheckError(
                Code.PAYLOAD_TOO_LARGE,
                f"This caller may send {self._bytes.quota:,} bytes per minute, and this body has {announced:,}. "
                "Send less at once, or ask the administrator for a higher limit.",
                limit=self._bytes.quota,
            )
        # Only check, and take nothing: bytes are charged as they arrive.
        if announced > self._bytes.count_left(now):
            raise self._refusal("bytes", self._bytes, announced, now)

    def charge(self, size: int) -> None:
        """Charges `size` bytes that have arrived.

        Raises:
            CoatcheckError: `rate_limited`; the caller then has no bytes left.
        """
        if self._bytes is None:
            return
        now = self._clock()
        if not self._bytes.take(size, now):
            # The bytes have arrived all the same. If they cost nothing, a caller could go on sending refused uploads.
            self._bytes.take(self._bytes.count_left(now), now)
            raise self._refusal("bytes", self._bytes, size, now)
        self._charged += size

    def give_back(self) -> None:
        """Gives this request's bytes back to the caller, because it repeats a request that was charged before."""
        if self._bytes is not None:
            self._bytes.give_back(self._charged, self._clock())
            self._charged = 0

    def headers(self) -> list[Header]:
        """Returns header fields with the caller's limits, and with the requests and bytes that it has left."""
        now = self._clock()
        policies: list[str] = []
        remainders: list[str] = []
        for name, bucket, unit in (("requests", self._requests, ""), ("bytes", self._bytes, ';qu="content-bytes"')):
            if bucket is not None:
                policies.append(f'"{name}";q={bucket.quota}{unit};w={WINDOW:.0f}')
                # `t` is the number of seconds until there is one more; 0 if the bucket is full.
                rest = bucket.count_left(now)
                remainders.append(f'"{name}";r={rest};t={math.ceil(bucket.seconds_until(rest + 1, now))}')
        return [
            (b"ratelimit-policy", ", ".join(policies).encode()),
            (b"ratelimit", ", ".join(remainders).encode()),
        ]

    def _refusal(self, what: RateLimit, bucket: TokenBucket, amount: int, now: float) -> CoatcheckError:
        self._meter.record_limited(what)
        wait = max(1, math.ceil(bucket.seconds_until(amount, now)))
        return CoatcheckError(
            Code.RATE_LIMITED,
            f"This caller may use {bucket.quota:,} {what} per minute, and too few are left now. Nothing was stored; "
            f"retry the same call in {wait} seconds.",
            limit=bucket.quota,
            of=what,
            retry_after=wait,
        )


class Allowances:
    """The token buckets of all callers."""

    def __init__(self, requests: int, size: int, meter: Meter, clock: Callable[[], float] = time.monotonic) -> None:
        """Creates buckets that are full at first.

        Args:
            requests: default number of requests per caller and minute; 0: unlimited.
            size: default number of bytes per caller and minute; 0: unlimited.
            meter: counts refusals.
            clock: monotonic, in seconds.
        """
        self._defaults = Rates(requests=requests, bytes=size)
        """The limits of callers whose key has no limits of its own."""
        self._meter = meter
        self._clock = clock
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        """Buckets by the unit that they limit (`requests` or `bytes`), and by the key's ID or the caller's name."""
        self._forget_at = _REMEMBERED_CALLERS
        """Number of buckets at which full ones are dropped the next time."""

    @property
    def caller_count(self) -> int:
        """Number of buckets: one for each caller and each of the two limits that it has."""
        return len(self._buckets)

    def of(self, caller: Caller) -> RateAllowance | None:
        """Returns a new allowance for a request of a caller; None if the caller has no limits."""
        # A key may have only one limit of its own. The other limit then comes from the settings.
        own = caller.rates or self._defaults
        requests = self._defaults.requests if own.requests is None else own.requests
        size = self._defaults.bytes if own.bytes is None else own.bytes
        if not requests and not size:
            return None
        who = f"{caller.namespace}/{caller.name}" if caller.key_id is None else caller.key_id
        return RateAllowance(
            self._bucket("requests", who, requests), self._bucket("bytes", who, size), self._meter, self._clock
        )

    def _bucket(self, what: str, who: str, quota: int | None) -> TokenBucket | None:
        if not quota:
            return None
        bucket = self._buckets.get((what, who))
        # If the caller's limit was changed, its next request begins with a new, full bucket.
        if bucket is None or bucket.quota != quota:
            self._forget()
            bucket = self._buckets[what, who] = TokenBucket(quota, self._clock())
        return bucket

    def _forget(self) -> None:
        """Drops full buckets once there are many. Nothing is lost, as a new bucket is full, too."""
        if len(self._buckets) >= self._forget_at:
            now = self._clock()
            self._buckets = {key: bucket for key, bucket in self._buckets.items() if not bucket.full(now)}
            # The threshold grows with the active callers. Otherwise each new one would cost a pass over all buckets.
            self._forget_at = max(_REMEMBERED_CALLERS, 2 * len(self._buckets))


def set_allowance(scope: Scope, allowance: RateAllowance) -> None:
    """Records a request's allowance in its scope, for the reader of its body."""
    scope["state"][_STATE] = allowance


def allowance_of(scope: Scope) -> RateAllowance | None:
    """Returns a request's allowance; None if its caller has no limits."""
    return cast("RateAllowance | None", scope["state"].get(_STATE))
