"""Looking up, describing, listing, extending, forgetting: what lives, until when exactly, and what is said after."""

import base64
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from coatcheck.core import ids
from coatcheck.core.artifact import SAMPLE_BYTES, Caller
from coatcheck.core.errors import Code
from coatcheck.core.opaque import unseal_position
from coatcheck.ports.catalog import ArtifactFilter
from coatcheck.storing.find import STEP
from coatcheck.storing.ledger import ReadLog
from coatcheck.upkeep.store_binding import SealKey
from support.clock import INSTANT, START
from support.harness import CALLER, GRACE, TOMBSTONE_LIFE, Harness
from support.refusals import code_of, refusal
from support.samples import lines, noise

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

Use = Callable[[Harness, int], Awaitable[object]]
USES: dict[str, Use] = {
    "find": lambda h, n: h.find(CALLER, n),
    "find with bytes": lambda h, n: h.find(CALLER, n, with_bytes=True),
    "describe": lambda h, n: h.describe()(CALLER, n),
    "extend": lambda h, n: h.extend(CALLER, n, labels=("x",)),
    "extend its life": lambda h, n: h.extend(CALLER, n, ttl=10**6),
    "pin": lambda h, n: h.extend(CALLER, n, pinned=True),
    "forget": lambda h, n: h.forget(CALLER, n),
}


async def _listed(harness: Harness, **where: str | datetime) -> list[str]:
    return [a.id for a in (await harness.browse(CALLER, ArtifactFilter(**where), None, 200)).items]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize("use", USES)
async def test_expiry_is_exact_to_the_microsecond_wherever_it_is_asked(harness: Harness, use: str, swept: bool) -> None:
    before, after = [ids.parse((await harness.put(p, ttl=60, said={"tool_name": "bash"})).id) for p in (b"1", b"2")]
    harness.clock.forward(timedelta(seconds=60) - INSTANT)
    if swept:
        assert (await harness.tidy()()).expired == 0
    await USES[use](harness, before)
    harness.clock.forward(INSTANT)
    if swept:
        assert (await harness.tidy()()).expired >= 1
    error = await refusal(USES[use](harness, after))
    assert (error.code, error.extra) == (
        Code.ARTIFACT_GONE,
        {"id": ids.render(after), "reason": "expired", "at": "2024-03-01T12:01:00Z"},
    )
    assert "run bash again" in error.detail


async def test_a_list_and_a_session_end_hold_to_the_same_microsecond(harness: Harness) -> None:
    receipt = await harness.put(b"1", ttl=60, said={"session": "s"})
    harness.clock.forward(timedelta(seconds=60) - INSTANT)
    assert await _listed(harness) == [receipt.id]
    harness.clock.forward(INSTANT)
    assert await _listed(harness) == []
    assert await harness.forget_session(CALLER, "s") == 0
    assert (await refusal(harness.find(CALLER, ids.parse(receipt.id)))).extra["reason"] == "expired"


async def test_the_default_life_is_the_services_and_none_is_for_ever(harness: Harness) -> None:
    default = await harness.put(b"1", settings={"ttl": 7})
    ever = await harness.put(b"2", ttl=None)
    pinned = await harness.put(b"3", ttl=1, pinned=True)
    harness.clock.forward(timedelta(seconds=7))
    assert await code_of(harness.find(CALLER, ids.parse(default.id))) is Code.ARTIFACT_GONE
    harness.clock.forward(timedelta(days=10_000))
    await harness.tidy()()
    assert await _listed(harness) == [pinned.id, ever.id]


async def test_a_tombstone_lasts_its_life_and_then_nobody_remembers(harness: Harness) -> None:
    number = ids.parse((await harness.put(b"1", ttl=None)).id)
    await harness.forget(CALLER, number)
    harness.clock.forward(TOMBSTONE_LIFE - INSTANT)
    await harness.tidy()()
    error = await refusal(harness.find(CALLER, number))
    assert (error.code, error.extra["reason"]) == (Code.ARTIFACT_GONE, "deleted")
    harness.clock.forward(INSTANT)
    for use in USES.values():
        assert await code_of(use(harness, number)) is Code.ARTIFACT_NOT_FOUND
    assert (await harness.tidy()()).purged == 1
    assert await code_of(harness.find(CALLER, number)) is Code.ARTIFACT_NOT_FOUND


@pytest.mark.parametrize("idle", [timedelta(hours=8), timedelta(days=40)])
async def test_a_read_moves_idle_expiry_once_a_quarter_of_it_or_a_day_has_passed(
    harness: Harness, idle: timedelta
) -> None:
    step = min(idle / 4, STEP)
    number = ids.parse((await harness.put(b"1", ttl=None, idle_ttl=int(idle.total_seconds()))).id)

    async def expiry_after_read() -> timedelta:
        await harness.find(CALLER, number)
        await harness.tidy()()
        (artifact,) = (await harness.browse(CALLER, ArtifactFilter(), None, 1)).items
        assert artifact.expires_at is not None
        return artifact.expires_at - START

    assert await expiry_after_read() == idle
    harness.clock.forward(step - INSTANT)
    assert await expiry_after_read() == idle
    harness.clock.forward(INSTANT)
    assert await expiry_after_read() == step + idle
    harness.clock.forward(step - INSTANT)
    assert await expiry_after_read() == step + idle
    harness.clock.moment = START + step + idle - INSTANT
    assert await expiry_after_read() == step + 2 * idle - INSTANT
    harness.clock.moment = START + step + 2 * idle - INSTANT
    assert await code_of(harness.find(CALLER, number)) is Code.ARTIFACT_GONE


async def test_reads_never_carry_an_artifact_past_its_ttl(harness: Harness) -> None:
    number = ids.parse((await harness.put(b"1", ttl=10 * 3600, idle_ttl=4 * 3600)).id)
    for _ in range(3):
        harness.clock.forward(3 * HOUR)
        await harness.find(CALLER, number)
        await harness.tidy()()
    harness.clock.moment = START + 10 * HOUR - INSTANT
    await harness.find(CALLER, number)
    await harness.tidy()()
    harness.clock.forward(INSTANT)
    assert await code_of(harness.find(CALLER, number)) is Code.ARTIFACT_GONE


async def test_reads_without_an_idle_ttl_or_while_pinned_are_not_even_noted(harness: Harness) -> None:
    offers: tuple[dict[str, Any], ...] = ({"ttl": 60}, {"ttl": None}, {"idle_ttl": 60, "pinned": True})
    for offer in offers:
        receipt = await harness.put(repr(offer).encode(), **offer)
        harness.clock.forward(timedelta(seconds=30))
        await harness.find(CALLER, ids.parse(receipt.id))
    assert harness.reads.drain() == ()


def test_the_log_of_reads_is_bounded_and_takes_back_what_could_not_be_written() -> None:
    reads = ReadLog()
    for number in range(ReadLog.LIMIT + 5):
        reads.note("a", number, START)
    drained = reads.drain()
    assert len(drained) == ReadLog.LIMIT
    assert reads.drain() == ()
    reads.note("a", 0, START + HOUR)
    reads.restore(drained[:2])
    assert reads.drain() == (("a", 0, START), ("a", 0, START + HOUR), ("a", 1, START))


async def test_reads_that_could_not_be_written_down_count_in_the_next_round(harness: Harness) -> None:
    number = ids.parse((await harness.put(b"1", ttl=None, idle_ttl=3600)).id)
    harness.clock.forward(HOUR / 2)
    await harness.find(CALLER, number)
    tidy = harness.tidy()
    harness.catalog.close()
    assert await code_of(tidy()) is Code.STORAGE_UNAVAILABLE
    assert harness.reads.drain() == (("default", number, START + HOUR / 2),)


async def test_pinning_keeps_it_and_unpinning_gives_back_what_is_left(harness: Harness) -> None:
    number = ids.parse((await harness.put(b"1", ttl=3600)).id)
    assert (await harness.extend(CALLER, number, pinned=True)).expires_at is None
    harness.clock.forward(HOUR / 2)
    assert (await harness.extend(CALLER, number, pinned=False)).expires_at == START + HOUR
    await harness.extend(CALLER, number, pinned=True)
    harness.clock.forward(5 * HOUR)
    assert (await harness.tidy()()).expired == 0
    late = await harness.extend(CALLER, number, pinned=False)
    assert late.expires_at == harness.clock.now() + HOUR
    harness.clock.forward(HOUR / 2)
    assert (await harness.extend(CALLER, number, idle_ttl=7200)).expires_at == late.expires_at


async def test_reads_after_unpinning_keep_it_alive_up_to_its_ttl(harness: Harness) -> None:
    offers: tuple[dict[str, Any], ...] = (
        {"ttl": 7 * 86400, "idle_ttl": 3600},
        {"ttl": None, "idle_ttl": 3600},
        {"ttl": 9 * 86400, "idle_ttl": 3600},
    )
    numbers = [ids.parse((await harness.put(repr(each).encode(), pinned=True, **each)).id) for each in offers]
    harness.clock.forward(8 * DAY)
    for number in numbers:
        unpinned = await harness.extend(CALLER, number, pinned=False)
        assert unpinned.expires_at == harness.clock.now() + HOUR
    tidy = harness.tidy()
    for _ in range(12):
        harness.clock.forward(HOUR / 3)
        for number in numbers:
            await harness.find(CALLER, number)
        await tidy()


async def test_unpinning_lengthens_no_ttl_that_is_not_over(harness: Harness) -> None:
    number = ids.parse((await harness.put(b"1", ttl=86400, idle_ttl=3600, pinned=True)).id)
    harness.clock.forward(DAY - HOUR / 2)
    assert (await harness.extend(CALLER, number, pinned=False)).expires_at == START + DAY


async def test_extending_changes_only_what_is_given(harness: Harness) -> None:
    receipt = await harness.put(b"1", ttl=3600, said={"title": "T", "labels": ("a",)})
    number = ids.parse(receipt.id)
    before = (await harness.find(CALLER, number)).artifact
    harness.clock.forward(HOUR / 2)
    longer = await harness.extend(CALLER, number, ttl=7200)
    assert (longer.expires_at, longer.declared, longer.created_at) == (START + 2 * HOUR, before.declared, START)
    labelled = await harness.extend(CALLER, number, labels=("b", "c"))
    assert (labelled.declared.labels, labelled.declared.title, labelled.ttl) == (("b", "c"), "T", 7200)
    idle = await harness.extend(CALLER, number, idle_ttl=600)
    assert idle.expires_at == harness.clock.now() + timedelta(seconds=600)
    assert (await harness.extend(CALLER, number, ttl=None, idle_ttl=None)).expires_at is None
    assert await harness.extend(CALLER, number) == (await harness.find(CALLER, number)).artifact


async def test_a_ttl_that_is_over_already_ends_it_at_once(harness: Harness) -> None:
    number = ids.parse((await harness.put(b"1", ttl=None)).id)
    harness.clock.forward(HOUR)
    await harness.extend(CALLER, number, ttl=3600)
    assert await code_of(harness.find(CALLER, number)) is Code.ARTIFACT_GONE


@pytest.mark.parametrize("size", [2 * SAMPLE_BYTES - 1, 2 * SAMPLE_BYTES, 2 * SAMPLE_BYTES + 1, 900_000, 0, 3_000])
@pytest.mark.parametrize("query", [None, "word4"])
async def test_the_card_cut_again_is_the_receipts_card(harness: Harness, size: int, query: str | None) -> None:
    payload, said = lines(size), {"tool_name": "bash", "title": "log"}
    for budget in (64, 600, 5000):
        receipt = await harness.put(payload, inline_tokens=0, card_tokens=budget, query=query, said=said)
        described = await harness.describe()(CALLER, ids.parse(receipt.id), budget=budget, query=query)
        assert (described.text, described.tokens, described.card) == (receipt.text, receipt.tokens, receipt.card)
        assert described.tokens == harness.tokenizer.count(described.text) <= budget
    if query is None:
        default = await harness.describe()(CALLER, ids.parse(receipt.id))
        assert default.text == (await harness.put(payload, inline_tokens=0, said=said)).text


async def test_a_card_of_missing_bytes_is_an_integrity_error(harness: Harness) -> None:
    receipt = await harness.put(noise(100_000))
    harness.stored_files()[0].unlink()
    assert await code_of(harness.describe()(CALLER, ids.parse(receipt.id))) is Code.INTEGRITY


async def test_a_list_goes_from_new_to_old_page_by_page_and_ends(harness: Harness) -> None:
    made = [(await harness.put(f"{n}\n".encode(), said={"session": f"s{n % 2}"})).id for n in range(7)]
    for limit in (1, 2, 3, 6, 7, 200):
        seen: list[str] = []
        cursor, pages = None, 0
        while pages == 0 or cursor is not None:
            page = await harness.browse(CALLER, ArtifactFilter(), cursor, limit)
            seen += [a.id for a in page.items]
            cursor, pages = page.next, pages + 1
        assert seen == made[::-1]
        assert pages == -(-7 // limit)
    assert await _listed(harness, session="s1") == made[5::-2]
    assert await _listed(harness, session="none") == []


async def test_a_cursor_goes_on_where_it_was_whatever_came_or_went_meanwhile(harness: Harness) -> None:
    made = [(await harness.put(f"{n}\n".encode())).id for n in range(4)]
    page = await harness.browse(CALLER, ArtifactFilter(), None, 2)
    await harness.put(b"new\n")
    await harness.forget(CALLER, ids.parse(made[2]))
    await harness.forget(CALLER, ids.parse(made[1]))
    rest = await harness.browse(CALLER, ArtifactFilter(), page.next, 2)
    assert ([a.id for a in rest.items], rest.next) == ([made[0]], None)


async def test_a_cursor_is_nothing_in_another_namespace(harness: Harness) -> None:
    for n in range(3):
        await harness.put(f"{n}\n".encode())
    page = await harness.browse(CALLER, ArtifactFilter(), None, 1)
    stranger = Caller(namespace="other")
    assert await code_of(harness.browse(stranger, ArtifactFilter(), page.next, 10)) is Code.INVALID_CURSOR


async def test_cursors_do_not_tell_how_much_others_stored_meanwhile(harness: Harness) -> None:
    for n in range(2):
        await harness.put(f"{n}\n".encode())
    first = (await harness.browse(CALLER, ArtifactFilter(), None, 1)).next
    assert first is not None
    for n in range(5):
        await harness.put(f"{n}\n".encode(), caller=Caller(namespace="other"))
    await harness.put(b"2\n")
    second = (await harness.browse(CALLER, ArtifactFilter(), None, 1)).next
    assert second is not None
    key = await SealKey(harness.catalog, harness.clock, lambda: "another")()
    seqs = [unseal_position(key, CALLER.namespace, cursor) for cursor in (first, second)]
    assert seqs[1] - seqs[0] > 5  # what is sealed would tell
    raw = [base64.urlsafe_b64decode(cursor) for cursor in (first, second)]
    assert sum(a == b for a, b in zip(*raw, strict=True)) < 6


def _encoded(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "é",
        "====",
        "bDE6",
        _encoded(b"l1:5"),
        _encoded(b"\x02" * 21),
        _encoded(b"\x02" * 20),
        _encoded(b"\x02" * 22),
        _encoded(b"\xff" * 21),
        _encoded(b"\x02" * 21)[:-1] + "!",
        _encoded(b"\x02" * 21)[:-1] + "\n",
        "\u0661" * 28,
    ],
)
async def test_what_is_no_cursor_is_refused(harness: Harness, cursor: str) -> None:
    assert await code_of(harness.browse(CALLER, ArtifactFilter(), cursor, 10)) is Code.INVALID_CURSOR


@pytest.mark.parametrize("limit", [-1, 0, 201])
async def test_a_page_has_1_to_200_artifacts(harness: Harness, limit: int) -> None:
    assert await code_of(harness.browse(CALLER, ArtifactFilter(), None, limit)) is Code.INVALID_REQUEST


async def test_forgetting_leaves_its_reason_and_the_second_time_says_so(harness: Harness) -> None:
    number = ids.parse((await harness.put(noise(100_000))).id)
    await harness.forget(CALLER, number)
    error = await refusal(harness.forget(CALLER, number))
    assert (error.code, error.extra["reason"]) == (Code.ARTIFACT_GONE, "deleted")
    assert await code_of(harness.forget(CALLER, number + 97)) is Code.ARTIFACT_NOT_FOUND
    assert await code_of(harness.forget(Caller(namespace="other"), number)) is Code.ARTIFACT_NOT_FOUND


async def test_forgetting_a_session_forgets_all_of_it_and_nothing_else(harness: Harness) -> None:
    mine = [await harness.put(f"{n}\n".encode(), said={"session": "s"}) for n in range(203)]
    other = await harness.put(b"0\n", said={"session": "t"})
    theirs = await harness.put(b"0\n", said={"session": "s"}, caller=Caller(namespace="other"))
    assert await harness.forget_session(CALLER, "s") == 203
    assert await harness.forget_session(CALLER, "s") == 0
    assert await harness.forget_session(CALLER, "never heard of") == 0
    assert await _listed(harness) == [other.id]
    await harness.find(Caller(namespace="other"), ids.parse(theirs.id))
    assert (await refusal(harness.find(CALLER, ids.parse(mine[7].id)))).extra["reason"] == "session_deleted"
    harness.clock.forward(GRACE + INSTANT)
    assert (await harness.tidy()()).removed == 202, "one blob is shared with the session that stays"
    assert await harness.content(other.id) == b"0\n"


async def test_a_list_keeps_to_a_time_whose_beginning_is_in_and_whose_end_is_not(harness: Harness) -> None:
    made, times = list[str](), list[datetime]()
    for n in range(4):
        made.append((await harness.put(f"word {n}\n".encode(), ttl=None)).id)
        times.append(harness.clock.now())
        harness.clock.forward(HOUR)
    assert await _listed(harness, created_after=times[2]) == made[:1:-1]
    assert await _listed(harness, created_before=times[2]) == made[1::-1]
    assert await _listed(harness, created_after=times[1], created_before=times[3]) == [made[2], made[1]]
