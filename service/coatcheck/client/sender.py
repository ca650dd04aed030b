"""Requests on the wire for code that waits: attempts, pauses, contents in pieces. Knows no verb of the service."""

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import httpx

from coatcheck.client import answers
from coatcheck.client.bytes import ContentDownload, RememberedPieces, framed
from coatcheck.client.errors import ServiceError
from coatcheck.client.options import Options, timeouts
from coatcheck.client.requests import ClientRequest
from coatcheck.client.retry_state import CircuitBreaker

T = TypeVar("T")

UNSENDABLE: Final = (httpx.InvalidURL, httpx.LocalProtocolError)
"""What is wrong with a request before any of it is sent: no outage."""


class Sender:
    """The connections of one client."""

    def __init__(self, setup: Options, transport: httpx.BaseTransport | None, sleep: Callable[[float], None]) -> None:
        self._setup = setup
        self._sleep = sleep
        self._doubt = CircuitBreaker()
        self._http = httpx.Client(headers=setup.headers, timeout=timeouts(setup), transport=transport, trust_env=False)

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def send(self, ask: ClientRequest[T]) -> T:
        """The answer of a request, after as many attempts as it takes.

        Raises:
            ServiceError: how the last attempt ended.
        """
        return self.repeat(lambda: self.once(ask), again=ask.again)

    def repeat(self, attempt: Callable[[], T], *, again: bool) -> T:
        """The same for an attempt that is more than a request."""
        retry_state = self._doubt.retry_state(self._setup.retries)
        while True:
            try:
                answer = attempt()
            except ServiceError as e:
                wait = retry_state.after(e, again=again)
                if wait is None:
                    raise
            else:
                retry_state.answered()
                return answer
            self._sleep(wait)

    def once_read(self, ask: ClientRequest[T], watched: RememberedPieces) -> T:
        """The answer to what can be read once: sent again only while nothing of it was read."""
        retry_state = self._doubt.retry_state(self._setup.retries)
        while True:
            try:
                answer = self.once(ask, iter(watched))
            except ServiceError as e:
                wait = retry_state.after(e, again=watched.ends.size == 0)
                if wait is None:
                    raise
            else:
                retry_state.answered()
                return answer
            self._sleep(wait)

    def once(self, ask: ClientRequest[T], pieces: Iterator[bytes] | None = None, size: int | None = None) -> T:
        """One attempt.

        Raises:
            ServiceError: how it ended.
        """
        url = self._setup.url
        try:
            response = self._http.request(
                ask.method,
                url + ask.path,
                params=httpx.QueryParams(ask.params),
                headers=answers.sent_headers(ask, size),
                content=ask.body if pieces is None else framed(pieces, ask.around, size),
            )
        except UNSENDABLE as e:
            raise answers.unsendable(e) from e
        except httpx.HTTPError as e:
            raise answers.unreachable(url, e) from e
        return answers.read(response.status_code, response.headers, response.content, ask.answer, url=url)

    def stream(self, path: str, params: tuple[tuple[str, str], ...]) -> Iterator[bytes]:
        """A content in pieces, over as many connections as it takes.

        Raises:
            ServiceError: how the last attempt ended, `digest_mismatch` at the end.
        """
        arriving, retry_state = ContentDownload(), self._doubt.retry_state(self._setup.retries)
        while True:
            try:
                for piece in self._pieces(path, params, arriving):
                    retry_state.answered()
                    yield piece
            except ServiceError as e:
                wait = retry_state.after(e)
                if wait is None:
                    raise
            else:
                arriving.finish()
                return
            self._sleep(wait)

    def _pieces(self, path: str, params: tuple[tuple[str, str], ...], arriving: ContentDownload) -> Iterator[bytes]:
        url = self._setup.url
        try:
            with self._http.stream(
                "GET", url + path, params=httpx.QueryParams(params), headers=arriving.headers()
            ) as response:
                if not response.is_success:
                    raise answers.problem(response.status_code, response.headers, response.read(), url=url)
                arriving.answered(response.status_code, response.headers)
                for piece in response.iter_raw():
                    arriving.feed(piece)
                    yield piece
        except UNSENDABLE as e:
            raise answers.unsendable(e) from e
        except httpx.HTTPError as e:
            raise answers.unreachable(url, e) from e
