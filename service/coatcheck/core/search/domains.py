"""Restricts a search's results to certain sites: domain names, each including its subdomains.

Only what is shown and listed is restricted; the response is stored whole.
"""

import re
from typing import Final, final
from urllib.parse import urlsplit

from msgspec.structs import replace

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.search.model import SearchResult
from coatcheck.core.search.view import ResponseLayout

MOST_DOMAINS: Final = 100
DOMAIN_LENGTH: Final = 253
_NAME: Final = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?")


@final
class Domains:
    """Names that are allowed, if there are any, minus those that are excluded."""

    def __init__(
        self, allowed: tuple[str, ...] = (), excluded: tuple[str, ...] = (), also: "Domains | None" = None
    ) -> None:
        """Takes names as callers write them: `example.org`, `*.example.org`, `bücher.example`.

        Args:
            allowed: if not empty, only these.
            excluded: not these.
            also: further domains, which must allow a page as well.

        Raises:
            CoatcheckError: `invalid_request` for an invalid name, such as an address.
        """
        self._allowed = frozenset(_domain_name(each, "allowed_domains") for each in allowed)
        self._excluded = frozenset(_domain_name(each, "excluded_domains") for each in excluded)
        self._also = also

    def __bool__(self) -> bool:
        """Whether anything can be excluded."""
        return bool(self._allowed or self._excluded or self._also)

    def let(self, url: str | None) -> bool:
        """Returns whether a page may be shown; one without an address only if no names are required."""
        if self._also is not None and not self._also.let(url):
            return False
        host = _host(url)
        names = {host[at:] for at in range(len(host)) if at == 0 or host[at - 1] == "."}
        return not names & self._excluded and (not self._allowed or bool(names & self._allowed))

    def let_result(self, result: SearchResult) -> bool:
        """Returns whether a result may be shown: neither its address nor the page that it wraps is excluded."""
        urls = [url for url in (result.url, result.canonical_url) if url]
        return all(map(self.let, urls)) if urls else self.let(None)

    def within(self, laid: ResponseLayout) -> ResponseLayout:
        """Returns the response without pictures and the provider's answers from excluded pages."""
        if not self:
            return laid
        answers = tuple(each for each in laid.response.answers if each.url is None or self.let(each.url))
        pictures = tuple(filter(self.let_result, laid.response.pictures))
        return replace(laid, response=replace(laid.response, answers=answers, pictures=pictures))


def _domain_name(text: str, parameter: str) -> str:
    name = text.strip().removeprefix("*.").strip(".").lower()
    if not name.isascii():
        try:
            name = name.encode("idna").decode()
        except UnicodeError:
            name = ""
    if len(name) > DOMAIN_LENGTH or not _NAME.fullmatch(name):
        excerpt = text if len(text) <= 80 else f"{text[:80]}…"  # noqa: PLR2004
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"{parameter} takes names such as example.org, with all their subdomains; {excerpt!r} is none.",
            parameter=parameter,
        )
    return name


def _host(url: str | None) -> str:
    try:
        host = (urlsplit(url or "").hostname or "").strip(".")
        return host if host.isascii() else host.encode("idna").decode()
    except (ValueError, UnicodeError):
        return ""
