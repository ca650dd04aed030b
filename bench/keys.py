"""What a key costs a request: the same requests with a key and without, and the look-ups alone, on both databases.

    python bench/keys.py

Ratios within one run; the machine's other work is in all of them alike. Best of several rounds.
"""

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from coatcheck.api.app import create_app
from coatcheck.bootstrap import open_service
from coatcheck.bootstrap.service import RunningService
from coatcheck.core import keys
from coatcheck.core.artifact import Caller
from coatcheck.settings import Settings
from support.postgres_shared import databases

ROUNDS = 7
PAYLOAD = ("a line of output\n" * 240).encode()


@contextlib.asynccontextmanager
async def opened(database: str) -> AsyncGenerator[RunningService]:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        url = "" if database == "sqlite" else stack.enter_context(databases().lent())
        settings = Settings(data=folder, database_url=url, extract_workers=0)
        async with open_service(settings) as running:
            yield running


async def timed(work: Callable[[], Awaitable[object]], times: int) -> tuple[float, float]:
    """Microseconds of wall time and of computing for one, the best round."""
    walls: list[float] = []
    computing: list[float] = []
    for _ in range(ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(times):
            await work()
        walls.append((time.perf_counter() - wall) / times * 1e6)
        computing.append((time.process_time() - cpu) / times * 1e6)
    return min(walls), min(computing)


async def measured(database: str) -> None:
    async with opened(database) as running:
        services = running.services
        transport = httpx.ASGITransport(create_app(services, running.limits))
        calls = 0

        async def ingest(headers: dict[str, str]) -> None:
            nonlocal calls
            calls += 1
            body = b"%d\n" % calls + PAYLOAD
            assert (await client.post("/v1/artifacts/raw", content=body, headers=headers)).status_code == 201

        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            wall, cpu = await timed(lambda: services.authenticate(None, "ingest"), 200)
            print(f"{database}: no key needed: {wall:.0f} us, computing {cpu:.0f} us")
            wall, cpu = await timed(lambda: ingest({}), 30)
            print(f"{database}: a small payload without a key: {wall:.0f} us, computing {cpu:.0f} us")
            _, secret = await services.keys.create(
                Caller(), namespace="default", name="bench", scopes=("ingest", "read")
            )
            text = secret.reveal()
            keyed_wall, keyed_cpu = await timed(lambda: ingest({"authorization": f"Bearer {text}"}), 30)
            print(
                f"{database}: a small payload with a key: {keyed_wall:.0f} us, computing {keyed_cpu:.0f} us "
                f"({keyed_wall / wall:.2f} and {keyed_cpu / cpu:.2f} times)"
            )
        one, cpu = await timed(lambda: services.authenticate(text, "ingest"), 200)
        print(f"{database}: a key alone: {one:.0f} us, computing {cpu:.0f} us")
        for crowd in (8, 64):
            many, cpu = await timed(
                lambda crowd=crowd: asyncio.gather(*(services.authenticate(text, "ingest") for _ in range(crowd))), 20
            )
            print(f"{database}: {crowd} at once: {many / crowd:.0f} us each, computing {cpu / crowd:.0f} us each")


def parsing() -> None:
    _, secret = keys.make(bytes(8), bytes(32))
    text = secret.reveal()
    for name, tried in (("a key", text), ("a mistyped key", text[:-1] + ("a" if text[-1] != "a" else "b"))):
        best = 1e9
        for _ in range(ROUNDS):
            began = time.perf_counter()
            for _ in range(2000):
                with contextlib.suppress(Exception):
                    keys.parse(tried)
            best = min(best, (time.perf_counter() - began) / 2000 * 1e6)
        print(f"reading {name}: {best:.1f} us")


if __name__ == "__main__":
    parsing()
    for which in ("sqlite", "postgresql"):
        asyncio.run(measured(which))
