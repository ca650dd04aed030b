"""Converts requests to what the use case takes, after checking and completing them."""

from datetime import datetime

from msgspec import structs

from coatcheck.api.checks import describe, plain
from coatcheck.api.durations import given_seconds
from coatcheck.api.ingest.wire import DeclaredParameters, StoreBody
from coatcheck.api.views import copy_fields
from coatcheck.core import ids
from coatcheck.core.artifact import FETCH, DeclaredMetadata
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.page_fetch import CLOCK_SKEW, as_address, as_content_type
from coatcheck.core.views.parts import PartsPayload
from coatcheck.storing.compare import PREVIOUS
from coatcheck.storing.ingest_request import IngestRequest, Notice


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
    sent: DeclaredParameters,
    now: datetime,
    *,
    media_type: str | None = None,
    title: str | None = None,
    failed: bool = False,
) -> tuple[DeclaredMetadata, tuple[Notice, ...]]:
    """Returns what the caller declared, and a warning if it had to be adjusted.

    Args:
        sent: the request.
        now: the present moment, after which no page was fetched.
        media_type: stands in for an absent one.
        title: stands in for an absent one.
        failed: whether a provider's result says that the tool failed.

    Raises:
        CoatcheckError: `invalid_request` if the session has a control character, or if what is said of a page's fetch
            makes no sense.
    """
    if sent.final_url is not None and as_address(sent.final_url) is None:
        raise _senseless("final_url", "an absolute URL that begins with http:// or https://")
    if sent.content_type is not None and as_content_type(sent.content_type) is None:
        raise _senseless("content_type", "a media type, such as text/html; charset=utf-8")
    if sent.fetched_at is not None and sent.fetched_at > now + CLOCK_SKEW:
        raise _senseless("fetched_at", f"in the past: here it is {now:%Y-%m-%dT%H:%M:%SZ}")
    fetch = {name: getattr(sent, name) for name in FETCH}
    adjusted, notices = describe(
        {
            "media_type": sent.media_type or media_type,
            "tool_name": sent.tool_name,
            "tool_call_id": sent.tool_call_id,
            "command": sent.command,
            "url": sent.url,
            "title": sent.title or title,
            "kind": sent.kind,
            "labels": sent.labels,
        }
    )
    return DeclaredMetadata(session=plain(sent.session, "session"), failed=failed, **fetch, **adjusted), notices


def _senseless(name: str, what: str) -> CoatcheckError:
    return CoatcheckError(Code.INVALID_REQUEST, f"'{name}' must be {what}.", field=name)


def stand_in(sent: StoreBody, parted: PartsPayload) -> StoreBody:
    """Returns the request, completed by what its content says about itself where the caller said nothing."""
    return structs.replace(
        sent,
        media_type=sent.media_type or parted.media_type,
        tool_call_id=sent.tool_call_id or parted.tool_call_id,
        tool_name=sent.tool_name or parted.tool_name,
        url=sent.url or parted.url,
        title=sent.title or parted.title,
    )
