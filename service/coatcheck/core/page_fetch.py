"""What is said of a fetched page: which values make sense, and whether redirects led elsewhere.

A declared value that makes no sense is refused where it comes in; one that a payload merely contains is passed over.
"""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from coatcheck.core.artifact import PageFetch
from coatcheck.core.metadata_bounds import MEDIA_TYPE, MEDIA_TYPE_CHARS, TITLE_CHARS, URL_CHARS
from coatcheck_client.contract.canonical import canonical
from coatcheck_client.contract.identifiers import CONTROL

CLOCK_SKEW: Final = timedelta(minutes=5)
"""How far the clock of a fetcher may be ahead."""
MIN_STATUS: Final = 100
MAX_STATUS: Final = 599
_STATUS: Final = re.compile(r"[1-5]\d\d", re.ASCII)
_MARKER: Final = re.compile(r"\[redacted(?:: [\w-]{1,80})?\]")
"""What stands in place of a secret that was masked before the payload was stored."""


def is_redirected(fetch: PageFetch) -> bool:
    """Returns whether the page came from another address than the one that was asked for.

    Spellings of one address (`http` and `https`, a final slash, parameters that only refer) count as the same.
    """
    final, url = fetch.final_url, fetch.url
    return final is not None and url is not None and (canonical(final) or final) != (canonical(url) or url)


def as_address(value: object) -> str | None:
    """Returns an absolute `http` or `https` URL of at most URL_CHARS characters; None for anything else."""
    if not isinstance(value, str) or len(value) > URL_CHARS:
        return None
    plain = _MARKER.sub("redacted", value)
    if CONTROL.search(plain) or " " in plain:
        return None
    try:
        parts = urlsplit(plain)
        is_page = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        is_page = False
    return value if is_page else None


def as_content_type(value: object) -> str | None:
    """Returns a media type, perhaps with parameters (RFC 9110 section 8.3.1); None for anything else."""
    if isinstance(value, str) and len(value) <= MEDIA_TYPE_CHARS and MEDIA_TYPE.fullmatch(value):
        return value
    return None


def _as_status(value: object) -> int | None:
    if isinstance(value, int | str) and not isinstance(value, bool) and _STATUS.fullmatch(str(value)):
        return int(value)
    return None


def _as_title(value: object) -> str | None:
    title = value.strip() if isinstance(value, str) else ""
    return title if 0 < len(title) <= TITLE_CHARS and CONTROL.search(title) is None else None


def _as_moment(value: object) -> datetime | None:
    try:
        moment = msgspec.convert(value, datetime) if isinstance(value, str) else None
    except msgspec.ValidationError:
        return None
    return None if moment is None or moment.tzinfo is None else moment


READ: Final[dict[str, Callable[[object], Any]]] = {
    "status": _as_status,
    "final_url": as_address,
    "content_type": as_content_type,
    "fetched_at": _as_moment,
    "url": as_address,
    "title": _as_title,
}
"""By field of PageFetch: returns its value as it is kept, or None for one that makes no sense."""
