"""A text view that waits for storage with its payload: readable at once, counted, and kept when the payload is."""

from typing import Any, cast

from coatcheck.core import ids
from coatcheck.ports.artifacts import FoundView, StoreArtifact
from coatcheck.ports.catalog import Catalog, Found
from coatcheck.usecases.outage import Outage
from coatcheck.usecases.shelter import Shelter
from coatcheck.usecases.write_through import WriteThrough
from contract.making import number_of, store, view
from usecases.house import CALLER, House


def page(house: House, text: bytes | None) -> StoreArtifact:
    return store(b"<p>page", namespace=CALLER.namespace, now=house.clock.now(), text_view=view(text))


def keep(shelter: Shelter, change: StoreArtifact) -> bool:
    return shelter.keep(ids.render(number_of(change)), change, change.inline or b"")


async def test_a_view_that_waits_is_found_with_its_payload_and_stored_with_it(house: House) -> None:
    shelter = Shelter(1 << 20)
    for text in (b"page\n", None):
        change = page(house, text)
        new = change.text_view
        assert new is not None
        assert keep(shelter, change)
        waiting = shelter.find(CALLER.namespace, number_of(change), house.clock.now())
        assert waiting is not None
        assert waiting.text_view == FoundView(new.view, new.blob, new.inline)
        outages: dict[str, Any] = {f"{name}_outage": Outage(name, house.clock.seconds) for name in ("catalog", "blobs")}
        assert await WriteThrough(house.places(shelter=shelter, **outages))() == 1
        found = await house.catalog.find(CALLER.namespace, number_of(change), house.clock.now(), with_view=True)
        assert isinstance(found, Found)
        assert found.text_view is not None
        assert (found.text_view.view, found.text_view.inline) == (new.view, new.inline)


async def test_a_view_is_stored_under_a_fresh_name_so_that_a_lost_answer_is_asked_again_safely(house: House) -> None:
    shelter, change = Shelter(1 << 20), page(house, b"page\n")
    await house.catalog.store_artifact(change)
    assert keep(shelter, change)
    outages: dict[str, Any] = {f"{name}_outage": Outage(name, house.clock.seconds) for name in ("catalog", "blobs")}
    seen: list[StoreArtifact] = []

    class Noting:
        """A catalogue that notes what is stored."""

        async def store_artifact(self, asked: StoreArtifact) -> object:
            seen.append(asked)
            return await house.catalog.store_artifact(asked)

        def __getattr__(self, name: str) -> object:
            return getattr(house.catalog, name)

    noting = cast("Catalog", Noting())
    assert await WriteThrough(house.places(shelter=shelter, catalog=noting, **outages))() == 1
    (asked,) = seen
    mine, theirs = change.text_view, asked.text_view
    assert mine is not None
    assert theirs is not None
    assert mine.blob is not None
    assert theirs.blob is not None
    assert (mine.blob.sha256 == theirs.blob.sha256, mine.blob.id == theirs.blob.id) == (True, False)


def test_the_memory_of_a_view_counts(house: House) -> None:
    change = page(house, b"".join(b"%d\n" % n for n in range(3000)))
    new = change.text_view
    assert new is not None
    assert new.inline is not None
    assert not keep(Shelter(4096 + len(new.inline)), change)
    assert keep(Shelter(3 * (4096 + len(new.inline))), change)
