"""A text view that waits for storage with its payload: readable at once, counted, and kept when the payload is."""

from typing import Any, cast

from coatcheck.core import ids
from coatcheck.ports.artifacts import FoundView, StoreArtifact
from coatcheck.ports.catalog import Catalog, FoundArtifact
from coatcheck.ports.decisions import CatalogChange
from coatcheck.storing.fallback_buffer import FallbackBuffer
from contract.sample_changes import number_of, store, view
from support.harness import CALLER, Harness, flushing


def page(harness: Harness, text: bytes | None) -> StoreArtifact:
    return store(b"<p>page", namespace=CALLER.namespace, now=harness.clock.now(), text_view=view(text))


def keep(fallback: FallbackBuffer, change: StoreArtifact) -> bool:
    return fallback.keep(ids.render(number_of(change)), change, change.inline or b"")


async def test_a_view_that_waits_is_found_with_its_payload_and_stored_with_it(harness: Harness) -> None:
    fallback = FallbackBuffer(1 << 20)
    for text in (b"page\n", None):
        change = page(harness, text)
        new = change.text_view
        assert new is not None
        assert keep(fallback, change)
        waiting = fallback.find(CALLER.namespace, number_of(change), harness.clock.now())
        assert waiting is not None
        assert waiting.text_view == FoundView(new.view, new.blob, new.inline)
        assert await flushing(harness.deps(fallback=fallback))() == 1
        found = await harness.catalog.find(CALLER.namespace, number_of(change), harness.clock.now(), with_view=True)
        assert isinstance(found, FoundArtifact)
        assert found.text_view is not None
        assert (found.text_view.view, found.text_view.inline) == (new.view, new.inline)


async def test_a_view_is_stored_under_a_fresh_name_so_that_a_lost_answer_is_asked_again_safely(
    harness: Harness,
) -> None:
    fallback, change = FallbackBuffer(1 << 20), page(harness, b"page\n")
    await harness.catalog.commit(change)
    assert keep(fallback, change)
    seen: list[StoreArtifact] = []

    class Noting:
        """A catalogue that notes what is stored."""

        async def commit(self, asked: CatalogChange[Any]) -> object:
            if isinstance(asked, StoreArtifact):
                seen.append(asked)
            return await harness.catalog.commit(asked)

        def __getattr__(self, name: str) -> object:
            return getattr(harness.catalog, name)

    noting = cast("Catalog", Noting())
    assert await flushing(harness.deps(fallback=fallback, catalog=noting))() == 1
    (asked,) = seen
    mine, theirs = change.text_view, asked.text_view
    assert mine is not None
    assert theirs is not None
    assert mine.blob is not None
    assert theirs.blob is not None
    assert (mine.blob.sha256 == theirs.blob.sha256, mine.blob.id == theirs.blob.id) == (True, False)


def test_the_memory_of_a_view_counts(harness: Harness) -> None:
    change = page(harness, b"".join(b"%d\n" % n for n in range(3000)))
    new = change.text_view
    assert new is not None
    assert new.inline is not None
    assert not keep(FallbackBuffer(4096 + len(new.inline)), change)
    assert keep(FallbackBuffer(3 * (4096 + len(new.inline))), change)
