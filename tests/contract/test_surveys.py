"""A survey is stored, found, removed and brought back with its artifact, on every catalogue."""

import asyncio

import pytest

from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.ports.artifacts import DeleteArtifact, IngestResult, StoreArtifact
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.retention import RestoreArtifact
from contract.sample_changes import DAY, START, Everything, blob_of, number_of, store

LARGE = bytes(range(256)) * 1024


async def survey_of(catalog: Everything, change: StoreArtifact) -> bytes | None:
    found = await catalog.find(change.namespace, number_of(change), START, with_survey=True)
    assert isinstance(found, FoundArtifact)
    assert await catalog.find(change.namespace, number_of(change), START) == FoundArtifact(found.artifact)
    return found.survey


async def removed(catalog: Everything, change: StoreArtifact) -> RestoreArtifact:
    """Delete an artifact; the change that brings it back."""
    number = number_of(change)
    gone = DeleteArtifact(namespace=change.namespace, number=number, now=START, tombstone_until=START + DAY)
    assert await catalog.commit(gone) is True
    left = await catalog.find_removal(change.namespace, number, START - DAY)
    assert left is not None
    assert left.artifact is not None
    return RestoreArtifact(
        namespace=change.namespace,
        number=number,
        seq=left.seq,
        now=START,
        ttl=None,
        blob=blob_of(b"hello\n"),
        inline=change.inline,
        views=(),
        by=gone.by,
        since=START - DAY,
    )


@pytest.mark.parametrize("survey", [None, b"", b"\x00\xffsurvey", LARGE], ids=["none", "empty", "bytes", "large"])
async def test_a_survey_is_found_only_where_it_is_asked_for(catalog: Everything, survey: bytes | None) -> None:
    change = store(survey=survey)
    assert isinstance(await catalog.commit(change), IngestResult)
    assert await survey_of(catalog, change) == survey


async def test_artifacts_that_are_stored_together_keep_their_own_surveys(catalog: Everything) -> None:
    surveys = [None if i % 3 == 0 else b"%d" % i for i in range(40)]
    changes = [store(b"%d" % i, survey=survey) for i, survey in enumerate(surveys)]
    await asyncio.gather(*map(catalog.commit, changes))
    assert [await survey_of(catalog, change) for change in changes] == surveys


async def test_all_that_is_asked_for_comes_with_the_artifact_at_once(catalog: Everything) -> None:
    change = store(survey=b"s")
    await catalog.commit(change)
    found = await catalog.find("acme", number_of(change), START, with_bytes=True, with_view=True, with_survey=True)
    assert isinstance(found, FoundArtifact)
    assert (found.inline, found.text_view, found.survey) == (change.inline, None, b"s")


async def test_an_artifact_that_is_stored_again_after_it_was_deleted_has_the_new_survey(catalog: Everything) -> None:
    said = DeclaredMetadata(tool_call_id="c")
    await catalog.commit(store(said=said, survey=b"first"))
    await removed(catalog, store(said=said))
    await catalog.commit(store(said=said))
    assert await survey_of(catalog, store(said=said)) is None


@pytest.mark.parametrize("survey", [None, LARGE])
async def test_an_undo_brings_the_survey_back(catalog: Everything, survey: bytes | None) -> None:
    other, change = store(b"other", survey=b"other"), store(survey=survey)
    for each in (other, change):
        await catalog.commit(each)
    restore = await removed(catalog, change)
    assert isinstance(await catalog.commit(restore), IngestResult)
    assert await survey_of(catalog, change) == survey
    assert await survey_of(catalog, other) == b"other"


async def test_an_undo_brings_back_the_survey_of_that_removal_and_of_no_other(catalog: Everything) -> None:
    said = DeclaredMetadata(tool_call_id="c")
    for survey in (b"first", None):
        await catalog.commit(store(said=said, survey=survey))
        restore = await removed(catalog, store(said=said))
    assert isinstance(await catalog.commit(restore), IngestResult)
    assert await survey_of(catalog, store(said=said)) is None


async def test_another_namespace_finds_nothing(catalog: Everything) -> None:
    change = store(survey=b"s")
    await catalog.commit(change)
    assert await catalog.find("other", number_of(change), START, with_survey=True) is None
