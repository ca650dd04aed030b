"""Print, as JSON, how many modules and functions of the service some requests pass: `path_length.py DIRECTORY`."""

import asyncio
import json
import os
import sys
import threading
from collections import Counter, defaultdict
from pathlib import Path
from types import FrameType

import httpx

import coatcheck
from coatcheck.api.app import create_app
from coatcheck.bootstrap.service import open_service
from coatcheck.jobs import schedule
from coatcheck.settings import load

PACKAGE = str(Path(coatcheck.__file__).parent) + os.sep
LOG = b"".join(b"%05d INFO request handled in %d ms by worker %d\n" % (n, n * 7 % 93, n % 5) for n in range(340))


class CallCounter:
    """A profile function that notes which code of the service runs while it is switched on, in any thread."""

    def __init__(self) -> None:
        self.is_on = False
        self.passed: set[tuple[str, int, str]] = set()
        """By code object: its file, first line and name."""

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if self.is_on and event == "call" and code.co_filename.startswith(PACKAGE) and not _is_in_job(frame):
            self.passed.add((code.co_filename, code.co_firstlineno, code.co_name))


def _is_in_job(frame: FrameType) -> bool:
    """Whether a periodic job called it: what jobs do while a request is slow, under load, is not the request's."""
    caller: FrameType | None = frame
    while caller is not None:
        if caller.f_code.co_filename == schedule.__file__:
            return True
        caller = caller.f_back
    return False


async def main(data: str) -> None:
    """Counts what at least 80 % of the requests of a kind pass: the first also loads what it needs, and work of jobs
    or of an earlier request in other threads runs meanwhile in some.
    """
    counter = CallCounter()
    threading.setprofile(counter)  # for the writer's thread, which starts with the service
    requests: Counter[str] = Counter()
    passed: dict[str, Counter[tuple[str, int, str]]] = defaultdict(Counter)
    async with open_service(load({}, data=data, port=0)) as running:
        app = create_app(running.services, running.limits)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:

            async def send(name: str, method: str, url: str, content: bytes | None = None) -> httpx.Response:
                headers = {} if content is None else {"content-type": "text/plain"}
                counter.passed.clear()
                counter.is_on = True
                sys.setprofile(counter)
                response = await client.request(method, url, content=content, headers=headers)
                sys.setprofile(None)
                counter.is_on = False
                assert response.is_success, response.text
                requests[name] += 1
                passed[name].update(counter.passed)
                return response

            for number in range(15):
                await send("put of 18 bytes", "POST", "/v1/artifacts/raw", b"eighteen bytes  %02d" % number)
            receipt = await client.post("/v1/artifacts/raw", content=LOG, headers={"content-type": "text/plain"})
            for number in range(15):
                content = LOG.replace(b"0 ms", b"%d ms" % number)[: 16 * 1024]
                await send("put of 16 KB", "POST", "/v1/artifacts/raw", content)
            for offset in range(10, 160, 10):
                url = f"/v1/artifacts/{receipt.json()['id']}/read?offset={offset}&limit=10"
                await send("read of lines", "GET", url)
    counts = {}
    for name, times in passed.items():
        usual = [code for code in times if 5 * times[code] >= 4 * requests[name]]
        # Lambdas and comprehensions belong to their function.
        functions = {(file, line) for file, line, function in usual if not function.startswith("<")}
        counts[name] = len({file for file, _, _ in usual}), len(functions)
    sys.stdout.write(json.dumps(counts))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
