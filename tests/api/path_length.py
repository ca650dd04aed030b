"""Print, as JSON, how many modules and functions of the service some requests pass: `path_length.py DIRECTORY`."""

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from types import FrameType

import httpx

import coatcheck
from coatcheck.api.app import create_app
from coatcheck.bootstrap.service import open_service
from coatcheck.settings import load

PACKAGE = str(Path(coatcheck.__file__).parent) + os.sep
LOG = b"".join(b"%05d INFO request handled in %d ms by worker %d\n" % (n, n * 7 % 93, n % 5) for n in range(340))


class CallCounter:
    """A profile function that notes which code of the service runs while it is switched on, in any thread."""

    def __init__(self) -> None:
        self.is_on = False
        self.modules: set[str] = set()
        self.functions: set[tuple[str, int]] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if self.is_on and event == "call" and code.co_filename.startswith(PACKAGE):
            self.modules.add(code.co_filename)
            if not code.co_name.startswith("<"):  # lambdas and comprehensions belong to their function
                self.functions.add((code.co_filename, code.co_firstlineno))


async def main(data: str) -> None:
    """Counts what several requests of each kind pass: the first one also loads what it needs."""
    counter = CallCounter()
    threading.setprofile(counter)  # for the writer's thread, which starts with the service
    counts: dict[str, tuple[int, int]] = {}
    async with open_service(load({}, data=data, port=0)) as running:
        app = create_app(running.services, running.limits)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:

            async def send(name: str, method: str, url: str, content: bytes | None = None) -> httpx.Response:
                headers = {} if content is None else {"content-type": "text/plain"}
                counter.modules.clear()
                counter.functions.clear()
                counter.is_on = True
                sys.setprofile(counter)
                response = await client.request(method, url, content=content, headers=headers)
                sys.setprofile(None)
                counter.is_on = False
                assert response.is_success, response.text
                count = len(counter.modules), len(counter.functions)
                # The least of several: what runs every second may run meanwhile.
                counts[name] = min(counts.get(name, count), count)
                return response

            for number in range(6):
                await send("put of 18 bytes", "POST", "/v1/artifacts/raw", b"eighteen bytes  %02d" % number)
            receipt = await client.post("/v1/artifacts/raw", content=LOG, headers={"content-type": "text/plain"})
            for number in range(6):
                content = LOG.replace(b"0 ms", b"%d ms" % number)[: 16 * 1024]
                await send("put of 16 KB", "POST", "/v1/artifacts/raw", content)
            for offset in range(10, 60, 10):
                url = f"/v1/artifacts/{receipt.json()['id']}/read?offset={offset}&limit=10"
                await send("read of lines", "GET", url)
    sys.stdout.write(json.dumps(counts))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
