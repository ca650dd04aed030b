"""The fault proxy does what it is told, below HTTP: what it is told to break breaks, and nothing else."""

import asyncio
import socketserver
import threading
from collections.abc import Iterator

import pytest

from support.proxy import Proxy


class _Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while line := self.rfile.readline():
            self.wfile.write(line)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Echo) as echo:
        echo.daemon_threads = True
        threading.Thread(target=echo.serve_forever, daemon=True).start()
        with Proxy(echo.server_address[1]) as between:
            yield between
        echo.shutdown()


async def said(proxy: Proxy, line: bytes) -> bytes:
    """What comes back until the connection closes or a line is whole."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        writer.write(line)
        return await reader.readline()
    except ConnectionResetError:
        return b"reset"
    finally:
        writer.transport.abort()


async def test_what_is_not_broken_passes(proxy: Proxy) -> None:
    assert await asyncio.gather(*(said(proxy, b"%d\n" % n) for n in range(8))) == [b"%d\n" % n for n in range(8)]
    assert await asyncio.to_thread(proxy.wait_closed)
    assert proxy.accepted == 8


async def test_refused_connections_are_refused_until_they_are_accepted_again_at_the_same_address(proxy: Proxy) -> None:
    port = proxy.port
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        await said(proxy, b"hello\n")
    proxy.accept()
    assert proxy.port == port
    assert await said(proxy, b"hello\n") == b"hello\n"


async def test_connections_break_after_as_many_bytes_as_were_allowed(proxy: Proxy) -> None:
    proxy.cut_down = 3
    assert await said(proxy, b"hello\n") in {b"hel", b"reset"}
    proxy.cut_down, proxy.cut_up = None, 3
    assert await said(proxy, b"hello\n") in {b"", b"reset"}
    proxy.cut_up = None
    assert await said(proxy, b"hello\n") == b"hello\n"


async def test_what_is_stalled_arrives_after_the_stall_and_what_is_dropped_never(proxy: Proxy) -> None:
    proxy.stall()
    waiting = [asyncio.create_task(said(proxy, b"hello\n")) for _ in range(2)]
    assert await asyncio.wait(waiting, timeout=0.1) == (set(), set(waiting))
    proxy.resume()
    assert await asyncio.gather(*waiting) == [b"hello\n"] * 2
    proxy.stall()
    lost = asyncio.create_task(said(proxy, b"hello\n"))
    await asyncio.wait([lost], timeout=0.1)
    proxy.drop()
    assert await lost in {b"", b"reset"}


async def test_latency_is_added_in_each_direction(proxy: Proxy) -> None:
    proxy.latency = 0.05
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await said(proxy, b"hello\n") == b"hello\n"
    assert loop.time() - began >= 0.1
