"""Implements every port of the catalogue in SQL, for any database: names the function that answers each query.

The ports document the queries. `change_group.py` carries out changes. The way to commit changes and to run queries
depends on the database: see `sqlite/store.py` and `postgres.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from sqlalchemy import Connection

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.change_group import ChangeWriter, CommitWatch, FunctionChange
from coatcheck.adapters.sql.changes import dedupe, session_usage, uploads, usage
from coatcheck.adapters.sql.changes import holds as hold_rows
from coatcheck.adapters.sql.changes import policies as policy_rows
from coatcheck.adapters.sql.reads import artifact_reads as reads
from coatcheck.adapters.sql.reads import listing, matching, overview, retention_reads
from coatcheck.adapters.sql.schema import check_revision, give_room, take_room, try_write
from coatcheck.core.artifact import Artifact, Blob
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.catalog import ArtifactFilter, ArtifactPage, PayloadKey, RunKey
from coatcheck.ports.decisions import Answer, CatalogChange

N = TypeVar("N", bound=str | None)
"""Type of a query's first argument: a namespace, or also None if the query may be about all namespaces."""
P = ParamSpec("P")
T = TypeVar("T")


class SqlAccess(ABC):
    """Commits changes and runs queries. Subclasses decide how a query gets a connection."""

    def __init__(self, writer: ChangeWriter | None) -> None:
        self._only_writer = writer
        """The writer; None: the catalogue was opened for reading only."""

    @property
    def _writer(self) -> ChangeWriter:
        if self._only_writer is None:
            raise CoatcheckError(Code.STORAGE_UNAVAILABLE, "The catalogue was opened for reading only.")
        return self._only_writer

    @abstractmethod
    async def ask(self, namespace: str | None, question: Callable[[Connection], T]) -> T:
        """Returns the answer to a query about a namespace; None: the query is about all namespaces."""

    async def carry_out(self, change: CatalogChange[Any]) -> object:
        """Carries out a change and returns its answer once it is durable."""
        return await self._writer.carry_out(change)

    async def commit(self, change: CatalogChange[Answer], /) -> Answer:
        """Carries out a change and returns its answer, with the change's own type, once it is durable."""
        try:
            return cast("Answer", await self.carry_out(change))
        # If this error occurs in a group, the group is rolled back and its changes are tried one by one. Only the
        # change that would store an artifact in a namespace that is being deleted then fails.
        except usage.NamespaceClosing as error:
            raise usage.closing(str(error)) from error

    def watch_commits(self, watch: CommitWatch) -> None:
        """Registers a callback for every group of changes. The thread that commits calls it; it must not raise."""
        if self._only_writer is not None:
            self._only_writer.watch = watch

    def gather_commits(self, approaching: Callable[[], int]) -> None:
        """Lets groups wait briefly for changes on their way. `approaching` counts these; any thread may call it."""
        if self._only_writer is not None:
            self._only_writer.approaching = approaching


def asks(
    question: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate[SqlAccess, P], "CoroutineType[Any, Any, T]"]:
    """Returns a method that runs a query on rows of any namespace."""

    async def method(access: SqlAccess, *args: P.args, **kwargs: P.kwargs) -> T:
        # The connection sees every namespace, so the query itself must restrict its rows where necessary.
        return await access.ask(None, lambda conn: question(conn, *args, **kwargs))

    return method


def asks_namespace(
    question: Callable[Concatenate[Connection, N, P], T],
) -> Callable[Concatenate[SqlAccess, N, P], "CoroutineType[Any, Any, T]"]:
    """Returns a method that runs a query on a namespace, its first argument."""

    async def method(access: SqlAccess, namespace: N, *args: P.args, **kwargs: P.kwargs) -> T:
        # On PostgreSQL, row-level security hides other namespaces, whatever conditions the query has.
        return await access.ask(namespace, lambda conn: question(conn, namespace, *args, **kwargs))

    return method


_BLOBS_PER_PAGE = 500
"""Blobs that one query of `all_blobs` returns. A check reads files between two queries, and must not keep a transaction
open meanwhile. Chosen, not measured."""


class SqlCatalog(SqlAccess):
    """The catalogue, except the ways to commit changes and to run queries, which subclasses add."""

    find = asks_namespace(reads.find)
    live_artifacts = asks_namespace(reads.live_artifacts)
    same_bytes = asks_namespace(dedupe.same_bytes)
    inline_bytes = asks_namespace(reads.read_inline_bytes)
    find_key = asks_namespace(dedupe.find_key)
    dead_blobs = asks(reads.dead_blobs)
    find_known_blobs = asks(reads.find_known_blobs)
    overdue = asks(overview.overdue)
    lease_holder = asks(uploads.holder)

    list_unindexed = asks_namespace(matching.waiting)
    newest_unindexed = asks_namespace(matching.newest_waiting)
    next_unindexed = asks(matching.next_unindexed)
    segment_sizes = asks_namespace(matching.sizes)
    next_segment = asks(matching.next_segment)
    read_segments = asks_namespace(matching.whole)
    fingerprints = asks_namespace(matching.fingerprints)
    find_unlisted = asks_namespace(matching.find_unlisted)
    next_namespace = asks(matching.next_namespace)

    usage_of = asks_namespace(usage.read_usage)
    usages = asks_namespace(usage.usages)
    list_marked_namespaces = asks(usage.list_marked_namespaces)
    session_usage = asks_namespace(session_usage.account)
    events = asks_namespace(retention_reads.list_events)

    activity = asks_namespace(overview.hours)
    recent_sessions = asks(overview.recent_sessions)
    next_expiring = asks(overview.next_expiring)

    holds_within = asks_namespace(hold_rows.holds_within)
    holds = asks_namespace(hold_rows.list_holds)
    covering_holds = asks_namespace(hold_rows.covering_holds)
    policy_version = asks(policy_rows.last_version)
    policies = asks(policy_rows.current)
    policy_history = asks(policy_rows.history)

    find_keys = asks(rows.find_keys)
    any_key = asks(rows.any_key)
    list_keys = asks(rows.list_keys)
    list_namespaces = asks(rows.list_namespaces)

    candidates = asks_namespace(retention_reads.candidates)
    sample = asks_namespace(retention_reads.sample)
    first_expired = asks_namespace(retention_reads.first_expired)
    count_held = asks_namespace(retention_reads.count_held)
    oldest_read = asks_namespace(retention_reads.oldest_read)
    live = asks_namespace(retention_reads.live)
    items = asks(retention_reads.items)
    find_plan = asks(retention_reads.find_plan)
    part_left = asks(retention_reads.part_left)
    run = asks(retention_reads.run)
    list_runs = asks(retention_reads.list_runs)
    list_jobs = asks(retention_reads.list_jobs)
    find_removal = asks_namespace(listing.find_removal)
    list_removals = asks(listing.list_removals)
    find_audit_lines = asks(retention_reads.find_lines)

    async def latest_run(self, run: RunKey, now: datetime) -> int | None:
        """See Catalog."""
        return await self.ask(run.namespace, lambda conn: reads.latest_run(conn, run, now))

    async def find_given_cards(self, payload: PayloadKey, now: datetime) -> list[Artifact]:
        """See Catalog."""
        return await self.ask(payload.namespace, lambda conn: reads.find_given_cards(conn, payload, now))

    async def list_artifacts(
        self, namespace: str, where: ArtifactFilter, now: datetime, *, before: int | None, limit: int
    ) -> ArtifactPage:
        """See Catalog."""
        # Only terms need the full-text index.
        question = listing.list_artifacts if where.terms is None else matching.list_matching
        return await self.query_list(
            namespace, lambda conn: question(conn, namespace, where, now, before=before, limit=limit)
        )

    async def query_list(self, namespace: str, question: Callable[[Connection], T]) -> T:
        """Runs a query that may take long. A database may run it apart from other queries, so as not to delay them."""
        return await self.ask(namespace, question)

    async def check_reads(self) -> None:
        """Returns if the database responds and has this release's schema."""
        await self.ask(None, check_revision)

    async def check_writes(self, *, room: bool = False) -> None:
        """Returns if the database accepts a write.

        With `room`, or if the last transaction was refused, the write has the size of a small payload: a disk that is
        too full for a payload can often still take a page or two.
        """
        full = room or self._writer.fault is not None
        for write in (take_room, give_room) if full else (try_write,):
            await self.carry_out(FunctionChange(call=write))

    async def empty_log(self) -> bool:
        """Does nothing, since the database manages its log itself; returns true."""
        return True

    async def all_blobs(self) -> AsyncIterator[tuple[str, Blob]]:
        """Yields every live blob with its namespace, page by page.

        A blob that is added or dies meanwhile may or may not be included.
        """
        after = 0
        # `after=after` binds the present value, because the query may run in another thread.
        while page := await self.ask(None, lambda conn, after=after: reads.live_blobs(conn, after, _BLOBS_PER_PAGE)):
            for after, namespace, blob in page:  # noqa: B007 - the next page begins after the last `after`
                yield namespace, blob
