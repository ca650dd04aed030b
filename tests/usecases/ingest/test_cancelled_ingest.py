"""A caller that leaves: at any point, either everything is there or nothing is."""

import asyncio
from typing import Any

import pytest

from coatcheck.core import ids
from coatcheck.ports.artifacts import StoreArtifact
from coatcheck.ports.catalog import ArtifactFilter
from coatcheck.ports.decisions import CatalogChange
from support.clock import INSTANT
from support.harness import CALLER, GRACE, LEASE, Harness
from support.samples import lines, noise, stream

PAYLOADS = {"inline": lines(20_000), "file": noise(700_000), "long": noise(2_500_000)}


class Announcing:
    """The catalogue of a house, which says when a commit has begun."""

    def __init__(self, harness: Harness, committing: asyncio.Event) -> None:
        self._catalog = harness.catalog
        self._committing = committing

    async def commit(self, change: CatalogChange[Any]) -> Any:  # noqa: ANN401 - the change's own answer
        if isinstance(change, StoreArtifact):
            self._committing.set()
        return await self._catalog.commit(change)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else a catalogue does
        return getattr(self._catalog, name)


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
    catalog = Announcing(harness, committing)
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
        harness.put(payload, said={"tool_call_id": "b"}, settings={"catalog": Announcing(harness, committing)})
    )
    await committing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await harness.content(first.id) == payload
    assert len(harness.stored_files()) == 1
    assert (await harness.audit()()).findings == ()
