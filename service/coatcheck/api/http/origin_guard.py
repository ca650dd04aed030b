"""Decides who may use a service that requires no key: this machine, under its own names, and no other web site.

Against DNS rebinding, the Host must be an allowed name. Against cross-site posts, the Origin, which every browser sends
with them, must be the service's own (same host and port; a proxy may have changed the scheme). Against cross-site
reads, which have no Origin, Sec-Fetch-Site must not say that they are cross-site. None of this applies if every host is
allowed. A request must have exactly one Host in HTTP/1.1 (RFC 9112 section 3.2), and chunked is the only transfer
coding that the server can read.

Also provides the request ID: the caller's, if it is safe in a header and a log, otherwise a new one.
"""

import re
from urllib.parse import urlsplit

from litestar.types import HTTPScope, Scope

from coatcheck.api.http.headers import field
from coatcheck.api.http.limits import RequestLimits
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import PREFIX as KEY_PREFIX

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
    return None if KEY_PREFIX in value else value  # it may be a key, and would be logged


def admit(scope: HTTPScope, limits: RequestLimits) -> None:
    """Lets a request pass.

    Raises:
        CoatcheckError: `forbidden_host`, `invalid_request`.
    """
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
    origin = field(scope, b"origin")
    cross = field(scope, b"sec-fetch-site") == "cross-site"
    if cross or (origin is not None and _origin_host(origin) != host):
        raise _other_site()


def same_origin(scope: Scope) -> None:
    """Lets a form pass unless the browser says that it comes from another site.

    Raises:
        CoatcheckError: `forbidden_host`.
    """
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
