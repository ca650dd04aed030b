"""What only describes a payload, brought within bounds: a payload is worth more than its description.

Texts are clipped, call IDs become digests, and a URL, a media type or a kind that is not valid is left out. What
decides something (namespace, session, expiry, limits) is none of this: it is refused where it comes in.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from coatcheck.core.artifact import COMMAND_CHARS, Kind
from coatcheck_client.contract.identifiers import CALL_ID_CHARS, CONTROL, bound_identifier

TOOL_NAME_CHARS: Final = 256
TITLE_CHARS: Final = 1_000
URL_CHARS: Final = 8_192
MEDIA_TYPE_CHARS: Final = 255
LABEL_CHARS: Final = 128
MAX_LABELS: Final = 32
MEDIA_TYPE: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:[ \t]*;[ -~]*)?", re.ASCII)
"""Matches a media type (RFC 9110 section 8.3.1)."""
_ABSENT: Final = "was not valid and was left out"

Adjusted = tuple[object, str]
"""What is used in place of a value, and what was done to it; empty: nothing."""


def adjust_metadata(metadata: Mapping[str, object]) -> tuple[dict[str, Any], list[str]]:
    """Returns metadata that only describes a payload, each value within its bounds or None, and what was changed.

    Args:
        metadata: values of any type, by the names of `DeclaredMetadata`'s fields.
    """
    adjusted: dict[str, Any] = {}
    changes: list[str] = []
    for name, value in metadata.items():
        adjusted[name], change = (value, "") if value is None else _ADJUST[name](value)
        if change:
            changes.append(f"'{name}' {change}")
    return adjusted, changes


def _adjust_text(limit: int, *, multiline: bool = False) -> Callable[[object], Adjusted]:
    """Returns a function that clips text; unless it may have several lines, control characters become spaces."""

    def adjust(value: object) -> Adjusted:
        text = (value if multiline else CONTROL.sub(" ", value).strip()) if isinstance(value, str) else ""
        if not text:
            return None, _ABSENT
        if len(text) > limit:
            return f"{text[: limit - 1]}…", f"was longer than {limit:,} characters and was clipped"
        spaced = not multiline and CONTROL.search(cast("str", value)) is not None
        return text, "had control characters, which became spaces" if spaced else ""

    return adjust


def _adjust_call_id(value: object) -> Adjusted:
    """Shortens an ID to one that is still its call's own, because it is part of the artifact's identity."""
    if not isinstance(value, str) or not value:
        return None, _ABSENT
    bound = bound_identifier(value, CALL_ID_CHARS)
    change = f"was longer than {CALL_ID_CHARS} characters or malformed: a digest stands for it"
    return bound, "" if bound == value else change


def _adjust_url(value: object) -> Adjusted:
    """Half of a URL leads elsewhere, so that one is kept whole or not at all."""
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
    """Returns the first labels, without duplicates; each within its bounds."""
    if not isinstance(value, list | tuple):
        return (), _ABSENT
    each = [_ADJUST_LABEL(label) for label in cast("list[object]", value)]
    labels = tuple(dict.fromkeys([cast("str", label) for label, _ in each if label is not None]))
    changed = any(change for _, change in each) or len(labels) > MAX_LABELS
    return labels[:MAX_LABELS], "were too many or malformed: some were clipped or left out" if changed else ""


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
DESCRIBING: Final = frozenset(_ADJUST)
"""Names of the fields that only describe a payload."""
