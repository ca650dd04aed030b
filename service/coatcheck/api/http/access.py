"""Takes the key from a request and finds its caller.

Each route declares the scope that it needs; health checks, declarations of tools and the OpenAPI document need no key.
Two different keys in one request are refused. No answer repeats a key.
"""

from typing import Final

from litestar.types import HTTPScope, Scope
from msgspec.structs import replace

from coatcheck.api.http.headers import field
from coatcheck.core.keys import PREFIX, refusal_of_caller
from coatcheck.usecases.tenants.authenticate import Authenticate

INGEST, READ, DELETE, ADMIN = "ingest", "read", "delete", "admin"

_BEARER: Final = "bearer "
_LOOPBACK: Final = frozenset({"", "127.0.0.1", "::1"})
"""Addresses of clients on this machine. The empty one is that of a Unix socket."""


def read_key(scope: Scope) -> str | None:
    """Returns the key in a request: `Authorization: Bearer ck_live_…`, or `X-Api-Key`.

    Credentials of another form are ignored: a proxy in front of the service may have requested them.

    Raises:
        CoatcheckError: `unauthenticated` for two different keys.
    """
    api_key = field(scope, b"x-api-key")
    if api_key is not None and not api_key.startswith(PREFIX):
        api_key = None
    bearer = field(scope, b"authorization")
    if bearer is None or bearer[: len(_BEARER)].lower() != _BEARER:
        return api_key
    token = bearer[len(_BEARER) :].strip()
    if not token.startswith(PREFIX):
        return api_key
    if api_key not in {None, token}:
        raise refusal_of_caller("The request has two different keys. Send one, in `Authorization` or in `X-Api-Key`.")
    return token


async def let_in(authenticate: Authenticate, scope: HTTPScope, needed: str | None) -> None:
    """Admits a request to its route and records its caller in the scope.

    Args:
        authenticate: looks keys up.
        scope: the request's ASGI scope.
        needed: the scope that the key must have; None: no key is needed.

    Raises:
        CoatcheckError: `unauthenticated`, `forbidden`; `storage_unavailable` while keys cannot be looked up.
    """
    if needed is not None:
        caller = await authenticate(read_key(scope), needed)
        address = None if caller.key_id is not None else _address(scope)
        scope["state"]["caller"] = caller if address is None else replace(caller, address=address)


def _address(scope: HTTPScope) -> str | None:
    """Returns the client's address, from a proxy on this machine if it names one; None for this machine's own."""
    client = scope["client"]
    return None if client is None or client[0] in _LOOPBACK else client[0]
