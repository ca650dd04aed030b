"""Create, list and revoke keys; create, list, disable and enable namespaces.

An administrator of one namespace administers only its keys. Namespaces belong to the service's administrator, who has a
key of the namespace `*` or asks from where no key is needed. A key is shown when it is created and never again. Crash
story: each verb is one transaction, including its line in the audit log; a key whose answer was lost is listed, can be
revoked, and can be used by nobody.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from msgspec import Struct

from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import (
    ID_BYTES,
    KEY_ID,
    SECRET_BYTES,
    KeyInfo,
    KeySecret,
    NamespaceInfo,
    check_namespace,
    check_page_limit,
    check_rates,
    check_terms,
    is_everywhere,
    make,
    namespace_cursor,
    not_a_cursor,
    read_namespace_cursor,
    require_everywhere,
    resolve_administered,
    resolve_listed,
)
from coatcheck.core.rates import Rates
from coatcheck.ports.keys import Keys, MakeKey, MakeNamespace, RevokeKey, SwitchNamespace
from coatcheck.ports.telemetry import Clock

UNSAID: Final = Rates()
"""Limits that follow the settings."""


class KeysPage(Struct, frozen=True):
    """A page of keys, newest first."""

    items: tuple[KeyInfo, ...]
    next: str | None = None


class NamespacesPage(Struct, frozen=True):
    """A page of namespaces, by name."""

    items: tuple[NamespaceInfo, ...]
    next: str | None = None


@dataclass(frozen=True)
class AdministerKeys:
    """Creates, lists and revokes keys."""

    keys: Keys
    clock: Clock
    random: Callable[[int], bytes]
    """Returns the given number of bytes that nobody can guess."""
    on_created: Callable[[], None] = lambda: None
    """Called when a key has been created."""

    async def create(
        self,
        caller: Caller,
        *,
        namespace: str | None,
        name: str,
        scopes: tuple[str, ...],
        session_prefix: str | None = None,
        life: timedelta | None = None,
        rates: Rates = UNSAID,
    ) -> tuple[KeyInfo, KeySecret]:
        """Creates a key, and its namespace if there is none of that name.

        Args:
            caller: the caller.
            namespace: the key's namespace; None: the caller's own; `*`: none, for the service's administrator.
            name: its name for people.
            scopes: what the key allows.
            session_prefix: the key sees only sessions whose names begin with this.
            life: time after which the key is refused, exactly; None: never.
            rates: how much it may be used in a minute, if that differs from the settings.

        Raises:
            CoatcheckError: `invalid_request` for what no key can hold; `forbidden`.
        """
        space = resolve_administered(caller, namespace)
        # Checked before random bytes are drawn: nothing exists of a key that is refused.
        terms = tuple(sorted(set(scopes)))
        check_terms(namespace=space, name=name, scopes=terms, session_prefix=session_prefix)
        check_rates(rates.requests, rates.bytes)
        now = self.clock.now()
        key, secret = make(self.random(ID_BYTES), self.random(SECRET_BYTES))
        info = KeyInfo(
            id=key.id,
            namespace=space,
            name=name,
            scopes=terms,
            session_prefix=session_prefix,
            created_at=now,
            expires_at=None if life is None else now + life,
            revoked_at=None,
            requests_per_minute=rates.requests,
            bytes_per_minute=rates.bytes,
        )
        await self.keys.commit(MakeKey(info=info, digest=key.digest, by=caller))
        # This process refuses callers without a key from now on, without waiting for its next look-up.
        self.on_created()
        return info, secret

    async def list(self, caller: Caller, *, namespace: str | None, before: str | None, limit: int) -> KeysPage:
        """Returns keys, newest first, revoked ones too; of all namespaces if the caller administers all and names none.

        Raises:
            CoatcheckError: `forbidden`; `invalid_request`; `invalid_cursor`.
        """
        check_page_limit(limit)
        space = resolve_listed(caller, namespace)
        if before is not None and not KEY_ID.fullmatch(before):
            raise not_a_cursor()
        keys = await self.keys.list_keys(space, before=before, limit=limit + 1)
        return KeysPage(tuple(keys[:limit]), keys[limit - 1].id if len(keys) > limit else None)

    async def revoke(self, caller: Caller, key_id: str) -> KeyInfo:
        """Refuses a key from now on, everywhere; it stays listed. Revoking it again changes nothing.

        Raises:
            CoatcheckError: `key_not_found`, also for a key that is not the caller's to administer.
        """
        space = None if is_everywhere(caller) else caller.namespace
        change = RevokeKey(key_id=key_id, namespace=space, now=self.clock.now(), by=caller)
        # Text that cannot be a key's ID is answered like an unknown one, without a query.
        info = await self.keys.commit(change) if KEY_ID.fullmatch(key_id) else None
        if info is None:
            raise CoatcheckError(Code.KEY_NOT_FOUND, "There is no key with this ID. List the keys to see their IDs.")
        return info


@dataclass(frozen=True)
class AdministerNamespaces:
    """Creates, lists, disables and enables namespaces."""

    keys: Keys
    clock: Clock

    async def create(self, caller: Caller, name: str) -> tuple[NamespaceInfo, bool]:
        """Creates a namespace if there is none of this name; also returns whether it is new.

        Raises:
            CoatcheckError: `forbidden`; `invalid_request` for what cannot be a name.
        """
        require_everywhere(caller)
        check_namespace(name)
        return await self.keys.commit(MakeNamespace(name=name, now=self.clock.now(), by=caller))

    async def list(self, caller: Caller, *, cursor: str | None, limit: int) -> NamespacesPage:
        """Returns the namespaces. An administrator of one sees only that one.

        Raises:
            CoatcheckError: `invalid_request`, `invalid_cursor`.
        """
        after = read_namespace_cursor(cursor)
        check_page_limit(limit)
        only = None if is_everywhere(caller) else caller.namespace
        namespaces = await self.keys.list_namespaces(after=after or "", limit=limit + 1, only=only)
        last = namespaces[limit - 1].name if len(namespaces) > limit else None
        return NamespacesPage(tuple(namespaces[:limit]), namespace_cursor(last))

    async def switch(self, caller: Caller, name: str, *, disabled: bool) -> NamespaceInfo:
        """Refuses all keys of a namespace from now on, or accepts them again. Its artifacts stay.

        Raises:
            CoatcheckError: `forbidden`; `namespace_not_found`.
        """
        require_everywhere(caller)
        change = SwitchNamespace(name=name, disabled=disabled, now=self.clock.now(), by=caller)
        info = await self.keys.commit(change)
        if info is None:
            raise CoatcheckError(
                Code.NAMESPACE_NOT_FOUND,
                "There is no namespace with this name. List the namespaces to see their names.",
            )
        return info
