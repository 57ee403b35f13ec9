"""What one API key may do in one router: how many requests per second and how many at the same time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from baton.services.router.errors import ApiError

SECOND_NS = 1_000_000_000
KIND = "rate_limit_error"


class RequestBucket:
    """A token bucket in whole nanoseconds, so that what it says about the future is exactly true.

    Kept as the time at which it will be full: each token that is taken moves it by one interval. `now_ns` never falls.
    """

    def __init__(self, rate_per_s: float, burst: int) -> None:
        self.burst = burst  #: tokens that a full bucket has
        self._interval_ns = round(SECOND_NS / rate_per_s)  #: from one token to the next
        self._full_at_ns = 0

    def take(self, now_ns: int) -> None:
        """One token; there must be one, see `wait_ns`."""
        self._full_at_ns = max(self._full_at_ns, now_ns) + self._interval_ns

    def wait_ns(self, now_ns: int) -> int:
        """Until there is a token; 0 if there is."""
        return max(0, self.refill_ns(now_ns) - (self.burst - 1) * self._interval_ns)

    def refill_ns(self, now_ns: int) -> int:
        """Until it is full, if none is taken."""
        return max(0, self._full_at_ns - now_ns)

    def num_tokens(self, now_ns: int) -> int:
        """Whole ones, 0 to `burst`."""
        return max(0, self.burst - ceil_div(self.refill_ns(now_ns), self._interval_ns))


class KeyLimits:
    """Both limits of one key; what it has not been given is None. `clock_ns` is monotonic."""

    def __init__(
        self, rate_per_s: float | None, burst: int | None, concurrency: int | None, clock_ns: Callable[[], int]
    ) -> None:
        self.num_running = 0
        self._rate_per_s = rate_per_s
        self._bucket = None
        if rate_per_s is not None:
            self._bucket = RequestBucket(rate_per_s, max(1, math.ceil(rate_per_s)) if burst is None else burst)
        self._concurrency = concurrency
        self._clock_ns = clock_ns

    @contextmanager
    def admitted(self, retry_after_s: int) -> Iterator[None]:
        """Around one request. Raises the 429; a refused request takes nothing. `retry_after_s` is what is said to one
        too many at the same time: nobody knows when another ends."""
        self._check_concurrency(retry_after_s)
        self._take()
        self.num_running += 1
        try:
            yield
        finally:
            self.num_running -= 1

    def headers(self) -> dict[str, str]:
        """Of every answer to this key: where its bucket stands. The reset is in seconds, to the full bucket."""
        if self._bucket is None:
            return {}
        now_ns = self._clock_ns()
        seconds, millis = divmod(ceil_div(self._bucket.refill_ns(now_ns), SECOND_NS // 1000), 1000)
        return {
            "x-ratelimit-limit-requests": str(self._bucket.burst),
            "x-ratelimit-remaining-requests": str(self._bucket.num_tokens(now_ns)),
            "x-ratelimit-reset-requests": f"{seconds}.{millis:03d}s",
        }

    def _check_concurrency(self, retry_after_s: int) -> None:
        if self._concurrency is not None and self.num_running >= self._concurrency:
            message = f"{self.num_running} requests of this key are running, its limit is {self._concurrency}"
            code = "concurrency_limit_exceeded"
            raise ApiError(429, message, kind=KIND, code=code, retry_after_s=retry_after_s)

    def _take(self) -> None:
        if self._bucket is None:
            return
        now_ns = self._clock_ns()
        wait_ns = self._bucket.wait_ns(now_ns)
        if wait_ns == 0:
            self._bucket.take(now_ns)
            return
        wait_s = f"the next may begin in {ceil_div(wait_ns, SECOND_NS // 1000) / 1000:.3f} s"
        message = f"this key may begin {self._rate_per_s:g} requests per second, {self._bucket.burst} at once: {wait_s}"
        after_s = ceil_div(wait_ns, SECOND_NS)
        raise ApiError(429, message, kind=KIND, code="rate_limit_exceeded", retry_after_s=after_s)


def ceil_div(number: int, divisor: int) -> int:
    return -(-number // divisor)
