"""Routes that look up artifacts, change how long they are kept, and delete them, with their wire types.

Times are RFC 3339 in UTC; digests are hexadecimal; unknown values are null, not missing.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, ClassVar

from litestar import Response
from msgspec import UNSET, Meta, Struct, UnsetType, convert, structs

from coatcheck.api.http.access import DELETE, READ
from coatcheck.api.http.request_parts import field, prefers_text, resolve_citation
from coatcheck.api.parameters import (
    CardTokens,
    Id,
    IdleTtl,
    Label,
    Labels,
    Pin,
    Query,
    Session,
    Status,
    Text,
    TextTokens,
    ToolName,
    Tools,
    Ttl,
    Url,
    check_labels,
    plain,
    seconds_or_unset,
)
from coatcheck.api.route import BODY, JSON, MERGE_PATCH, ONE, Answer, Reply, RouteCall, route
from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Kind
from coatcheck.core.card import Card
from coatcheck.core.errors import Code
from coatcheck.core.fulltext import MAX_QUERY_CHARS
from coatcheck.core.metadata_bounds import CLOCK_SKEW, is_redirected
from coatcheck.core.retention.audit import MAX_NAMED_HOLDS, Hold
from coatcheck.ports.catalog import ArtifactFilter
from coatcheck.usecases.payloads.describe import Described
from coatcheck.usecases.retention.administer_holds import Holds
from coatcheck_client.contract.answers import ArtifactHold, PayloadSize, ReceiptRecord

Telling = Annotated[
    str,
    Meta(
        max_length=MAX_QUERY_CHARS,
        description="Only artifacts that contain all of these words in their title, URL, tool name, command, labels "
        "or text. For text over 512 KiB, only the first and last 256 KiB are indexed. Case, accents and endings do "
        "not matter; Chinese, Japanese, Korean and Thai need no spaces between words; parts of identifiers and paths "
        "match, too. Words such as `the` and `what` are ignored if there are others. There are no operators: quotes, "
        "`OR` and `*` have no meaning.",
        examples=["ConnectionResetError payments"],
    ),
]
"""The parameter `q`: words that artifacts must contain."""


class ListQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/artifacts`. An artifact must meet all conditions that are given."""

    session: Session | None = None
    kind: Annotated[Kind, Meta(description="Only this kind.")] | None = None
    tool_name: ToolName | None = None
    url: Url | None = None
    status: Annotated[Status, Meta(description="Only pages that came with this HTTP status.")] | None = None
    final_url: Annotated[Url, Meta(description="Only pages to which redirects led here.")] | None = None
    label: Annotated[Label, Meta(description="Only artifacts with this label.")] | None = None
    created_after: (
        Annotated[datetime, Meta(tz=True, description="Only artifacts that were stored at this moment or later.")]
        | None
    ) = None
    created_before: (
        Annotated[datetime, Meta(tz=True, description="Only artifacts that were stored before this moment.")] | None
    ) = None
    q: Telling | None = None
    cursor: Annotated[str, Meta(min_length=1, max_length=512, description="`next` of the previous page.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=200, description="Maximum number of artifacts on a page.")] = 50

    def filter(self) -> ArtifactFilter:
        """Returns all conditions except the words of `q`: the use case looks those up in the full-text index.

        Raises:
            CoatcheckError: `invalid_request` if one has a control character.
        """
        # The patterns of these parameters only stand in the OpenAPI document. Enforce them here.
        for name in ("session", "tool_name", "url", "final_url", "label"):
            plain(getattr(self, name), name)
        return convert(self, ArtifactFilter, from_attributes=True)


class CardQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/artifacts/{artifact_id}/card`."""

    tokens: CardTokens | None = None
    """Budget of the card; None: the default budget."""
    query: Query | None = None
    tools: Tools = "read_artifact"


class ArtifactPatchBody(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of `PATCH /v1/artifacts/{artifact_id}`. Fields that are left out stay as they are."""

    EXAMPLES: ClassVar = [{"ttl": "7d", "pin": True}]

    ttl: Ttl | UnsetType = UNSET
    """UNSET: stays as it is; None: forever."""
    idle_ttl: IdleTtl | UnsetType = UNSET
    """UNSET: stays as it is; None: no idle expiry."""
    pin: Pin | UnsetType = UNSET
    labels: Labels | UnsetType = UNSET
    """The new labels, which replace all present ones; an empty list removes them. UNSET: stay as they are."""


class ArtifactView(Struct, frozen=True, kw_only=True):
    """An artifact's metadata."""

    id: Id
    kind: Kind
    media_type: str | None
    tool_name: str | None
    tool_call_id: str | None
    command: str | None
    session: str | None
    url: str | None
    status: Annotated[int | None, Meta(description="The HTTP status with which the page came.")]
    final_url: Annotated[str | None, Meta(description="Where redirects led from `url`.")]
    redirected: Annotated[
        bool, Meta(description="Whether `final_url` is another page than `url`, not only another spelling of it.")
    ]
    content_type: Annotated[
        str | None, Meta(description="What the page's server called it; the payload may be a conversion.")
    ]
    fetched_at: datetime | None
    title: str | None
    labels: tuple[str, ...]
    compared_to: Annotated[str | None, Meta(description="ID of the artifact that it was compared with at ingest.")]
    same_as: Annotated[
        str | None, Meta(description="ID of the artifact whose card the first receipt referred to, in two lines.")
    ]
    size: PayloadSize
    utf8: Annotated[bool, Meta(description="Whether the payload is valid UTF-8.")]
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="Digest of the payload.")]
    created_at: datetime
    expires_at: Annotated[datetime | None, Meta(description="Null: pinned, or kept forever.")]
    ttl: Annotated[int | None, Meta(description="Seconds from creation; null: forever.")]
    idle_ttl: Annotated[int | None, Meta(description="Seconds without a read; null: no idle expiry.")]
    pinned: bool
    holds: Annotated[
        tuple[ArtifactHold, ...] | None,
        Meta(
            description=f"The holds that keep it from being deleted, by ID, at most {MAX_NAMED_HOLDS}. Null: unknown, "
            "because storage is away."
        ),
    ]


class CardView(Struct, frozen=True, kw_only=True):
    """A card at a certain budget."""

    id: Id
    text: Text
    tokens: TextTokens
    card: Card


class ArtifactDescriptionView(Struct, frozen=True, kw_only=True):
    """An artifact's metadata and its card."""

    artifact: ArtifactView
    text: Text
    tokens: TextTokens
    card: Card
    receipt: Annotated[
        ReceiptRecord | None,
        Meta(
            description="What a model got in its place when it was stored. Null: nothing, or a release stored it that "
            "did not record that."
        ),
    ]


class ArtifactsView(Struct, frozen=True, omit_defaults=True):
    """A page of artifacts, newest first."""

    items: tuple[ArtifactView, ...]
    next: Annotated[
        str | None,
        Meta(
            description="Pass it as `cursor` to get the next page; null on the last page. Earlier pages may be "
            "short, or empty if few artifacts match: continue until it is null."
        ),
    ]
    partial: Annotated[
        bool,
        Meta(
            description="Only with `q`, and only if true: recently stored artifacts may be missing because they "
            "are still waiting for the full-text index. The same request finds them later."
        ),
    ] = False


async def artifact_views(holds: Holds, artifacts: Sequence[Artifact]) -> tuple[ArtifactView, ...]:
    """Returns artifacts of one namespace as callers see them, with the holds on them."""
    return tuple(map(_artifact_view, artifacts, await holds.covering(artifacts)))


def _artifact_view(artifact: Artifact, holds: Sequence[Hold] | None) -> ArtifactView:
    """Returns an artifact as callers see it. If a value was not declared, the detected value is shown instead.

    `holds` is None if storage is unavailable, so that the holds are unknown.
    """
    declared, facts, measure = artifact.declared, artifact.facts, artifact.measure
    # What the caller declared takes precedence over what was detected in the payload.
    fetch = facts.fetch_of(declared)
    return ArtifactView(
        id=artifact.id,
        kind=facts.kind,
        media_type=declared.media_type or facts.media_type,
        tool_name=declared.tool_name,
        tool_call_id=declared.tool_call_id,
        command=declared.command,
        session=declared.session,
        url=fetch.url,
        status=fetch.status,
        final_url=fetch.final_url,
        redirected=is_redirected(fetch),
        content_type=fetch.content_type,
        fetched_at=_past(fetch.fetched_at, artifact.created_at),
        title=fetch.title,
        labels=declared.labels,
        compared_to=declared.compared_to,
        same_as=None if facts.repeats is None else facts.repeats.id,
        size=PayloadSize(
            bytes=measure.size,
            chars=measure.chars,
            lines=measure.lines,
            tokens=measure.tokens,
            dropped_bytes=measure.dropped,
        ),
        utf8=measure.utf8,
        sha256=measure.sha256.hex(),
        created_at=artifact.created_at,
        expires_at=artifact.expires_at,
        ttl=artifact.ttl,
        idle_ttl=artifact.idle_ttl,
        pinned=artifact.pinned,
        holds=None if holds is None else tuple(map(_hold_view, holds)),
    )


def _past(moment: datetime | None, created_at: datetime) -> datetime | None:
    """Returns the moment that a payload states; None if it is later than the payload's ingest, and so cannot be true.

    Such a moment can be stored, because ingest detects it without knowing the time.
    """
    return None if moment is None or moment > created_at + CLOCK_SKEW else moment


def description_view(described: Described, artifact: ArtifactView) -> ArtifactDescriptionView:
    """Returns an artifact's metadata and card as callers see them."""
    record = described.receipt
    return ArtifactDescriptionView(
        artifact=artifact,
        text=described.text,
        tokens=described.tokens,
        card=described.card,
        receipt=record and convert(structs.asdict(record) | {"sha256": record.sha256.hex()}, ReceiptRecord),
    )


def _hold_view(hold: Hold) -> ArtifactHold:
    covers = "artifact" if hold.number is not None else "session" if hold.session is not None else "namespace"
    return ArtifactHold(id=hold.id, covers=covers, reason=hold.reason, until=hold.until)


@route(
    "GET /v1/artifacts",
    scope=READ,
    tag="Artifacts",
    answers={200: "A page."},
    problems=(Code.INVALID_CURSOR, Code.OVERLOADED, Code.INTEGRITY),
)
async def list_artifacts(call: RouteCall, query: ListQuery) -> ArtifactsView:
    """List artifacts.

    Lists live artifacts, newest first. All conditions given must hold; with `q`, an artifact must contain every word.
    Everything stored before the request is found, unless the answer says `partial`. An unknown parameter is an error.
    """
    listing = await call.services.browse(call.caller, query.filter(), query.cursor, query.limit, query=query.q)
    items = await artifact_views(call.services.holds, listing.items)
    return ArtifactsView(items, listing.next, listing.partial)


@route(
    "GET /v1/artifacts/{artifact_id}",
    scope=READ,
    tag="Artifacts",
    answers={200: "Metadata and card."},
    problems=(*ONE, Code.INTEGRITY),
)
async def get_artifact(call: RouteCall, artifact_id: str) -> ArtifactDescriptionView:
    """Get an artifact.

    Returns the artifact's metadata, and its card as the present engine renders it at the default budget. `receipt`
    describes the text that a model got in place of the payload when it was stored: which engine made it, at which
    budget, for which query, and the text's digest. At that budget and for that query, the same engine renders the same
    card, byte for byte; a later engine may render another.
    """
    described = await call.services.describe(call.caller, resolve_citation(artifact_id)[0])
    (view,) = await artifact_views(call.services.holds, [described.artifact])
    return description_view(described, view)


@route(
    "GET /v1/artifacts/{artifact_id}/card",
    scope=READ,
    tag="Reading",
    answers={200: Answer("The card.", media=("text/plain",))},
    problems=(*ONE, Code.INTEGRITY),
)
async def get_card(call: RouteCall, artifact_id: str, query: CardQuery) -> Reply[CardView] | Response[bytes]:
    """Render the card again.

    Renders the card at another budget, for another query, or for a model that has no tool for reading further
    (`tools=none`). Returns JSON, or with `Accept: text/plain` only the text.
    """
    described = await call.services.describe(
        call.caller,
        resolve_citation(artifact_id)[0],
        budget=query.tokens,
        query=query.query,
        tools=query.tools != "none",
    )
    # The text and the JSON have the same URL. `vary` keeps caches from mixing them up.
    if prefers_text(field(call.scope, b"accept")):
        return Response(
            content=described.text.encode(),
            media_type="text/plain",
            headers={"vary": "accept", "x-content-type-options": "nosniff"},
        )
    view = CardView(id=described.artifact.id, text=described.text, tokens=described.tokens, card=described.card)
    return Reply(view, 200, {"vary": "accept"})


@route(
    "PATCH /v1/artifacts/{artifact_id}",
    scope=DELETE,
    tag="Artifacts",
    body={JSON: ArtifactPatchBody, MERGE_PATCH: ArtifactPatchBody},
    answers={200: "The artifact as it is now."},
    problems=(*ONE, *BODY, Code.INVALID_JSON),
)
async def change_artifact(call: RouteCall, artifact_id: str, body: ArtifactPatchBody) -> ArtifactView:
    """Change an artifact's expiry, pin or labels.

    Fields that are left out stay as they are. A new `ttl` counts from creation.
    """
    artifact = await call.services.extend(
        call.caller,
        ids.parse(artifact_id),
        ttl=seconds_or_unset(body.ttl, "ttl"),
        idle_ttl=seconds_or_unset(body.idle_ttl, "idle_ttl"),
        pinned=body.pin,
        labels=UNSET if body.labels is UNSET else check_labels(body.labels),
    )
    return (await artifact_views(call.services.holds, [artifact]))[0]


@route(
    "DELETE /v1/artifacts/{artifact_id}",
    scope=DELETE,
    tag="Artifacts",
    answers={204: "Deleted."},
    problems=(*ONE, Code.HELD),
)
async def delete_artifact(call: RouteCall, artifact_id: str) -> None:
    """Delete an artifact.

    From then on, every route reports it as gone; its bytes are removed a little later.
    """
    await call.services.forget(call.caller, ids.parse(artifact_id))
