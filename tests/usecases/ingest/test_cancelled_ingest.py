"""A caller that leaves: at any point, either everything is there or nothing is."""

import asyncio

import pytest

from coatcheck.core import ids
from coatcheck.ports.catalog import ArtifactFilter
from support.clock import INSTANT
from support.harness import CALLER, GRACE, LEASE, Harness
from support.intercepting_catalog import InterceptingCatalog
from support.samples import lines, noise, stream

PAYLOADS = {"inline": lines(20_000), "file": noise(700_000), "long": noise(2_500_000)}


def announcing(harness: Harness, committing: asyncio.Event) -> InterceptingCatalog:
    """The catalogue of a house, which says when a commit has begun."""

    async def announce() -> None:
        committing.set()

    return InterceptingCatalog(harness.catalog, announce)


async def _left_after(harness: Harness, payload: bytes, steps: int) -> bool:
    """Start an ingest, let the loop go round so many times, and cancel it; whether it had ended."""
    task = asyncio.ensure_future(harness.put(stream(payload)))
    for _ in range(steps):
        if task.done():
            break
        await asyncio.sleep(0)
    ended = task.done()
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    await harness.rest()
    return ended


@pytest.mark.parametrize("kind", PAYLOADS)
async def test_a_cancelled_ingest_leaves_all_or_nothing(harness: Harness, kind: str) -> None:
    payload = PAYLOADS[kind]
    steps, cancelled = 0, 0
    while not await _left_after(harness, payload, steps):
        cancelled += 1
        listed = (await harness.browse(CALLER, ArtifactFilter(), None, 10)).items
        for artifact in listed:
            assert await harness.content(artifact.id) == payload
            await harness.forget(CALLER, ids.parse(artifact.id))
        for age in (LEASE, GRACE):
            harness.clock.forward(age + INSTANT)
            await harness.tidy()()
        assert (harness.count("uploads"), harness.count("artifacts"), harness.count("blobs")) == (0, 0, 0)
        assert harness.stored_files() == []
        steps = steps * 3 // 2 + 1
    assert cancelled > 5


async def test_a_caller_that_leaves_while_the_commit_is_under_way_does_not_take_the_bytes_along(
    harness: Harness,
) -> None:
    """The commit cannot be called back: if it happened, the bytes must be there."""
    payload = PAYLOADS["file"]
    committing = asyncio.Event()
    catalog = announcing(harness, committing)
    task = asyncio.ensure_future(harness.put(payload, settings={"catalog": catalog}))
    await committing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (artifact,) = (await harness.browse(CALLER, ArtifactFilter(), None, 10)).items
    assert await harness.content(artifact.id) == payload
    assert (await harness.audit()()).findings == ()
    assert harness.count("uploads") == 0


async def test_a_caller_that_leaves_while_a_repetition_is_committed_leaves_the_first_alone(
    harness: Harness,
) -> None:
    payload = PAYLOADS["file"]
    first = await harness.put(payload, said={"tool_call_id": "a"})
    committing = asyncio.Event()
    task = asyncio.ensure_future(
        harness.put(payload, said={"tool_call_id": "b"}, settings={"catalog": announcing(harness, committing)})
    )
    await committing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await harness.content(first.id) == payload
    assert len(harness.stored_files()) == 1
    assert (await harness.audit()()).findings == ()
