"""`coatcheck serve`: starts the service, and prints its address and a command to try first."""

import asyncio
import contextlib
import functools
import gc
import logging
import os
import shlex
import signal
import socket
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click
import msgspec
from msgspec import structs

from coatcheck.cli.command_setup import holds_store
from coatcheck.cli.exits import Exit, echo, fail
from coatcheck.cli.serving.embedded import Lifelines, bind_socket, tell_address, wait_until_free
from coatcheck.cli.serving.process import notify, return_freed_memory, returning_free_pages
from coatcheck.cli.serving.process import set_up as set_up_logs
from coatcheck.cli.serving.workers import ServingWorkers, WorkerPost
from coatcheck.core.errors import CoatcheckError
from coatcheck.settings import Settings, default_data, is_loopback, load

if TYPE_CHECKING:
    import uvicorn

GRACE_SECONDS = 30
"""Seconds that running requests may take to finish after the signal to stop."""
KEEP_ALIVE_SECONDS = 75
"""Seconds that an idle connection stays open: longer than a proxy keeps an idle connection (nginx: 60). Otherwise the
proxy could send a request on a connection that is being closed here, and would answer 502."""
LAST_SECONDS = 5
"""Seconds that requests which still run after GRACE_SECONDS may take to clean up."""
BACKLOG = 2048
"""Maximum connections that may wait to be accepted."""
EXAMPLE = Path("examples/test-run.log")
"""Output of a test run that failed. It exists in a clone of the repository, but not in an installed package."""
GC_THRESHOLDS = (10_000, 20, 20)
"""Thresholds for `gc.set_threshold`: the new objects after which the youngest are searched for garbage, and after how
many such searches older objects are searched too."""


@click.command()
@click.option("--host", help="Address to listen on (127.0.0.1).")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on (8321); 0 takes a free one.")
@click.option(
    "--data",
    metavar="DIR",
    help="Directory of the embedded store (`coatcheck settings` shows it).",
)
@click.option("--workers", type=click.IntRange(1), help="Processes that serve (1); more only with PostgreSQL.")
@click.option("--as-worker", hidden=True)
@click.option("--run-folder", type=click.Path(file_okay=False, path_type=Path), hidden=True)
def serve(
    host: str | None,
    port: int | None,
    data: str | None,
    workers: int | None,
    as_worker: str | None,
    run_folder: Path | None,
) -> None:
    """Start the service."""
    try:
        settings = load(host=host, port=port, data=data, workers=workers)
    except ValueError as error:
        fail(Exit.WRONG, str(error))
    if run_folder is not None:
        # Environment variables that are meant for a separate service must not redirect this one.
        settings = structs.replace(settings, host="127.0.0.1", port=0, database_url="", blob_url="", workers=1)
        _serve_alone(settings, None, run_folder)
    elif settings.workers > 1 and as_worker is None:
        set_up_logs(settings)
        _serve_with_workers(settings)
    else:
        _serve_alone(settings, None if as_worker is None else msgspec.json.decode(as_worker, type=WorkerPost))


def _serve_with_workers(settings: Settings) -> None:
    """Starts the workers and supervises them; this process opens no store."""
    sockets = _bind_together(settings)
    port = sockets[0].getsockname()[1]
    arguments = ["--host", settings.host, "--port", str(port), "--data", settings.data]
    sys.exit(asyncio.run(ServingWorkers(sockets, [*arguments, "--workers", str(settings.workers)]).run()))


def _serve_alone(settings: Settings, post: WorkerPost | None, run_folder: Path | None = None) -> None:
    """Serves in this process: the only one, a worker, or an embedded service for the programs of a run folder."""
    from coatcheck.adapters.redaction_rules import Masks  # noqa: PLC0415 - the client commands must start quickly

    try:
        Masks(settings.redaction_rules)  # refuses names of unknown rules
    except ValueError as error:
        fail(Exit.WRONG, str(error))
    if not settings.require_keys and not holds_store(settings):
        _refuse_strangers(settings, needs_keys=False)  # before anything is created
    set_up_logs(settings)
    try:
        with asyncio.Runner(loop_factory=_event_loop()) as runner:
            runner.run(_serve(settings, post, run_folder))
    except CoatcheckError as error:
        fail(Exit.UNREACHABLE, error.detail)


def _event_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Returns the factory of uvloop's event loop; None, for Python's own loop, on Windows, which has no uvloop."""
    if sys.platform == "win32":
        return None
    import uvloop  # noqa: PLC0415 - only this command needs it

    return uvloop.new_event_loop


def _refuse_strangers(settings: Settings, *, needs_keys: bool) -> None:
    """Ends the command if other machines could do everything without a key."""
    if is_loopback(settings.host) or needs_keys or settings.allow_unauthenticated:
        return
    fail(
        Exit.WRONG,
        f"{settings.host} is reachable from other machines, and no key exists. Set COATCHECK_REQUIRE_KEYS=true "
        f"and create one while it runs (coatcheck {_first_key(settings)}), or listen on 127.0.0.1, or set "
        "COATCHECK_ALLOW_UNAUTHENTICATED=true behind something that authenticates callers.",
    )


def _first_key(settings: Settings) -> str:
    """Returns the command that creates a key in the store of these settings."""
    elsewhere = not settings.database_url and settings.data != default_data()
    return "key create me" + (f" --data {shlex.quote(settings.data)}" if elsewhere else "")


def _bind_together(settings: Settings) -> list[socket.socket]:
    """Returns one socket per worker. All have the same address; the system distributes connections among them."""
    alone = _bind(settings)  # fails if the address is in use, which shared sockets would not notice
    port = alone.getsockname()[1]
    alone.close()
    return [_bind(structs.replace(settings, port=port), shared=True) for _ in range(settings.workers)]


def _bind(settings: Settings, *, shared: bool = False) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        sock.bind((settings.host, settings.port))
    except OSError as error:
        sock.close()
        fail(Exit.UNREACHABLE, _render_listen_error(settings, error))
    return sock


def _render_listen_error(settings: Settings, error: OSError) -> str:
    where = f"{settings.host} port {settings.port}"
    return f"cannot listen on {where}: {error.strerror}. Choose another port: --port, or COATCHECK_PORT."


class _Stopping:
    """Handles SIGTERM and SIGINT: cancels the start, or asks the server to stop; a later SIGINT stops it at once.

    uvicorn's own handlers are not used: they raise the signal again when the server has stopped, which would end the
    process before the store is closed.
    """

    def __init__(self, starting: asyncio.Task[None]) -> None:
        self._starting = starting
        self._stop: Callable[[int, FrameType | None], None] | None = None
        self.asked = False

    def set_stop(self, stop: Callable[[int, FrameType | None], None]) -> None:
        """Sets the function that stops the server. From now on, a signal calls it instead of cancelling the start."""
        self._stop = stop

    def __call__(self, number: int) -> None:
        """Handles a signal."""
        if not self.asked:
            notify("STOPPING=1")
        if self._stop is not None:
            self._stop(number, None)
        elif not self.asked:
            # The server does not exist yet: cancelling the start closes whatever it has opened.
            self._starting.cancel()
        self.asked = True


async def _serve(settings: Settings, post: WorkerPost | None, run_folder: Path | None) -> None:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - a coroutine runs in a task
    stopping = _Stopping(task)
    with _listening_to_signals(stopping):
        if post is not None:
            asyncio.get_running_loop().add_reader(post.starter, _follow_starter, post, stopping)
        try:
            await _open_and_serve(settings, stopping, post, run_folder)
        except asyncio.CancelledError:
            if not stopping.asked:
                raise
            task.uncancel()
            logging.getLogger(__name__).info("stopped before the start was complete")


def _follow_starter(post: WorkerPost, stopping: _Stopping) -> None:
    """Stops this worker, because its starter has ended."""
    asyncio.get_running_loop().remove_reader(post.starter)
    stopping(signal.SIGTERM)


async def _open_and_serve(
    settings: Settings, stopping: _Stopping, post: WorkerPost | None, run_folder: Path | None
) -> None:
    return_freed_memory()  # before any thread gets a heap of its own
    import uvicorn  # noqa: PLC0415

    from coatcheck.api.app import create_app  # noqa: PLC0415
    from coatcheck.api.http.protocol import BoundedProtocol  # noqa: PLC0415
    from coatcheck.bootstrap import open_service  # noqa: PLC0415

    is_private = run_folder is not None
    if run_folder is not None:
        sock = bind_socket(run_folder)
        await wait_until_free(Path(settings.data))
    else:
        sock = _bind(settings) if post is None else socket.socket(fileno=post.socket)
    try:
        # The port is bound first: a second service on the same port fails before it touches the store.
        metrics = None if post is None else Path(post.metrics)
        async with open_service(settings, metrics=metrics, is_private=is_private) as service:
            # Whether keys exist is known only now that the store is open. Nobody can connect yet.
            _refuse_strangers(settings, needs_keys=service.needs_keys)
            config = uvicorn.Config(
                create_app(service.services, service.limits),
                http=BoundedProtocol,
                ws="none",
                loop="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
            )
            server = uvicorn.Server(config)
            server.capture_signals = _no_signals
            stopping.set_stop(server.handle_exit)
            _freeze_garbage_collection()
            # Every connection from now on is answered: no later step can fail.
            try:
                sock.listen(BACKLOG)
            except OSError as error:
                fail(Exit.UNREACHABLE, _render_listen_error(settings, error))
            if post is not None:
                # One byte tells the starter that this worker listens. A pipe that closes without it means failure.
                os.write(post.ready, b".")
                os.close(post.ready)
            url = None if is_private else _url(settings, sock.getsockname()[1])
            if url is not None and (post is None or post.announces):
                _announce(settings, url, needs_keys=service.needs_keys)
            notify("READY=1")
            async with contextlib.AsyncExitStack() as stack:
                await stack.enter_async_context(returning_free_pages())
                if not settings.database_url:
                    stack.enter_context(tell_address(Path(settings.data), url, run_folder))
                if run_folder is not None:
                    lifelines = Lifelines(run_folder, functools.partial(stopping, signal.SIGTERM))
                    await lifelines.open()
                    stack.callback(lifelines.close)
                    stopping.set_stop(functools.partial(_end_lifelines_first, lifelines, server))
                await server.serve(sockets=[sock])
            await _wait_for_requests(server.server_state.tasks)
    finally:
        sock.close()


def _end_lifelines_first(lifelines: Lifelines, server: "uvicorn.Server", number: int, frame: FrameType | None) -> None:
    """Removes the sockets of an embedded service before its server stops, so that no program connects any more."""
    lifelines.close()
    server.handle_exit(number, frame)


def _freeze_garbage_collection() -> None:
    """Exempts objects that live as long as the process from garbage collection.

    A scan of all of them takes 40 ms or more, during which everything waits.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


@contextlib.contextmanager
def _no_signals() -> Generator[None]:
    """Does nothing; takes the place of uvicorn's signal handling."""
    yield


@contextlib.contextmanager
def _listening_to_signals(stopping: _Stopping) -> Generator[None]:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stopping, number)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


async def _wait_for_requests(tasks: set[asyncio.Task[None]]) -> None:
    """Cancels the requests that outlived the grace period, and waits for them.

    While the store is open, they can still remove what they have begun to store.
    """
    remaining = list(tasks)
    for task in remaining:
        if not task.cancelling():
            task.cancel()
    if remaining:
        await asyncio.wait(remaining, timeout=LAST_SECONDS)


def _url(settings: Settings, port: int) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{port}"


def _announce(settings: Settings, url: str, *, needs_keys: bool) -> None:
    import litestar  # noqa: PLC0415 - already imported for serving; here for its path

    from coatcheck.bootstrap.stores import place_of  # noqa: PLC0415 - as above

    python = shlex.quote(_shortest(sys.executable))
    # The printed commands can be pasted: they use this interpreter, and start this program as it was started.
    module = Path(sys.argv[0]).name == "__main__.py"  # started as a module, whose file cannot be run itself
    me = f"{python} -m coatcheck" if module else shlex.quote(_shortest(sys.argv[0]))
    sources = shlex.quote(_shortest(str(Path(litestar.__file__).parent)))
    first, of = f"{python} -m compileall -f {sources} | {me} put -", "build"
    if EXAMPLE.is_file():
        first, of = f"{me} put {EXAMPLE}", "test run that failed"
    where = "" if url == load({}).url else f" --url {url}"
    workers = f", with {settings.workers} workers" if settings.workers > 1 else ""
    echo(f"Coatcheck is listening on {url}{workers}, keeping its data {place_of(settings)}.")
    if needs_keys:
        echo(f"Callers need a key. Make one for yourself: {me} {_first_key(settings)}")
    elif not is_loopback(settings.host):
        echo("Nobody needs a key, because COATCHECK_ALLOW_UNAUTHENTICATED says so.")
    else:
        echo(f"""Only this machine can reach it, so no key is needed until you create one.

Paste this into another terminal, in this directory, for a first card (of a {of}):

  {first}{where} --tool-name bash

Any output will do: make test 2>&1 | {me} put -{where}
""")


def _shortest(path: str) -> str:
    """Returns a path relative to the current directory; unchanged if it is outside."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path
