"""Client methods that are written once, as coroutines, for clients that block and for clients on an event loop.

The connection of a blocking client never suspends. So each of its coroutines runs to its end at the first step: no
event loop is needed, and asyncio is not imported.
"""

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

A = TypeVar("A")
B = TypeVar("B")
P = ParamSpec("P")
T = TypeVar("T")


class Blocking:
    """A client whose methods block, and return when the work is done."""


class Awaited:
    """A client whose methods are awaited."""


class _ClientAttribute(Generic[P, A, B]):
    """A method of both clients: in a Blocking client, it blocks; in an Awaited one, it is the coroutine function."""

    def __init__(self, awaited: Callable[Concatenate[Any, P], A], blocking: Callable[Concatenate[Any, P], B]) -> None:
        self._awaited = awaited
        self._blocking = functools.wraps(awaited)(blocking)
        functools.update_wrapper(self, awaited)  # pyright: ignore[reportArgumentType] - any object may be updated

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[P, B]: ...
    @overload
    def __get__(self, client: Awaited, owner: type) -> Callable[P, A]: ...

    def __get__(self, client: object, owner: type) -> Callable[..., Any]:
        """Returns the method of a client, or the plain function if `client` is None."""
        function: Any = self._blocking if issubclass(owner, Blocking) else self._awaited
        return function.__get__(client, owner)


def client_method(
    function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> _ClientAttribute[P, Coroutine[Any, Any, T], T]:
    """Makes a coroutine function a method that blocks in one client and is awaited in the other."""

    def blocking(client: object, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(function(client, *args, **kwargs))

    return _ClientAttribute(function, blocking)


def client_iterator(
    function: Callable[Concatenate[Any, P], AsyncGenerator[T]],
) -> _ClientAttribute[P, AsyncGenerator[T], Iterator[T]]:
    """Makes an asynchronous generator function a method that iterates in both clients."""

    def blocking(client: object, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return iterate(function(client, *args, **kwargs))

    return _ClientAttribute(function, blocking)


def client_factory(
    function: Callable[Concatenate[Any, P], Callable[..., Coroutine[Any, Any, T]]],
) -> _ClientAttribute[P, Callable[..., Coroutine[Any, Any, T]], Callable[..., T]]:
    """Makes a method that returns a coroutine function; in the blocking client, it returns a function that blocks."""

    def blocking(client: object, /, *args: P.args, **kwargs: P.kwargs) -> Callable[..., T]:
        made = function(client, *args, **kwargs)

        @functools.wraps(made)
        def call(*given: Any, **named: Any) -> T:  # noqa: ANN401 - the arguments of the coroutine function
            return run(made(*given, **named))

        return call

    return _ClientAttribute(function, blocking)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never suspends; returns its result.

    Raises:
        RuntimeError: if the coroutine suspends nevertheless; the error is raised inside the coroutine first.
    """
    needs_loop = RuntimeError("A blocking client cannot wait for this: it needs an event loop. Use AsyncClient.")
    try:
        coroutine.send(None)
        coroutine.throw(needs_loop)
    except StopIteration as stop:
        return stop.value
    raise needs_loop


def iterate(pieces: AsyncGenerator[T]) -> Iterator[T]:
    """Yields the items of an asynchronous generator that never suspends, and closes it at the end."""
    try:
        while True:
            try:
                piece = run(pieces.__anext__())
            except StopAsyncIteration:
                return
            yield piece
    finally:
        run(pieces.aclose())
