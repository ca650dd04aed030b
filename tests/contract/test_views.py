import asyncio
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from coatcheck.core.artifact import Blob, Charset, DeclaredMetadata, Kind, PayloadForm, Placement
from coatcheck.core.read_answer import view_inputs
from coatcheck.ports.artifacts import (
    DeleteSession,
    FoundView,
    IngestResult,
    NewView,
    StoreArtifact,
    StoredView,
    StoreView,
    UploadFenced,
)
from coatcheck.ports.catalog import ArtifactFilter, FoundArtifact
from coatcheck.ports.maintenance import DeadBlob, ExpireArtifacts, ForgetBlobs, MarkBlobCorrupt, ReapUploads
from contract.sample_changes import DAY, START, Everything, beginning, deleting, fresh_blob_id, number_of, store, view
from support.refusals import expect

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


async def put(catalog: Everything, change: StoreArtifact) -> StoreArtifact:
    if change.blob.placement != "inline":
        await begin(catalog, change.blob, change.namespace)
    assert isinstance(await catalog.commit(change), IngestResult)
    return change


async def begin(catalog: Everything, blob: Blob | None, namespace: str = "acme") -> None:
    assert blob is not None
    await catalog.commit(beginning(blob.id, namespace))


def of(change: StoreArtifact, new: NewView, *, now: datetime | None = None, namespace: str | None = None) -> StoreView:
    """The change that keeps a view of an artifact."""
    return StoreView(namespace=namespace or change.namespace, number=number_of(change), now=now or change.now, new=new)


async def keep(catalog: Everything, change: StoreArtifact, new: NewView) -> StoredView:
    if new.blob is not None and new.blob.placement != "inline":
        await begin(catalog, new.blob, change.namespace)
    return expect(StoredView, await catalog.commit(of(change, new)))


async def test_a_view_of_an_earlier_version_is_replaced(catalog: Everything) -> None:
    change = await put(catalog, store(b"page"))
    old, new = view(b"old\n"), view(b"new\n", placement="file")
    old = replace(old, view=replace(old.view, version=0))
    assert (await keep(catalog, change, old)).blob_used
    kept = await found(catalog, change)
    assert kept is not None
    assert kept.view.is_old
    assert (await keep(catalog, change, new)).blob_used
    assert (await found(catalog, change)) == FoundView(new.view, new.blob)
    assert old.blob is not None
    assert old.blob.id in await dead(catalog)
    again = await keep(catalog, change, view(b"other\n"))
    assert (again.blob_used, again.view.view) == (False, new.view)


async def test_a_view_may_tell_the_form_that_was_not_looked_for(catalog: Everything) -> None:
    change = await put(catalog, store(b"\xff\xfea\x00", said=DeclaredMetadata(tool_call_id="1")))
    facts = replace(change.facts, form=PayloadForm(Charset("utf-16-le", mark=2)), kind=Kind.TABLE)
    for said, answer in ((DeclaredMetadata(media_type="text/html"), UploadFenced), (change.declared, StoredView)):
        asked = replace(of(change, view(b"a")), facts=facts, inputs=view_inputs(said, facts))
        assert isinstance(await catalog.commit(asked), answer)
    known = expect(FoundArtifact, await catalog.find(change.namespace, number_of(change), START))
    assert (known.artifact.facts, known.artifact.declared) == (facts, change.declared)
    listed = await catalog.list_artifacts("acme", ArtifactFilter(kind=Kind.TABLE), START, before=None, limit=5)
    assert [each.id for each in listed.artifacts] == [known.artifact.id]


async def found(catalog: Everything, change: StoreArtifact, *, now: datetime = START) -> FoundView | None:
    """The view that the catalogue answers with an artifact that is live."""
    answer = expect(FoundArtifact, await catalog.find(change.namespace, number_of(change), now, with_view=True))
    assert await catalog.find(change.namespace, number_of(change), now) == FoundArtifact(answer.artifact)
    whole = expect(
        FoundArtifact, await catalog.find(change.namespace, number_of(change), now, with_bytes=True, with_view=True)
    )
    assert (whole.artifact, whole.text_view) == (answer.artifact, answer.text_view)
    plain = await catalog.find(change.namespace, number_of(change), now, with_bytes=True)
    assert plain == FoundArtifact(whole.artifact, whole.inline)
    return answer.text_view


async def dead(catalog: Everything) -> set[str]:
    return {blob.id for blob in await catalog.dead_blobs(START + 99 * DAY, 99)}


async def live(catalog: Everything) -> set[str]:
    return {blob.id async for _, blob in catalog.all_blobs()}


def id_of(new: NewView) -> str:
    assert new.blob is not None
    return new.blob.id


def mark_corrupt(blob_id: str) -> MarkBlobCorrupt:
    return MarkBlobCorrupt(namespace="acme", blob_id=blob_id, now=START)


def kept(new: NewView) -> FoundView:
    return FoundView(new.view, new.blob, new.inline)


@pytest.mark.parametrize("placement", ["inline", "file"])
async def test_a_view_is_found_whole_with_its_artifact_when_it_is_asked_for(
    catalog: Everything, placement: Placement
) -> None:
    page = await put(catalog, store(b"<p>one<p>two"))
    assert await found(catalog, page) is None
    new = view(placement=placement)
    assert await keep(catalog, page, new) == StoredView(kept(new), blob_used=True)
    assert await found(catalog, page) == kept(new)
    assert await catalog.find_known_blobs([("acme", id_of(new))]) == {("acme", id_of(new))}
    assert await live(catalog) == {page.blob.id, id_of(new)}
    assert await catalog.inline_bytes("acme", id_of(new)) == new.inline


async def test_a_view_that_is_the_payload_itself_has_no_bytes_of_its_own(catalog: Everything) -> None:
    page = await put(catalog, store(b"# one\ntwo\n"))
    new = view(None)
    assert await keep(catalog, page, new) == StoredView(FoundView(new.view, None), blob_used=False)
    assert await found(catalog, page) == FoundView(new.view, None)
    assert await live(catalog) == {page.blob.id}
    assert await catalog.commit(deleting(page)) is True
    assert await live(catalog) == set()


@pytest.mark.parametrize("text", [b"one\ntwo\n", None])
async def test_a_view_that_comes_with_its_artifact_is_kept_with_it_and_never_later(
    catalog: Everything, text: bytes | None
) -> None:
    said = DeclaredMetadata(tool_call_id="c")
    new = view(text)
    page = await put(catalog, store(b"<p>one<p>two", said=said, text_view=new))
    assert await found(catalog, page) == kept(new)
    before = await live(catalog)
    again = expect(IngestResult, await catalog.commit(store(b"<p>one<p>two", said=said, text_view=view(b"other\n"))))
    assert (again.created, await found(catalog, page), await live(catalog)) == (False, kept(new), before)


async def test_an_artifact_that_is_there_gets_no_view_by_being_posted_again(catalog: Everything) -> None:
    said = DeclaredMetadata(tool_call_id="c")
    page = await put(catalog, store(b"<p>one", said=said))
    await catalog.commit(store(b"<p>one", said=said, text_view=view()))
    assert (await found(catalog, page), await live(catalog)) == (None, {page.blob.id})


async def test_the_first_view_stays_and_the_file_of_another_is_left_to_the_sweep(catalog: Everything) -> None:
    page = await put(catalog, store(b"<p>one<p>two"))
    first, second = view(b"first\n"), view(b"second\n", placement="file", extractor="test 2")
    await keep(catalog, page, first)
    answer = await keep(catalog, page, second)
    assert answer == StoredView(FoundView(first.view, first.blob), blob_used=False)
    third = await keep(catalog, page, view(None))
    assert third == StoredView(FoundView(first.view, first.blob), blob_used=False)
    assert await found(catalog, page) == kept(first)
    assert second.blob is not None
    left = DeadBlob("acme", second.blob.id, "file", START, second.blob.stored_size)
    assert await catalog.dead_blobs(START + DAY, 9) == [left]
    assert await catalog.commit(of(page, second)) == UploadFenced()


async def test_of_many_views_at_once_one_is_kept_and_all_are_answered_that_one(catalog: Everything) -> None:
    pages = [await put(catalog, store(b"<p>%d" % i)) for i in range(3)]
    made = [view(b"%d\n" % (i % 4), placement="inline" if i % 2 else "file", extractor=f"test {i}") for i in range(30)]
    answers = await asyncio.gather(*(keep(catalog, pages[i % 3], new) for i, new in enumerate(made)))
    for i, page in enumerate(pages):
        mine = answers[i::3]
        assert len({answer.view.view.extractor for answer in mine}) == 1
        assert {answer.view.blob for answer in mine} == {(await catalog_view(catalog, page)).blob}
        assert sum(answer.blob_used for answer in mine) <= 1
    used = {id_of(new) for new, answer in zip(made, answers, strict=True) if answer.blob_used}
    files = {id_of(new) for new in made if new.inline is None}
    assert await live(catalog) == {page.blob.id for page in pages} | used
    assert await dead(catalog) == files - used


async def catalog_view(catalog: Everything, page: StoreArtifact) -> FoundView:
    answer = await found(catalog, page)
    assert answer is not None
    return answer


async def test_a_view_whose_intent_is_gone_is_fenced_and_changes_nothing(catalog: Everything) -> None:
    page = await put(catalog, store(b"<p>one"))
    new = view(placement="file")
    assert await catalog.commit(of(page, new)) == UploadFenced()
    await begin(catalog, new.blob, "other")
    assert await catalog.commit(of(page, new)) == UploadFenced()
    assert (await found(catalog, page), await live(catalog), await dead(catalog)) == (None, {page.blob.id}, set())


async def test_what_a_crash_leaves_between_a_views_file_and_its_row_is_reaped(catalog: Everything) -> None:
    page = await put(catalog, store(b"<p>one"))
    new = view(placement="file")
    await begin(catalog, new.blob)
    now = START + HOUR + SECOND
    assert await catalog.commit(ReapUploads(now=now, limit=9)) == 1
    assert await catalog.dead_blobs(now + SECOND, 9) == [DeadBlob("acme", id_of(new), "file", now)]
    assert await catalog.commit(of(page, new)) == UploadFenced()
    assert await found(catalog, page) is None


@pytest.mark.parametrize("placement", ["inline", "file"])
@pytest.mark.parametrize("how", ["deleted", "expired", "unknown", "another's"])
async def test_no_view_is_kept_of_what_is_not_live(catalog: Everything, how: str, placement: Placement) -> None:
    page = store(b"<p>one", ttl=60)
    if how != "unknown":
        await put(catalog, page)
    if how == "deleted":
        assert await catalog.commit(deleting(page)) is True
    new, namespace = view(placement=placement), "other" if how == "another's" else "acme"
    if placement == "file":
        await begin(catalog, new.blob, namespace)
    now = START + timedelta(seconds=60 if how == "expired" else 59)
    before = await live(catalog)
    assert await catalog.commit(of(page, new, now=now, namespace=namespace)) is None
    assert await live(catalog) == before
    assert (id_of(new) in await dead(catalog)) == (placement == "file")
    assert await catalog.commit(ReapUploads(now=START + DAY, limit=9)) == 0


@pytest.mark.parametrize("how", ["deleted", "session", "expired"])
@pytest.mark.parametrize("placement", ["inline", "file"])
async def test_a_view_goes_with_its_artifact_and_the_sweep_leaves_nothing(
    catalog: Everything, how: str, placement: Placement
) -> None:
    said = DeclaredMetadata(session="s", tool_call_id="c")
    page = await put(catalog, store(b"<p>one", said=said, ttl=60))
    other = await put(catalog, store(b"<p>other", text_view=view(b"other\n")))
    new = view(placement=placement)
    await keep(catalog, page, new)
    end = START + timedelta(seconds=60)
    if how == "deleted":
        assert await catalog.commit(deleting(page)) is True
    elif how == "session":
        change = DeleteSession(namespace="acme", session="s", now=START, tombstone_until=START + DAY, limit=9)
        assert await catalog.commit(change) == 1
    else:
        assert await catalog.commit(ExpireArtifacts(now=end, tombstone_until=end + DAY, limit=9)) == 1
    gone = {page.blob.id, id_of(new)}
    assert await dead(catalog) == gone
    await catalog.commit(ForgetBlobs(blobs=tuple(("acme", blob_id) for blob_id in gone)))
    assert await catalog.find_known_blobs([("acme", blob_id) for blob_id in gone]) == set()
    assert await catalog.inline_bytes("acme", id_of(new)) is None
    assert await found(catalog, await put(catalog, store(b"<p>one", said=said))) is None
    assert (await catalog_view(catalog, other)).inline is not None


async def test_posting_over_what_has_expired_takes_its_view_away(catalog: Everything) -> None:
    said = DeclaredMetadata(tool_call_id="c")
    old, shared = view(b"old\n"), view(b"shared\n")
    page = await put(catalog, store(b"<p>one", said=said, ttl=60, text_view=old))
    twin = await put(catalog, store(b"<p>two", said=said, ttl=60, text_view=shared))
    later = START + HOUR
    again = await put(catalog, store(b"<p>one", said=said, now=later))
    assert await found(catalog, again, now=later) is None
    anew = view(b"shared\n")
    await put(catalog, store(b"<p>two", said=said, now=later, text_view=anew))
    assert await found(catalog, twin, now=later) == FoundView(anew.view, shared.blob, shared.inline)
    assert await dead(catalog) == {id_of(old)}
    assert await live(catalog) == {page.blob.id, twin.blob.id, id_of(shared)}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("first", ["payload", "view"])
async def test_a_view_and_a_payload_of_the_same_bytes_share_a_blob_until_both_are_gone(
    catalog: Everything, first: str, together: bool
) -> None:
    async def post_text() -> StoreArtifact:
        return await put(catalog, store(b"same\n"))

    async def post_page() -> tuple[StoreArtifact, NewView]:
        new = view(b"same\n")
        page = await put(catalog, store(b"<p>same", text_view=new if together else None))
        if not together:
            await keep(catalog, page, new)
        return page, new

    if first == "payload":
        text = await post_text()
        page, new = await post_page()
        blob, inline = text.blob, text.inline
    else:
        page, new = await post_page()
        text = await post_text()
        blob, inline = new.blob, new.inline
    assert blob is not None
    assert await found(catalog, page) == FoundView(new.view, blob, inline)
    answer = expect(FoundArtifact, await catalog.find("acme", number_of(text), START, with_bytes=True))
    assert (answer.artifact.blob, answer.inline) == (blob, inline)
    assert await live(catalog) == {page.blob.id, blob.id}
    one, other = (text, page) if first == "payload" else (page, text)
    assert await catalog.commit(deleting(one)) is True
    assert (blob.id in await live(catalog), blob.id in await dead(catalog)) == (True, False)
    assert await catalog.commit(deleting(other)) is True
    assert (await live(catalog), await dead(catalog)) == (set(), {page.blob.id, blob.id})


async def test_a_view_may_be_the_bytes_of_its_own_payload(catalog: Everything) -> None:
    page = await put(catalog, store(b"same\n", text_view=view(b"same\n")))
    assert (await catalog_view(catalog, page)).blob == page.blob
    assert await catalog.commit(deleting(page)) is True
    assert (await live(catalog), await dead(catalog)) == (set(), {page.blob.id})


async def test_a_file_whose_bytes_are_a_views_is_not_kept_twice(catalog: Everything) -> None:
    new, shared = view(b"same\n"), view(b"same\n", placement="file", extractor="test 2")
    page, other = await put(catalog, store(b"<p>same", text_view=new)), await put(catalog, store(b"<b>same"))
    answer = await keep(catalog, other, shared)
    assert answer == StoredView(FoundView(shared.view, new.blob), blob_used=False)
    assert await found(catalog, other) == FoundView(shared.view, new.blob, new.inline)
    text = store(b"same\n", placement="file")
    assert await catalog.same_bytes("acme", text.blob.sha256, text.blob.size) == new.blob
    await put(catalog, text)
    assert await dead(catalog) == {id_of(shared), text.blob.id}
    for change in (page, other):
        assert await catalog.commit(deleting(change)) is True
    assert await live(catalog) == {id_of(new)}


async def test_views_of_two_namespaces_know_nothing_of_each_other(catalog: Everything) -> None:
    said = DeclaredMetadata(tool_call_id="c")
    mine, theirs = view(b"same\n"), view(b"same\n")
    page = await put(catalog, store(b"<p>same", said=said, text_view=mine))
    their_page = await put(catalog, store(b"<p>same", said=said, namespace="other", text_view=theirs))
    assert await found(catalog, page) == kept(mine)
    assert await found(catalog, their_page) == kept(theirs)
    assert await catalog.find("other", number_of(page), START, with_view=True) is None
    assert await catalog.commit(deleting(page)) is True
    assert await found(catalog, their_page) == kept(theirs)


@pytest.mark.parametrize("how", ["again", "reposted", "payload"])
async def test_a_view_whose_bytes_are_lost_is_healed_by_the_same_bytes_only(catalog: Everything, how: str) -> None:
    said = DeclaredMetadata(tool_call_id="c")
    first = view(b"text\n")
    page = await put(catalog, store(b"<p>text", said=said, text_view=first))
    sharing = await put(catalog, store(b"<b>text", text_view=view(b"text\n", extractor="test 2")))
    assert await catalog.commit(mark_corrupt(id_of(first))) is True
    assert first.blob is not None
    lost = replace(first.blob, condemned=True)
    other = await keep(catalog, page, view(b"other\n", extractor="test 3"))
    assert other == StoredView(FoundView(first.view, lost), blob_used=False)
    assert await found(catalog, page) == FoundView(first.view, lost, first.inline)
    await catalog.commit(store(b"<p>text", said=said, text_view=view(b"other\n")))
    assert (await catalog_view(catalog, page)).blob == lost
    fresh = view(b"text\n", extractor="test 3")
    if how == "again":
        assert await keep(catalog, page, fresh) == StoredView(
            FoundView(first.view, fresh.blob, fresh.inline), blob_used=True
        )
    elif how == "reposted":
        await catalog.commit(store(b"<p>text", said=said, text_view=fresh))
    else:
        text = await put(catalog, store(b"text\n"))
        fresh = replace(fresh, blob=text.blob, inline=text.inline)
    assert await found(catalog, page) == FoundView(first.view, fresh.blob, fresh.inline)
    assert (await catalog_view(catalog, sharing)).blob == fresh.blob
    assert await dead(catalog) == {first.blob.id}


@pytest.mark.parametrize("together", [True, False])
async def test_a_view_brings_a_lost_payload_of_the_same_bytes_back(catalog: Everything, together: bool) -> None:
    text = await put(catalog, store(b"text\n"))
    assert await catalog.commit(mark_corrupt(text.blob.id)) is True
    new = view(b"text\n")
    page = await put(catalog, store(b"<p>text", text_view=new if together else None))
    if not together:
        assert (await keep(catalog, page, new)).blob_used is True
    answer = expect(FoundArtifact, await catalog.find("acme", number_of(text), START, with_bytes=True))
    assert (answer.artifact.blob, answer.inline) == (new.blob, new.inline)
    assert (await dead(catalog), await found(catalog, page)) == ({text.blob.id}, kept(new))


async def test_a_lost_payload_that_is_posted_again_takes_the_view_of_its_bytes_along(catalog: Everything) -> None:
    text = await put(catalog, store(b"text\n"))
    page = await put(catalog, store(b"<p>text", text_view=view(b"text\n")))
    assert await catalog.commit(mark_corrupt(text.blob.id)) is True
    again = await put(catalog, store(b"text\n", placement="file"))
    assert (await catalog_view(catalog, page)).blob == again.blob
    assert (await live(catalog), await dead(catalog)) == ({page.blob.id, again.blob.id}, {text.blob.id})


async def test_artifacts_with_views_at_once_are_all_kept_and_nothing_of_them_twice(catalog: Everything) -> None:
    changes = [
        store(
            b"<p>%d" % i,
            said=DeclaredMetadata(tool_call_id=str(i)),
            text_view=view(None if i % 5 == 0 else b"%d\n" % (i % 20)),
        )
        for i in range(60)
    ]
    changes += [store(b"%d\n" % i, said=DeclaredMetadata(tool_call_id=str(i))) for i in range(10)]
    answers = await asyncio.gather(*map(catalog.commit, [*changes, *changes]))
    stored = [answer for answer in answers if isinstance(answer, IngestResult)]
    assert (len(stored), sum(answer.created for answer in stored)) == (140, 70)
    texts: dict[bytes, FoundView] = {}
    for change in changes[:60]:
        assert change.text_view is not None
        answer = await catalog_view(catalog, change)
        assert answer.view == change.text_view.view
        if change.text_view.blob is not None:
            assert answer.blob is not None
            same = texts.setdefault(answer.blob.sha256, answer)
            assert (answer.blob, answer.inline) == (same.blob, same.inline)
            assert answer.blob.sha256 == change.text_view.blob.sha256
    blobs = await live(catalog)
    assert len(blobs) == 60 + 16 + 2  # pages, texts of views, and those of the ten payloads that are no view's
    for change in changes:
        assert await catalog.commit(deleting(change)) is True
    assert (await live(catalog), await dead(catalog) & blobs) == (set(), blobs)


async def test_patching_and_reading_an_artifact_leave_its_view_alone(catalog: Everything) -> None:
    page = await put(catalog, store(b"<p>one", ttl=60))
    new = view()
    await keep(catalog, page, new)
    unknown = await catalog.find_known_blobs([("acme", fresh_blob_id()), ("other", id_of(new))])
    assert (unknown, await found(catalog, page)) == (set(), kept(new))
