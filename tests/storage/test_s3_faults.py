"""What the S3 store does when the network or the server fails: bounded in time, never wrong, nothing acknowledged."""

import asyncio
import hashlib
import random
import socket
import time
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from coatcheck.adapters.blobs.s3 import S3BlobStore
from coatcheck.adapters.blobs.s3_bucket import Patience
from coatcheck.adapters.blobs.s3_location import parse_s3_url
from coatcheck.core.artifact import Blob
from coatcheck.core.encoding.frames import new_blob_id
from coatcheck.core.encoding.seekable import FrameEncoder
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.storing.content import OpenContent
from support.http_proxy import (
    Answer,
    CorruptRequest,
    CorruptResponse,
    CutRequest,
    CutResponse,
    Fault,
    HttpProxy,
    LoseAnswer,
    Request,
    Stall,
    every,
    nth,
)
from support.s3 import S3Server, uploads_under_way

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SMALL = random.Random(1).randbytes(100_000)
PART = 512 * 1024
LARGE = random.Random(2).randbytes(1_200_000)
USUAL = Patience(retries=1)
SHORT = Patience(connect=0.5, attempt=0.5, call=2.0, part=1.5, room=3.0, join=4.0, retries=1)
"""The same bounds in a fraction of the time, where running into them is the point."""
UPLOAD = ("claim", "begin", "part 1", "part 2", "part 3", "join")
"""The requests of LARGE."""


def blob_id(seed: int) -> str:
    return new_blob_id(NOW, random.Random(seed).randbytes(10))


@pytest.fixture
def url(server: S3Server, proxy: HttpProxy) -> str:
    return server.url(endpoint=proxy.endpoint)


@pytest.fixture
def store(url: str) -> S3BlobStore:
    return S3BlobStore(parse_s3_url(url), USUAL, part_bytes=PART)


@pytest.fixture
async def hasty(url: str) -> S3BlobStore:
    """The same store, for stalls; it has been used, so that the server is past what it does only once."""
    await S3BlobStore.open(url, USUAL).reaches()
    return S3BlobStore(parse_s3_url(url), SHORT, part_bytes=PART)


async def put(store: S3BlobStore, name: str, data: bytes) -> None:
    """Store a blob as an ingest does: what fails is aborted. The proxy must be whole again by then."""
    writer = await store.create("acme", name)
    try:
        for start in range(0, len(data), 100_000):
            await writer.write(data[start : start + 100_000])
        await writer.finish()
    except CoatcheckError:
        await writer.abort()
        raise


async def failure_of(work: Awaitable[object]) -> Code | None:
    try:
        await work
    except CoatcheckError as error:
        return error.code
    return None


async def listed(store: S3BlobStore) -> list[str]:
    return [name.id async for name in store.names()]


async def test_a_create_whose_answer_was_lost_is_recognised_as_ours(store: S3BlobStore, proxy: HttpProxy) -> None:
    proxy.fault = nth(1, LoseAnswer(), "PUT")
    await put(store, blob_id(1), SMALL)
    assert [request.method for request in proxy.requests] == ["PUT", "PUT", "HEAD"]
    assert await store.read("acme", blob_id(1), 0, len(SMALL)) == SMALL


async def test_a_create_that_was_stored_and_answered_500_is_recognised_as_ours(
    store: S3BlobStore, proxy: HttpProxy, server: S3Server, url: str
) -> None:
    # The server stores the first request; the second and third are answered for it, as an overloaded gateway does.
    proxy.fault = nth(1, LoseAnswer(), "PUT")
    await put(store, blob_id(1), SMALL)
    proxy.forget()
    direct = S3BlobStore.open(url.replace(proxy.endpoint, server.endpoint), USUAL)
    with pytest.raises(FileExistsError):
        await put(direct, blob_id(1), SMALL)
    assert await direct.read("acme", blob_id(1), 0, len(SMALL)) == SMALL


async def test_when_no_answer_to_a_create_arrives_it_is_not_acknowledged_and_abort_removes_it(
    store: S3BlobStore, proxy: HttpProxy
) -> None:
    proxy.fault = every(1, LoseAnswer(), "PUT")
    assert await failure_of(put(store, blob_id(1), SMALL)) is Code.STORAGE_UNAVAILABLE
    assert await listed(store) == []


async def test_an_abort_leaves_what_another_writer_has_stored_under_the_name(
    store: S3BlobStore, proxy: HttpProxy, server: S3Server, url: str
) -> None:
    writer = await store.create("acme", blob_id(1))
    await writer.write(SMALL)
    proxy.fault = every(1, Answer(500), "PUT")
    assert await failure_of(writer.finish()) is Code.STORAGE_UNAVAILABLE
    await put(S3BlobStore.open(url.replace(proxy.endpoint, server.endpoint), USUAL), blob_id(1), SMALL)
    await writer.abort()
    assert await store.size("acme", blob_id(1)) == len(SMALL)


async def test_an_upload_under_way_is_seen_by_these_tests_until_its_abort(
    store: S3BlobStore, server: S3Server, url: str
) -> None:
    writer = await store.create("acme", blob_id(1))
    await writer.write(LARGE)
    assert len(uploads_under_way(server, url)) == 1
    assert await store.size("acme", blob_id(1)) == 0
    await writer.abort()
    assert uploads_under_way(server, url) == []
    assert await store.size("acme", blob_id(1)) is None


@pytest.mark.parametrize("k", range(1, 7), ids=UPLOAD)
async def test_an_upload_that_is_refused_at_its_kth_request_is_not_acknowledged_and_leaves_nothing(
    store: S3BlobStore, proxy: HttpProxy, server: S3Server, url: str, k: int
) -> None:
    proxy.fault = nth(k, Answer(400, "<Error><Code>InvalidRequest</Code></Error>"))
    assert await failure_of(put(store, blob_id(k), LARGE)) is Code.STORAGE_UNAVAILABLE
    assert await listed(store) == []
    assert uploads_under_way(server, url) == []
    proxy.forget()
    await put(store, blob_id(100 + k), LARGE)
    assert await store.read("acme", blob_id(100 + k), 500_000, 100_000) == LARGE[500_000:600_000]


@pytest.mark.parametrize("fault", [Answer(503), LoseAnswer(), CutRequest(1000)], ids=["503", "lost", "cut"])
@pytest.mark.parametrize("k", range(1, 7), ids=UPLOAD)
async def test_an_upload_that_meets_a_fault_once_is_whole(
    store: S3BlobStore, proxy: HttpProxy, server: S3Server, url: str, k: int, fault: Fault
) -> None:
    proxy.fault = nth(k, fault)
    await put(store, blob_id(k), LARGE)
    assert await store.read("acme", blob_id(k), 0, len(LARGE)) == LARGE
    # An upload whose beginning was not heard of was begun twice; the bucket's lifecycle rule removes the first.
    unheard = UPLOAD[k - 1] == "begin" and fault != Answer(503)
    assert len(uploads_under_way(server, url)) <= unheard


async def test_a_join_whose_answers_are_all_lost_is_known_by_its_object(store: S3BlobStore, proxy: HttpProxy) -> None:
    proxy.fault = lambda request: LoseAnswer() if request.method == "POST" and "uploads" not in request.target else None
    await put(store, blob_id(1), LARGE)
    assert await store.read("acme", blob_id(1), 0, len(LARGE)) == LARGE


async def test_bytes_that_were_changed_on_the_way_in_are_refused(store: S3BlobStore, proxy: HttpProxy) -> None:
    proxy.fault = every(1, CorruptRequest(50_000), "PUT")
    assert await failure_of(put(store, blob_id(1), SMALL)) is Code.STORAGE_UNAVAILABLE
    assert await listed(store) == []


async def test_a_truncated_answer_is_asked_for_again_and_never_taken_for_whole(
    store: S3BlobStore, proxy: HttpProxy
) -> None:
    await put(store, blob_id(1), SMALL)
    proxy.fault = nth(1, CutResponse(40_000), "GET")
    assert await store.read("acme", blob_id(1), 100, 90_000) == SMALL[100:90_100]
    proxy.fault = every(1, CutResponse(10), "GET")
    assert await failure_of(store.read("acme", blob_id(1), 100, 90_000)) is Code.STORAGE_UNAVAILABLE


async def test_bytes_that_were_changed_on_the_way_out_are_noticed_by_the_frames_that_hold_them(
    store: S3BlobStore, proxy: HttpProxy
) -> None:
    data = random.Random(3).randbytes(600_000)
    encoder = FrameEncoder()
    stored = encoder.feed(data) + encoder.finish()
    assert encoder.index is not None
    blob = Blob(
        id=blob_id(1),
        placement="s3",
        size=len(data),
        stored_size=len(stored),
        sha256=hashlib.sha256(data).digest(),
        index=encoder.index.pack(),
    )
    await put(store, blob.id, stored)
    with ThreadPoolExecutor(1) as pool:
        content = await OpenContent(_Nothing(), store, pool).of_blob("acme", blob)
        proxy.forget()
        proxy.fault = every(1, CorruptResponse(1000), "GET")
        assert await failure_of(content.read(300_000, 301_000)) is Code.INTEGRITY
        assert proxy.count() == 2, "it was asked for again"
        proxy.forget()
        spoilt, seen = nth(1, CorruptResponse(1000), "GET"), list[str | None]()

        def once(request: Request) -> Fault | None:
            seen.append(request.headers.get("cache-control"))
            return spoilt(request)

        proxy.fault = once
        assert await content.read(300_000, 301_000) == data[300_000:301_000]
        assert seen == [None, "no-cache"]
        proxy.forget()
        whole = await OpenContent(_Nothing(), store, pool).of_blob("acme", blob)
        assert await whole.read(300_000, 301_000) == data[300_000:301_000]
        assert proxy.count() == 1


class _Nothing:
    async def inline_bytes(self, namespace: str, blob_id: str) -> bytes | None:
        raise AssertionError(f"{blob_id} of {namespace} is not inline")


@pytest.mark.parametrize("reached", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("method", ["PUT", "GET", "HEAD", "DELETE"])
async def test_a_connection_that_stalls_is_given_up_and_another_succeeds(
    hasty: S3BlobStore, proxy: HttpProxy, method: str, reached: bool
) -> None:
    await put(hasty, blob_id(1), SMALL)
    proxy.fault = nth(1, Stall(reached=reached), method)
    match method:
        case "PUT":
            await put(hasty, blob_id(2), SMALL)
        case "GET":
            assert await hasty.read("acme", blob_id(1), 5, 10) == SMALL[5:15]
        case "HEAD":
            assert await hasty.size("acme", blob_id(1)) == len(SMALL)
        case _:
            # DELETE is repeated by whoever wanted it: the sweep.
            assert await failure_of(hasty.remove("acme", blob_id(1))) in {None, Code.STORAGE_UNAVAILABLE}
            proxy.forget()
            await hasty.remove("acme", blob_id(1))
            assert await hasty.size("acme", blob_id(1)) is None


@pytest.mark.parametrize("how", ["refuse", "stall"])
async def test_while_the_store_is_down_every_call_says_so_in_time_and_afterwards_all_work_again(
    hasty: S3BlobStore, proxy: HttpProxy, how: str
) -> None:
    await put(hasty, blob_id(1), SMALL)
    (proxy.refuse if how == "refuse" else proxy.stall)()
    writer = await hasty.create("acme", blob_id(2))
    await writer.write(SMALL)
    began = time.monotonic()
    answers = await asyncio.gather(
        failure_of(hasty.reaches()),
        failure_of(hasty.read("acme", blob_id(1), 0, 1)),
        failure_of(hasty.size("acme", blob_id(1))),
        failure_of(hasty.remove("acme", blob_id(1))),
        failure_of(listed(hasty)),
        failure_of(writer.finish()),
        failure_of(put_without_abort(hasty, blob_id(3), LARGE)),
    )
    assert answers == [Code.STORAGE_UNAVAILABLE] * 7
    assert time.monotonic() - began < 8 * SHORT.call
    (proxy.accept if how == "refuse" else proxy.resume)()
    await hasty.reaches()
    await writer.abort()
    assert await hasty.read("acme", blob_id(1), 0, len(SMALL)) == SMALL
    await put(hasty, blob_id(4), LARGE)
    assert {blob_id(1), blob_id(4)} <= set(await listed(hasty))


async def put_without_abort(store: S3BlobStore, name: str, data: bytes) -> None:
    writer = await store.create("acme", name)
    await writer.write(data)
    await writer.finish()


async def test_a_cancelled_read_lets_go_of_its_connection(store: S3BlobStore, proxy: HttpProxy) -> None:
    reached = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stall(_: Request) -> Fault | None:
        loop.call_soon_threadsafe(reached.set)
        return Stall()

    proxy.fault = stall
    reading = asyncio.create_task(store.read("acme", blob_id(1), 0, 10))
    await reached.wait()
    assert proxy.connections == 1
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await loop.run_in_executor(None, proxy.wait_closed)


@pytest.mark.parametrize("k", range(1, 7), ids=UPLOAD)
async def test_an_upload_that_is_cancelled_leaves_nothing_after_its_abort(
    store: S3BlobStore, proxy: HttpProxy, server: S3Server, url: str, k: int
) -> None:
    reached = asyncio.Event()
    loop = asyncio.get_running_loop()

    def note(request: Request) -> Fault | None:
        if request.number >= k:
            loop.call_soon_threadsafe(reached.set)
        return None

    proxy.fault = note
    writer = await store.create("acme", blob_id(k))

    async def write() -> None:
        for start in range(0, len(LARGE), 100_000):
            await writer.write(LARGE[start : start + 100_000])
        await writer.finish()

    writing = asyncio.create_task(write())
    await reached.wait()
    writing.cancel()
    await asyncio.wait([writing])
    await writer.abort()
    assert await listed(store) == []
    assert uploads_under_way(server, url) == []
    assert {task.get_name() for task in asyncio.all_tasks()} == {_current_name()}


def _current_name() -> str:
    task = asyncio.current_task()
    assert task is not None
    return task.get_name()


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (Answer(507), Code.STORAGE_FULL, "full"),
        (Answer(403, "<Error><Code>QuotaExceeded</Code></Error>"), Code.STORAGE_FULL, "quota"),
        (Answer(503, "<Error><Code>SlowDown</Code></Error>"), Code.STORAGE_UNAVAILABLE, "503"),
        (Answer(429), Code.STORAGE_UNAVAILABLE, "429"),
        (Answer(500), Code.STORAGE_UNAVAILABLE, "500"),
        (Answer(403, "<Error><Code>AccessDenied</Code></Error>"), Code.STORAGE_UNAVAILABLE, "(AccessDenied)"),
        (Answer(401), Code.STORAGE_UNAVAILABLE, "(401)"),
        (Answer(404, "<Error><Code>NoSuchBucket</Code></Error>"), Code.STORAGE_UNAVAILABLE, "Create it"),
        (Answer(301), Code.STORAGE_UNAVAILABLE, "another region"),
        (Answer(200, "<html>not S3</html>"), Code.STORAGE_UNAVAILABLE, "S3 store"),
        (Answer(404, "<html>not S3</html>"), Code.STORAGE_UNAVAILABLE, "404"),
    ],
)
async def test_what_the_store_answers_becomes_a_sentence_for_whoever_can_help(
    store: S3BlobStore, proxy: HttpProxy, answer: Answer, code: Code, words: str
) -> None:
    proxy.fault = every(1, answer)
    writer = await store.create("acme", blob_id(1))
    await writer.write(SMALL)
    calls = [store.reaches(), store.read("acme", blob_id(1), 0, 1)]
    if answer.status != 200:
        calls.append(writer.finish())
    for call in calls:
        with pytest.raises(CoatcheckError) as caught:
            await call
        assert caught.value.code is code
        assert words in caught.value.detail


async def test_a_missing_bucket_or_a_foreign_404_is_never_taken_for_a_missing_blob(
    server: S3Server, store: S3BlobStore, proxy: HttpProxy
) -> None:
    nowhere = S3BlobStore.open(f"s3://no-such-bucket?endpoint={server.endpoint}", USUAL)
    assert await failure_of(nowhere.size("acme", blob_id(1))) is Code.STORAGE_UNAVAILABLE
    assert await failure_of(nowhere.read("acme", blob_id(1), 0, 1)) is Code.STORAGE_UNAVAILABLE
    assert await failure_of(nowhere.remove("acme", blob_id(1))) is Code.STORAGE_UNAVAILABLE
    assert await failure_of(listed(nowhere)) is Code.STORAGE_UNAVAILABLE
    proxy.fault = every(1, Answer(404))
    assert await failure_of(store.size("acme", blob_id(1))) is Code.STORAGE_UNAVAILABLE


async def test_without_credentials_the_store_says_which_to_set(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in server.environment:
        monkeypatch.delenv(name)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        with pytest.raises(CoatcheckError) as caught:
            await S3BlobStore.open(server.url(), USUAL).reaches()
    assert caught.value.code is Code.STORAGE_UNAVAILABLE
    assert "Set AWS_ACCESS_KEY_ID" in caught.value.detail
