"""Keys and namespaces in the catalogue: what is changed holds from then on, and nothing is taken back."""

import asyncio
from datetime import datetime, timedelta
from typing import Protocol, cast

import pytest
from msgspec.structs import replace

from coatcheck.core.artifact import Caller, DeclaredMetadata, Gone
from coatcheck.core.keys import KeyInfo, KeyRow, NamespaceInfo
from coatcheck.core.retention.audit import AuditLine
from coatcheck.ports.artifacts import DeleteArtifact, IngestResult
from coatcheck.ports.catalog import ArtifactFilter
from coatcheck.ports.keys import MakeKey, MakeNamespace, RevokeKey, SwitchNamespace
from coatcheck.ports.maintenance import ExpireArtifacts
from contract.sample_changes import START, Everything, number_of, store
from support.refusals import expect

BY = Caller(name="tester", key_id="0123456789A")
LATER = START + timedelta(hours=1)


def making(
    key_id: str, namespace: str = "acme", *, at: datetime = START, scopes: tuple[str, ...] = ("read",)
) -> MakeKey:
    info = KeyInfo(
        id=key_id,
        namespace=namespace,
        name=f"key {key_id}",
        scopes=scopes,
        session_prefix="user-1/",
        created_at=at,
        expires_at=at + timedelta(days=1),
        revoked_at=None,
        requests_per_minute=0,
        bytes_per_minute=5 * 10**9,
    )
    return MakeKey(info=info, digest=key_id.encode() * 3, by=BY)


def revoking(key_id: str, namespace: str | None = None, at: datetime = LATER) -> RevokeKey:
    return RevokeKey(key_id=key_id, namespace=namespace, now=at, by=BY)


def switching(name: str, *, disabled: bool, at: datetime = LATER) -> SwitchNamespace:
    return SwitchNamespace(name=name, disabled=disabled, now=at, by=BY)


async def test_a_key_is_found_as_it_was_made_and_its_namespace_is_there(catalog: Everything) -> None:
    assert not await catalog.any_key()
    change = making("k1", scopes=("delete", "ingest", "read"))
    await catalog.commit(change)
    assert await catalog.any_key()
    assert await catalog.find_keys(["k1", "k2"]) == {"k1": KeyRow(change.info, change.digest)}
    space = NamespaceInfo(name="acme", created_at=START, disabled_at=None)
    assert await catalog.list_namespaces(after="", limit=9) == [space]


async def test_keys_are_looked_up_together(catalog: Everything) -> None:
    changes = [making(f"k{i}", f"n{i % 3}") for i in range(20)]
    for change in changes:
        await catalog.commit(change)
    asked = [change.info.id for change in changes[5:15]]
    rows = {change.info.id: KeyRow(change.info, change.digest) for change in changes[5:15]}
    assert await catalog.find_keys([*asked, "nobody", "k1'; --"]) == rows
    assert await catalog.find_keys([]) == {}


async def test_a_change_that_is_made_again_changes_nothing_and_another_key_of_the_same_id_is_a_bug(
    catalog: Everything,
) -> None:
    change = making("k1")
    await catalog.commit(change)
    await catalog.commit(change)
    with pytest.raises(RuntimeError):
        await catalog.commit(replace(making("k1"), digest=b"other"))
    assert await catalog.find_keys(["k1"]) == {"k1": KeyRow(change.info, change.digest)}
    assert len(await catalog.list_keys(None, before=None, limit=9)) == 1


async def test_revoking_is_final_and_keeps_its_first_moment(catalog: Everything) -> None:
    change = making("k1")
    await catalog.commit(change)
    revoked = replace(change.info, revoked_at=LATER)
    assert await catalog.commit(revoking("k1")) == revoked
    assert await catalog.commit(revoking("k1", at=LATER + timedelta(days=1))) == revoked
    assert await catalog.find_keys(["k1"]) == {"k1": KeyRow(revoked, change.digest)}
    assert await catalog.any_key()


async def test_a_key_of_another_namespace_is_not_there_to_be_revoked(catalog: Everything) -> None:
    change = making("k1")
    await catalog.commit(change)
    assert await catalog.commit(revoking("k1", "other")) is None
    assert await catalog.commit(revoking("nobody")) is None
    assert (await catalog.find_keys(["k1"]))["k1"].info.revoked_at is None
    assert await catalog.commit(revoking("k1", "acme")) is not None


async def test_a_namespace_is_disabled_and_enabled_for_all_of_its_keys(catalog: Everything) -> None:
    await catalog.commit(making("k1"))
    await catalog.commit(making("k2", "other"))
    disabled = NamespaceInfo(name="acme", created_at=START, disabled_at=LATER)
    assert await catalog.commit(switching("acme", disabled=True)) == disabled
    assert await catalog.commit(switching("acme", disabled=True, at=LATER + timedelta(days=1))) == disabled
    rows = await catalog.find_keys(["k1", "k2"])
    assert {key_id: row.disabled_at for key_id, row in rows.items()} == {"k1": LATER, "k2": None}
    enabled = NamespaceInfo(name="acme", created_at=START, disabled_at=None)
    assert await catalog.commit(switching("acme", disabled=False)) == enabled
    assert (await catalog.find_keys(["k1"]))["k1"].disabled_at is None
    assert await catalog.commit(switching("nobody", disabled=True)) is None


async def test_of_those_who_make_a_namespace_at_once_one_makes_it(catalog: Everything) -> None:
    change = MakeNamespace(name="acme", now=START, by=BY)
    answers = await asyncio.gather(*(catalog.commit(change) for _ in range(5)))
    assert sorted(new for _, new in answers) == [False] * 4 + [True]
    assert {info for info, _ in answers} == {NamespaceInfo(name="acme", created_at=START, disabled_at=None)}


async def test_keys_are_listed_newest_first_in_parts(catalog: Everything) -> None:
    changes = [making(f"k{i:02}", "ab"[i % 2], at=START + timedelta(minutes=i // 4)) for i in range(20)]
    for change in changes:
        await catalog.commit(change)
    everything = [change.info for change in changes]
    everything.sort(key=lambda info: (info.created_at, info.id), reverse=True)
    seen: list[KeyInfo] = []
    before: str | None = None
    while part := await catalog.list_keys(None, before=before, limit=3):
        seen += part
        before = part[-1].id
    assert seen == everything
    assert await catalog.list_keys("a", before=None, limit=99) == [i for i in everything if i.namespace == "a"]
    assert await catalog.list_keys(None, before="nobody", limit=9) == []
    assert await catalog.list_keys("b", before="k18", limit=9) == []


async def test_namespaces_are_listed_in_parts_or_one_alone(catalog: Everything) -> None:
    names = ["acme", "beta", "n-1", "n_2", "n2", "zz"]
    for name in reversed(names):
        await catalog.commit(MakeNamespace(name=name, now=START, by=BY))
    seen: list[str] = []
    while part := await catalog.list_namespaces(after=seen[-1] if seen else "", limit=2):
        seen += [info.name for info in part]
    assert sorted(seen) == sorted(names)
    assert [info.name for info in await catalog.list_namespaces(after="", limit=9, only="beta")] == ["beta"]


class WithLines(Protocol):
    """A catalogue as the audit's readers see it."""

    async def find_audit_lines(self, *, limit: int) -> list[AuditLine]: ...


async def test_each_change_that_changes_something_has_its_line_in_the_audit_and_none_has_a_digest(
    catalog: Everything,
) -> None:
    change = making("k1")
    for _ in range(2):
        await catalog.commit(change)
        await catalog.commit(revoking("k1"))
        await catalog.commit(switching("acme", disabled=True))
    await catalog.commit(switching("acme", disabled=False))
    await catalog.commit(making("k2", "*", scopes=("admin",)))
    lines = (await cast("WithLines", catalog).find_audit_lines(limit=99))[::-1]
    assert {(line.by.actor, line.by.key_id) for line in lines} == {("tester", "0123456789A")}
    assert [(line.action, line.namespace, line.at) for line in lines] == [
        ("namespace.created", "acme", START),
        ("key.created", "acme", START),
        ("key.revoked", "acme", LATER),
        ("namespace.disabled", "acme", LATER),
        ("namespace.enabled", "acme", LATER),
        ("key.created", None, START),
    ]
    assert lines[1].details == {"key": "k1", "name": "key k1", "scopes": "read", "session_prefix": "user-1/"}
    assert change.digest.decode() not in str(lines)


async def test_a_list_of_sessions_that_begin_alike_has_those_to_the_letter(catalog: Everything) -> None:
    names = [
        "user-1/a",
        "user-1/b",
        "user-1",
        "user-10/a",
        "User-1/a",
        "user_1/a",
        "a%",
        "a%b",
        "ab",
        "ü/x",
        "u/x",
        "ü",
    ]
    stored = {
        name: await catalog.commit(store(said=DeclaredMetadata(session=name, tool_call_id=name))) for name in names
    }
    await catalog.commit(store(said=DeclaredMetadata(tool_call_id="in no session")))
    assert all(isinstance(each, IngestResult) for each in stored.values())
    for prefix in ("user-1/", "user-1", "user_", "a%", "ü/", "ü", "U", "z", "user-1/a"):
        page = await catalog.list_artifacts(
            "acme", ArtifactFilter(session_prefix=prefix), START, before=None, limit=200
        )
        found = {artifact.declared.session for artifact in page.artifacts}
        assert found == {name for name in names if name.startswith(prefix)}, prefix


async def test_a_tombstone_says_in_which_session_it_was(catalog: Everything) -> None:
    for session in ("run-1", None):
        dead = store(said=DeclaredMetadata(session=session, tool_call_id="dead"))
        late = store(said=DeclaredMetadata(session=session, tool_call_id="late"), ttl=60)
        for change in (dead, late):
            await catalog.commit(change)
        until = START + timedelta(days=30)
        await catalog.commit(DeleteArtifact(namespace="acme", number=number_of(dead), now=START, tombstone_until=until))
        at = START + timedelta(seconds=60)
        found = [await catalog.find("acme", number_of(change), at) for change in (dead, late)]
        assert [(each.reason, each.session) for each in found if isinstance(each, Gone)] == [
            ("deleted", session),
            ("expired", session),
        ]
        await catalog.commit(ExpireArtifacts(now=at, tombstone_until=until, limit=9))
        swept = expect(Gone, await catalog.find("acme", number_of(late), at))
        assert swept.session == session
