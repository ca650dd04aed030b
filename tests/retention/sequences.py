"""Random sequences of everything that stores, deletes, expires, evicts and holds, on a real catalogue.

After every operation three promises are compared with the rows themselves: what a hold covers is there with its bytes,
what is pinned was not evicted or expired, and the sums of usage are those of a recount. `OPERATIONS` is a list: whoever
adds an operation adds it there. Run `python -m tests.retention.sequences` for many: 5,000 on each database by default.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from msgspec import UNSET
from msgspec.structs import replace
from sqlalchemy import Connection, bindparam, or_, select

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from coatcheck.adapters.sql.changes import usage as sums
from coatcheck.adapters.sql.engine import looking_engine, sqlite_url
from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.adapters.sql.postgres_connection import PostgresLimits
from coatcheck.adapters.sql.schema import migrate
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.adapters.sql.tables import artifacts, blobs, holds, usage, views
from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.policies.quota import QuotaExceeded, QuotaLimits, Usage
from coatcheck.core.retention.audit import Hold, HoldConflict
from coatcheck.ports.artifacts import (
    DeleteArtifact,
    DeleteSession,
    IdempotencyKey,
    IngestResult,
    PatchArtifact,
    StoreView,
    Touch,
)
from coatcheck.ports.blobs import AbandonUpload, BeginUpload, ReserveMore
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.decisions import Decisions, DeleteNamespace, MarkNamespace, PlaceHold, ReleaseHold
from coatcheck.ports.maintenance import EvictArtifacts, ExpireArtifacts, ForgetBlobs, MarkBlobCorrupt, ReapUploads
from contract.sample_changes import START, Everything, fresh_blob_id, number_of, store, view
from retention import run_operations
from support.postgres_shared import databases

T = TypeVar("T")
LENGTH = 30
"""Operations of one sequence."""
LIFE = timedelta(days=30)
_CONTENTS = [f"{letter}\n".encode() * size for letter in "abcde" for size in (1, 40, 3000)]
_SESSIONS = ("s", "t", None)


class Administered(Everything, Decisions, Protocol):
    """All faces of a catalogue that administrators use too."""


Ask = Callable[[Callable[[Connection], Any]], Awaitable[Any]]


@dataclass
class Opened:
    """A catalogue, and a way to look at its rows past it."""

    catalog: Administered
    ask: Ask


@dataclass
class World:
    """One sequence under way, in namespaces of its own."""

    opened: Opened
    rng: random.Random
    spaces: tuple[str, ...]
    now: datetime = START
    numbers: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    uploads: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    did: Counter[str] = field(default_factory=Counter[str])
    """What was seen to happen, so that a run that tests nothing shows."""
    evicting: bool = False
    expiring: bool = False
    kept: run_operations.Kept = field(default_factory=run_operations.Kept)

    @property
    def catalog(self) -> Administered:
        """What is tested."""
        return self.opened.catalog

    def space(self) -> str:
        """One of the namespaces."""
        return self.rng.choice(self.spaces)

    def some(self) -> tuple[str, int]:
        """An artifact that was stored once, or none that ever was."""
        return self.rng.choice(self.numbers) if self.numbers else (self.space(), 100_000_000_000_000_000)

    def room(self) -> QuotaLimits | None:
        """Limits that are met often."""
        if self.rng.random() < 0.5:
            return None
        return QuotaLimits(self.rng.choice([None, 200, 600]), self.rng.choice([None, 3, 6]))


# ---------------------------------------------------------------------------------------------- operations


async def put(world: World) -> None:
    """Store something: new, a duplicate, the same again; inline or as a file; with and without room."""
    rng, space = world.rng, world.space()
    said = DeclaredMetadata(tool_name="bash", tool_call_id=f"c{rng.randrange(8)}", session=rng.choice(_SESSIONS))
    placement = rng.choice(["inline", "inline", "file"])
    change = store(
        rng.choice(_CONTENTS),
        namespace=space,
        said=said,
        placement=placement,  # pyright: ignore[reportArgumentType] - one of the two
        now=world.now,
        ttl=rng.choice([None, 60, 3600]),
        idle_ttl=rng.choice([None, None, 300]),
        pinned=rng.random() < 0.15,
        key=_key(world) if rng.random() < 0.2 else None,
        text_view=view(rng.choice(_CONTENTS)) if rng.random() < 0.3 else None,
    )
    room = world.room()
    if placement == "file" and not await _begun(world, space, change.blob.id, room):
        return
    change = replace(change, room=room)
    try:
        answer = await world.catalog.commit(change)
    except CoatcheckError as error:
        if error.code is not Code.NAMESPACE_DELETING:
            raise
        world.did["refused in a namespace that goes"] += 1
        return
    world.did[type(answer).__name__] += 1
    if isinstance(answer, IngestResult):
        world.numbers.append((space, number_of(change)))
    if isinstance(answer, QuotaExceeded):
        await _evicted(world, space, answer)
        answer = await world.catalog.commit(change)
        world.did["stored after an eviction" if isinstance(answer, IngestResult) else "full all the same"] += 1


def _key(world: World) -> IdempotencyKey:
    name = f"k{world.rng.randrange(4)}"
    return IdempotencyKey(key=name, fingerprint=name.encode(), expires_at=world.now + timedelta(hours=1))


async def _begun(world: World, space: str, blob_id: str, room: QuotaLimits | None) -> bool:
    begin = BeginUpload(
        namespace=space,
        blob_id=blob_id,
        placement="file",
        lease_until=world.now + timedelta(minutes=15),
        reserve=world.rng.choice([0, 10, 150]),
        room=room,
    )
    answer = await world.catalog.commit(begin)
    if isinstance(answer, QuotaExceeded):
        world.did["no room to begin"] += 1
        return False
    world.uploads.append((space, blob_id))
    if world.rng.random() < 0.3:
        more = ReserveMore(namespace=space, blob_id=blob_id, reserve=world.rng.choice([50, 400]), room=room)
        await world.catalog.commit(more)
    return True


async def _evicted(world: World, space: str, full: QuotaExceeded) -> None:
    world.evicting = True
    change = EvictArtifacts(
        namespace=space,
        now=world.now,
        room=full.room,
        bytes=full.bytes,
        artifacts=full.artifacts,
        tombstone_until=world.now + LIFE,
        limit=world.rng.choice([1, 2, 100]),
    )
    evicted = await world.catalog.commit(change)
    world.did["evicted"] += evicted.artifacts


async def evict(world: World) -> None:
    """Make room, as a limit that was lowered does."""
    room = QuotaLimits(world.rng.choice([None, 0, 60, 300]), world.rng.choice([None, 0, 2]))
    await _evicted(world, world.space(), QuotaExceeded(usage=Usage(namespace=""), room=room, bytes=0, artifacts=0))


async def crash(world: World) -> None:
    """An upload that begins and is never heard of again."""
    await _begun(world, world.space(), fresh_blob_id(), world.room())


async def abandon(world: World) -> None:
    """An upload that its writer gives up; one that is over already, often."""
    if world.uploads:
        space, blob_id = world.rng.choice(world.uploads)
        await world.catalog.commit(AbandonUpload(namespace=space, blob_id=blob_id))


async def reap(world: World) -> None:
    """The reaper."""
    world.did["reaped"] += await world.catalog.commit(ReapUploads(now=world.now, limit=500))


async def keep_view(world: World) -> None:
    """Keep a text view, inline or as a file."""
    space, number = world.some()
    placement = world.rng.choice(["inline", "file"])
    new = view(world.rng.choice(_CONTENTS), placement=placement)  # pyright: ignore[reportArgumentType] - as above
    if placement == "file" and new.blob is not None and not await _begun(world, space, new.blob.id, None):
        return
    kept = await world.catalog.commit(StoreView(namespace=space, number=number, now=world.now, new=new))
    world.did["view kept"] += kept is not None


async def patch(world: World) -> None:
    """Change how long something is kept; bring back what has expired and is held."""
    space, number = world.some()
    rng = world.rng
    change = PatchArtifact(
        namespace=space,
        number=number,
        now=world.now,
        revive=True,
        ttl=rng.choice([UNSET, None, 1, 7200]),
        idle_ttl=rng.choice([UNSET, None, 60]),
        pinned=rng.choice([UNSET, True, False]),
    )
    await world.catalog.commit(change)


async def delete(world: World) -> None:
    """Delete one."""
    space, number = world.some()
    answer = await world.catalog.commit(
        DeleteArtifact(namespace=space, number=number, now=world.now, tombstone_until=world.now + LIFE)
    )
    world.did[
        "delete held" if isinstance(answer, HoldConflict) else "deleted" if answer is True else "nothing deleted"
    ] += 1


async def delete_session(world: World) -> None:
    """Delete a session."""
    answer = await world.catalog.commit(
        DeleteSession(
            namespace=world.space(),
            session=world.rng.choice(["s", "t"]),
            now=world.now,
            tombstone_until=world.now + LIFE,
            limit=world.rng.choice([1, 100]),
        )
    )
    world.did["session held" if isinstance(answer, HoldConflict) else "session deleted"] += 1


async def delete_namespace(world: World) -> None:
    """Begin to delete a namespace, go on with it, or think better of it."""
    space = world.space()
    if world.rng.random() < 0.5:
        mark = MarkNamespace(namespace=space, now=world.now, deleting=world.rng.random() < 0.5)
        answer = await world.catalog.commit(mark)
        world.did["namespace held" if isinstance(answer, HoldConflict) else "namespace marked"] += 1
    gone = await world.catalog.commit(
        DeleteNamespace(namespace=space, now=world.now, tombstone_until=world.now + LIFE, limit=3)
    )
    world.did["gone with its namespace"] += gone


async def expire(world: World) -> None:
    """The sweep of what has expired."""
    world.expiring = True
    world.did["expired"] += await world.catalog.commit(
        ExpireArtifacts(now=world.now, tombstone_until=world.now + LIFE, limit=500)
    )


async def sweep(world: World) -> None:
    """The sweep of dead blobs, without a grace."""
    dead = await world.catalog.dead_blobs(world.now + timedelta(seconds=1), 500)
    await world.catalog.commit(ForgetBlobs(blobs=tuple((blob.namespace, blob.id) for blob in dead)))
    world.did["swept"] += len(dead)


async def mark_corrupt(world: World) -> None:
    """Find the bytes of something lost."""
    space, number = world.some()
    found = await world.catalog.find(space, number, world.now)
    if isinstance(found, FoundArtifact):
        blob_id = found.artifact.blob.id
        await world.catalog.commit(MarkBlobCorrupt(namespace=space, blob_id=blob_id, now=world.now))
        world.did["condemned"] += 1


async def read(world: World) -> None:
    """Read something."""
    await world.catalog.commit(Touch(reads=((*world.some(), world.now),)))


async def hold(world: World) -> None:
    """Place a hold, on one artifact, a session or the namespace, for ever or for a while."""
    rng = world.rng
    space, number = world.some()
    what = rng.choice(["artifact", "artifact", "artifact", "session", "session", "namespace"])
    placed = Hold(
        id=f"hold_{rng.getrandbits(64):016x}",
        namespace=space,
        session=rng.choice(["s", "t"]) if what == "session" else None,
        number=number if what == "artifact" else None,
        reason="asked for",
        made_by="test",
        at=world.now,
        until=rng.choice([None, world.now + timedelta(seconds=100)]),
    )
    answer = await world.catalog.commit(PlaceHold(hold=placed))
    world.did[f"hold on {what}: {answer is True}"] += 1


async def release(world: World) -> None:
    """Release a hold."""
    found = await world.catalog.holds(world.space())
    if found:
        chosen = world.rng.choice(found)
        await world.catalog.commit(ReleaseHold(id=chosen.id, namespace=None, now=world.now))
        world.did["released"] += 1


async def wait(world: World) -> None:
    """Let time pass."""
    world.now += timedelta(seconds=world.rng.choice([1, 50, 400, 4000]))


Operation = Callable[[World], Awaitable[None]]
OPERATIONS: list[tuple[int, Operation]] = [
    (12, put),
    (2, evict),
    (1, crash),
    (1, abandon),
    (1, reap),
    (2, keep_view),
    (3, patch),
    (4, delete),
    (2, delete_session),
    (2, delete_namespace),
    (3, expire),
    (2, sweep),
    (1, mark_corrupt),
    (2, read),
    (3, hold),
    (1, release),
    (3, wait),
    *run_operations.OPERATIONS,
]
"""With how often each is chosen, against the others."""


# ------------------------------------------------------------------------------------------------ promises


# Worked out apart from the conditions that are tested.
_COVERED = (
    select(artifacts.c.namespace, artifacts.c.number)
    .join_from(artifacts, holds, holds.c.namespace == artifacts.c.namespace)
    .where(or_(holds.c.until.is_(None), holds.c.until > bindparam("now", type_=holds.c.until.type)))
    .where(
        or_(
            holds.c.number == artifacts.c.number,
            holds.c.number.is_(None) & (holds.c.session == artifacts.c.session),
            holds.c.number.is_(None) & holds.c.session.is_(None),
        )
    )
)
_PINNED = select(artifacts.c.namespace, artifacts.c.number).where(artifacts.c.pinned.is_(True))
_THERE = select(artifacts.c.namespace, artifacts.c.number)
_HOLLOW = [
    select(table.c.namespace, blobs.c.id)
    .join_from(table, blobs, blobs.c.seq == table.c.blob_seq)
    .where(blobs.c.dead_at.is_not(None))
    for table in (artifacts, views)
]


@dataclass
class Before:
    """What must be there after the next operation."""

    held: set[tuple[str, int]]
    pinned: set[tuple[str, int]]


async def _compared(world: World, before: Before, what: str) -> Before:
    """Compare the rows with the promises, and answer what must be there after the next operation."""

    def question(conn: Connection) -> tuple[set[tuple[str, int]], list[Any], list[Any], Before]:
        there = {(row[0], row[1]) for row in conn.execute(_THERE)}
        hollow = [tuple(row) for statement in _HOLLOW for row in conn.execute(statement)]
        held = {(row[0], row[1]) for row in conn.execute(_COVERED, {"now": world.now})}
        pinned = {(row[0], row[1]) for row in conn.execute(_PINNED)}
        return there, hollow, sums.find_drifts(conn), Before(held, pinned)

    there, hollow, drifted, after = await world.opened.ask(question)
    assert before.held <= there, f"{what} deleted what is held: {before.held - there}"
    if world.evicting or world.expiring:
        assert before.pinned <= there, f"{what} took what is pinned: {before.pinned - there}"
    assert hollow == [], f"{what} left artifacts without their bytes"
    assert drifted == [], f"{what} let usage drift: {drifted}"
    return after


async def sequence(opened: Opened, seed: int, length: int = LENGTH) -> Counter[str]:
    """One sequence; raises AssertionError, naming the operation and the seed, for a promise that is broken."""
    rng = random.Random(seed)
    world = World(opened, rng, (f"a{seed}", f"b{seed}"))
    weights, operations = zip(*OPERATIONS, strict=True)
    names: list[str] = []
    before = Before(set(), set())
    await run_operations.compare_audit(world, "at the start")
    for operation in rng.choices(operations, weights, k=length):
        names.append(operation.__name__)
        world.evicting = world.expiring = False
        world.did["held before"] += len(before.held)
        await operation(world)
        before = await _compared(world, before, f"seed {seed}, {' '.join(names)}")
        await run_operations.compare_audit(world, f"seed {seed}, {' '.join(names)}")
    await _cleared(world)
    return world.did


async def _cleared(world: World) -> None:
    """Leave nothing behind: many sequences share a database."""
    for space in world.spaces:
        for each in await world.catalog.holds(space):
            await world.catalog.commit(ReleaseHold(id=each.id, namespace=None, now=world.now))
        if await world.catalog.usages(space):
            await world.catalog.commit(MarkNamespace(namespace=space, now=world.now, deleting=True))
            while await world.catalog.commit(
                DeleteNamespace(namespace=space, now=world.now, tombstone_until=world.now + LIFE, limit=500)
            ):
                pass
            await world.catalog.commit(MarkNamespace(namespace=space, now=world.now, deleting=False))
    await run_operations.compare_audit(world, "when everything is deleted")
    await run_operations.clear(world)
    world.now += timedelta(days=1)
    await reap(world)
    await sweep(world)
    left = await world.opened.ask(
        lambda conn: [tuple(row) for row in conn.execute(select(usage).where(usage.c.artifacts + usage.c.bytes > 0))]
    )
    assert left == [], f"an empty catalogue says that it holds {left}"


# ------------------------------------------------------------------------------------------------- opening


@asynccontextmanager
async def _sqlite(folder: Path) -> AsyncGenerator[Opened]:
    path = folder / "catalog.db"
    migrate(sqlite_url(path))
    catalog = SqliteCatalog.open(path, threads=2)
    engine = looking_engine(path)
    looking = engine.connect()

    async def ask(question: Callable[[Connection], T]) -> T:
        with looking.begin():
            return question(looking)

    try:
        yield Opened(catalog, ask)
    finally:
        looking.close()
        engine.dispose()
        catalog.close()


@asynccontextmanager
async def _postgresql(_: Path) -> AsyncGenerator[Opened]:
    with databases().lent() as url:
        catalog = await PostgresCatalog.open(url, limits=PostgresLimits(connections=2))
        try:
            yield Opened(catalog, partial(catalog.ask, None))
        finally:
            await catalog.close()


DATABASES: dict[str, Callable[[Path], AbstractAsyncContextManager[Opened]]] = {
    "sqlite": _sqlite,
    "postgresql": _postgresql,
}


_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - folders in it are made with names that nobody guesses
_MEMORY = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
"""What a power loss leaves is not what is tested here."""


async def run(database: str, first: int, count: int, *, show: bool = False) -> Counter[str]:
    """So many sequences on one database; what happened in them."""
    did: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
        async with DATABASES[database](Path(folder)) as opened:
            for seed in range(first, first + count):
                did += await sequence(opened, seed)
                if show and (seed + 1) % 250 == 0:
                    sys.stderr.write(f"{database}: {seed + 1} sequences\n")
    return did


def main() -> None:
    """Run many, and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--database", choices=DATABASES, action="append")
    asked = parser.parse_args()
    for database in asked.database or DATABASES:
        began = time.monotonic()
        did = asyncio.run(run(database, asked.first, asked.count, show=True))
        took = time.monotonic() - began
        sys.stdout.write(f"{database}: {asked.count} sequences of {LENGTH} operations in {took:.0f} s\n")
        sys.stdout.writelines(f"  {what}: {times:,}\n" for what, times in sorted(did.items()))


if __name__ == "__main__":
    main()
