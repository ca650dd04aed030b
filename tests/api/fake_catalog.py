"""A catalogue in a dict, and the use cases over it: everything real but the database."""
# ruff: noqa: ARG002 - one namespace, and no time

import secrets
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from msgspec import UNSET, structs

from api.no_retention import no_retention
from coatcheck.adapters.blobs.memory import MemoryBlobStore
from coatcheck.adapters.clock import SystemClock
from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.api.http.rates import Allowances
from coatcheck.api.services import Services
from coatcheck.bootstrap.contexts import contexts
from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Blob, Gone
from coatcheck.core.blob_ids import new_blob_id
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.expiry import expiry
from coatcheck.core.quota import Usage
from coatcheck.core.session_usage import SessionUsage, UsageDelta
from coatcheck.core.view_inputs import view_inputs
from coatcheck.ports.artifacts import (
    DeleteArtifact,
    DeleteSession,
    FoundView,
    IngestResult,
    KeyConflict,
    KeyRecord,
    NewView,
    PatchArtifact,
    StoreArtifact,
    StoredView,
    StoreView,
    Touch,
    UploadFenced,
)
from coatcheck.ports.catalog import ArtifactFilter, ArtifactPage, FoundArtifact, RunKey
from coatcheck.ports.change import CatalogChange
from coatcheck.ports.maintenance import EvictArtifacts, EvictionResult, MarkBlobCorrupt
from coatcheck.ports.session_accounts import AddSessionUsage
from coatcheck.ports.uploads import AbandonUpload, BeginUpload, RenewUpload, ReserveMore
from coatcheck.reading.sources import Sources
from coatcheck.reading.view import OpenView
from coatcheck.runtime.circuit_breaker import CircuitBreaker
from coatcheck.runtime.noop_telemetry import UNMETERED
from coatcheck.storing.content import OpenContent
from coatcheck.storing.fallback_buffer import FallbackBuffer
from coatcheck.storing.find import Find
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.storing.keep_text import KeepText
from coatcheck.storing.policies import Policies
from coatcheck.storing.reads import ReadLog
from coatcheck.tools.dispatcher import ToolDispatcher
from coatcheck.tools.listing import ListArtifacts
from coatcheck.tools.read import ReadArtifact
from coatcheck.usecases.administer_holds import Holds
from coatcheck.usecases.administer_keys import AdministerKeys, AdministerNamespaces
from coatcheck.usecases.authenticate import Authenticate
from coatcheck.usecases.browse import Browse
from coatcheck.usecases.budget_search import SearchResults, SearchResultsDeps
from coatcheck.usecases.describe import Describe
from coatcheck.usecases.empty_namespace import EmptyNamespace
from coatcheck.usecases.extend import Extend
from coatcheck.usecases.find_passages import FindPassages
from coatcheck.usecases.forget import Forget, ForgetSession
from coatcheck.usecases.ingest import Ingest
from coatcheck.usecases.outline import Outline
from coatcheck.usecases.read import Read
from coatcheck.usecases.read_json import ReadJson
from coatcheck.usecases.search import Search
from coatcheck.usecases.show_usage import ShowUsage
from coatcheck.usecases.verify_citations import VerifyCitations
from support.memory_decisions import MemoryDecisions
from support.memory_keys import MemoryKeys
from support.outlines import SmallExtractor
from support.seals import seal_key


class FakeCatalog:
    """Catalog over one namespace, without time: nothing expires."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Be as new."""
        self.rows: dict[int, tuple[Artifact, bytes | None]] = {}
        self.views: dict[int, FoundView] = {}
        self.gone: dict[int, Gone] = {}
        self.keys: dict[str, KeyRecord] = {}
        self.uploads: set[str] = set()
        self.accounts: dict[str, SessionUsage] = {}
        self.broken: Exception | None = None

    async def commit(self, change: CatalogChange[Any], /) -> Any:  # noqa: ANN401 - the change's own answer
        handlers: dict[type[CatalogChange[Any]], Callable[[Any], object]] = {
            BeginUpload: lambda change: self.uploads.add(change.blob_id),
            ReserveMore: lambda change: change.blob_id in self.uploads,
            RenewUpload: lambda change: change.blob_id in self.uploads,
            AbandonUpload: lambda change: self.uploads.discard(change.blob_id),
            StoreArtifact: self._store,
            StoreView: self._keep_view,
            PatchArtifact: self._patch,
            DeleteArtifact: self._delete,
            DeleteSession: self._delete_session,
            AddSessionUsage: self._add_session_usage,
            EvictArtifacts: lambda _: EvictionResult(0, enough=False),
            MarkBlobCorrupt: lambda _: False,
            Touch: lambda _: None,
        }
        return handlers[type(change)](change)

    async def holds_within(self, namespace: str, session: str | None, now: datetime) -> None:
        del namespace, session, now

    async def usage_of(self, namespace: str) -> Usage:
        return Usage(namespace=namespace, artifacts=len(self.rows))

    def _store(self, change: StoreArtifact) -> IngestResult | UploadFenced | KeyConflict:
        if self.broken is not None:
            raise self.broken
        self.uploads.discard(change.blob.id)
        number = ids.number(change.identity)
        if number in self.rows:
            return self._again(change, number)
        artifact = Artifact(
            namespace=change.namespace,
            id=ids.render(number),
            said=change.said,
            measure=change.measure,
            facts=change.facts,
            blob=change.blob,
            created_at=change.now,
            expires_at=expiry(change.now, change.now, ttl=change.ttl, idle_ttl=change.idle_ttl, pinned=change.pinned),
            ttl=change.ttl,
            idle_ttl=change.idle_ttl,
            pinned=change.pinned,
        )
        self.rows[number] = (artifact, change.inline)
        if change.text_view is not None:
            self.views[number] = _kept(change.text_view)
        if change.key is not None:
            self.keys[change.key.key] = KeyRecord(change.key.fingerprint, number, created=True)
        return IngestResult(artifact, created=True, blob_used=True)

    def _again(self, change: StoreArtifact, number: int) -> IngestResult:
        there, inline = self.rows[number]
        said = change.said.following(there.said)
        if said is there.said:
            return IngestResult(there, created=False, blob_used=False)
        artifact = structs.replace(there, said=said, facts=change.facts)
        self.rows[number] = (artifact, inline)
        if view_inputs(said, change.facts) != view_inputs(there.said, there.facts):
            self.views.pop(number, None)
            if change.text_view is not None:
                self.views[number] = _kept(change.text_view)
        return IngestResult(artifact, created=False, blob_used=False, redeclared=True)

    async def same_bytes(self, namespace: str, sha256: bytes, size: int) -> Blob | None:
        return next((a.blob for a, _ in self.rows.values() if (a.blob.sha256, a.blob.size) == (sha256, size)), None)

    def _keep_view(self, change: StoreView) -> StoredView | UploadFenced | None:
        if self.broken is not None:
            raise self.broken
        if change.new.blob is not None:
            self.uploads.discard(change.new.blob.id)
        if change.number not in self.rows:
            return None
        ours = change.number not in self.views
        found = self.views.setdefault(change.number, _kept(change.new))
        return StoredView(found, blob_used=ours and found.blob is not None)

    def _patch(self, change: PatchArtifact) -> Artifact | Gone | None:
        if change.number not in self.rows:
            return self.gone.get(change.number)
        artifact, inline = self.rows[change.number]
        labels = artifact.said.labels if change.labels is UNSET else change.labels
        new = structs.replace(
            artifact,
            said=structs.replace(artifact.said, labels=labels),
            pinned=artifact.pinned if change.pinned is UNSET else change.pinned,
            ttl=artifact.ttl if change.ttl is UNSET else change.ttl,
            idle_ttl=artifact.idle_ttl if change.idle_ttl is UNSET else change.idle_ttl,
        )
        self.rows[change.number] = (new, inline)
        return new

    def _delete(self, change: DeleteArtifact) -> bool | Gone | None:
        if change.number not in self.rows:
            return self.gone.get(change.number)
        artifact, _ = self.rows.pop(change.number)
        self.views.pop(change.number, None)
        self.gone[change.number] = Gone(
            id=artifact.id, reason="deleted", at=change.now, tool_name=artifact.said.tool_name
        )
        return True

    def _delete_session(self, change: DeleteSession) -> int:
        numbers = [n for n, (a, _) in self.rows.items() if a.said.session == change.session][: change.limit]
        for number in numbers:
            artifact, _ = self.rows.pop(number)
            self.views.pop(number, None)
            self.gone[number] = Gone(id=artifact.id, reason="session_deleted", at=change.now)
        return len(numbers)

    async def find(
        self,
        namespace: str,
        number: int,
        now: datetime,
        *,
        with_bytes: bool = False,
        with_view: bool = False,
        with_survey: bool = False,
    ) -> FoundArtifact | Gone | None:
        if number in self.rows:
            artifact, inline = self.rows[number]
            return FoundArtifact(
                artifact, inline if with_bytes else None, self.views.get(number) if with_view else None
            )
        return self.gone.get(number)

    async def latest_run(self, run: RunKey, now: datetime) -> int | None:
        wanted = (run.session, run.tool_name, run.command)
        numbers = [
            number
            for number, (a, _) in self.rows.items()
            if (a.said.session, a.said.tool_name, a.said.command) == wanted and number != ids.number(run.but)
        ]
        return numbers[-1] if numbers else None

    async def find_key(self, namespace: str, key: str, now: datetime) -> KeyRecord | None:
        return self.keys.get(key)

    async def list_artifacts(
        self, namespace: str, where: ArtifactFilter, now: datetime, *, before: int | None, limit: int
    ) -> ArtifactPage:
        if self.broken is not None:
            raise self.broken
        places = list(enumerate((a for a, _ in self.rows.values()), start=1))[::-1]
        taken = [
            (place, a)
            for place, a in places
            if (before is None or place < before)
            and where.session in {None, a.said.session}
            and where.tool_name in {None, a.said.tool_name}
            and where.url in {None, a.said.url}
            and where.kind in {None, a.facts.kind}
            and (where.label is None or where.label in a.said.labels)
        ]
        page = taken[:limit]
        return ArtifactPage([a for _, a in page], page[-1][0] if len(taken) > limit else None)

    async def inline_bytes(self, namespace: str, blob_id: str) -> bytes | None:
        of_views = (view.inline for view in self.views.values() if view.blob is not None and view.blob.id == blob_id)
        return next((inline for a, inline in self.rows.values() if a.blob.id == blob_id), next(of_views, None))

    def _add_session_usage(self, change: AddSessionUsage) -> None:
        for _, session, spent in change.sessions:
            known = self.accounts.get(session) or SessionUsage(spent=UsageDelta(), since=change.at, at=None)
            known.spent.add(spent)
            self.accounts[session] = structs.replace(known, at=change.at)

    async def session_usage(self, namespace: str, session: str) -> SessionUsage | None:
        return self.accounts.get(session)

    async def ready(self) -> None:
        if self.broken is not None:
            raise CoatcheckError(Code.STORAGE_UNAVAILABLE, "The database does not answer. Retry the same call.")


def _kept(new: NewView) -> FoundView:
    return FoundView(new.view, new.blob, new.inline)


class HurriedClock:
    """Each look is an hour after the one before: no patience lasts."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        self._now += 3600.0
        return self._now


async def _no_metrics(_: str) -> tuple[bytes, str]:
    return b"# EOF\n", "text/plain"


@contextmanager
def services_over(shelf: FakeCatalog, *, payload_limit: int = 1 << 30) -> Generator[Services]:
    """The real use cases over a shelf and a store in memory."""
    clock, hurried = SystemClock(), HurriedClock()
    blobs = MemoryBlobStore(clock)
    tokenizer = load_tokenizer()
    with ThreadPoolExecutor(2) as pool:
        find = Find(shelf, clock, ReadLog())
        content = OpenContent(shelf, blobs, pool)
        life = timedelta(days=30)
        places = IngestDeps(
            catalog=shelf,
            blobs=blobs,
            clock=clock,
            pool=pool,
            tokenizer=tokenizer,
            new_blob_id=lambda: new_blob_id(clock.now(), secrets.token_bytes(10)),
            lease=timedelta(minutes=5),
            inline_bytes=32 * 1024,
            payload_limit=payload_limit,
            ttl=3600,
            card_tokens=600,
            inline_tokens=1000,
            fallback=FallbackBuffer(0),
            catalog_breaker=CircuitBreaker("catalogue", hurried),
            blobs_breaker=CircuitBreaker("blob store", hurried),
        )
        extractor = SmallExtractor()
        keep_text, ingest = KeepText(places, content, extractor), Ingest(places)
        open_view = OpenView(find, content, keep_text, places.ledger)
        read, search = Read(open_view, tokenizer, pool), Search(open_view, tokenizer, pool)
        read_json, outline = ReadJson(open_view, tokenizer, pool), Outline(open_view, tokenizer, pool)
        context = contexts(shelf, ingest, places, None, find)
        browse, windows = Browse(shelf, clock, seal_key(clock)), FindPassages(open_view, tokenizer, pool)
        nobody = MemoryKeys()
        decisions = MemoryDecisions()
        policies = Policies(decisions, clock)
        yield Services(
            ingest=ingest,
            describe=Describe(find, content, tokenizer, pool, 600),
            browse=browse,
            extend=Extend(shelf, clock),
            forget=Forget(shelf, clock, life),
            forget_session=ForgetSession(shelf, clock, life),
            read=read,
            search=search,
            windows=windows,
            read_json=read_json,
            tools=ToolDispatcher(
                ReadArtifact(open_view, read, search, outline, tokenizer, pool, passages=windows, values=read_json),
                ListArtifacts(browse, tokenizer, pool),
                tokenizer,
            ),
            open_view=open_view,
            outline=outline,
            search_results=SearchResults(
                SearchResultsDeps(
                    ingest=ingest,
                    find=find,
                    keep_text=keep_text,
                    sources=Sources(shelf, clock, content, pool),
                    tokenizer=tokenizer,
                    pool=pool,
                )
            ),
            compact=context.compact,
            measure=context.measure,
            tell_usage=context.tell_usage,
            verify_citations=VerifyCitations(open_view, pool),
            authenticate=Authenticate(nobody, clock),
            keys=AdministerKeys(nobody, clock, secrets.token_bytes),
            namespaces=AdministerNamespaces(nobody, clock),
            policies=policies,
            holds=Holds(decisions, clock, secrets.token_bytes),
            usage=ShowUsage(decisions, policies),
            empty_namespace=EmptyNamespace(decisions, clock, policies, tombstone_life=life),
            retention=no_retention(clock, places, content),
            clock=clock,
            ready=shelf.ready,
            allowances=Allowances(0, 0, UNMETERED),
            metrics=_no_metrics,
        )
