"""Who asks: looked up with every request, remembered for nothing but payloads while nobody can be asked."""

import asyncio
import random
from datetime import timedelta

import pytest

from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import ID_BYTES, SECRET_BYTES, make
from coatcheck.ports.keys import RevokeKey
from coatcheck.usecases.tenants.administer_keys import AdministerKeys
from coatcheck.usecases.tenants.authenticate import GRACE, LOOK_AGAIN, Authenticate
from support.clock import INSTANT, HandClock
from support.memory_keys import MemoryKeys
from support.refusals import code_of

ADMIN = Caller(name="tester")
SILENT = CoatcheckError(Code.STORAGE_UNAVAILABLE, "The database does not answer.")
BUSY = CoatcheckError(Code.OVERLOADED, "Others have every connection.")


class Door:
    """The verb over keys in memory, at an hour that the test decides."""

    SEED = 1

    def __init__(self, *, required: bool = False) -> None:
        self.keys = MemoryKeys()
        self.clock = HandClock()
        self.authenticate = Authenticate(self.keys, self.clock, required=required)
        self.made = 0
        rng = random.Random(self.SEED)
        self._administer = AdministerKeys(self.keys, self.clock, rng.randbytes, self.authenticate.require)

    async def key(self, *scopes: str, life: timedelta | None = None) -> tuple[str, str]:
        """A new key: its ID and its text."""
        terms = scopes or ("ingest", "read", "delete")
        info, secret = await self._administer.create(ADMIN, namespace="acme", name="ci", scopes=terms, life=life)
        return info.id, secret.reveal()

    async def revoke(self, key_id: str) -> None:
        await self.keys.commit(RevokeKey(key_id=key_id, namespace=None, now=self.clock.now(), by=ADMIN))

    async def code(self, text: str | None, scope: str = "read") -> Code:
        return await code_of(self.authenticate(text, scope))


@pytest.fixture
def door() -> Door:
    return Door()


async def test_nobody_needs_a_key_until_one_is_made_and_then_everybody_does(door: Door) -> None:
    assert await door.authenticate(None, "admin") == Caller()
    _, text = await door.key()
    assert await door.code(None) is Code.UNAUTHENTICATED
    assert (await door.authenticate(text, "read")).namespace == "acme"


async def test_a_key_that_another_process_made_is_noticed_within_a_second(door: Door) -> None:
    assert await door.authenticate(None, "read") == Caller()
    elsewhere = Door()
    await elsewhere.key()
    door.keys.rows.update(elsewhere.keys.rows)
    door.clock.forward(LOOK_AGAIN - INSTANT)
    assert await door.authenticate(None, "read") == Caller()
    door.clock.forward(INSTANT)
    assert await door.code(None) is Code.UNAUTHENTICATED


async def test_while_no_key_is_made_the_catalogue_is_asked_once_a_second_at_most(door: Door) -> None:
    for _ in range(100):
        await door.authenticate(None, "ingest")
        door.clock.forward(LOOK_AGAIN / 50)
    assert door.keys.looks == 2


async def test_a_last_key_that_is_revoked_does_not_open_the_door_again(door: Door) -> None:
    key_id, _ = await door.key()
    await door.revoke(key_id)
    door.clock.forward(LOOK_AGAIN)
    assert await door.code(None) is Code.UNAUTHENTICATED
    again = Authenticate(door.keys, door.clock)
    assert await again.learn()
    assert await code_of(again(None, "read")) is Code.UNAUTHENTICATED


async def test_where_keys_are_required_none_is_needed_for_that() -> None:
    door = Door(required=True)
    assert await door.code(None) is Code.UNAUTHENTICATED
    assert door.keys.looks == 0


async def test_a_wrong_key_is_refused_even_where_none_is_needed(door: Door) -> None:
    other = Door()
    _, text = await other.key()
    assert await door.code(text) is Code.UNAUTHENTICATED
    assert await door.authenticate(None, "read") == Caller()


async def test_what_is_no_key_or_was_mistyped_is_refused_without_asking(door: Door) -> None:
    _, text = await door.key()
    wrong = text[:-1] + ("a" if text[-1] != "a" else "b")
    for bad in (wrong, text[:-1], "ck_live_", "password"):
        assert await door.code(bad) is Code.UNAUTHENTICATED
    assert door.keys.questions == []


async def test_a_revoked_key_is_refused_from_the_next_request_on(door: Door) -> None:
    key_id, text = await door.key()
    for _ in range(3):
        await door.authenticate(text, "ingest")
    await door.revoke(key_id)
    for scope in ("ingest", "read", "delete"):
        assert await door.code(text, scope) is Code.UNAUTHENTICATED


async def test_a_key_expires_to_the_moment_also_when_it_was_used_a_moment_before(door: Door) -> None:
    _, text = await door.key(life=timedelta(minutes=5))
    door.clock.forward(timedelta(minutes=5) - INSTANT)
    await door.authenticate(text, "read")
    door.clock.forward(INSTANT)
    assert await door.code(text) is Code.UNAUTHENTICATED


async def test_a_scope_that_is_missing_is_forbidden_by_name(door: Door) -> None:
    _, text = await door.key("read")
    await door.authenticate(text, "read")
    for scope in ("ingest", "delete", "admin"):
        with pytest.raises(CoatcheckError) as caught:
            await door.authenticate(text, scope)
        assert (caught.value.code, caught.value.extra) == (Code.FORBIDDEN, {"scope": scope})


async def test_requests_at_once_share_a_look_up_that_begins_after_they_came(door: Door) -> None:
    texts = [(await door.key())[1] for _ in range(5)]
    door.keys.gate = asyncio.Event()
    first = asyncio.create_task(door.authenticate(texts[0], "read"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(door.keys.questions) == 1
    rest = [asyncio.create_task(door.authenticate(text, "read")) for text in texts * 20]
    await asyncio.sleep(0)
    # Revoked while the first look-up is under way: nobody who came since may be let in by it.
    revoked = next(iter(door.keys.rows))
    await door.revoke(revoked)
    door.keys.gate.set()
    answers = await asyncio.gather(first, *rest, return_exceptions=True)
    assert len(door.keys.questions) == 2
    assert door.keys.questions[1] == set(door.keys.rows)
    refused = [isinstance(answer, CoatcheckError) for answer in answers[1:]]
    assert refused == [True, False, False, False, False] * 20


async def test_a_caller_who_leaves_takes_nothing_from_the_others(door: Door) -> None:
    _, text = await door.key()
    door.keys.gate = asyncio.Event()
    waiting = [asyncio.create_task(door.authenticate(text, "read")) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.wait([waiting[0]])
    door.keys.gate.set()
    assert [caller.namespace for caller in await asyncio.gather(*waiting[1:])] == ["acme", "acme"]


@pytest.mark.parametrize("fault", [SILENT, BUSY], ids=["silent", "busy"])
async def test_while_nobody_can_tell_a_key_that_was_good_lately_may_ingest_and_nothing_else(
    door: Door, fault: CoatcheckError
) -> None:
    key_id, text = await door.key()
    _, never_used = await door.key()
    await door.authenticate(text, "read")
    door.keys.fault = fault
    for _ in range(3):
        assert (await door.authenticate(text, "ingest")).key_id == key_id
        assert await door.code(text, "read") is fault.code
        assert await door.code(text, "delete") is fault.code
        assert await door.code(never_used, "ingest") is fault.code
    await door.authenticate.close()


async def test_what_a_key_may_not_do_it_may_not_do_while_nobody_can_tell_either(door: Door) -> None:
    _, text = await door.key("read")
    await door.authenticate(text, "read")
    door.keys.fault = SILENT
    assert await door.code(text, "ingest") is Code.FORBIDDEN
    await door.authenticate.close()


async def test_a_good_key_is_remembered_for_a_quarter_of_an_hour_and_not_beyond_its_end(door: Door) -> None:
    _, lasting = await door.key()
    _, ending = await door.key(life=GRACE / 2)
    for text in (lasting, ending):
        await door.authenticate(text, "read")
    door.keys.fault = SILENT
    door.clock.forward(GRACE / 2)
    assert await door.code(ending, "ingest") is Code.UNAUTHENTICATED
    door.clock.forward(GRACE / 2)
    assert (await door.authenticate(lasting, "ingest")).namespace == "acme"
    door.clock.forward(INSTANT)
    assert await door.code(lasting, "ingest") is Code.STORAGE_UNAVAILABLE
    await door.authenticate.close()


async def test_a_key_that_was_seen_revoked_is_not_remembered(door: Door) -> None:
    key_id, text = await door.key()
    await door.authenticate(text, "ingest")
    await door.revoke(key_id)
    assert await door.code(text, "ingest") is Code.UNAUTHENTICATED
    door.keys.fault = SILENT
    assert await door.code(text, "ingest") is Code.STORAGE_UNAVAILABLE


async def test_a_forged_key_with_a_known_id_does_not_keep_its_owner_from_ingesting(door: Door) -> None:
    key_id, text = await door.key()
    await door.authenticate(text, "read")
    forged, forged_text = make(random.Random(Door.SEED).randbytes(ID_BYTES), bytes(SECRET_BYTES))
    assert forged.id == key_id
    assert await door.code(forged_text.reveal(), "ingest") is Code.UNAUTHENTICATED
    door.keys.fault = SILENT
    assert (await door.authenticate(text, "ingest")).key_id == key_id
    await door.authenticate.close()


async def test_a_silent_catalogue_holds_up_one_payload_and_is_believed_when_it_answers(door: Door) -> None:
    key_id, text = await door.key()
    await door.authenticate(text, "ingest")
    door.keys.fault = SILENT
    await door.authenticate(text, "ingest")
    door.keys.gate = asyncio.Event()  # from now on it does not even refuse
    for _ in range(10):
        assert (await door.authenticate(text, "ingest")).key_id == key_id
    door.keys.fault = None
    await door.revoke(key_id)
    door.keys.gate.set()
    await door.authenticate.close()
    assert await door.code(text, "ingest") is Code.UNAUTHENTICATED


async def test_an_outage_opens_no_door_that_was_shut_and_shuts_none_that_was_open(door: Door) -> None:
    assert await door.authenticate(None, "ingest") == Caller()
    door.keys.fault = SILENT
    door.clock.forward(LOOK_AGAIN)
    assert await door.authenticate(None, "ingest") == Caller()
    door.keys.fault = None
    await door.key()
    door.keys.fault = SILENT
    assert await door.code(None, "ingest") is Code.UNAUTHENTICATED
