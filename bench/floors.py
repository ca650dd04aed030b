"""What the service is compared with: the same server not storing, and the same bytes made durable by no service.

python -m bench.floors PORT     serve the first floor
"""

import os
import sqlite3
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from litestar import Litestar, Request, post

INLINE = 32 * 1024


@post("/v1/artifacts/raw", request_max_body_size=None)
async def swallow(request: Request[Any, Any, Any]) -> dict[str, int]:
    """Take a body, keep nothing, answer its size."""
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
    return {"size": size}


def durable(folder: Path, payloads: list[bytes], clients: int) -> float:
    """Payloads a second when each is made durable on its own: a row up to the inline limit, a synced file above."""
    if len(payloads[0]) <= INLINE:
        return _rows(folder, payloads)
    (folder / "files").mkdir()
    with ThreadPoolExecutor(clients) as pool:
        began = time.perf_counter()
        list(pool.map(partial(_file, folder / "files"), payloads))
        return len(payloads) / (time.perf_counter() - began)


def _rows(folder: Path, payloads: list[bytes]) -> float:
    database = sqlite3.connect(folder / "floor.db", isolation_level=None)
    database.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t (body BLOB)")
    began = time.perf_counter()
    for data in payloads:
        database.execute("INSERT INTO t VALUES (?)", (data,))
    took = time.perf_counter() - began
    database.close()
    return len(payloads) / took


def _file(folder: Path, data: bytes) -> None:
    fd = os.open(folder / uuid.uuid4().hex, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(fd, data)
    os.fsync(fd)
    os.close(fd)
    directory = os.open(folder, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


if __name__ == "__main__":
    uvicorn.run(Litestar([swallow]), port=int(sys.argv[1]), http="httptools", loop="uvloop", log_level="error")
