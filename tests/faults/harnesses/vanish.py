"""Clients that go away in the middle of uploads and downloads, by the hundred: no descriptor, thread, intent or byte
stays behind when the lease has passed, memory is bounded, and the service stops at once.

python tests/faults/harnesses/vanish.py sqlite+files --clients 600        prints one JSON line
"""

import contextlib
import random
import socket
import time
from collections.abc import Sequence

from faults import combos
from faults.caller import Broken, SlowUpload, vanish
from faults.fork_server import Nursery, Running, nursery
from faults.report import Report, script
from faults.steps import at_once, audit

SETTINGS: dict[str, int | str] = {"sweep_seconds": 1, "grace_seconds": 0, "lease_seconds": 2}
THREADS = 8
LARGE = 6_000_000
MEMORY = 64 * 1024**2
"""What all of them together may leave in use: the bound of one stream."""
PATIENCE = 30.0
LOOK_SECONDS = 0.1
CLEAR_LOOKS = 11
"""In a row, so nothing is left for a full second: the service may not have accepted the last connection yet."""
STOPS_IN = 5.0
WARM_UP = 24
"""Clients before anything is measured: threads, caches and buffers come with the first ones."""
THREADS_OF_ALL = 24
"""Its pools at their bounds: 8 workers, 4 readers, the writer, the loop and its own executor."""
OWN_SOCKETS = 3
"""The listener and the loop's pair."""
TO_DATABASE = 9
"""Connections to PostgreSQL at most: eight readers and the writer."""
TO_S3 = 16
"""Connections to S3 that are kept for the next request, at most as many as were used at once."""


def upload(service: Running, rng: random.Random) -> None:
    """Send a part of a payload and go."""
    size = rng.choice((5_000, 200_000, 3_000_000))
    sending = SlowUpload(*service.address, size, f"tool_call_id={rng.randrange(10**9)}")
    with contextlib.suppress(*Broken):
        left = rng.randrange(size)
        while left:
            piece = rng.randbytes(min(left, 100_000))
            sending.send(piece)
            left -= len(piece)
    sending.vanish(abruptly=rng.random() < 0.5)


def download(service: Running, rng: random.Random, name: str) -> None:
    """Read a part of a payload and go."""
    connection = socket.create_connection(service.address, timeout=30)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    connection.sendall(f"GET /v1/artifacts/{name}/content HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    left = rng.randrange(LARGE // 4)
    while left > 0 and (got := connection.recv(min(left, 65536))):
        left -= len(got)
    vanish(connection, abruptly=rng.random() < 0.5)


def crowd(service: Running, rng: random.Random, clients: int, name: str) -> None:
    """So many of them, some at once."""

    def some(seed: int) -> None:
        mine = random.Random(seed)
        for _ in range(clients // THREADS):
            if mine.random() < 0.6:
                upload(service, mine)
            else:
                download(service, mine, name)

    with at_once(THREADS, some, rng):
        pass


def held(service: Running, opened: combos.Storage) -> list[str]:
    """Blobs that are open, and connections beyond the listener, the loop's own pair and those to the servers."""
    now = service.descriptors()
    kept = OWN_SOCKETS + (0 if opened.embedded else TO_DATABASE) + (TO_S3 if opened.s3 is not None else 0)
    connections = sum(d.startswith("socket") for d in now) - kept
    return [d for d in now if "/blobs/" in d] + ["connection"] * connections


def run(
    storage: str,
    clients: int,
    seed: int,
    faults: Sequence[str] = (),
    shared: Nursery | None = None,
    patience: float = PATIENCE,
) -> Report:
    """A crowd that warms up the service, then the crowd that counts."""
    report, rng = Report("vanish", storage), random.Random(seed)
    with combos.opened(storage, shared=shared is not None) as opened, nursery(shared) as forks:
        service = opened.start(forks, SETTINGS, faults)
        caller = service.caller()
        name = caller.post(rng.randbytes(LARGE), inline_tokens=0).json["id"]
        caller.close()
        crowd(service, rng, WARM_UP, name)
        resident = service.resident()
        crowd(service, rng, clients, name)
        deadline = time.monotonic() + patience
        clear_looks = 0
        while clear_looks < CLEAR_LOOKS and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            clear_looks = 0 if held(service, opened) or opened.count("uploads") else clear_looks + 1
        report.expect("no descriptor is left", not held(service, opened), held(service, opened)[:3])
        report.expect("no intent is left", opened.count("uploads") == 0)
        report.expect("threads are bounded", service.threads() <= THREADS_OF_ALL, service.threads())
        grown = service.resident() - resident
        report.expect("memory is bounded", grown < MEMORY, f"{grown:,} bytes more")
        stop_at_once(service, opened, forks, report)
        report.counts.update({"clients": clients, "KiB more": max(0, grown // 1024)})
    return report


def stop_at_once(service: Running, opened: combos.Storage, forks: Nursery, report: Report) -> None:
    """It still takes payloads, stops at once, and leaves nothing."""
    caller = service.caller()
    report.expect("it goes on", caller.post(b"after", inline_tokens=0).status == 201)
    caller.close()
    start = time.monotonic()
    report.expect("stopped cleanly", service.stop() == 0)
    took = time.monotonic() - start
    report.expect("stopped at once", took < STOPS_IN, f"{took:.1f} s")
    audit(opened, forks, report)


if __name__ == "__main__":
    script(__doc__, run, unit="clients", default=600)
