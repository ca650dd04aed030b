"""Create, list and revoke keys; create, list, disable and enable namespaces.

The administrator of one namespace administers only the keys of that namespace. Only the service's administrator
administers namespaces: a caller with a key of the namespace `*`, or any caller while the service requires no key. The
secret of a key is shown once, when the key is created.

Crash story: each operation is one transaction, which also writes the line in the audit log. If the answer to the
creation of a key is lost, nobody knows the key's secret, so nobody can use the key; it is listed and can be revoked.
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
"""Rates of a key that has no limits of its own: the limits of the settings apply."""


class KeysPage(Struct, frozen=True):
    """A page of keys, newest first."""

    items: tuple[KeyInfo, ...]
    next: str | None = None
    """The value of `before` for the next page; None: this is the last page."""


class NamespacesPage(Struct, frozen=True):
    """A page of namespaces, by name."""

    items: tuple[NamespaceInfo, ...]
    next: str | None = None
    """The cursor of the next page; None: this is the last page."""


@dataclass(frozen=True)
class AdministerKeys:
    """Creates, lists and revokes keys."""

    keys: Keys
    clock: Clock
    random: Callable[[int], bytes]
    """Returns the given number of bytes that nobody can guess."""
    on_created: Callable[[], None] = lambda: None
    """Called after a key was created."""

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
        """Creates a key, and the key's namespace if the namespace does not exist; returns the key and its secret.

        Args:
            caller: the caller.
            namespace: the key's namespace; None: the caller's own; `*`: all namespaces, for an administrator of the
                service.
            name: the key's name, by which people recognise it.
            scopes: the operations that the key allows.
            session_prefix: the prefix of the names of the sessions that the key may see; None: every session.
            life: time after which the key is refused; None: it never expires.
            rates: the key's own limits of requests and bytes a minute; where it has none, those of the settings apply.

        Raises:
            CoatcheckError: `invalid_request` for properties that no key can have; `forbidden` for a namespace that the
                caller does not administer.
        """
        space = resolve_administered(caller, namespace)
        # Everything is checked before the secret is generated, so that a refused key never has a secret.
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
        # From now on this process refuses callers without a key. It does not wait until it next looks for keys.
        self.on_created()
        return info, secret

    async def list(self, caller: Caller, *, namespace: str | None, before: str | None, limit: int) -> KeysPage:
        """Returns a page of keys, newest first, including revoked keys.

        Args:
            caller: the caller.
            namespace: the namespace of the keys; None: all namespaces that the caller administers.
            before: `next` of the previous page; None: the first page.
            limit: maximum keys of the page.

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
        """Revokes a key: every replica refuses it from now on. The key stays listed; revoking it again changes nothing.

        Raises:
            CoatcheckError: `key_not_found`, also for a key that the caller may not administer.
        """
        space = None if is_everywhere(caller) else caller.namespace
        change = RevokeKey(key_id=key_id, namespace=space, now=self.clock.now(), by=caller)
        # A text that cannot be the ID of a key gets the same answer as an unknown ID, without a query.
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
        """Creates a namespace, unless it exists; returns the namespace, and whether it is new.

        Raises:
            CoatcheckError: `forbidden` unless the caller administers the service; `invalid_request` for a text that
                cannot be the name of a namespace.
        """
        require_everywhere(caller)
        check_namespace(name)
        return await self.keys.commit(MakeNamespace(name=name, now=self.clock.now(), by=caller))

    async def list(self, caller: Caller, *, cursor: str | None, limit: int) -> NamespacesPage:
        """Returns a page of namespaces, by name. The administrator of one namespace gets only that namespace.

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
        """Disables or enables a namespace: while it is disabled, all its keys are refused. Its artifacts stay.

        Raises:
            CoatcheckError: `forbidden` unless the caller administers the service; `namespace_not_found`.
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
