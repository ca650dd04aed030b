"""Sends requests: with attempts and pauses, and contents in pieces. Independent of the service's operations."""

import math
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final, Protocol, TypeVar

import httpx

from coatcheck_client import answers
from coatcheck_client.bytes import ContentDownload, framed
from coatcheck_client.connection import Connection, Exchange
from coatcheck_client.errors import OVERLOADED, RATE_LIMITED, UNREACHABLE, ServiceError, UnstoredError
from coatcheck_client.options import Options, warn_if_older
from coatcheck_client.requests import ClientRequest, get
from coatcheck_client.retry import Retries
from coatcheck_client.retry_state import PROBE_SECONDS, CircuitBreaker
from coatcheck_client.wire import Pairs

T = TypeVar("T")

T_co = TypeVar("T_co", covariant=True)


class Paged(Protocol[T_co]):
    """A page of a list, and the cursor of the next one."""

    @property
    def items(self) -> Sequence[T_co]:
        """The items on the page."""
        ...

    @property
    def next(self) -> str | int | None:
        """The cursor of the next page; None: this is the last page."""
        ...


UNSENDABLE: Final = (httpx.InvalidURL, httpx.LocalProtocolError)
"""What httpx raises for a wrong request before any of it is sent, whether or not the service can be reached."""


_UNCONNECTED: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""What httpx raises while there is no connection yet, so that nothing of the request was sent."""


def _may_repeat(ask: ClientRequest[Any]) -> Callable[[ServiceError], bool]:
    """Returns what decides by the error of an attempt whether its request may be sent again.

    Any request may be if the attempt certainly changed nothing: it had no connection, or was refused for now.
    """
    refused = {OVERLOADED, RATE_LIMITED}
    return lambda error: ask.again or error.code in refused or isinstance(error.__cause__, _UNCONNECTED)


class Sender:
    """Sends the requests of one client, each as often as its retries allow."""

    def __init__(self, setup: Options, connection: Connection) -> None:
        self._setup = setup
        self._connection = connection
        self._breaker = CircuitBreaker()
        self._knows_version = False
        """Whether an answer has said the service's release, of which one warning is enough."""

    async def send(self, ask: ClientRequest[T]) -> T:
        """Returns the answer to a request, after as many attempts as necessary.

        Raises:
            ServiceError: the error of the last attempt.
        """
        return await self.repeat(lambda: self.once(ask), again=_may_repeat(ask))

    async def send_soon(self, ask: ClientRequest[T], seconds: float | None = None) -> T:
        """Returns the answer to a request that an agent waits for: within the deadline, including pauses.

        At the deadline, a card that the service made of a payload without storing it is returned, if there is one.

        Args:
            ask: the request to send.
            seconds: the deadline; None: the client's.

        Raises:
            ServiceError: the error of the last attempt, or `unreachable` at the deadline.
        """
        seconds, cards = self._setup.deadline if seconds is None else seconds, list[T]()
        work = self.repeat(lambda: self.once(ask, seconds=seconds), again=_may_repeat(ask), soon=True, cards=cards)
        try:
            return await self._connection.within(seconds, work)
        except TimeoutError as e:
            if cards:
                return cards[-1]
            # Silence until the client's own deadline is in vain however short that is; a caller's time may just be up.
            self._breaker.failed(math.inf if seconds >= self._setup.deadline else seconds)
            raise ServiceError(
                UNREACHABLE, f"Coatcheck at {self._setup.url} did not answer within {seconds:g} seconds."
            ) from e

    async def is_ready(self) -> bool:
        """Returns whether the service answers now, by one short attempt. Without its storage, it still makes cards."""
        try:
            await self._check_health()
        except ServiceError:
            return False
        return True

    async def _check_health(self) -> None:
        retry_state = self._breaker.retry_state(Retries(attempts=1), None)
        try:
            await self.once(get("/health/live", dict[str, Any]), seconds=PROBE_SECONDS)
        except ServiceError as e:
            retry_state.after(e)
            raise
        retry_state.answered()

    async def repeat(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        again: Callable[[ServiceError], bool],
        soon: bool = False,
        cards: list[T] | None = None,
    ) -> T:
        """Returns the result of the first attempt that succeeds, or the last card of a payload that was not stored.

        Args:
            attempt: makes one attempt.
            again: is called with the error of each attempt that failed; returns whether another one may follow.
            soon: whether an agent waits: then no attempt begins after the deadline.
            cards: takes the cards of a payload that was not stored, for a caller who gives up before the attempts end.

        Raises:
            ServiceError: the error of the last attempt, or `unreachable` if none is made because the service is silent.
        """
        if self._breaker.needs_probe(self._setup.url):
            await self._check_health()
        retry_state = self._breaker.retry_state(self._setup.retries, self._setup.deadline if soon else None)
        cards = [] if cards is None else cards
        while True:
            try:
                answer = await attempt()
            except ServiceError as e:
                if isinstance(e, UnstoredError):
                    cards.append(e.answer)
                elif not answers.worth_repeating(e):
                    cards.clear()  # a payload that was refused for its content must not be shown
                wait = retry_state.after(e, again=again(e))
                if wait is None and cards:
                    return cards[-1]
                if wait is None:
                    raise
            else:
                retry_state.answered()
                return answer
            await self._connection.sleep(wait)

    async def once(
        self,
        ask: ClientRequest[T],
        pieces: AsyncIterable[bytes] | None = None,
        size: int | None = None,
        seconds: float | None = None,
    ) -> T:
        """Makes one attempt.

        Args:
            ask: the request to send.
            pieces: the pieces of the payload, if it is streamed.
            size: the number of the payload's bytes, if it is streamed and the number is known.
            seconds: seconds without any progress after which the attempt fails; None: the client's `timeout`.

        Raises:
            ServiceError: how the attempt failed.
        """
        body = ask.body if pieces is None else framed(pieces, ask.around, size)
        headers = answers.sent_headers(ask, size)
        async with self._exchange(ask.method, ask.path, ask.params, headers, body, seconds) as response:
            data = await self._connection.read(response)
        return answers.read(response.status_code, response.headers, data, ask.answer, url=self._setup.url)

    async def items(
        self, path: str, parameters: Mapping[str, Any], page: type[Paged[T]], after: str = "cursor"
    ) -> AsyncGenerator[T]:
        """Yields the items of a list, page by page; `after` names the parameter that takes the cursor of a page.

        Raises:
            ServiceError: the error of the last attempt at a page.
        """
        cursor: dict[str, Any] = {}
        while True:
            got = await self.send(get(path, page, {**parameters, **cursor}))
            for item in got.items:
                yield item
            if got.next is None:
                return
            cursor = {after: got.next}

    async def stream(self, path: str, params: Pairs) -> AsyncGenerator[bytes]:
        """Yields the bytes of an artifact's content in pieces, over as many connections as necessary.

        Raises:
            ServiceError: the error of the last attempt, or `digest_mismatch` at the end.
        """
        arriving, retry_state = ContentDownload(), self._breaker.retry_state(self._setup.retries, None)
        while True:
            try:
                async with aclosing(self._pieces(path, params, arriving)) as pieces:
                    async for piece in pieces:
                        retry_state.answered()
                        yield piece
            except ServiceError as e:
                wait = retry_state.after(e)
                if wait is None:
                    raise
            else:
                arriving.finish()
                return
            await self._connection.sleep(wait)

    async def _pieces(self, path: str, params: Pairs, arriving: ContentDownload) -> AsyncGenerator[bytes]:
        async with self._exchange("GET", path, params, arriving.headers()) as response:
            if not response.is_success:
                data = await self._connection.read(response)
                raise answers.problem(response.status_code, response.headers, data, url=self._setup.url)
            arriving.answered(response.status_code, response.headers)
            async for piece in self._connection.raw_pieces(response):
                arriving.feed(piece)
                yield piece

    @asynccontextmanager
    async def _exchange(
        self,
        method: str,
        path: str,
        params: Pairs,
        headers: Pairs,
        body: bytes | AsyncGenerator[bytes] | None = None,
        seconds: float | None = None,
    ) -> AsyncGenerator[httpx.Response]:
        """Sends a request; yields the response. Every error of HTTP, even inside the block, becomes a ServiceError."""
        url = self._setup.url
        try:
            request = Exchange(method, url + path, params, headers, body, seconds or self._setup.timeout)
            async with self._connection.exchange(request) as response:
                # A proxy's own page has no request ID.
                if not self._knows_version and "x-request-id" in response.headers:
                    self._knows_version = True
                    warn_if_older(response.headers)
                yield response
        except UNSENDABLE as e:
            raise answers.unsendable(e) from e
        except httpx.HTTPError as e:
            raise answers.unreachable(url, e) from e
