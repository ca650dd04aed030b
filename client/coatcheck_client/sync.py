"""The client for blocking code."""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import httpx

from coatcheck_client.administration import Admin
from coatcheck_client.client_method import Blocking, iterate, run
from coatcheck_client.connection import Exchange
from coatcheck_client.methods import ClientMethods
from coatcheck_client.options import Options

if TYPE_CHECKING:
    from typing_extensions import Self

P = ParamSpec("P")
T = TypeVar("T")


class BlockingConnection:
    """A Connection that never suspends: all of its methods block."""

    def __init__(
        self, setup: Options, transport: httpx.BaseTransport | None, sleep: Callable[[float], None] | None
    ) -> None:
        self._sleep = time.sleep if sleep is None else sleep
        self._http = httpx.Client(headers=setup.headers, transport=transport, trust_env=False)

    @asynccontextmanager
    async def exchange(self, request: Exchange) -> AsyncGenerator[httpx.Response]:
        """See Connection."""
        arguments = request.arguments()
        if not isinstance(request.body, bytes | None):
            arguments["content"] = iterate(request.body)
        with self._http.stream(**arguments) as response:
            yield response

    async def read(self, response: httpx.Response) -> bytes:
        """See Connection."""
        return response.read()

    async def raw_pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """See Connection."""
        for piece in response.iter_raw():
            yield piece

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """See Connection."""
        return function(*args, **kwargs)

    async def within(self, seconds: float, work: Coroutine[Any, Any, T]) -> T:
        """See Connection. The work runs in a thread, because a name look-up or a slow answer can only be abandoned."""
        results: queue.SimpleQueue[tuple[T, None] | tuple[None, BaseException]] = queue.SimpleQueue()
        context = contextvars.copy_context()

        def job() -> None:
            try:
                results.put((context.run(run, work), None))
            except BaseException as e:  # noqa: BLE001 - raised again in the thread that waits for the result
                results.put((None, e))

        threading.Thread(target=job, name="coatcheck", daemon=True).start()
        try:
            result, error = results.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None
        if error is not None:
            raise error
        return result  # pyright: ignore[reportReturnType] - without an error, there is a result

    async def sleep(self, seconds: float) -> None:
        """See Connection."""
        self._sleep(seconds)

    async def close(self) -> None:
        """See Connection."""
        self._http.close()


class Client(Blocking, ClientMethods):
    """Talks to one Coatcheck service. Safe to share between threads; close it, or use it in a `with` block.

    `put` never raises: if the service fails or refuses, the receipt contains the payload itself or its two ends, with
    `stored=False` and a warning. `read_artifact` never raises either: it then returns a sentence for the model. Other
    methods raise `ServiceError`, unless their description says otherwise.
    """

    _connects = BlockingConnection

    @property
    def admin(self) -> Admin:
        """The methods that need a key with the scope `admin`."""
        return Admin(self._sender)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
