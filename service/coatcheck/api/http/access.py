"""Decides whether to admit a request: by its key, and, where no key is required, by its host and its origin.

Each route declares the scope that it needs. Health checks, declarations of tools and the OpenAPI document need no key.
A request with two different keys is refused. No answer repeats a key.

A service that requires no key answers only requests for a name of this machine that do not come from another web site:

- Against DNS rebinding, the Host must be an allowed name.
- Against cross-site posts, the Origin must be the service's own: the same host and port, while a proxy may have changed
  the scheme. Every browser sends an Origin with a cross-site post.
- Against cross-site reads, which have no Origin, Sec-Fetch-Site must not be `cross-site`.

These checks do not apply if every host is allowed. In any case, an HTTP/1.1 request must have exactly one Host (RFC
9112 section 3.2), and no transfer coding but chunked, which is the only one that the server can decode.

The caller's request ID is used if it is safe in a header and a log; otherwise the request gets a new one.
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
"""Addresses of clients on this machine. A client at a Unix socket has the empty address."""


def read_key(scope: Scope) -> str | None:
    """Returns the key in `Authorization: Bearer ck_live_…` or in `X-Api-Key`; None if there is none.

    Credentials of another form are ignored, because they may be meant for a proxy in front of the service.

    Raises:
        CoatcheckError: `unauthenticated` if the request has two different keys.
    """
    api_key = field(scope, b"x-api-key")
    if api_key is not None and not api_key.startswith(PREFIX):
        api_key = None
    bearer = field(scope, b"authorization")
    if bearer is None or bearer[: len(_BEARER)].lower() != _BEARER:
        return api_key
    token = bearer[len(_BEARER) :].strip()
    # A token of another form is meant for a proxy. A key in X-Api-Key beside it is valid.
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
        # Callers without a key share the limit of concurrent uploads. The address tells them apart (decision 0043).
        address = None if caller.key_id is not None else _address(scope)
        scope["state"]["caller"] = caller if address is None else replace(caller, address=address)


def _address(scope: HTTPScope) -> str | None:
    """Returns the client's address, which may come from a proxy on this machine; None for a client on this machine."""
    client = scope["client"]
    return None if client is None or client[0] in _LOOPBACK else client[0]


_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=@-]{0,127}", re.ASCII)
PROBES = frozenset({"/health/live", "/health/ready"})
"""Paths of health checks. They answer under any host name, because orchestrators call them by IP address. Their answers
reveal nothing."""
METRICS_PATH = "/metrics"
"""Path of the metrics. If the limits allow it, it answers under any host name, too."""


def sane_request_id(scope: Scope) -> str | None:
    """Returns the request's X-Request-ID; None if it has none, or one that is not safe in a header and a log.

    A safe ID has 1 to 128 letters, digits and `._:/+=@-`, begins with a letter or digit, and cannot be a key.
    """
    value = field(scope, b"x-request-id")
    if value is None or not _REQUEST_ID.fullmatch(value):
        return None
    return None if PREFIX in value else value  # a key must not get into the log


def admit(scope: HTTPScope, limits: RequestLimits) -> None:
    """Checks the Host, the Transfer-Encoding and the origin of a request.

    Raises:
        CoatcheckError: `forbidden_host`, `invalid_request`.
    """
    # With two Host fields, a proxy could route by one of them while the check below reads the other.
    if scope["http_version"] == "1.1" and sum(name == b"host" for name, _ in scope["headers"]) != 1:
        raise CoatcheckError(
            Code.INVALID_REQUEST, "An HTTP/1.1 request must have exactly one Host field.", field="Host"
        )
    transfer = field(scope, b"transfer-encoding")
    if transfer is not None and transfer.strip().lower() != "chunked":  # the server can decode no other coding
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
    # Clients other than browsers send neither of the two fields, and are admitted.
    origin = field(scope, b"origin")
    cross = field(scope, b"sec-fetch-site") == "cross-site"
    if cross or (origin is not None and _origin_host(origin) != host):
        raise _other_site()


def same_origin(scope: Scope) -> None:
    """Refuses a form if the browser says that it comes from another origin.

    This check is stricter than `admit`: it refuses other subdomains of the same site as well, and no setting turns it
    off.

    Raises:
        CoatcheckError: `forbidden_host`.
    """
    # `none` means that the user entered the address.
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
    """Returns a host without its port; an empty text if the host is invalid."""
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
