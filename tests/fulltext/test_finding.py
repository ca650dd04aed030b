"""What a query finds, alike on every database."""

import asyncio
import random
from collections import Counter
from datetime import timedelta

import pytest
from sqlalchemy import Connection

from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.core.artifact import Caller, DeclaredMetadata, Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.fulltext import IndexedDocument, build_segment, keys_of
from coatcheck.core.views.view import View, ViewMeasure
from coatcheck.ports.artifacts import NewView, StoredView, StoreView
from coatcheck.ports.catalog import ArtifactFilter
from coatcheck.ports.text_index import IndexDocuments, MergeSegments, Reindex, Unindexed
from contract.sample_changes import number_of, store
from fulltext.index_harness import IndexHarness, call, called
from support.refusals import code_of, expect

TEXTS = {
    "english": "The lighthouse keeper reported seventeen ships in the fog.",
    "chinese": "数据库连接失败的原因是密码错误。",
    "japanese": "本日のデータベース接続は失敗しました。東京サーバーを確認してください。",
    "korean": "데이터베이스 연결이 실패했습니다. 서울 서버를 확인하세요.",
    "thai": "การเชื่อมต่อฐานข้อมูลล้มเหลวเพราะรหัสผ่านผิด",
    "arabic": "فشل الاتصال بقاعدة البيانات بسبب كلمة المرور",
    "russian": "Ошибка подключения к базе данных на сервере",
    "accents": "Der Zug fährt über Ångström nach Łódź, naïve café.",
    "identifiers": "raise ConnectionResetError at src/app/main.py:42 for abc123def, snake_case_name",
    "log": "2024-03-01T12:00:00 ERROR 192.168.17.5 GET https://example.org/a/b?x=1 -> 503",
}
QUERIES = {
    "one word": ("lighthouse", "english"),
    "another case": ("LightHouse KEEPER", "english"),
    "several words in any order": ("fog ships", "english"),
    "an inflected form": ("reporting ship", "english"),
    "words that ask do not matter": ("what did the keeper report", "english"),
    "two Chinese characters": ("数据", "chinese"),
    "one Chinese character": ("码", "chinese"),
    "a Chinese question": ("数据库连接失败的原因是什么", "chinese"),
    "a Chinese word inside a run": ("连接失败", "chinese"),
    "a Japanese word": ("データベース", "japanese"),
    "a Japanese word of two characters": ("東京", "japanese"),
    "a Korean word without its ending": ("데이터베이스", "korean"),
    "a Korean word": ("서버 서울", "korean"),
    "a Thai word": ("ฐานข้อมูล", "thai"),
    "an Arabic word": ("الاتصال", "arabic"),
    "an Arabic word without its article": ("اتصال", "arabic"),
    "an inflected Russian word": ("сервер", "russian"),
    "accents": ("ångström", "accents"),
    "no accents": ("angstrom lodz cafe", "accents"),
    "decomposed accents": ("cafe\u0301 nai\u0308ve", "accents"),
    "an identifier": ("ConnectionResetError", "identifiers"),
    "an identifier in small letters": ("connectionreseterror", "identifiers"),
    "part of an identifier": ("ConnectionReset", "identifiers"),
    "a word of an identifier": ("reset", "identifiers"),
    "a path": ("src/app/main.py", "identifiers"),
    "the end of a path": ("app/main.py", "identifiers"),
    "a file": ("main.py", "identifiers"),
    "a digest": ("abc123def", "identifiers"),
    "a name with underscores": ("snake_case_name", "identifiers"),
    "an address": ("192.168.17.5", "log"),
    "a day": ("2024-03-01", "log"),
    "a URL": ("https://example.org/a/b", "log"),
    "words and an identifier": ("raise main.py", "identifiers"),
    "NUL between words": ("keeper\0fog", "english"),
}


@pytest.mark.parametrize("what", QUERIES)
async def test_a_query_finds_the_text_that_says_it_and_no_other(shelf: IndexHarness, what: str) -> None:
    query, name = QUERIES[what]
    stored = {key: await shelf.put(text) for key, text in TEXTS.items()}
    assert await shelf.found(query) == [call(stored[name])]


@pytest.mark.parametrize(
    "query", ["zeppelin", "keeper zeppelin", "main/app", "py.main", "数据水", "192.168.17.50", "会议"]
)
async def test_what_nothing_says_finds_nothing(shelf: IndexHarness, query: str) -> None:
    for text in TEXTS.values():
        await shelf.put(text)
    assert await shelf.found(query) == []


@pytest.mark.parametrize("query", ["", "  ", "!?", "…", "\0", "x" * 129])
async def test_a_query_without_a_word_is_refused(shelf: IndexHarness, query: str) -> None:
    with pytest.raises(CoatcheckError, match="no word to look for") as refused:
        await shelf.ask(query)
    assert refused.value.code is Code.INVALID_REQUEST


@pytest.mark.parametrize("query", ["word " * 10_000, " ".join(f"w{i:03d}" for i in range(100))])
async def test_a_query_of_very_many_words_is_refused(shelf: IndexHarness, query: str) -> None:
    with pytest.raises(CoatcheckError, match="too long") as refused:
        await shelf.ask(query)
    assert refused.value.code is Code.INVALID_REQUEST


@pytest.mark.parametrize("word", ["a" * 129, "ä" * 129, f"path/{'B1' * 65}.py"])
async def test_a_query_with_a_word_that_is_not_indexed_is_refused(shelf: IndexHarness, word: str) -> None:
    await shelf.put(f"deploy {word}")
    with pytest.raises(CoatcheckError, match="more than 128 letters") as refused:
        await shelf.ask(f"deploy {word}")
    assert refused.value.code is Code.INVALID_REQUEST


@pytest.mark.parametrize("word", ["a" * 128, "é" * 128, "/".join("pieces" * 5 for _ in range(5)), "数" * 200])
async def test_a_query_with_the_longest_words_finds_them(shelf: IndexHarness, word: str) -> None:
    artifact_id = call(await shelf.put(f"deploy {word}"))
    await shelf.put("deploy")
    assert await shelf.found(f"deploy {word}") == [artifact_id]


async def test_a_query_of_nothing_but_stop_words_is_taken_at_its_word(shelf: IndexHarness) -> None:
    said = await shelf.put("To be, or not to be")
    await shelf.put("something else altogether")
    assert await shelf.found("not to be") == [call(said)]


async def test_what_was_said_of_an_artifact_is_found(shelf: IndexHarness) -> None:
    binary = await shelf.put(
        b"\0\1\2\3" * 100,
        kind=Kind.BINARY,
        title="Quarterly Zeppelin",
        url="https://example.org/reports/airship.bin",
        tool_name="fetch_url",
        labels=["nightly", "ci-42"],
    )
    await shelf.put("plain")
    for query in ("zeppelin", "airship.bin", "fetch_url", "nightly", "ci-42", "quarterly example.org nightly"):
        assert await shelf.found(query) == [call(binary)], query


async def test_other_conditions_hold_besides(shelf: IndexHarness) -> None:
    one = await shelf.put("zeppelin one", session="s1", tool_name="bash")
    await shelf.put("zeppelin two", session="s2", tool_name="bash")
    three = await shelf.put("zeppelin three", session="s1", tool_name="grep", labels=["a"])
    assert await shelf.found("zeppelin", session="s1") == [call(three), call(one)]
    assert await shelf.found("zeppelin", session="s1", tool_name="grep", label="a") == [call(three)]
    assert await shelf.found("zeppelin", session="s3") == []


async def test_another_namespaces_words_are_not_found(shelf: IndexHarness) -> None:
    await shelf.put("zeppelin", namespace="acme")
    theirs = await shelf.put("zeppelin", namespace="other")
    assert await shelf.found("zeppelin", namespace="other") == [call(theirs)]
    assert await shelf.found("zeppelin", namespace="third") == []


async def test_what_expired_or_was_deleted_is_not_found_whether_indexed_before_or_not(shelf: IndexHarness) -> None:
    kept = await shelf.put("zeppelin kept")
    expires = await shelf.put("zeppelin expires", ttl=60)
    deleted = await shelf.put("zeppelin deleted")
    assert await shelf.found("zeppelin") == [call(deleted), call(expires), call(kept)]
    await shelf.delete(deleted)
    shelf.clock.forward(timedelta(seconds=60))
    assert await shelf.found("zeppelin") == [call(kept)]
    await shelf.delete(await shelf.put("zeppelin that nobody indexed"))
    assert await shelf.found("zeppelin") == [call(kept)]


async def test_what_takes_the_place_of_a_deleted_row_is_not_taken_for_it(shelf: IndexHarness) -> None:
    await shelf.put("first")
    deleted = await shelf.put("zeppelin")
    assert await shelf.found("zeppelin") == [call(deleted)]
    await shelf.delete(deleted)
    taker = await shelf.put("balloon")
    assert await shelf.found("zeppelin") == []
    assert await shelf.found("balloon") == [call(taker)]


async def test_words_of_an_earlier_declaration_are_not_found_nor_those_from_before_a_deletion(
    shelf: IndexHarness,
) -> None:
    titles = ("zeppelin", "balloon", "gondola")
    for title in titles:
        change = store(b"text", said=DeclaredMetadata(tool_call_id="c", title=title), now=shelf.clock.now())
        await shelf.catalog.commit(change)
        assert [query for query in titles if await shelf.found(query)] == [title]
        shelf.clock.forward(timedelta(seconds=1))
        if title == "balloon":
            await shelf.delete(change)


async def test_labels_are_found_as_they_are_now(shelf: IndexHarness) -> None:
    change = await shelf.put("text", labels=["before"])
    assert await shelf.found("before") == [call(change)]
    await shelf.label(change, "afterwards")
    assert await shelf.found("before") == []
    assert await shelf.found("afterwards text") == [call(change)]


async def test_the_text_view_takes_the_place_of_the_payload_once_it_is_kept(shelf: IndexHarness) -> None:
    change = await shelf.put("<p class=zeppelin>balloon</p>", kind=Kind.WEB_PAGE)
    assert await shelf.found("zeppelin") == [call(change)]
    brought = store(b"balloon and gondola")
    view = View(
        name="text",
        extractor="test 1",
        partial=False,
        sections=(),
        measure=ViewMeasure(size=19, lines=1, chars=19, tokens=brought.measure.tokens),
    )
    new = NewView(view=view, blob=brought.blob, inline=brought.inline)
    expect(
        StoredView,
        await shelf.catalog.commit(
            StoreView(namespace="acme", number=number_of(change), now=shelf.clock.now(), new=new)
        ),
    )
    assert await shelf.found("zeppelin") == []
    assert await shelf.found("gondola") == [call(change)]


async def test_of_a_long_payload_the_two_ends_are_found(shelf: IndexHarness) -> None:
    filler = b"filler " * 100_000
    long = await shelf.put(b"zeppelin " + filler + b"balloon " + filler + b" gondola")
    assert await shelf.found("zeppelin gondola") == [call(long)]
    assert await shelf.found("balloon") == []


async def test_what_is_not_indexed_yet_is_not_found_without_the_index_and_found_with_it(shelf: IndexHarness) -> None:
    change = await shelf.put("zeppelin")
    blind = await shelf.blind(Caller("acme"), ArtifactFilter(), None, 10, query="zeppelin")
    assert called(blind) == []
    assert await shelf.found("zeppelin") == [call(change)]


async def test_pages_of_a_query_hold_each_artifact_once_newest_first(shelf: IndexHarness) -> None:
    rng = random.Random(7)
    expected: list[str] = []
    for i in range(150):
        hit = rng.random() < 0.4
        change = await shelf.put(f"{'zeppelin' if hit else 'balloon'} {i}")
        expected += [call(change)] if hit else []
        if i % 10 == 0:
            await shelf.index()
    pages: list[str] = []
    cursor = None
    while True:
        page = await shelf.browse(Caller("acme"), ArtifactFilter(), cursor, 7, query="zeppelin")
        pages += called(page)
        cursor = page.next
        if cursor is None:
            break
    assert pages == expected[::-1]


async def test_a_query_finds_the_same_before_and_after_segments_are_merged(shelf: IndexHarness) -> None:
    rng = random.Random(11)
    words = [f"word{i}" for i in range(60)]
    said: dict[str, set[str]] = {}
    gone: set[str] = set()
    for i in range(90):
        text = rng.sample(words, 12)
        change = await shelf.put(" ".join(text))
        said[call(change)] = set(text)
        await shelf.ask("word0")  # a segment of one document
        if i % 7 == 3:
            await shelf.delete(change)
            gone.add(call(change))
    before = len(await shelf.catalog.segment_sizes("acme"))
    await shelf.put("nothing")
    await shelf.index()
    assert len(await shelf.catalog.segment_sizes("acme")) < before // 4
    for word in words:
        assert set(await shelf.found(word)) == {name for name, text in said.items() if word in text} - gone


@pytest.mark.parametrize(("times", "answers"), [(4, True), (5, False)])
async def test_segments_that_are_merged_while_a_list_is_read_cost_it_nothing_it_has(
    shelf: IndexHarness, monkeypatch: pytest.MonkeyPatch, times: int, answers: bool
) -> None:
    names: list[str] = []
    for i in range(6):
        names.append(call(await shelf.put(f"zeppelin {i}")))
        await shelf.ask("zeppelin")  # a segment of one document
    gone: Counter[object] = Counter()
    rows = Prepared.rows

    def merging(self: Prepared, conn: Connection, values: dict[str, object]) -> list[tuple[object, ...]]:
        if values.keys() == {"namespace", "segment_id", "parts"} and gone[values["segment_id"]] < times:
            gone[values["segment_id"]] += 1
            return []
        return rows(self, conn, values)

    monkeypatch.setattr(Prepared, "rows", merging)
    if answers:
        assert await shelf.found("zeppelin") == names[::-1]
        assert gone.total() == 6 * times
    else:
        assert await code_of(shelf.found("zeppelin")) is Code.OVERLOADED


async def test_a_segment_whose_documents_are_gone_goes(shelf: IndexHarness) -> None:
    for i in range(3):
        await shelf.delete(await shelf.put(f"zeppelin {i}"))
    changes = [await shelf.put(f"balloon {i}") for i in range(3)]
    assert len(await shelf.found("balloon")) == 3
    for change in changes:
        await shelf.delete(change)
    await shelf.index()
    assert await shelf.catalog.segment_sizes("acme") == []


async def test_two_who_index_at_once_lose_and_double_nothing(shelf: IndexHarness) -> None:
    changes = [await shelf.put(f"zeppelin {i}") for i in range(200)]
    indexing = asyncio.create_task(shelf.index())
    answers = await asyncio.gather(*(shelf.ask("zeppelin") for _ in range(4)))
    await indexing
    newest = [call(change) for change in changes][::-1]
    assert [called(answer) for answer in answers] == [newest] * 4
    assert await shelf.catalog.list_unindexed("acme", 10) == []


async def test_what_changed_while_it_was_read_is_read_again(shelf: IndexHarness) -> None:
    change = await shelf.put("zeppelin", labels=["before"])
    read = await shelf.catalog.list_unindexed("acme", 10)
    await shelf.label(change, "afterwards")
    assert await _index_what_was(shelf, read) == 0
    assert await shelf.found("afterwards") == [call(change)]


async def test_an_artifact_that_the_index_lacks_is_named_and_can_be_put_back(shelf: IndexHarness) -> None:
    change = await shelf.put("zeppelin")
    assert await shelf.found("zeppelin") == [call(change)]
    sizes = await shelf.catalog.segment_sizes("acme")
    rows, end = await shelf.catalog.find_unlisted("acme", 0)
    assert rows == []
    drop = MergeSegments(namespace="acme", old=tuple(size.id for size in sizes), segment_id=2, segment=None)
    assert await shelf.catalog.commit(drop) is True
    assert await shelf.catalog.commit(drop) is False
    assert await shelf.found("zeppelin") == []
    rows, end = await shelf.catalog.find_unlisted("acme", 0)
    assert end is not None
    assert len(rows) == 1
    await shelf.catalog.commit(Reindex(namespace="acme", rows=tuple(rows)))
    assert await shelf.found("zeppelin") == [call(change)]
    assert await shelf.catalog.find_unlisted("acme", 0) == ([], end)
    assert await shelf.catalog.find_unlisted("acme", end) == ([], None)


async def _index_what_was(shelf: IndexHarness, read: list[Unindexed]) -> int:
    documents = [
        IndexedDocument(r.row, r.fingerprint or 0, *keys_of([(r.entry.artifact, (b"zeppelin",))]))
        for r in read
        if r.entry
    ]
    change = IndexDocuments(
        namespace="acme",
        documents=tuple((r.row, r.fingerprint) for r in read),
        segment_id=1,
        segment=build_segment(documents),
    )
    return await shelf.catalog.commit(change)
