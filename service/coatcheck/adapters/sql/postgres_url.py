"""PostgreSQL URLs: recognised, converted for a driver, and shortened for messages."""

import re
from typing import Final
from urllib.parse import unquote

_HIDDEN: Final = "***"
_SECRET: Final = re.compile("pass|key|secret|token|service")
"""Matches names of secret options: `password`, `passfile`, `sslpassword`, `sslkey`, `servicefile` and the like."""


def is_postgres(url: str) -> bool:
    """Returns whether a URL names a PostgreSQL database."""
    return url.partition(":")[0] in {"postgresql", "postgres", "postgresql+asyncpg"}


def plain_url(url: str) -> str:
    """Returns the URL for libpq and asyncpg: options such as `sslmode`, several hosts, a socket's folder as `host`."""
    return f"postgresql:{url.partition(':')[2]}"


def mask_url(url: str) -> str:
    """Returns the URL for messages: without its password, and without values of options that may lead to a secret."""
    head, mark, query = plain_url(url).partition("?")
    scheme, _, rest = head.partition("//")
    user, at, place = rest.rpartition("@")
    if not at and "@" in query:
        return f"{scheme}//{_HIDDEN}"  # it may be a password with an unescaped question mark
    name, colon, _ = user.partition(":")
    options = [
        f"{key}={_HIDDEN}" if equals and _SECRET.search(unquote(key).lower()) else key + equals + value
        for key, equals, value in (option.partition("=") for option in query.split("&"))
    ]
    return f"{scheme}//{name}{colon}{_HIDDEN if colon else ''}{at}{place}{mark}{'&'.join(options)}"
