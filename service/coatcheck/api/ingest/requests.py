"""Converts requests to what the use case takes, after checking and completing them."""

from datetime import datetime

from msgspec import structs

from coatcheck.api.checks import describe, plain
from coatcheck.api.durations import seconds_or_unset
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
    parameters: DeclaredParameters, declared: DeclaredMetadata, *, key: str | None, notices: tuple[Notice, ...] = ()
) -> IngestRequest:
    """Returns an HTTP request as an ingest request.

    Raises:
        CoatcheckError: `invalid_request` for an invalid duration; `invalid_artifact_id` if `compare_to` is neither an
            ID nor `previous`.
    """
    if parameters.compare_to is not None and parameters.compare_to != PREVIOUS:
        ids.parse(parameters.compare_to)
    return copy_fields(
        IngestRequest,
        parameters,
        declared=declared,
        ttl=seconds_or_unset(parameters.ttl, "ttl"),
        idle_ttl=seconds_or_unset(parameters.idle_ttl, "idle_ttl"),
        pinned=parameters.pin,
        keep_ends=parameters.oversize == "keep_ends",
        tools=parameters.tools != "none",
        key=key,
        notices=notices,
    )


def to_declared(
    parameters: DeclaredParameters,
    now: datetime,
    *,
    media_type: str | None = None,
    title: str | None = None,
    failed: bool = False,
) -> tuple[DeclaredMetadata, tuple[Notice, ...]]:
    """Returns what the caller declared, and a warning if it had to be adjusted.

    Args:
        parameters: the request.
        now: the present moment, after which no page was fetched.
        media_type: stands in for an absent one.
        title: stands in for an absent one.
        failed: whether a provider's result says that the tool failed.

    Raises:
        CoatcheckError: `invalid_request` if the session has a control character, or if what is said of a page's fetch
            makes no sense.
    """
    if parameters.final_url is not None and as_address(parameters.final_url) is None:
        raise _senseless("final_url", "an absolute URL that begins with http:// or https://")
    if parameters.content_type is not None and as_content_type(parameters.content_type) is None:
        raise _senseless("content_type", "a media type, such as text/html; charset=utf-8")
    if parameters.fetched_at is not None and parameters.fetched_at > now + CLOCK_SKEW:
        raise _senseless("fetched_at", f"in the past: here it is {now:%Y-%m-%dT%H:%M:%SZ}")
    fetch = {name: getattr(parameters, name) for name in FETCH}
    adjusted, notices = describe(
        {
            "media_type": parameters.media_type or media_type,
            "tool_name": parameters.tool_name,
            "tool_call_id": parameters.tool_call_id,
            "command": parameters.command,
            "url": parameters.url,
            "title": parameters.title or title,
            "kind": parameters.kind,
            "labels": parameters.labels,
        }
    )
    return DeclaredMetadata(session=plain(parameters.session, "session"), failed=failed, **fetch, **adjusted), notices


def _senseless(name: str, what: str) -> CoatcheckError:
    return CoatcheckError(Code.INVALID_REQUEST, f"'{name}' must be {what}.", field=name)


def stand_in(body: StoreBody, parted: PartsPayload) -> StoreBody:
    """Returns the request, completed by what its content says about itself where the caller said nothing."""
    return structs.replace(
        body,
        media_type=body.media_type or parted.media_type,
        tool_call_id=body.tool_call_id or parted.tool_call_id,
        tool_name=body.tool_name or parted.tool_name,
        url=body.url or parted.url,
        title=body.title or parted.title,
    )
