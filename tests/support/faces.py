"""The HTTP interface over the real use cases on one SQLite catalogue, in this process."""

import contextlib
import itertools
import secrets
import shutil
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from typing_extensions import override

from coatcheck.api.http.rates import Allowances
from coatcheck.api.services import Services
from coatcheck.bootstrap.service import contexts, reading_services
from coatcheck.ports.catalog import Catalog
from coatcheck.reading.sources import Sources
from coatcheck.reading.view import OpenView
from coatcheck.runtime.circuit_breaker import CircuitBreaker
from coatcheck.runtime.noop_telemetry import UNMETERED
from coatcheck.storing.content import OpenContent
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.storing.keep_text import KeepText
from coatcheck.storing.policies import Policies
from coatcheck.tools.calls import ListArtifacts
from coatcheck.tools.dispatcher import ToolDispatcher
from coatcheck.tools.read import ReadArtifact
from coatcheck.upkeep.job_schedule import JobSchedule
from coatcheck.usecases.operations.show_overview import ShowOverview
from coatcheck.usecases.payloads.ingest import Ingest
from coatcheck.usecases.retention.administer_holds import Holds
from coatcheck.usecases.retention.administer_retention import AdministerRetention
from coatcheck.usecases.retention.plan_retention import PlanRetention
from coatcheck.usecases.retention.run_retention import RunRetention
from coatcheck.usecases.retention.undo_removal import UndoRemoval
from coatcheck.usecases.tenants.administer_keys import AdministerKeys, AdministerNamespaces
from coatcheck.usecases.tenants.authenticate import Authenticate
from coatcheck.usecases.tenants.show_usage import EmptyNamespace, ShowUsage
from coatcheck.usecases.web_search.budget_search import SearchResults
from coatcheck.usecases.web_search.verify_citations import VerifyCitations
from support.clock import HandClock
from support.faulty_catalog import FaultyCatalog
from support.harness import GRACE, THREADS, TOMBSTONE_LIFE, Harness, readiness_of
from support.memory_blobs import MemoryBlobStore
from support.outlines import SmallExtractor


class FaceHarness(Harness[FaultyCatalog, MemoryBlobStore]):
    """Everything that the routes need. Payloads are in memory; breakers close before the next call."""

    def __init__(self, root: Path, pool: ThreadPoolExecutor, catalog: FaultyCatalog, payload_limit: int) -> None:
        super().__init__(root, pool, catalog, MemoryBlobStore(HandClock()), fallback_bytes=0)
        self.services = self._services(payload_limit)

    @override
    def clear(self) -> None:
        self.catalog.fault = None
        super().clear()

    def _services(self, payload_limit: int) -> Services:
        catalog, clock, tokenizer, pool = self.catalog, self.clock, self.tokenizer, self.pool
        deps = self.deps(payload_limit=payload_limit, ttl=3600)
        ingest, content = Ingest(deps), self.opened()
        keep_text = KeepText(deps, content, SmallExtractor())
        open_view = OpenView(self.find, content, keep_text, deps.ledger)
        readers = reading_services(self.describe(), open_view, tokenizer, pool)
        context, accounts = contexts(catalog, ingest, deps, None, self.find, content, self.session_names)
        policies = Policies(catalog, clock)
        read_artifact = ReadArtifact(
            open_view,
            readers.read_span,
            readers.search,
            readers.outline,
            tokenizer,
            pool,
            passages=readers.windows,
            values=readers.read_json,
        )
        searching = SearchResults(
            ingest=ingest,
            find=self.find,
            keep_text=keep_text,
            sources=Sources(catalog, clock, content, pool),
            tokenizer=tokenizer,
            pool=pool,
            redacting=self.redacting,
        )
        return Services(
            ingest=ingest,
            **vars(readers),
            browse=self.browse,
            extend=self.extend,
            forget=self.forget,
            forget_session=self.forget_session,
            tools=ToolDispatcher(read_artifact, ListArtifacts(self.browse, tokenizer, pool), tokenizer),
            search_results=searching,
            **vars(context),
            overview=ShowOverview(catalog, clock, accounts, self.redacting),
            verify_citations=VerifyCitations(open_view, pool),
            authenticate=Authenticate(catalog, clock),
            keys=AdministerKeys(catalog, clock, secrets.token_bytes),
            namespaces=AdministerNamespaces(catalog, clock),
            policies=policies,
            holds=Holds(catalog, clock, secrets.token_bytes, self.session_names, self.fallback),
            usage=ShowUsage(catalog, policies),
            empty_namespace=EmptyNamespace(catalog, clock, policies, tombstone_life=TOMBSTONE_LIFE),
            retention=self._retention(deps, content),
            clock=clock,
            deletions=clock,
            readiness=readiness_of(deps),
            allowances=Allowances(0, 0, UNMETERED),
            metrics=_no_metrics,
        )

    def _retention(self, deps: IngestDeps, content: OpenContent) -> AdministerRetention:
        catalog, clock = self.catalog, self.clock
        planning = PlanRetention(
            catalog,
            clock,
            self.new_id,
            grace=GRACE,
            flush_reads=self.tidy().flush_reads,
            session_names=self.session_names,
        )
        return AdministerRetention(
            retention=catalog,
            accounts=catalog,
            clock=clock,
            plan=planning,
            running=RunRetention(catalog, clock, planning, self.new_id, me="tests", tombstone_life=TOMBSTONE_LIFE),
            undo=UndoRemoval(catalog, deps, content, grace=GRACE),
            job_schedule=JobSchedule(catalog, clock, default=60),
        )

    @override
    def deps(self, *, catalog: Catalog | None = None, **changed: Any) -> IngestDeps:
        """As the harness's, but a breaker lets the next call through: each look at its clock is an hour later."""
        hurried = itertools.count(0.0, 3600.0).__next__
        breakers = {
            "catalog_breaker": CircuitBreaker("catalogue", hurried),
            "blobs_breaker": CircuitBreaker("blob store", hurried),
        }
        return super().deps(catalog=catalog, **(breakers | changed))


async def _no_metrics(_: str) -> tuple[bytes, str]:
    return b"# EOF\n", "text/plain"


@contextlib.contextmanager
def face_in(root: Path, template: Path, *, payload_limit: int = 1 << 30) -> Generator[FaceHarness]:
    """All services in a directory, over a copy of a migrated database."""
    shutil.copy(template, root / "coatcheck.db")
    catalog = FaultyCatalog.open(root / "coatcheck.db", threads=2)
    with contextlib.closing(catalog), ThreadPoolExecutor(THREADS) as pool:
        yield FaceHarness(root, pool, catalog, payload_limit)
