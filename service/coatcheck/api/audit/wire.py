"""What requests and answers about the audit say: their fields, with their bounds."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from coatcheck.api.parameters import MAX_SEQ, Limit, Name, OneNamespace
from coatcheck.core import ids
from coatcheck.core.audit import Head, SealedAuditLine, unpack_numbers
from coatcheck.usecases.audit_log import AuditVerification


class AuditQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Query of the audit's lines."""

    namespace: OneNamespace | None = None
    run: Annotated[Name, Meta(description="Only lines of this run.")] | None = None
    action: (
        Annotated[Name, Meta(description="Only `artifact.removed`, or with `artifact` all that begin with that.")]
        | None
    ) = None
    limit: Limit = 50
    before: (
        Annotated[int, Meta(ge=1, le=MAX_SEQ, description="Only lines before this one: `next` of the previous page.")]
        | None
    ) = None


class VerifyAuditQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Query of a verification."""

    head: (
        Annotated[str, Meta(description="A head that was kept elsewhere: the audit must have gone on from it.")] | None
    ) = None


class LineView(Struct, frozen=True, kw_only=True):
    """A line of the audit, with all that its hash covers."""

    seq: int
    at: datetime
    action: str
    actor: str
    key_id: str | None
    namespace: str | None
    reason: str
    run: str | None
    count: Annotated[int, Meta(description="Artifacts that it is about.")]
    bytes: int
    artifacts: Annotated[tuple[str, ...], Meta(description="Their IDs, all of them.")]
    details: dict[str, Any]
    previous: str
    hash: str


class LinesView(Struct, frozen=True, kw_only=True):
    """A page of the audit, the latest first."""

    items: tuple[LineView, ...]
    next: int | None


class HeadView(Struct, frozen=True, kw_only=True):
    """Where the audit ends."""

    head: Annotated[str, Meta(description="The number of the last line, a colon, its hash.")]


class BreachView(Struct, frozen=True, kw_only=True):
    """Where the audit is not what was written."""

    line: int
    what: Annotated[
        str,
        Meta(description="`changed`, `missing`, `inserted`, `unlinked`, `truncated`, `head` or `not_kept`."),
    ]
    detail: str


class VerifiedAuditView(Struct, frozen=True, kw_only=True):
    """What a verification found."""

    whole: bool
    lines: Annotated[int, Meta(description="That follow each other as they were written, from the first on.")]
    head: str
    first_at: datetime | None
    last_at: datetime | None
    breach: BreachView | None
    compared_with: str | None


def line_view(entry: SealedAuditLine) -> LineView:
    """A line of the audit."""
    return LineView(
        seq=entry.seq,
        at=entry.at,
        action=entry.action,
        actor=entry.actor,
        key_id=entry.key_id,
        namespace=entry.namespace,
        reason=entry.reason,
        run=entry.run_id,
        count=entry.artifacts,
        bytes=entry.size,
        artifacts=tuple(map(ids.render, unpack_numbers(entry.numbers))),
        details=_details(entry.details),
        previous=entry.previous.hex(),
        hash=entry.digest.hex(),
    )


def _details(text: str) -> dict[str, Any]:
    """What a line says besides; of one that was tampered with, perhaps nothing."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}


def lines_view(found: list[SealedAuditLine], limit: int) -> LinesView:
    """A page of the audit."""
    return LinesView(items=tuple(map(line_view, found)), next=found[-1].seq if len(found) == limit else None)


def verified_view(verified: AuditVerification) -> VerifiedAuditView:
    """What a verification found."""
    breach = verified.breach
    return VerifiedAuditView(
        whole=breach is None,
        lines=verified.lines,
        head=str(verified.head),
        first_at=verified.first_at,
        last_at=verified.last_at,
        breach=None if breach is None else BreachView(line=breach.seq, what=breach.what, detail=breach.detail),
        compared_with=None if verified.kept is None else str(verified.kept),
    )


def head_view(head: Head) -> HeadView:
    """Where the audit ends."""
    return HeadView(head=str(head))
