"""The least a durable ingest can be: read the body, hash, compress, insert one row in a grouped durable commit, answer.

The same server and framework as the service, and none of its promises: no counting, no card, no fence, no dedupe.

python -m bench.prototype PORT sqlite PATH | postgresql URL
"""

import asyncio
import hashlib
import queue
import sqlite3
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import asyncpg
import uvicorn
from litestar import Litestar, Request, post

from coatcheck.core.encoding.frames import zstd

Row = tuple[bytes, int, bytes]
Insert = Callable[[Row], Awaitable[None]]
MOST = 256


def sqlite_insert(path: str) -> Insert:
    """One writer thread; as many waiting rows as there are in one transaction."""
    waiting: queue.SimpleQueue[tuple[Row, asyncio.AbstractEventLoop, asyncio.Future[None]]] = queue.SimpleQueue()

    def write() -> None:
        database = sqlite3.connect(path, isolation_level=None)
        database.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
            "CREATE TABLE t (seq INTEGER PRIMARY KEY, sha BLOB, size INT, body BLOB)"
        )
        while True:
            group = [waiting.get()]
            while len(group) < MOST and not waiting.empty():
                group.append(waiting.get())
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT INTO t (sha, size, body) VALUES (?, ?, ?)", [row for row, _, _ in group])
            database.execute("COMMIT")
            group[0][1].call_soon_threadsafe(_wake, [future for _, _, future in group])

    threading.Thread(target=write, daemon=True).start()

    async def insert(row: Row) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        waiting.put((row, loop, future))
        await future

    return insert


def _wake(futures: list["asyncio.Future[None]"]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


async def postgres_insert(url: str) -> Insert:
    """One connection; as many waiting rows as there are in one statement."""
    connection = await cast("Any", asyncpg).connect(url)
    await connection.execute(
        "CREATE TABLE prototype (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sha bytea, size int, body bytea);"
        "ALTER TABLE prototype ALTER COLUMN body SET STORAGE EXTERNAL"
    )
    waiting: asyncio.Queue[tuple[Row, asyncio.Future[None]]] = asyncio.Queue()
    statement = "INSERT INTO prototype (sha, size, body) SELECT * FROM unnest($1::bytea[], $2::int[], $3::bytea[])"

    async def write() -> None:
        while True:
            group = [await waiting.get()]
            while len(group) < MOST and not waiting.empty():
                group.append(waiting.get_nowait())
            columns = [list(column) for column in zip(*(row for row, _ in group), strict=True)]
            await connection.execute(statement, *columns)
            _wake([future for _, future in group])

    writing = asyncio.create_task(write())

    async def insert(row: Row) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.put_nowait((row, future))
        await future
        assert not writing.done()

    return insert


@post("/v1/artifacts/raw", status_code=201, request_max_body_size=None)
async def store(request: Request[Any, Any, Any]) -> dict[str, str]:
    """Store a body."""
    data = await request.body()
    sha = hashlib.sha256(data).digest()
    await request.app.state.insert((sha, len(data), zstd.compress(data, 1)))
    return {"id": sha.hex()}


@asynccontextmanager
async def opened(app: Litestar) -> AsyncGenerator[None]:
    """Connect when the loop runs."""
    kind, where = sys.argv[2:4]
    app.state.insert = sqlite_insert(where) if kind == "sqlite" else await postgres_insert(where)
    yield


if __name__ == "__main__":
    uvicorn.run(
        Litestar([store], lifespan=[opened]),
        port=int(sys.argv[1]),
        http="httptools",
        loop="uvloop",
        log_level="error",
    )
