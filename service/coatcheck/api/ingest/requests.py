"""Converts requests to what the use case takes, after checking and completing them.

Names, IDs, labels and URLs with control characters are refused; in a title they become spaces. Duplicate labels are
dropped.
"""

import re

from msgspec import structs

from coatcheck.api.checks import checked_labels, plain_fields
from coatcheck.api.durations import given_seconds
from coatcheck.api.ingest.wire import DeclaredParameters, StoreBody
from coatcheck.api.views import copy_fields
from coatcheck.core import ids
from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.text.controls import CONTROL
from coatcheck.core.views.parts import PartsPayload
from coatcheck.storing.compare import PREVIOUS
from coatcheck.storing.ingest_request import IngestRequest, Notice

_MEDIA_TYPE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:[ \t]*;[ -~]*)?", re.ASCII)


def to_ingest_request(
    sent: DeclaredParameters, declared: DeclaredMetadata, *, key: str | None, notices: tuple[Notice, ...] = ()
) -> IngestRequest:
    """Returns an HTTP request as an ingest request.

    Raises:
        CoatcheckError: `invalid_request` for an invalid duration; `invalid_artifact_id` if `compare_to` is neither an
            ID nor `previous`.
    """
    if sent.compare_to is not None and sent.compare_to != PREVIOUS:
        ids.parse(sent.compare_to)
    return copy_fields(
        IngestRequest,
        sent,
        said=declared,
        ttl=given_seconds(sent.ttl, "ttl"),
        idle_ttl=given_seconds(sent.idle_ttl, "idle_ttl"),
        pinned=sent.pin,
        keep_ends=sent.oversize == "keep_ends",
        tools=sent.tools != "none",
        key=key,
        notices=notices,
    )


def to_declared(
    sent: DeclaredParameters, *, media_type: str | None = None, title: str | None = None, failed: bool = False
) -> DeclaredMetadata:
    """Returns the caller's declaration, checked; `media_type` and `title` stand in for absent fields.

    `failed`: a provider's result says that the tool failed.

    Raises:
        CoatcheckError: `invalid_request`, naming the field that has a control character or an invalid media type.
    """
    return copy_fields(
        DeclaredMetadata,
        sent,
        media_type=checked_media_type(sent.media_type or media_type),
        title=_title(sent.title or title),
        labels=checked_labels(sent.labels),
        failed=failed,
        **plain_fields(sent, "tool_name", "tool_call_id", "session", "url"),
    )


def _title(value: str | None) -> str | None:
    return None if value is None else CONTROL.sub(" ", value).strip()[:1000] or None


def checked_media_type(value: str | None) -> str | None:
    """Returns a media type, or None.

    Raises:
        CoatcheckError: `invalid_request` if it is not a media type (RFC 9110 section 8.3.1).
    """
    if value is None or (len(value) <= 255 and _MEDIA_TYPE.fullmatch(value)):  # noqa: PLR2004 - as documented above
        return value
    raise CoatcheckError(
        Code.INVALID_REQUEST, "'media_type' must be a media type such as text/html.", field="media_type"
    )


def stand_in(sent: StoreBody, parted: PartsPayload) -> StoreBody:
    """Returns the request, completed by what its content says about itself where the caller said nothing.

    Raises:
        CoatcheckError: `invalid_request` if the content's call ID or tool name is out of bounds.
    """
    media_type = parted.media_type
    if media_type is not None and not (len(media_type) <= 255 and _MEDIA_TYPE.fullmatch(media_type)):  # noqa: PLR2004
        media_type = None
    return structs.replace(
        sent,
        media_type=sent.media_type or media_type,
        tool_call_id=sent.tool_call_id or _bounded(parted.tool_call_id, 512, "content's call ID"),
        tool_name=sent.tool_name or _bounded(parted.tool_name, 256, "content's tool name"),
        url=sent.url or _bounded(parted.url, 8192, "content's URI"),
        title=sent.title or parted.title,
    )


def _bounded(value: str | None, limit: int, name: str) -> str | None:
    if value is not None and len(value) > limit:
        raise CoatcheckError(Code.INVALID_REQUEST, f"The {name} is longer than {limit} characters.")
    return value
