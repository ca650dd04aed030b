"""Text views that take long, and callers that do not wait: neither costs anybody else anything."""

import asyncio
import gc
from typing import Any

import pytest

from coatcheck.core.artifact import Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.extract import extract_text
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.views.view import ExtractedText
from coatcheck.storing.card_text import CardText
from coatcheck.storing.ingest_request import IngestRequest, Receipt
from coatcheck.storing.keep_text import KeepText
from coatcheck.usecases.payloads.ingest import Ingest
from support.harness import CALLER, THREADS, Harness
from support.samples import lines, stream


class Slow:
    """An extractor that answers when it is told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Semaphore(0)
        self.go = asyncio.Event()

    async def extract(
        self, kind: Kind, media_type: str | None, url: str | None, payload: bytes
    ) -> ExtractedText | None:
        self.asked.release()
        await self.go.wait()
        return extract_text(spec_of(kind).text_view, media_type, url, payload)


def cards_with(harness: Harness, extractor: Slow) -> CardText:
    deps = harness.deps()
    keep = KeepText(deps, harness.opened(), extractor)
    return CardText(
        extractor, harness.opened(), keep, harness.tokenizer, deps.new_blob_id, inline_bytes=deps.inline_bytes
    )


def ingest_with(harness: Harness, extractor: Slow) -> Ingest:
    return Ingest(harness.deps(), cards_with(harness, extractor))


def page(number: int) -> bytes:
    text = "".join(f"<p>Paragraph {number}.{i} of a page about coats.</p>" for i in range(400))
    return f"<!doctype html><html><body><h1>Page {number}</h1>{text}</body></html>".encode()


async def test_views_that_take_long_keep_no_worker_thread_from_others(harness: Harness) -> None:
    extractor = Slow()
    ingest = ingest_with(harness, extractor)

    def post(payload: bytes) -> asyncio.Task[Receipt]:
        return asyncio.ensure_future(ingest(CALLER, stream(payload), IngestRequest(inline_tokens=0)))

    pages = [post(page(n)) for n in range(2 * THREADS)]
    for _ in pages:
        await extractor.asked.acquire()
    try:
        other = await asyncio.wait_for(post(lines(20_000)), 20)
        assert await harness.content(other.id) == lines(20_000)
        assert not any(task.done() for task in pages)
    finally:
        extractor.go.set()
    receipts = await asyncio.gather(*pages)
    assert all("of a page about coats" in receipt.text and "<p>" not in receipt.text for receipt in receipts)


@pytest.mark.parametrize("payload", [lines(2_000), lines(200_000)], ids=["small", "large"])
async def test_a_caller_that_leaves_before_it_is_refused_leaves_no_error_that_nobody_asks_for(
    harness: Harness, payload: bytes
) -> None:
    unasked: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unasked.append(context))
    await harness.put(b"first", key="key", inline_tokens=0)
    steps, refused = 0, False
    while True:
        task = asyncio.ensure_future(harness.put(payload, key="key", inline_tokens=0))
        for _ in range(steps):
            if task.done():
                break
            await asyncio.sleep(0)
        refused = task.done()
        task.cancel()
        await asyncio.wait([task])
        if refused:
            break
        await harness.rest()
        steps = steps * 5 // 4 + 1
    error = task.exception()
    assert isinstance(error, CoatcheckError)
    assert error.code is Code.IDEMPOTENCY_KEY_REUSED
    del task, error
    gc.collect()
    assert unasked == []
