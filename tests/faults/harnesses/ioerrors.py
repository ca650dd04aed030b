"""Fail the k-th call on a file, for every k of a whole life: ingest small and large, fold, read, delete, sweep.

python tests/faults/harnesses/ioerrors.py sqlite+files --lives 0     prints one JSON line; 0: until no call is left

One process runs the real use cases on a real store and is never restarted; SQLite's calls fail as ours do (see
syscalls.py). What must hold, for every k and every error: what was answered as done is done; it is there after a power
failure right then; the next life succeeds; at the end nothing is left.
"""

import asyncio
import contextlib
import errno
import json
import os
import random
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from coatcheck.adapters.sql.engine import sqlite_url
from coatcheck.adapters.sql.schema import migrate
from coatcheck.core import ids
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.catalog import ArtifactFilter
from faults import combos, injected_faults, syscalls
from faults.disk import Disk, failing
from faults.report import Report, script
from support.clock import INSTANT
from support.harness import CALLER, GRACE, LEASE, Harness, harness_in
from support.samples import noise

ERRORS = (errno.EIO, errno.ENOSPC)
HONEST = {Code.STORAGE_FULL, Code.STORAGE_UNAVAILABLE, Code.UPLOAD_FENCED}
SMALL, LARGE = 3_000, 200_000
_MOST = 65536


def payload(life: int, name: str) -> bytes:
    """The payload of a step: the same in both processes."""
    return noise(SMALL if name == "small" else LARGE, seed=life * 2 + (name == "small"))


@dataclass
class Life:
    """One run through everything, in the watched process, and what came of it."""

    harness: Harness
    number: int
    done: dict[str, str] = field(default_factory=dict[str, str])
    """Step to artifact ID, of what is acknowledged and not asked to go."""
    failed: int = 0
    bugs: list[str] = field(default_factory=list[str])

    async def step(self, call: Any) -> Any:  # noqa: ANN401 - any awaitable and its answer
        """What a call answers; None when it failed honestly."""
        try:
            return await call
        except CoatcheckError as error:
            self.failed += 1
            if error.code not in HONEST:
                self.bugs.append(f"answered {error.code}: {error.detail}")
        except Exception as error:  # noqa: BLE001 - that there is none is what is tested
            self.bugs.append(repr(error))
        return None

    async def store(self, step: str, what: str) -> None:
        """Store a payload; `idle_ttl` has its reads noted."""
        said = {"tool_call_id": f"{step}-{self.number}"}
        receipt = await self.step(self.harness.put(payload(self.number, what), said=said, ttl=None, idle_ttl=86400))
        if receipt is not None and receipt.stored:
            self.done[step] = receipt.id
        elif receipt is not None:
            self.failed += 1
            codes = {w.code for w in receipt.warnings}
            if codes.isdisjoint({str(Code.STORAGE_FULL), str(Code.STORAGE_UNAVAILABLE)}):
                self.bugs.append(f"not stored, because {codes}")

    async def read(self, step: str, what: str) -> None:
        """Read what was stored."""
        if step in self.done:
            content = await self.step(self.harness.content(self.done[step]))
            if content is not None and content != payload(self.number, what):
                self.bugs.append(f"{step}: wrong bytes")

    async def forget(self, step: str) -> None:
        """Delete what was stored."""
        if step in self.done:
            name = self.done.pop(step)
            if await self.step(self._forget(name)):
                await self.gone(name)

    async def _forget(self, name: str) -> bool:
        await self.harness.forget(CALLER, ids.parse(name))
        return True

    async def gone(self, name: str) -> None:
        """An acknowledged deletion is one."""
        try:
            await self.harness.find(CALLER, ids.parse(name))
        except CoatcheckError as error:
            if error.code in HONEST | {Code.ARTIFACT_GONE}:
                return
        self.bugs.append(f"{name} was deleted and is there")

    async def whole(self) -> None:
        """All of it."""
        await self.store("small", "small")
        await self.store("large", "large")
        await self.store("folded", "large")
        await self.read("small", "small")
        await self.read("folded", "large")
        await self.step(self.harness.tidy()())
        await self.forget("large")
        self.harness.clock.forward(max(GRACE, LEASE) + INSTANT)
        await self.step(self.harness.tidy()())


async def live(control: socket.socket, watch: socket.socket, root: Path, faults: Sequence[str]) -> None:
    """The watched process: a life for each message, and the end of all of them at the last."""
    loop = asyncio.get_running_loop()
    syscalls.install(watch, reads=True)
    watch.close()
    injected_faults.inject(faults)
    with harness_in(root, root / "unused") as harness:
        if faults:
            kind = {"deaf": injected_faults.DeafFileSystem, "no-sync": injected_faults.WithoutSync}[faults[0]]
            harness.blobs = type(harness.blobs)(root, harness.pool, kind())
        kept: list[str] = []
        while (message := await loop.run_in_executor(None, control.recv, _MOST)) not in {b"", b"end"}:
            life = Life(harness, int(message))
            await life.whole()
            kept += life.done.values()
            await harness.rest()
            answer = {"done": life.done, "failed": life.failed, "bugs": life.bugs}
            control.send(json.dumps(answer).encode())
        for name in kept:
            with contextlib.suppress(CoatcheckError):
                await harness.forget(CALLER, ids.parse(name))
        async for artifact in _everything(harness):  # what was stored although its answer was an error
            await harness.forget(CALLER, ids.parse(artifact))
        for _ in range(2):
            harness.clock.forward(max(GRACE, LEASE) + INSTANT)
            await harness.tidy()()
        control.send(json.dumps({"empty": harness.is_empty()}).encode())


async def _everything(harness: Harness) -> AsyncIterator[str]:
    while page := (await harness.browse(CALLER, ArtifactFilter(), None, 200)).items:
        for artifact in page:
            yield artifact.id


class Place(NamedTuple):
    """A call of a life: the n-th of its sort, because reads by several threads come in any order."""

    sort: str
    """The name of the call and what it is made on."""
    nth: int
    error: int

    def __str__(self) -> str:
        """For reports."""
        return f"{errno.errorcode[self.error]} at {self.sort} number {self.nth}"


@dataclass
class Due:
    """Which call fails, and how many of each sort there were."""

    place: Place | None = None
    seen: Counter[str] = field(default_factory=Counter[str])

    def __call__(self, call: syscalls.Call) -> int:
        """The error that is due."""
        name = Path(call.path).name
        sort = f"{call.name} {'blob' if len(name) == 32 else 'shard' if len(name) == 2 else name}"
        self.seen[sort] += 1
        place = self.place  # the harness may take it back at any moment
        return place.error if place is not None and place[:2] == (sort, self.seen[sort] - 1) else 0


def places(seen: Counter[str], lives: int, only: str, rng: random.Random) -> list[Place]:
    """Which call fails with which error: all, or so many of them, one of every sort before a second of any."""
    every = [
        Place(sort, nth, error)
        for error in ERRORS
        for sort, count in sorted(seen.items())
        for nth in range(count)
        if only in {"", sort}
    ]
    if lives == 0:
        return every
    rng.shuffle(every)
    turns: Counter[str] = Counter()
    ranked: list[tuple[int, Place]] = []
    for place in every:
        ranked.append((turns[place.sort], place))
        turns[place.sort] += 1
    return [place for _, place in sorted(ranked)[:lives]]


async def survived(image: Path, done: dict[str, str], life: int) -> list[str]:
    """What is not there after a power failure although it was acknowledged."""
    lost: list[str] = []
    with harness_in(image, image / "unused") as harness:
        for step, name in done.items():
            try:
                held = await harness.content(name) == payload(life, "small" if step == "small" else "large")
            except CoatcheckError as error:
                lost.append(f"{step} ({error.code})")
            else:
                lost += [] if held else [f"{step} (wrong bytes)"]
    return lost


def run(storage: str, lives: int, seed: int, faults: Sequence[str] = (), only: str = "") -> Report:
    """A life for each k and each error, or for the calls of one sort; each is followed by one without."""
    if storage != combos.EMBEDDED:
        raise SystemExit("the calls of a database server or an S3 store are not the service's")
    if (why := syscalls.why_not()) is not None:
        raise SystemExit(why)
    report, rng = Report("ioerrors", storage), random.Random(seed)
    with combos.scratch() as folder:
        root = folder / "data"
        root.mkdir()
        migrate(sqlite_url(root / "coatcheck.db"))
        disk, due = Disk(root), Due()
        watch = syscalls.Watch(root, failing(disk, due), keep_data=True)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fds = (theirs.fileno(), watch.theirs.fileno())
        command = [sys.executable, __file__, "live", *map(str, fds), str(root), *faults]
        environment = {"PATH": os.defpath, "PYTHONPATH": str(Path(__file__).parents[2])}
        child = subprocess.Popen(command, pass_fds=fds, env=environment)
        theirs.close()
        try:
            each(ours, disk, due, lambda seen: places(seen, lives, only, rng), report, folder)
            due.place = None
            ours.send(b"end")
            report.expect("nothing is left", _answer(ours)["empty"])
            report.expect("ended cleanly", child.wait(60) == 0)
        finally:
            child.kill()
            child.wait()
            ours.close()
            watch.join()
    return report


Choice = Callable[[Counter[str]], list[Place]]


def each(control: socket.socket, disk: Disk, due: Due, choose: Choice, report: Report, folder: Path) -> None:
    """A life with an error, a power failure beside it, a life without, for each place that is chosen."""
    rng = random.Random(len(report.harness))
    _live(control, due, 0)  # what is made once is made
    whole = _live(control, due, 1)
    report.expect("a life without errors succeeds", not whole["failed"] and not whole["bugs"], whole)
    chosen = choose(Counter(due.seen))
    report.counts.update({"calls in a life": due.seen.total(), "sorts of calls": len(due.seen)})
    for turn, place in enumerate(chosen):
        life, due.place = 2 * turn + 2, place
        answer = _live(control, due, life)
        due.place = None
        for bug in answer["bugs"]:
            # SQLite tells a disk that cannot be read (SQLITE_IOERR_CORRUPTFS) as SQLITE_CORRUPT.
            told = place.sort.startswith("pread64 coatcheck.db") and "catalogue's database is damaged" in bug
            report.expect("answered honestly", told, f"{place}: {bug}")
        image = folder / f"image-{turn}"
        disk.image(image, rng if turn % 2 else None)
        for lost in asyncio.run(survived(image, answer["done"], life)):
            report.broke("durable when acknowledged", f"{place}: {lost}")
        shutil.rmtree(image)
        after = _live(control, due, life + 1)
        report.expect("the next one succeeds", not after["failed"] and not after["bugs"], f"{place}: {after}")
        report.counts["errors"] += 1
        report.counts["errors that somebody was told of"] += answer["failed"] > 0


def _live(control: socket.socket, due: Due, life: int) -> dict[str, Any]:
    due.seen.clear()
    control.send(str(life).encode())
    return _answer(control)


def _answer(control: socket.socket) -> dict[str, Any]:
    raw = control.recv(_MOST)
    assert raw, "the watched process died"
    value: dict[str, Any] = json.loads(raw)
    return value


if __name__ == "__main__":
    if sys.argv[1:2] == ["live"]:
        pair = [socket.socket(fileno=int(fd)) for fd in sys.argv[2:4]]
        asyncio.run(live(pair[0], pair[1], Path(sys.argv[4]), sys.argv[5:]))
    else:
        script(__doc__, run, unit="lives", default=0)
