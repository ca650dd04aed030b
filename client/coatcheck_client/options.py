"""The options of a client, which both clients check and use in the same way."""

import os
import re
import uuid
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypedDict

import httpx
from msgspec import Struct

from coatcheck_client.contract.answers import VERSION_FIELD
from coatcheck_client.requests import DeclaredFields
from coatcheck_client.retry import Retries

DEFAULT_URL: Final = "http://127.0.0.1:8321"
NEEDED_SERVICE: Final = "0.11.0"
"""The oldest release of the service that has what this client asks for, and that says its release."""
_BEFORE_VERSIONS: Final = "0.10.0 or earlier"
"""The releases whose answers do not say theirs."""
OnUnreachable = Literal["original", "ends"]
"""What a put returns if the service fails or refuses: the whole payload, or its two ends within the card's budget."""

Searches = Literal["passages", "summary", "off"]
"""What a put of a web search's response returns. `passages`: the passages that answer its query, within the limits of
the service or a policy. `summary`: the summary with all sources, which later turns need as well. `off`: a card, as for
any payload."""


class ClientOptions(TypedDict, total=False):
    """What a client may be given besides where the service is. `Client` has the meaning and bounds of every option."""

    key: str | None
    session: str | None
    card_tokens: int | None
    inline_tokens: int | None
    deadline: float
    timeout: float
    retries: Retries | None
    on_unreachable: OnUnreachable
    sleep: Callable[[float], Any] | None


class Options(Struct, frozen=True, kw_only=True):
    """The configuration of a client."""

    url: str
    headers: dict[str, str]
    timeout: float
    """Seconds without any progress after which a request has failed."""
    deadline: float
    """Maximum seconds of a request that an agent waits for, with all attempts and pauses."""
    retries: Retries
    on_unreachable: OnUnreachable
    defaults: DeclaredFields
    """Metadata to declare for every payload, unless a put specifies otherwise."""


def find_url(url: str | None) -> str:
    """Returns the address of the service: the given one, or that of `COATCHECK_URL`, or the default.

    Raises:
        ValueError: for an invalid URL.
    """
    url = url or os.environ.get("COATCHECK_URL") or DEFAULT_URL  # noqa: TID251 - as the command line does
    check_url(url)
    return url.rstrip("/")


def check_url(url: str, example: str = DEFAULT_URL) -> None:
    """Checks that a text is the URL of something that speaks HTTP.

    Raises:
        ValueError: it is not; the error names the example.
    """
    try:
        parsed = httpx.URL(url)
        parsed.raw_host.decode("ascii").encode("idna")  # as for the look-up: no part of a name is empty or too long
    except (httpx.InvalidURL, UnicodeError) as e:
        raise ValueError(f"{url!r} is not a URL: {e}.") from e
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ValueError(f"{url!r} is not the URL of a service. An example: {example}")


def make_headers(key: str | None) -> dict[str, str]:
    """Returns the header fields of every request. The key is the given one, or that of `COATCHECK_KEY`.

    Raises:
        ValueError: for an invalid key.
    """
    key = os.environ.get("COATCHECK_KEY") or None if key is None else key  # noqa: TID251 - as the command line does
    if key is not None and not (key.isascii() and key.isprintable() and key.strip() == key and key):
        raise ValueError("The key is empty or contains characters that a key cannot have.")
    return {"accept": "application/json"} | ({} if key is None else {"authorization": f"Bearer {key}"})


def warn_if_older(headers: Mapping[str, str]) -> None:
    """Warns of a service that is older than this client needs, as the header fields of an answer say."""
    version = headers.get(VERSION_FIELD, _BEFORE_VERSIONS)
    numbers, needed = (tuple(map(int, re.findall(r"\d+", text)[:3])) for text in (version, NEEDED_SERVICE))
    if numbers < needed:
        warnings.warn(
            f"The service is Coatcheck {version}, and this client needs {NEEDED_SERVICE} or later: some of its calls "
            "may be refused. Upgrade the service: pip install --upgrade coatcheck",
            stacklevel=2,
        )


def new_key() -> str:
    """Returns a fresh idempotency key for one put."""
    return uuid.uuid4().hex
