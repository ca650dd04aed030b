"""What a service says of its health while one of its stores fails: which store, how far, and why; and that it ends."""

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coatcheck.adapters.blobs.files import FileBlobStore
from coatcheck.adapters.blobs.s3 import S3BlobStore
from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.adapters.sql.postgres_connection import PostgresLimits
from coatcheck.adapters.sql.schema import migrate
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.catalog import CheckedStore, Health
from coatcheck.runtime.circuit_breaker import CircuitBreaker
from coatcheck.usecases.operations.show_overview import CHECK_SECONDS, CheckReadiness, Readiness, StoreCheck
from support.combos import Combo
from support.http_proxy import Answer, CutResponse, Decide, Fault, HttpProxy, LoseAnswer, SendBytes, Stall, every
from support.postgres import Server, running_postgres
from support.s3 import S3Server, shared_s3
from support.samples import noise
from support.service import serving

Cause = Callable[[Any], AbstractContextManager[None]]
"""Breaks a server, or the proxy in front of it, until the block is left."""


class Healthy:
    """A store that can be told to fail, to hang or to wait, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None
        self.go = asyncio.Event()
        self.go.set()

    async def check_reads(self) -> None:
        self.asked += 1
        await self.go.wait()
        if self.error is not None:
            raise self.error

    async def check_writes(self, *, room: bool = False) -> None:
        """Nothing is wrong with writes, whether or not `room` is asked for."""


@asynccontextmanager
async def checking(catalog: CheckedStore, blobs: CheckedStore) -> AsyncGenerator[CheckReadiness]:
    """A check that is made anew each time."""
    checks = StoreCheck(catalog, CircuitBreaker("catalogue")), StoreCheck(blobs, CircuitBreaker("blob store"))
    readiness = CheckReadiness(*checks, ticks=itertools.count(step=60).__next__)
    try:
        yield readiness
    finally:
        await readiness.close()


def said(readiness: Readiness) -> tuple[Health, list[tuple[str, Health]]]:
    return readiness.health, [(reason.component, reason.health) for reason in readiness.reasons]


# ------------------------------------------------------------------------------------------------------- S3


def xml(status: int, code: str) -> Answer:
    return Answer(status, f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>made up</Message></Error>')


def on(method: str, fault: Fault) -> Decide:
    return every(1, fault, method)


@contextmanager
def through(proxy: HttpProxy, decide: Decide) -> Generator[None]:
    proxy.fault = decide
    try:
        yield
    finally:
        proxy.forget()


@contextmanager
def refusing(proxy: HttpProxy) -> Generator[None]:
    proxy.refuse()
    try:
        yield
    finally:
        proxy.accept()


@contextmanager
def late(proxy: HttpProxy) -> Generator[None]:
    proxy.latency = 10.0
    try:
        yield
    finally:
        proxy.latency = 0.0


TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x46"
"""What a server that wants TLS sends to a client that does not speak it: `protocol_version` (RFC 8446, 6)."""
GET, PUT = "GET", "PUT"


def answering(answer: Fault, method: str | None = None) -> Cause:
    return lambda proxy: through(proxy, every(1, answer, method))


class Case(NamedTuple):
    """A fault of a store: how to cause it, how far it goes, and words of the sentence about it."""

    cause: Cause
    health: Health
    words: str
    code: Code = Code.STORAGE_UNAVAILABLE


S3_FAULTS = {
    "500": Case(answering(xml(500, "InternalError")), "away", "answered 500 InternalError"),
    "503 SlowDown": Case(answering(xml(503, "SlowDown")), "away", "answered 503 SlowDown"),
    "403 on everything": Case(answering(xml(403, "AccessDenied")), "away", "credentials (AccessDenied)"),
    "403 on PUT": Case(answering(xml(403, "AccessDenied"), PUT), "degraded", "credentials (AccessDenied)"),
    "403 on GET": Case(answering(xml(403, "AccessDenied"), GET), "away", "credentials (AccessDenied)"),
    "no such bucket": Case(answering(xml(404, "NoSuchBucket")), "away", "bucket does not exist"),
    "emptied bucket": Case(answering(xml(404, "NoSuchKey"), GET), "away", "no longer has its mark"),
    "connection refused": Case(refusing, "away", "could not be reached"),
    "connection reset": Case(answering(LoseAnswer()), "away", "could not be reached"),
    "accepts and never answers": Case(answering(Stall()), "away", "did not answer within"),
    "answers after ten seconds": Case(late, "away", "did not answer within"),
    "half a body": Case(answering(CutResponse(10), GET), "away", "connection broke"),
    "wrong key": Case(answering(xml(403, "InvalidAccessKeyId")), "away", "credentials (InvalidAccessKeyId)"),
    "wrong secret": Case(answering(xml(403, "SignatureDoesNotMatch")), "away", "credentials (SignatureDoesNotMatch)"),
    "wrong clock": Case(answering(xml(403, "RequestTimeTooSkewed")), "away", "a correct clock"),
    "other region": Case(answering(xml(301, "PermanentRedirect")), "away", "another region"),
    "a page, not XML": Case(answering(Answer(200, "<html>hello")), "away", "is no S3 store"),
    "a page, not found": Case(answering(Answer(404, "<html>hello")), "away", "answered 404"),
    "wants TLS": Case(answering(SendBytes(TLS_ALERT)), "away", "could not be reached"),
    "full": Case(answering(Answer(507), PUT), "degraded", "is full", Code.STORAGE_FULL),
}


@pytest.fixture
async def bucket(s3: S3Server, proxy: HttpProxy) -> S3BlobStore:
    store = S3BlobStore.open(s3.url(endpoint=proxy.endpoint))
    await store.put_mark("coatcheck-store database place\n")
    return store


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> S3Server:
    server = shared_s3("ministack")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[HttpProxy]:
    with HttpProxy(s3.port) as between:
        yield between


@pytest.mark.parametrize("name", S3_FAULTS)
async def test_a_fault_of_s3_is_named_while_it_lasts(bucket: S3BlobStore, proxy: HttpProxy, name: str) -> None:
    case = S3_FAULTS[name]
    async with checking(Healthy(), bucket) as readiness:
        assert (await readiness()).health == "ready"
        with case.cause(proxy):
            during = await readiness()
        assert said(during) == ("degraded", [("blob store", case.health)])
        (reason,) = during.reasons
        assert reason.code is case.code
        assert case.words in reason.detail
        assert "coatcheck-secret" not in reason.detail
        assert (await readiness()).health == "ready"


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [("https://127.0.0.1:{port}", "did not answer within"), ("http://no-such-host.invalid", "host name is unknown")],
    ids=["does not speak TLS", "unknown host name"],
)
async def test_a_wrong_endpoint_is_named_and_the_right_one_is_ready(
    s3: S3Server, proxy: HttpProxy, endpoint: str, words: str
) -> None:
    right = s3.url(endpoint=proxy.endpoint)
    wrong = right.replace(proxy.endpoint, endpoint.format(port=proxy.port))
    await S3BlobStore.open(right).put_mark("coatcheck-store database place\n")
    for url, expected in ((right, None), (wrong, words), (right, None)):
        async with checking(Healthy(), S3BlobStore.open(url)) as readiness:
            details = [reason.detail for reason in (await readiness()).reasons]
        assert expected is None if details == [] else expected is not None and expected in details[0]


async def test_a_check_that_only_reads_misses_a_store_that_refuses_writes(
    bucket: S3BlobStore, proxy: HttpProxy
) -> None:
    with through(proxy, on(PUT, xml(403, "AccessDenied"))):
        await bucket.reaches()
        await bucket.check_reads()
        with pytest.raises(CoatcheckError):
            await bucket.check_writes()


async def test_a_check_makes_one_object_and_no_blob(bucket: S3BlobStore, proxy: HttpProxy) -> None:
    for _ in range(3):
        await bucket.check_reads()
        await bucket.check_writes()
    requests = list(proxy.requests)
    assert [name async for name in bucket.names()] == []
    assert {(r.method, r.target.rpartition("/")[2]) for r in requests} == {
        (GET, "coatcheck-store"),
        (PUT, "coatcheck-store"),
        (GET, "ready-probe"),
        (PUT, "write-probe"),
    }


# ------------------------------------------------------------------------------------------------ PostgreSQL

LIMITS = PostgresLimits(connections=3, connect=0.8, statement=1.5, lock=1.0, answer=2.5)
NAME = "home"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with running_postgres() as server:
        server.database(name=NAME)
        migrate(server.url(NAME, "plain"))
        yield server


@contextmanager
def stopped(server: Server) -> Generator[None]:
    server.stop()
    try:
        yield
    finally:
        server.start()


@contextmanager
def frozen(server: Server) -> Generator[None]:
    server.freeze()
    try:
        yield
    finally:
        server.thaw()


@contextmanager
def standby(server: Server) -> Generator[None]:
    """A server that replays another's log, as after a failover to a wrong one, takes no writes."""
    signal = server.data / "standby.signal"
    server.stop()
    signal.touch()
    signal.chmod(0o666)
    server.start()
    try:
        yield
    finally:
        server.stop()
        signal.unlink()
        server.start()


@contextmanager
def between(
    server: Server, before: tuple[str, ...], after: tuple[str, ...], *, inside: bool = False
) -> Generator[None]:
    """The superuser's statements before and after; connections end, so that new ones must be made."""
    url = server.url(NAME) if inside else None
    server.run(*before, url=url)
    try:
        yield
    finally:
        server.run(*after, url=url)


KICK = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname IS NOT NULL AND pid <> pg_backend_pid()"


def statements(*before: str, after: tuple[str, ...], inside: bool = False) -> Cause:
    return lambda server: between(server, before, after, inside=inside)


def other_password(server: Server) -> AbstractContextManager[None]:
    restored = f"ALTER ROLE plain PASSWORD '{server.password}'"
    return between(server, ("ALTER ROLE plain PASSWORD 'another'", KICK), (restored,))


POSTGRES_FAULTS = {
    "stopped": Case(stopped, "away", "ConnectionRefusedError"),
    "frozen": Case(frozen, "away", "did not answer"),
    "too many connections": Case(
        statements("ALTER ROLE plain CONNECTION LIMIT 0", KICK, after=("ALTER ROLE plain CONNECTION LIMIT -1",)),
        "away",
        "no more connections: SQLSTATE 53300",
    ),
    "wrong password": Case(other_password, "away", "refuses the role or its password"),
    "read-only": Case(standby, "degraded", "read-only"),
    "rights on writing lost": Case(
        statements(
            "REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public FROM plain",
            after=("GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO plain",),
            inside=True,
        ),
        "degraded",
        "the role lacks rights",
    ),
    "all rights lost": Case(
        statements(
            "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM plain",
            after=("GRANT ALL ON ALL TABLES IN SCHEMA public TO plain",),
            inside=True,
        ),
        "away",
        "the role lacks rights",
    ),
    "database renamed": Case(
        statements(
            f"ALTER DATABASE {NAME} ALLOW_CONNECTIONS false",
            KICK,
            f"ALTER DATABASE {NAME} RENAME TO moved",
            after=(f"ALTER DATABASE moved RENAME TO {NAME}", f"ALTER DATABASE {NAME} ALLOW_CONNECTIONS true"),
        ),
        "away",
        "there is no database of this name",
    ),
    "disk full": Case(
        statements(
            "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$",
            "CREATE TRIGGER no_room BEFORE UPDATE ON alembic_version EXECUTE FUNCTION no_room()",
            "CREATE TRIGGER no_room BEFORE INSERT ON leases EXECUTE FUNCTION no_room()",
            after=("DROP FUNCTION no_room CASCADE",),
            inside=True,
        ),
        "degraded",
        "disk is full",
        Code.STORAGE_FULL,
    ),
}


@pytest.mark.parametrize("name", POSTGRES_FAULTS)
async def test_a_fault_of_postgresql_is_named_while_it_lasts(postgres: Server, name: str) -> None:
    case = POSTGRES_FAULTS[name]
    catalog = await PostgresCatalog.open(postgres.url(NAME, "plain"), limits=LIMITS)
    try:
        async with checking(catalog, Healthy()) as readiness:
            assert (await readiness()).health == "ready"
            with case.cause(postgres):
                during = await readiness()
                again = await readiness()
            overall = "away" if case.health == "away" else "degraded"
            assert said(during) == said(again) == (overall, [("catalogue", case.health)])
            (reason,) = during.reasons
            assert (reason.code, postgres.password in reason.detail) == (case.code, False)
            assert case.words in reason.detail
            assert (await until_ready(readiness)).health == "ready"
    finally:
        await catalog.close()


async def until_ready(readiness: CheckReadiness) -> Readiness:
    """The first good result; a check that hung ends first, and a server may still be starting."""
    for _ in range(200):
        if (await readiness()).health == "ready":
            break
        await asyncio.sleep(0.1)
    return await readiness()


# ----------------------------------------------------------------------------------------- files, and the check


async def test_a_directory_that_is_gone_or_takes_no_files_is_named(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        store = FileBlobStore(tmp_path, pool)
        async with checking(Healthy(), store) as readiness:
            assert (await readiness()).health == "ready"
            assert list((tmp_path / "blobs").iterdir()) == []
            (tmp_path / "blobs").rename(tmp_path / "moved")
            assert said(await readiness()) == ("degraded", [("blob store", "away")])
            (tmp_path / "moved").rename(tmp_path / "blobs")
            assert (await readiness()).health == "ready"


async def test_callers_at_the_same_time_share_a_check_and_its_result_is_used_for_a_second() -> None:
    ticks = [0.0]
    catalog, blobs = Healthy(), Healthy()
    checks = StoreCheck(catalog, CircuitBreaker("catalogue")), StoreCheck(blobs, CircuitBreaker("blob store"))
    readiness = CheckReadiness(*checks, ticks=lambda: ticks[0])
    await asyncio.gather(*(readiness() for _ in range(50)))
    ticks[0] = 0.9
    await readiness()
    assert (catalog.asked, blobs.asked) == (1, 1)
    ticks[0] = 1.0
    await readiness()
    assert (catalog.asked, blobs.asked) == (2, 2)
    await readiness.close()


async def test_a_store_that_hangs_is_asked_once_and_named_and_a_caller_that_leaves_ends_nothing() -> None:
    catalog, blobs = Healthy(), Healthy()
    blobs.go.clear()
    async with checking(catalog, blobs) as readiness:
        impatient = asyncio.ensure_future(readiness())
        await asyncio.sleep(0)
        impatient.cancel()
        for _ in range(2):
            found = await readiness()
            assert said(found) == ("degraded", [("blob store", "away")])
            assert f"within {CHECK_SECONDS:.0f} seconds" in found.reasons[0].detail
        assert (catalog.asked, blobs.asked) == (2, 1)
        blobs.go.set()
        assert (await readiness()).health == "ready"


async def test_a_bug_in_a_check_is_no_readiness() -> None:
    catalog = Healthy()
    checks = StoreCheck(catalog, CircuitBreaker("catalogue")), StoreCheck(Healthy(), CircuitBreaker("blob store"))
    readiness = CheckReadiness(*checks, ticks=itertools.count(step=60).__next__)
    assert await readiness() == Readiness("ready")
    catalog.error = ZeroDivisionError()
    found = await readiness()
    assert (found.health, found.reasons[0].code) == ("away", Code.INTERNAL)


# --------------------------------------------------------------------------------------------- a real service


def test_a_service_whose_s3_fails_says_so_stays_alive_and_gives_cards(s3: S3Server, tmp_path: Path) -> None:
    from support.postgres_shared import databases  # noqa: PLC0415 - only this test needs a shared one

    with HttpProxy(s3.port) as proxy, databases().lent() as database:
        settings = {"database_url": database, "blob_url": s3.url(endpoint=proxy.endpoint)}
        with serving(tmp_path / "data", Combo("postgresql+s3", settings, s3.environment)) as service:

            def ready() -> tuple[int, dict[str, Any]]:
                time.sleep(1.1)  # a result is used for a second
                answer = service.client.get("/health/ready")
                return answer.status_code, answer.json()

            assert ready() == (200, {"status": "ready"})
            assert (service.gauge("coatcheck_degraded"), service.gauge("coatcheck_blobs_silent")) == (0, 0)
            for fault in (xml(500, "InternalError"), xml(403, "AccessDenied"), Stall()):
                with through(proxy, every(1, fault)):
                    status, body = ready()
                    assert (status, body["status"]) == (503, "degraded")
                    assert [(r["component"], r["health"]) for r in body["reasons"]] == [("blob store", "away")]
                    assert service.client.get("/health/live").json() == {"status": "live"}
                    assert "blob store away" in service.client.get("/", headers={"accept": "text/html"}).text.lower()
                    large = service.client.post("/v1/artifacts/raw", content=noise(300_000, seed=len(str(fault))))
                    assert (large.status_code, large.json()["stored"]) == (202, False)
                    assert service.client.post("/v1/artifacts", json={"content": f"small {fault}"}).status_code == 201
                    assert (service.gauge("coatcheck_degraded"), service.gauge("coatcheck_blobs_silent")) == (1, 1)
            assert ready() == (200, {"status": "ready"})
            assert (service.gauge("coatcheck_degraded"), service.gauge("coatcheck_blobs_silent")) == (0, 0)
