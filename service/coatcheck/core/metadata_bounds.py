"""Brings metadata that only describes a payload, such as its title, within bounds, instead of refusing the payload.

Texts are clipped, long call IDs become digests, and an invalid URL, media type or kind is left out. Values that decide
something (namespace, session, expiry, limits) are not adjusted: where they come in, invalid ones are refused. Invalid
declared values about a fetched page are refused as well; if the payload itself contains such values, they are ignored.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, cast
from urllib.parse import urlsplit

import msgspec

from coatcheck.core.artifact import COMMAND_CHARS, Kind, PageFetch
from coatcheck_client.contract.canonical import canonical
from coatcheck_client.contract.identifiers import CALL_ID_CHARS, CONTROL, bound_identifier

TOOL_NAME_CHARS: Final = 256
"""Maximum characters of a tool's name; providers allow 64 to 128."""
TITLE_CHARS: Final = 1_000
"""Maximum characters of a title. Chosen, not measured."""
URL_CHARS: Final = 8_192
"""Maximum characters of a URL. Common servers (nginx, Apache) refuse a longer request line."""
MEDIA_TYPE_CHARS: Final = 255
"""Maximum characters of a media type: type and subtype have at most 127 each (RFC 6838, section 4.2)."""
LABEL_CHARS: Final = 128
"""Maximum characters of a label. Chosen, not measured."""
MAX_LABELS: Final = 32
"""Maximum labels of an artifact, as each is a row of the catalogue. Chosen, not measured."""
MEDIA_TYPE: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:[ \t]*;[ -~]*)?", re.ASCII)
"""Matches a media type (RFC 9110 section 8.3.1)."""
_ABSENT: Final = "was not valid and was left out"

Adjusted = tuple[object, str]
"""The value to use in place of a given value, and a text that describes the change; empty if nothing was changed."""


def adjust_metadata(metadata: Mapping[str, object]) -> tuple[dict[str, Any], list[str]]:
    """Returns metadata that only describes a payload, with every value within its bounds, None, or for labels empty.

    Also returns a text for each change.

    Args:
        metadata: values of any type, by field; the fields are those of DESCRIBING. None: the value is not given.
    """
    adjusted: dict[str, Any] = {}
    changes: list[str] = []
    for name, value in metadata.items():
        adjusted[name], change = (_NOT_GIVEN.get(name), "") if value is None else _ADJUST[name](value)
        if change:
            changes.append(f"'{name}' {change}")
    return adjusted, changes


def _adjust_text(limit: int, *, multiline: bool = False) -> Callable[[object], Adjusted]:
    """Returns a function that clips text to `limit` characters. Unless `multiline`, it blanks control characters."""

    def adjust(value: object) -> Adjusted:
        text = (value if multiline else CONTROL.sub(" ", value).strip()) if isinstance(value, str) else ""
        if not text:
            return None, _ABSENT
        changes: list[str] = []
        if not multiline and CONTROL.search(cast("str", value)) is not None:
            changes.append("had control characters, which became spaces")
        if len(text) > limit:
            text = f"{text[: limit - 1]}…"
            changes.append(f"was longer than {limit:,} characters and was clipped")
        return text, ", and ".join(changes)

    return adjust


def _adjust_call_id(value: object) -> Adjusted:
    """Replaces a long call ID by a digest, which is as unique: the ID is part of the artifact's identity."""
    if not isinstance(value, str) or not value:
        return None, _ABSENT
    bound = bound_identifier(value, CALL_ID_CHARS)
    change = f"was longer than {CALL_ID_CHARS} characters or malformed: a digest stands for it"
    return bound, "" if bound == value else change


def _adjust_url(value: object) -> Adjusted:
    """Leaves an invalid URL out. A URL is never clipped, because a part of it leads elsewhere."""
    if isinstance(value, str) and 0 < len(value) <= URL_CHARS and CONTROL.search(value) is None:
        return value, ""
    return None, _ABSENT


def _adjust_media_type(value: object) -> Adjusted:
    if isinstance(value, str) and len(value) <= MEDIA_TYPE_CHARS and MEDIA_TYPE.fullmatch(value):
        return value, ""
    return None, _ABSENT


def _adjust_kind(value: object) -> Adjusted:
    try:
        return Kind(value), ""
    except ValueError:
        return None, _ABSENT


def _adjust_labels(value: object) -> Adjusted:
    """Returns the first MAX_LABELS labels, without duplicates, each within its bounds."""
    if not isinstance(value, list | tuple):
        return (), _ABSENT
    each = [_ADJUST_LABEL(label) for label in cast("list[object]", value)]
    labels = tuple(dict.fromkeys([cast("str", label) for label, _ in each if label is not None]))
    changed = any(change for _, change in each) or len(labels) > MAX_LABELS
    return labels[:MAX_LABELS], "were too many or malformed: some were changed or left out" if changed else ""


_ADJUST_LABEL: Final = _adjust_text(LABEL_CHARS)
_ADJUST: Final[dict[str, Callable[[object], Adjusted]]] = {
    "title": _adjust_text(TITLE_CHARS),
    "command": _adjust_text(COMMAND_CHARS, multiline=True),
    "tool_name": _adjust_text(TOOL_NAME_CHARS),
    "tool_call_id": _adjust_call_id,
    "url": _adjust_url,
    "media_type": _adjust_media_type,
    "kind": _adjust_kind,
    "labels": _adjust_labels,
}
_NOT_GIVEN: Final[dict[str, object]] = {"labels": ()}
"""The values of fields that are not given, if they are not None."""
DESCRIBING: Final = frozenset(_ADJUST)
"""Names of the fields that only describe a payload."""


CLOCK_SKEW: Final = timedelta(minutes=5)
"""Maximum time by which the clock of a fetcher may be ahead."""
MIN_STATUS: Final = 100
"""Smallest status code of HTTP."""
MAX_STATUS: Final = 599
"""Largest status code of HTTP: it has three digits, of which the first is 1 to 5 (RFC 9110, section 15)."""
_STATUS: Final = re.compile(r"[1-5]\d\d", re.ASCII)
_MARKER: Final = re.compile(r"\[redacted(?:: [\w-]{1,80})?\]")
"""Matches the marker that replaced a secret before the payload was stored."""


def is_redirected(fetch: PageFetch) -> bool:
    """Returns whether the page came from a URL other than the requested one.

    Spellings of one URL count as the same: `http` and `https`, a final slash, tracking parameters.
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
    """Returns a media type, with or without parameters (RFC 9110 section 8.3.1); None for any other value."""
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
"""Functions by field of PageFetch. Each returns a value as it is stored, or None for an invalid value."""
