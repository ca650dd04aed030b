"""Keys in dicts, for tests of what stands before them. Counts the questions; refuses, or waits, while it is told to."""

import asyncio
from collections.abc import Collection
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from coatcheck.core.errors import CoatcheckError
from coatcheck.core.keys import KeyInfo, KeyRow, NamespaceInfo
from coatcheck.ports.decisions import CatalogChange
from coatcheck.ports.keys import MakeKey, MakeNamespace, RevokeKey, SwitchNamespace


class MemoryKeys:
    """Keys, the port."""

    def __init__(self) -> None:
        self.rows: dict[str, KeyRow] = {}
        self.spaces: dict[str, NamespaceInfo] = {}
        self.questions: list[frozenset[str]] = []
        """The IDs of every look-up."""
        self.looks = 0
        """How often it was asked whether there is any key."""
        self.fault: CoatcheckError | None = None
        self.gate: asyncio.Event | None = None
        """What look-ups wait for."""

    async def commit(self, change: CatalogChange[Any], /) -> Any:  # noqa: ANN401 - the change's own answer
        match change:
            case MakeKey():
                return self._make_key(change)
            case RevokeKey():
                return self._revoke_key(change)
            case MakeNamespace():
                return self._make_namespace(change)
            case SwitchNamespace():
                return self._switch_namespace(change)
            case _:
                raise NotImplementedError(type(change))

    def _make_key(self, change: MakeKey) -> None:
        self.rows[change.info.id] = KeyRow(change.info, change.digest)
        self._make_namespace(MakeNamespace(name=change.info.namespace, now=change.info.created_at, by=change.by))

    def _revoke_key(self, change: RevokeKey) -> KeyInfo | None:
        row = self.rows.get(change.key_id)
        if row is None or change.namespace not in {None, row.info.namespace}:
            return None
        info = replace(row.info, revoked_at=row.info.revoked_at or change.now)
        self.rows[change.key_id] = KeyRow(info, row.digest)
        return info

    def _make_namespace(self, change: MakeNamespace) -> tuple[NamespaceInfo, bool]:
        new = change.name not in self.spaces
        made = NamespaceInfo(name=change.name, created_at=change.now, disabled_at=None)
        return self.spaces.setdefault(change.name, made), new

    def _switch_namespace(self, change: SwitchNamespace) -> NamespaceInfo | None:
        if change.name not in self.spaces:
            return None
        at: datetime | None = change.now if change.disabled else None
        self.spaces[change.name] = replace(self.spaces[change.name], disabled_at=at)
        return self.spaces[change.name]

    async def find_keys(self, ids: Collection[str]) -> dict[str, KeyRow]:
        self.questions.append(frozenset(ids))
        if self.gate is not None:
            await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        found = {key_id: self.rows[key_id] for key_id in ids if key_id in self.rows}
        return {key_id: KeyRow(row.info, row.digest, self._disabled(row)) for key_id, row in found.items()}

    async def any_key(self) -> bool:
        self.looks += 1
        if self.fault is not None:
            raise self.fault
        return bool(self.rows)

    async def list_keys(self, namespace: str | None, *, before: str | None, limit: int) -> list[KeyInfo]:
        found = sorted((row.info for row in self.rows.values()), key=lambda i: (i.created_at, i.id), reverse=True)
        ids = [info.id for info in found]
        start = 0 if before is None else ids.index(before) + 1 if before in ids else len(ids)
        return [info for info in found[start:] if namespace in {None, info.namespace}][:limit]

    async def list_namespaces(self, *, after: str, limit: int, only: str | None = None) -> list[NamespaceInfo]:
        names = sorted(name for name in self.spaces if name > after and only in {None, name})
        return [self.spaces[name] for name in names[:limit]]

    def _disabled(self, row: KeyRow) -> datetime | None:
        space = self.spaces.get(row.info.namespace)
        return None if space is None else space.disabled_at
