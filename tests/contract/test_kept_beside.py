"""A survey, and what a model got in an artifact's place, are stored, found, removed and brought back with it."""

import asyncio
from typing import Any, NamedTuple

import pytest
from msgspec import UNSET

from coatcheck.core.artifact import DeclaredMetadata, ReceiptRecord
from coatcheck.ports.artifacts import IngestResult, StoreArtifact
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.retention import RestoreArtifact
from contract.sample_changes import DAY, START, Everything, blob_of, deleting, number_of, store
from support.refusals import expect

LARGE = bytes(range(256)) * 1024
INLINE = ReceiptRecord(engine=3, sha256=b"a" * 32, tokens=7)
CARD = ReceiptRecord(
    engine=4, sha256=b"b" * 32, tokens=9, budget=256, query="why\0?", tools=False, text="[x]\n🌊" * 9_000
)
FIRST = DeclaredMetadata(tool_call_id="c", title="first")


class Part(NamedTuple):
    """What is kept beside an artifact: the name of its field, and values of all sorts."""

    field: str
    values: tuple[Any, ...]
    many: list[Any]

    def stored(self, value: object, content: bytes = b"hello\n", said: DeclaredMetadata | None = None) -> StoreArtifact:
        """The change that stores an artifact with this beside it."""
        return store(content, said=said, **{self.field: value})  # pyright: ignore[reportArgumentType] - of the field

    async def found(self, catalog: Everything, change: StoreArtifact) -> Any:  # noqa: ANN401 - of the field
        """What is found of it, only where it is asked for."""
        asked: dict[str, Any] = {f"with_{self.field}": True}
        found = expect(FoundArtifact, await catalog.find(change.namespace, number_of(change), START, **asked))
        assert await catalog.find(change.namespace, number_of(change), START) == FoundArtifact(found.artifact)
        return getattr(found, self.field)


PARTS = {
    "survey": Part("survey", (None, b"", b"\x00\xffsurvey", LARGE), [b"%d" % i if i % 3 else None for i in range(40)]),
    "receipt": Part(
        "receipt",
        (None, INLINE, CARD),
        [ReceiptRecord(engine=i, sha256=b"%032d" % i, tokens=i) if i % 3 else None for i in range(40)],
    ),
}


@pytest.fixture(params=PARTS)
def part(request: pytest.FixtureRequest) -> Part:
    return PARTS[request.param]


async def removed(catalog: Everything, change: StoreArtifact) -> RestoreArtifact:
    """Delete an artifact; the change that brings it back."""
    gone = deleting(change)
    assert await catalog.commit(gone) is True
    left = await catalog.find_removal(gone.namespace, gone.number, START - DAY)
    assert left is not None
    assert left.artifact is not None
    return RestoreArtifact(
        namespace=gone.namespace,
        number=gone.number,
        seq=left.seq,
        now=START,
        ttl=UNSET,
        blob=blob_of(b"hello\n"),
        inline=change.inline,
        views=(),
        by=gone.by,
        since=START - DAY,
    )


async def test_it_is_found_only_where_it_is_asked_for_and_in_its_namespace(catalog: Everything, part: Part) -> None:
    for value in part.values:
        change = part.stored(value)
        assert isinstance(await catalog.commit(change), IngestResult)
        assert await part.found(catalog, change) == value
        assert await catalog.find("other", number_of(change), START, with_survey=True, with_receipt=True) is None


async def test_artifacts_that_are_stored_together_keep_their_own(catalog: Everything, part: Part) -> None:
    changes = [part.stored(value, b"%d" % at) for at, value in enumerate(part.many)]
    await asyncio.gather(*map(catalog.commit, changes))
    assert [await part.found(catalog, change) for change in changes] == part.many


async def test_all_that_is_asked_for_comes_with_the_artifact_at_once(catalog: Everything) -> None:
    change = store(survey=b"s", receipt=CARD)
    await catalog.commit(change)
    everything = {"with_bytes": True, "with_view": True, "with_survey": True, "with_receipt": True}
    found = expect(FoundArtifact, await catalog.find("acme", number_of(change), START, **everything))
    assert (found.inline, found.text_view, found.survey, found.receipt) == (change.inline, None, b"s", CARD)


async def test_an_undo_brings_back_that_of_its_removal_and_of_no_other(catalog: Everything, part: Part) -> None:
    other = part.stored(part.values[1], b"other")
    await catalog.commit(other)
    for value in (*part.values[1:], None):
        change = part.stored(value, said=FIRST)
        await catalog.commit(change)
        assert await part.found(catalog, change) == value  # and not that of the one that was deleted before
        restore = await removed(catalog, change)
        assert isinstance(await catalog.commit(restore), IngestResult)
        assert await part.found(catalog, change) == value
        await catalog.commit(deleting(change))
    assert await part.found(catalog, other) == part.values[1]


async def test_a_repeated_request_and_another_declaration_leave_the_first_receipt(catalog: Everything) -> None:
    await catalog.commit(store(said=FIRST, receipt=CARD))
    await catalog.commit(store(said=FIRST, receipt=INLINE))
    again = store(said=DeclaredMetadata(tool_call_id="c", title="second"), receipt=INLINE)
    assert expect(IngestResult, await catalog.commit(again)).redeclared
    assert await PARTS["receipt"].found(catalog, again) == CARD
