"""A repeated put that declares something else declares its artifact anew, on every catalogue."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from coatcheck.core.artifact import Artifact, DeclaredMetadata, DetectedMetadata, GivenCard, Kind, RepeatedCard
from coatcheck.ports.artifacts import IdempotencyKey, IngestResult, PatchArtifact, StoreArtifact
from coatcheck.ports.catalog import ArtifactFilter, FoundArtifact, PayloadKey, RunKey
from contract.sample_changes import DAY, START, Everything, number_of, store, view
from support.refusals import expect

LATER = START + timedelta(minutes=5)
FIRST = DeclaredMetadata(tool_call_id="c", session="s", tool_name="bash", title="first", labels=("a",))


async def stored(catalog: Everything, change: StoreArtifact) -> IngestResult:
    return expect(IngestResult, await catalog.commit(change))


async def found(catalog: Everything, change: StoreArtifact) -> FoundArtifact:
    return expect(
        FoundArtifact, await catalog.find(change.namespace, number_of(change), LATER, with_view=True, with_survey=True)
    )


async def test_the_last_declaration_counts_as_a_whole(catalog: Everything) -> None:
    first = (await stored(catalog, store(said=FIRST, ttl=600, survey=b"first"))).artifact
    said = DeclaredMetadata(tool_call_id="c", session="s", kind=Kind.LOG, command="make", labels=("b",))
    answer = await stored(catalog, store(said=said, now=LATER, ttl=9, survey=b"second"))
    now = replace(first, declared=replace(said, labels=("a",)), facts=DetectedMetadata(kind=Kind.LOG))
    assert answer == IngestResult(now, created=False, blob_used=False, redeclared=True)
    assert await found(catalog, store(said=FIRST)) == FoundArtifact(now, survey=b"second")


async def test_lists_filter_by_the_last_declaration(catalog: Everything) -> None:
    await stored(catalog, store(said=FIRST))
    await stored(catalog, store(said=replace(FIRST, tool_name="make", kind=Kind.LOG, url="https://e.org/"), now=LATER))

    async def listed(where: ArtifactFilter) -> list[Artifact]:
        return (await catalog.list_artifacts("acme", where, LATER, before=None, limit=9)).artifacts

    wanted = [ArtifactFilter(tool_name="make"), ArtifactFilter(kind=Kind.LOG), ArtifactFilter(url="https://e.org/")]
    assert [len(await listed(where)) for where in wanted] == [1, 1, 1]
    assert await listed(ArtifactFilter(tool_name="bash")) == []


async def test_what_was_recognised_once_of_the_stored_bytes_stays(catalog: Everything) -> None:
    first = store(said=replace(FIRST, compared_to="art_1"))
    facts = replace(first.facts, comparison=("2 lines differ",), redacted="1 secret")
    await stored(catalog, replace(first, facts=facts))
    again = store(said=replace(FIRST, kind=Kind.LOG, compared_to="art_2"), now=LATER)
    artifact = (await stored(catalog, again)).artifact
    assert artifact.declared.compared_to == "art_1"
    assert artifact.facts == replace(facts, kind=Kind.LOG)


@pytest.mark.parametrize("replaced", [{"kind": Kind.LOG}, {"media_type": "text/html"}, {"url": "https://e.org/"}])
async def test_a_view_is_replaced_where_an_extractor_is_told_something_else(
    catalog: Everything, replaced: dict[str, str]
) -> None:
    first, second = view(b"first\n"), view(b"second\n", extractor="test 2")
    await stored(catalog, store(said=FIRST, text_view=first))
    await stored(catalog, store(said=replace(FIRST, **replaced), now=LATER, text_view=second))
    kept = (await found(catalog, store(said=FIRST))).text_view
    assert kept is not None
    assert (kept.view, kept.blob) == (second.view, second.blob)
    assert first.blob is not None
    assert {blob.id for blob in await catalog.dead_blobs(START + DAY, 9)} == {first.blob.id}


async def test_a_view_is_dropped_where_the_new_declaration_has_none(catalog: Everything) -> None:
    await stored(catalog, store(said=FIRST, text_view=view(b"first\n")))
    await stored(catalog, store(said=replace(FIRST, kind=Kind.LOG), now=LATER))
    assert (await found(catalog, store(said=FIRST))).text_view is None


async def test_a_view_stays_where_an_extractor_is_told_the_same(catalog: Everything) -> None:
    first = view(b"first\n")
    await stored(catalog, store(said=FIRST, text_view=first))
    other = view(b"second\n", extractor="test 2")
    await stored(catalog, store(said=replace(FIRST, title="second"), now=LATER, text_view=other))
    kept = (await found(catalog, store(said=FIRST))).text_view
    assert kept is not None
    assert (kept.view, kept.blob) == (first.view, first.blob)


async def test_a_replayed_request_declares_nothing(catalog: Everything) -> None:
    key = IdempotencyKey(key="k", fingerprint=b"f", expires_at=START + DAY)
    await stored(catalog, store(said=FIRST, key=key))
    second = replace(FIRST, title="second")
    await stored(catalog, store(said=second, now=LATER))
    answer = await stored(catalog, store(said=FIRST, key=key, now=LATER))
    assert (answer.artifact.declared, answer.created, answer.redeclared) == (second, True, False)


async def test_a_request_that_comes_late_declares_nothing(catalog: Everything) -> None:
    await stored(catalog, store(said=FIRST))
    late = replace(store(said=replace(FIRST, title="late"), now=LATER), unless_buried_since=START)
    assert (await stored(catalog, late)).artifact.declared == FIRST


async def test_labels_that_were_patched_stay(catalog: Everything) -> None:
    await stored(catalog, store(said=FIRST))
    patch = PatchArtifact(namespace="acme", number=number_of(store(said=FIRST)), now=START, labels=("patched",))
    await catalog.commit(patch)
    answer = await stored(catalog, store(said=replace(FIRST, title="second"), now=LATER))
    assert answer.artifact.declared == replace(FIRST, title="second", labels=("patched",))


async def test_of_many_declarations_at_once_one_is_stored_whole(catalog: Everything) -> None:
    await stored(catalog, store(said=FIRST))
    titles = [str(i) for i in range(20)]
    changes = [
        store(said=replace(FIRST, title=title), now=LATER, survey=title.encode(), text_view=view(title.encode()))
        for title in titles
    ]
    await asyncio.gather(*map(catalog.commit, changes))
    kept = await found(catalog, store(said=FIRST))
    assert kept.artifact.declared.title in titles
    assert kept.survey == (kept.artifact.declared.title or "").encode()


def run(said: DeclaredMetadata, but: bytes = b"") -> RunKey:
    return RunKey(namespace="acme", session=said.session or "", tool_name=said.tool_name, command=said.command, but=but)


async def test_the_latest_run_is_that_of_the_same_session_tool_and_command(catalog: Everything) -> None:
    make = DeclaredMetadata(session="s", tool_name="bash", command='echo "ä\n%_"')
    others = [
        replace(make, session="t"),
        replace(make, tool_name="sh"),
        replace(make, tool_name=None),
        replace(make, command='ECHO "ä\n%_"'),
        replace(make, command='echo "ä\n%_" '),
        replace(make, command=None),
        replace(make, command=None, title='"command":"echo'),
    ]
    for at, said in enumerate([make, make, *others]):
        await stored(catalog, store(b"%d" % at, said=said))
    assert await catalog.latest_run(run(make), START) == number_of(store(b"1", said=make))
    last = store(b"1", said=make)
    assert await catalog.latest_run(run(make, last.identity), START) == number_of(store(b"0", said=make))
    assert await catalog.latest_run(run(others[0]), START) == number_of(store(b"2", said=others[0]))
    assert await catalog.latest_run(run(others[2]), START) == number_of(store(b"4", said=others[2]))
    assert await catalog.latest_run(run(others[5]), START) == number_of(store(b"8", said=others[6]))
    assert await catalog.latest_run(run(replace(make, command="other")), START) is None


async def test_a_run_that_has_expired_is_none(catalog: Everything) -> None:
    make = DeclaredMetadata(session="s", command="make")
    await stored(catalog, store(b"old", said=make))
    await stored(catalog, store(b"new", said=make, ttl=60))
    assert await catalog.latest_run(run(make), START) == number_of(store(b"new", said=make))
    assert await catalog.latest_run(run(make), LATER) == number_of(store(b"old", said=make))


async def test_given_cards_are_those_of_the_same_bytes_and_session_newest_first(catalog: Everything) -> None:
    given = GivenCard(600, "")

    async def keep(data: bytes, call: str, session: str = "s", ttl: int | None = None, **facts: Any) -> str:  # noqa: ANN401 - fields
        said = DeclaredMetadata(session=session, tool_call_id=call)
        change = store(data, said=said, ttl=ttl)
        change = replace(change, facts=replace(change.facts, **facts))
        return (await stored(catalog, change)).artifact.id

    wanted = [await keep(b"same", f"c{n}", given=given) for n in range(3)]
    await keep(b"same", "other session", session="t", given=given)
    await keep(b"other", "other bytes", given=given)
    await keep(b"same", "none given", title='"given":[600,""]')
    await keep(b"same", "a repeat", repeats=RepeatedCard(wanted[0], given))
    short = await keep(b"same", "short", ttl=60, given=given)
    sha256 = store(b"same").measure.sha256

    async def listed(now: datetime, namespace: str = "acme") -> list[str]:
        payload = PayloadKey(namespace=namespace, session="s", sha256=sha256, size=4)
        found = await catalog.find_given_cards(payload, now)
        assert all(each.facts.given == given for each in found)
        return [each.id for each in found]

    assert await listed(START) == [short, *wanted[::-1]]
    assert await listed(LATER) == wanted[::-1]
    assert await listed(START, "other") == []
    more = [await keep(b"same", f"d{n}", given=given) for n in range(9)]
    assert await listed(LATER) == more[:0:-1]


async def test_what_was_given_stays_when_an_artifact_is_declared_anew(catalog: Everything) -> None:
    first = store(said=FIRST)
    given, repeats = GivenCard(600, "ab"), RepeatedCard("art_1", GivenCard(700))
    await stored(catalog, replace(first, facts=replace(first.facts, given=given, repeats=repeats)))
    again = await stored(catalog, store(said=replace(FIRST, title="second"), now=LATER))
    assert again.redeclared
    assert (again.artifact.facts.given, again.artifact.facts.repeats) == (given, repeats)
