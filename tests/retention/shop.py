"""The verbs of retention over a real catalogue and real files, at an hour that the test decides."""

import random
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from coatcheck.adapters.blobs.files import FileBlobStore
from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core import ids
from coatcheck.core.artifact import Caller, Said
from coatcheck.core.audit import By, unpack_numbers
from coatcheck.core.blob_ids import new_blob_id
from coatcheck.core.retention import Job, Outcome, Plan, Run, Scope
from coatcheck.ports.catalog import Filter, Found
from coatcheck.usecases.agenda import Agenda
from coatcheck.usecases.content import OpenContent
from coatcheck.usecases.forget import Forget, ForgetSession
from coatcheck.usecases.ingest import Ingest
from coatcheck.usecases.ingest_places import IngestPlaces
from coatcheck.usecases.offer import Offer
from coatcheck.usecases.outage import Outage
from coatcheck.usecases.plan_retention import PlanRetention
from coatcheck.usecases.reads import ReadLog
from coatcheck.usecases.run_retention import Chore, RunRetention
from coatcheck.usecases.shelter import Shelter
from coatcheck.usecases.tidy import Tidy
from coatcheck.usecases.trail import Trail
from coatcheck.usecases.undo_removal import UndoRemoval
from contract.conftest import CATALOGS
from contract.making import START, Everything
from usecases.house import stream

GRACE = timedelta(seconds=600)
LIFE = timedelta(days=30)
ALICE = By("alice", "k1")


class MovedClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self._now = START

    def now(self) -> datetime:
        return self._now

    def forward(self, **by: float) -> None:
        self._now += timedelta(**by)

    def seconds(self) -> float:
        return self.now().timestamp()


class Shop:
    """Everything opened."""

    def __init__(self, catalog: Everything, folder: Path, pool: ThreadPoolExecutor) -> None:
        self.catalog = catalog
        self.clock = MovedClock()
        self._rng = random.Random(8102)
        self.blobs = FileBlobStore(folder, pool)
        self.open_content = OpenContent(catalog, self.blobs, pool)
        self.places = IngestPlaces(
            catalog=catalog,
            blobs=self.blobs,
            clock=self.clock,
            pool=pool,
            tokenizer=load_tokenizer(),
            new_blob_id=self.new_id,
            lease=timedelta(seconds=900),
            inline_bytes=4 * 1024,
            payload_limit=1 << 30,
            ttl=30 * 86400,
            card_tokens=600,
            inline_tokens=1000,
            shelter=Shelter(0),
            catalog_outage=Outage("catalogue", self.clock.seconds),
            blobs_outage=Outage("blob store", self.clock.seconds),
        )
        self.agenda = Agenda(catalog, self.clock, default=10, monotonic=self.clock.seconds)
        self.tidy = Tidy(
            catalog,
            catalog,
            self.blobs,
            self.clock,
            ReadLog(),
            tombstone_life=LIFE,
            grace=GRACE,
            agenda=self.agenda,
            retention=catalog,
        )
        self.plan_retention = PlanRetention(catalog, self.clock, self.new_id, grace=GRACE, settled=self.tidy.settled)
        self.runs = self.worker("first")
        self.undo = UndoRemoval(catalog, self.places, self.open_content, grace=GRACE)
        self.trail = Trail(catalog)
        self.forget = Forget(catalog, self.clock, LIFE)
        self.forget_session = ForgetSession(catalog, self.clock, LIFE)

    def new_id(self) -> str:
        return new_blob_id(self.clock.now(), self._rng.randbytes(10))

    def worker(self, name: str) -> RunRetention:
        """Another process's way to carry out runs."""

        async def sweep() -> Chore:
            swept = await self.tidy.sweep()
            return Chore(items=swept.items, bytes=swept.bytes)

        return RunRetention(
            self.catalog,
            self.clock,
            self.plan_retention,
            self.new_id,
            me=name,
            tombstone_life=LIFE,
            chores={Job.SWEEP: sweep},
        )

    async def put(self, payload: bytes, *, namespace: str = "acme", **said: Any) -> int:  # noqa: ANN401 - of an Offer
        """Store a payload; answers its number."""
        offer = {name: said.pop(name) for name in ("ttl", "idle_ttl", "pinned") if name in said}
        asked = Offer(said=Said(**said), **offer)
        receipt = await Ingest(self.places)(Caller(namespace=namespace), stream(payload), lambda: asked)
        assert receipt.stored
        return ids.parse(receipt.id)

    async def plan(self, job: Job, **scope: Any) -> Plan:  # noqa: ANN401 - of a Scope
        return await self.plan_retention(job, Scope(**scope))

    async def apply(self, plan: Plan, *, confirm: bool = False) -> Run:
        """Apply a plan, to the end of its run."""
        run = await self.runs.apply(plan.digest, confirm=confirm, by=ALICE, wait=60)
        assert run.outcome is not Outcome.RUNNING
        return run

    async def there(self, namespace: str = "acme") -> set[int]:
        """The numbers of all rows of a namespace that are live."""
        found: set[int] = set()
        before: int | None = None
        while True:
            page = await self.catalog.list_artifacts(namespace, Filter(), self.clock.now(), before=before, limit=200)
            found |= {ids.parse(a.id) for a in page.artifacts}
            if page.before is None:
                return found
            before = page.before

    async def removed_lines(self) -> list[int]:
        """Every removal that the audit tells of."""
        lines = await self.catalog.audit_lines(after=0, limit=10_000)
        return [n for line in lines if line.action == "artifact.removed" for n in unpack_numbers(line.numbers)]

    async def bytes_of(self, number: int, namespace: str = "acme") -> bytes:
        """An artifact's payload, read anew."""
        found = await self.catalog.find(namespace, number, self.clock.now(), with_bytes=True)
        assert isinstance(found, Found)
        return await self.open_content(found).read(0, found.artifact.measure.size)

    def now(self) -> datetime:
        return self.clock.now()


@asynccontextmanager
async def shop_in(database: str, folder: Path) -> AsyncGenerator[Shop]:
    """A shop on a database of this kind."""
    opening: AbstractAsyncContextManager[Any] = CATALOGS[database](folder)
    with ThreadPoolExecutor(4) as pool:
        async with opening as catalog:
            yield Shop(catalog, folder, pool)


__all__ = ["ALICE", "GRACE", "START", "Everything", "Shop", "shop_in"]
