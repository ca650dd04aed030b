"""Transports that fail as networks and services do, on purpose and in a given order."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator

import httpx

Step = Callable[[httpx.Request], httpx.Response]


def answers(status: int, body: bytes = b"{}", **headers: str) -> Step:
    """A step that answers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: httpx.Response(
        status, headers={"content-type": "application/json", **named}, stream=httpx.ByteStream(body)
    )


def refuses(request: httpx.Request) -> httpx.Response:
    """A step in which nobody listens."""
    raise httpx.ConnectError("Connection refused", request=request)


class Scripted(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Takes one step for each request, the last one for ever; remembers what was sent."""

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)
        self.requests: list[httpx.Request] = []
        self.bodies: list[bytes] = []

    def _step(self) -> Step:
        return self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        step = self._step()
        self.requests.append(request)
        if step is not refuses:
            self.bodies.append(request.read())
        return step(request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        step = self._step()
        self.requests.append(request)
        if step is not refuses:
            self.bodies.append(await request.aread())
        return step(request)


class Broken(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that breaks off after so many bytes."""

    def __init__(self, inner: httpx.SyncByteStream | httpx.AsyncByteStream, after: int) -> None:
        self._inner = inner
        self._left = after

    def __iter__(self) -> Iterator[bytes]:
        assert isinstance(self._inner, httpx.SyncByteStream)
        for piece in self._inner:
            yield from self._cut(piece)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        assert isinstance(self._inner, httpx.AsyncByteStream)
        async for piece in self._inner:
            for part in self._cut(piece):
                yield part

    def _cut(self, piece: bytes) -> Iterable[bytes]:
        yield piece[: self._left]
        self._left -= len(piece)
        if self._left <= 0:
            raise httpx.ReadError("Connection reset by peer")

    def close(self) -> None:
        assert isinstance(self._inner, httpx.SyncByteStream)
        self._inner.close()

    async def aclose(self) -> None:
        assert isinstance(self._inner, httpx.AsyncByteStream)
        await self._inner.aclose()


class Unlucky(httpx.BaseTransport):
    """A real connection that loses the first answers: all of them, or what comes after so many bytes."""

    def __init__(self, losing: int, after: int | None = None) -> None:
        self._inner = httpx.HTTPTransport()
        self._losing = losing
        self._after = after
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        response = self._inner.handle_request(request)
        if self._losing == 0:
            return response
        self._losing -= 1
        if self._after is None:
            response.read()
            response.close()
            raise httpx.ReadError("Connection reset by peer", request=request)
        assert isinstance(response.stream, httpx.SyncByteStream)
        return httpx.Response(
            response.status_code, headers=response.headers, stream=Broken(response.stream, self._after)
        )

    def close(self) -> None:
        self._inner.close()


class UnluckyAsync(httpx.AsyncBaseTransport):
    """The same for an event loop; what comes after so many bytes is lost once."""

    def __init__(self, after: int) -> None:
        self._inner = httpx.AsyncHTTPTransport()
        self._after: int | None = after

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        if self._after is None:
            return response
        after, self._after = self._after, None
        assert isinstance(response.stream, httpx.AsyncByteStream)
        return httpx.Response(response.status_code, headers=response.headers, stream=Broken(response.stream, after))

    async def aclose(self) -> None:
        await self._inner.aclose()
