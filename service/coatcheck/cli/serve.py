"""`coatcheck serve`: start the service, say where it is and what to try."""

import asyncio
import contextlib
import ipaddress
import logging
import shlex
import signal
import socket
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType

import click

from coatcheck.cli.exits import Exit, fail
from coatcheck.core.errors import CoatcheckError
from coatcheck.settings import Settings, load

GRACE_SECONDS = 30
"""How long running requests may take to finish after the signal to stop."""
LAST_SECONDS = 5
"""How long those that did not may take to clean up."""


@click.command()
@click.option("--host", help="Address to listen on (127.0.0.1).")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on (8321); 0 takes a free one.")
@click.option("--data", metavar="DIR", help="Directory of the embedded store (./coatcheck-data).")
def serve(host: str | None, port: int | None, data: str | None) -> None:
    """Start the service."""
    try:
        settings = load(host=host, port=port, data=data)
    except ValueError as error:
        fail(Exit.WRONG, str(error))
    if not _loopback(settings.host) and not settings.allow_unauthenticated:
        fail(
            Exit.WRONG,
            f"{settings.host} is reachable from other machines and this release has no keys. Listen on 127.0.0.1, "
            "or set COATCHECK_ALLOW_UNAUTHENTICATED=true behind something that authenticates callers.",
        )
    logging.basicConfig(
        level=settings.log_level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    for chatty in ("alembic", "uvicorn.error"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, logging.getLogger().level))
    import uvloop  # noqa: PLC0415 - only this command needs it

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings))
    except CoatcheckError as error:
        fail(Exit.UNREACHABLE, error.detail)


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bind(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((settings.host, settings.port))
    except OSError as error:
        sock.close()
        fail(
            Exit.UNREACHABLE,
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}. Try --port 0.",
        )
    sock.listen(2048)
    return sock


async def _serve(settings: Settings) -> None:
    import uvicorn  # noqa: PLC0415 - the client commands must start quickly

    from coatcheck.api.app import create_app  # noqa: PLC0415
    from coatcheck.bootstrap import open_service  # noqa: PLC0415

    sock = _bind(settings)
    try:
        async with open_service(settings) as service:
            app = create_app(service.services, service.limits)
            config = uvicorn.Config(
                app,
                http="httptools",
                loop="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
            _announce(settings, sock.getsockname()[1])
            server = uvicorn.Server(config)
            # uvicorn's own handlers raise the signal again when it has stopped, which would end the process before the
            # store is closed.
            server.capture_signals = lambda: _stopping(server.handle_exit)
            await server.serve(sockets=[sock])
            await _ended(server.server_state.tasks)
    finally:
        sock.close()


@contextlib.contextmanager
def _stopping(stop: Callable[[int, FrameType | None], None]) -> Generator[None]:
    """Ask the server to stop at SIGTERM or SIGINT; a SIGINT after either stops it at once."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stop, number, None)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


async def _ended(tasks: set[asyncio.Task[None]]) -> None:
    """Wait for the requests that outlived the grace: while the store is open they can remove what they had begun."""
    left = list(tasks)
    for task in left:
        if not task.cancelling():
            task.cancel()
    if left:
        await asyncio.wait(left, timeout=LAST_SECONDS)


def _announce(settings: Settings, port: int) -> None:
    import litestar  # noqa: PLC0415 - imported for serving already; here for where it lies

    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{host}:{port}"
    me = shlex.quote(_shortest(sys.argv[0]))
    python = shlex.quote(_shortest(sys.executable))
    sources = shlex.quote(_shortest(str(Path(litestar.__file__).parent)))
    where = "" if url == load({}).url else f" --url {url}"
    click.echo(f"Coatcheck is listening on {url}, keeping its data in {Path(settings.data)}.")
    if _loopback(settings.host):
        click.echo(f"""Only this machine can reach it, so no key is needed.

Paste this into another terminal, in this directory, for a first card (of a build log):

  {python} -m compileall -f {sources} | {me} put -{where} --tool-name bash

Any output will do: make test 2>&1 | {me} put -{where}
""")


def _shortest(path: str) -> str:
    """A path as one would type it here."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path
