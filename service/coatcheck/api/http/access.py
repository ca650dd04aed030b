"""Decides who may send a request: whose key it has, and, where no key is required, from which site it comes.

Each route declares the scope that it needs; health checks, declarations of tools and the OpenAPI document need no key.
Two different keys in one request are refused. No answer repeats a key.

A service that requires no key answers this machine, under its own names, and no other web site. Against DNS rebinding,
the Host must be an allowed name. Against cross-site posts, the Origin, which every browser sends with them, must be the
service's own (same host and port; a proxy may have changed the scheme). Against cross-site reads, which have no Origin,
Sec-Fetch-Site must not say that they are cross-site. None of this applies if every host is allowed. A request must have
exactly one Host in HTTP/1.1 (RFC 9112 section 3.2), and chunked is the only transfer coding that the server can read.

The request ID is the caller's, if it is safe in a header and a log, otherwise a new one.
"""

import re
from typing import Final
from urllib.parse import urlsplit

from litestar.types import HTTPScope, Scope
from msgspec.structs import replace

from coatcheck.api.http.limits import RequestLimits
from coatcheck.api.http.request_parts import field
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import PREFIX, refusal_of_caller
from coatcheck.usecases.tenants.authenticate import Authenticate

INGEST, READ, DELETE, ADMIN = "ingest", "read", "delete", "admin"
"""The scopes that a key may have."""

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
    # A token of another form is meant for a proxy, so a key beside it still counts.
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
        # Without keys, the address tells callers apart where they share the limit of concurrent uploads (decision
        # 0043).
        address = None if caller.key_id is not None else _address(scope)
        scope["state"]["caller"] = caller if address is None else replace(caller, address=address)


def _address(scope: HTTPScope) -> str | None:
    """Returns the client's address, from a proxy on this machine if it names one; None for this machine's own."""
    client = scope["client"]
    return None if client is None or client[0] in _LOOPBACK else client[0]


_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=@-]{0,127}", re.ASCII)
PROBES = frozenset({"/health/live", "/health/ready"})
"""Paths that orchestrators call by address. Their answers reveal nothing."""
METRICS_PATH = "/metrics"
"""Path that a metrics collector calls by address, if that is allowed."""


def sane_request_id(scope: Scope) -> str | None:
    """Returns the X-Request-ID if it is 1 to 128 letters, digits and `._:/+=@-`, the first a letter or digit."""
    value = field(scope, b"x-request-id")
    if value is None or not _REQUEST_ID.fullmatch(value):
        return None
    return None if PREFIX in value else value  # it may be a key, and would be logged


def admit(scope: HTTPScope, limits: RequestLimits) -> None:
    """Lets a request pass.

    Raises:
        CoatcheckError: `forbidden_host`, `invalid_request`.
    """
    # A proxy could route by one Host field while the check below reads another.
    if scope["http_version"] == "1.1" and sum(name == b"host" for name, _ in scope["headers"]) != 1:
        raise CoatcheckError(
            Code.INVALID_REQUEST, "An HTTP/1.1 request must have exactly one Host field.", field="Host"
        )
    transfer = field(scope, b"transfer-encoding")
    if transfer is not None and transfer.strip().lower() != "chunked":  # the server decodes chunks, and nothing else
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            "Transfer-Encoding must be chunked, or absent. A body that is compressed says so in Content-Encoding.",
            field="Transfer-Encoding",
        )
    allowed = limits.allowed_hosts
    if allowed is None or scope["path"] in PROBES or (limits.metrics_open and scope["path"] == METRICS_PATH):
        return
    host = (field(scope, b"host") or "").strip().lower()
    if _name(host) not in allowed:
        raise CoatcheckError(
            Code.FORBIDDEN_HOST,
            f"This service answers to {', '.join(allowed)}, not to the host of this request. The administrator can "
            "allow more.",
        )
    # Clients other than browsers send neither field, and pass.
    origin = field(scope, b"origin")
    cross = field(scope, b"sec-fetch-site") == "cross-site"
    if cross or (origin is not None and _origin_host(origin) != host):
        raise _other_site()


def same_origin(scope: Scope) -> None:
    """Lets a form pass unless the browser says that it comes from another site.

    Raises:
        CoatcheckError: `forbidden_host`.
    """
    # Stricter than `admit`: another subdomain of the same site is refused too, and no setting turns this off. `none`
    # stands for an address that the user entered.
    host = (field(scope, b"host") or "").strip().lower()
    origin, site = field(scope, b"origin"), field(scope, b"sec-fetch-site")
    if site not in {None, "same-origin", "none"} or (origin is not None and _origin_host(origin) != host):
        raise _other_site()


def _other_site() -> CoatcheckError:
    return CoatcheckError(
        Code.FORBIDDEN_HOST,
        "The request comes from another site. This service accepts requests from its own origin only.",
    )


def _name(host: str) -> str:
    """Returns a host without its port; empty if it is invalid."""
    if host.startswith("["):
        end = host.find("]")
        return host[: end + 1] if end > 0 and _is_port(host[end + 1 :]) else ""
    name, colon, port = host.partition(":")
    return name if _is_port(colon + port) else ""


def _is_port(text: str) -> bool:
    return not text or (text[0] == ":" and text[1:].isascii() and (text[1:].isdigit() or text == ":"))


def _origin_host(origin: str) -> str | None:
    """Returns the host and port of an origin; None for `null` and invalid origins."""
    try:
        return urlsplit(origin.strip().lower()).netloc or None
    except ValueError:
        return None
