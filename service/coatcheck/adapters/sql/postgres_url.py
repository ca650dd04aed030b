"""URLs of PostgreSQL: which ones are, as a driver takes them, and as messages may show them. Connects to nothing."""

import re
from typing import Final
from urllib.parse import unquote

_HIDDEN: Final = "***"
_SECRET: Final = re.compile("pass|key|secret|token|service")
"""In the name of an option: `password`, `passfile`, `sslpassword`, `sslkey`, `servicefile` and their like."""


def is_postgres(url: str) -> bool:
    """Whether a URL names a PostgreSQL database."""
    return url.partition(":")[0] in {"postgresql", "postgres", "postgresql+asyncpg"}


def plain_url(url: str) -> str:
    """The URL as libpq and asyncpg take it: options such as `sslmode`, several hosts, a socket's folder as `host`."""
    return f"postgresql:{url.partition(':')[2]}"


def shown_url(url: str) -> str:
    """The URL for messages: without its password, and without values of options that are, or lead to, a secret."""
    head, mark, query = plain_url(url).partition("?")
    scheme, _, rest = head.partition("//")
    user, at, place = rest.rpartition("@")
    if not at and "@" in query:
        return f"{scheme}//{_HIDDEN}"  # a password with a question mark that is not escaped, for all one knows
    name, colon, _ = user.partition(":")
    options = [
        f"{key}={_HIDDEN}" if equals and _SECRET.search(unquote(key).lower()) else key + equals + value
        for key, equals, value in (option.partition("=") for option in query.split("&"))
    ]
    return f"{scheme}//{name}{colon}{_HIDDEN if colon else ''}{at}{place}{mark}{'&'.join(options)}"
