"""What answers about contexts say, and how they are made from values."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Raw, Struct

from coatcheck.api.artifacts.wire import Warned
from coatcheck.core.context import Meters, Report
from coatcheck.core.session_usage import SessionUsage
from coatcheck.usecases.compact import Compacted, KeptPayload

_Count = Annotated[int, Meta(ge=0)]


class CompactView(Struct, frozen=True, kw_only=True):
    """What a compaction answers."""

    body: Annotated[
        Raw,
        Meta(description="The request body to send: what no change reaches is byte for byte what was given."),
    ]
    report: Annotated[Report, Meta(description="What changed and why, what stays and why, and what to send with it.")]
    meters: Annotated[
        Meters, Meta(description="This turn and the next, before and after: as `/v1/context/measure` counts them.")
    ]
    payloads: Annotated[
        tuple[KeptPayload, ...], Meta(description="What was stored of the body, now or before, and what could not be.")
    ]
    warnings: tuple[Warned, ...] = ()


class SessionUsageView(Struct, frozen=True, kw_only=True):
    """What a session's tokens came to, in tokens of o200k_base."""

    session: str
    since: Annotated[datetime | None, Meta(description="Null: nothing was counted yet.")]
    at: Annotated[datetime | None, Meta(description="When something was counted last.")]
    artifacts: Annotated[_Count, Meta(description="Payloads taken in, each once however often it comes again.")]
    raw_tokens: Annotated[_Count, Meta(description="Of those payloads.")]
    given_tokens: Annotated[
        int, Meta(description="Answered in their place: cards, markers, small payloads themselves, search budgets.")
    ]
    reads: _Count
    read_tokens: Annotated[_Count, Meta(description="Of answers that read back from artifacts.")]
    saved_tokens: Annotated[
        int, Meta(description="`raw_tokens` less `given_tokens` less `read_tokens`: what never entered the context.")
    ]
    compactions: _Count
    unsent_tokens: Annotated[
        _Count, Meta(description="That compacted requests were smaller than they came, added up over all of them.")
    ]
    persisted_tokens: Annotated[
        int | None,
        Meta(description="Of the context that was compacted or measured last: instructions, tools and what stays."),
    ]
    transient_tokens: Annotated[
        int | None, Meta(description="Tool payload of that turn that will not stay; null: none was measured.")
    ]


def compact_view(made: Compacted) -> CompactView:
    """A compaction's answer as callers see it."""
    return CompactView(
        body=Raw(made.body),
        report=made.report,
        meters=made.meters,
        payloads=made.payloads,
        warnings=tuple(Warned(notice.code, notice.message) for notice in made.warnings),
    )


def usage_view(session: str, usage: SessionUsage) -> SessionUsageView:
    """A session's account as callers see it."""
    spent = usage.spent
    return SessionUsageView(
        session=session,
        since=usage.since,
        at=usage.at,
        artifacts=spent.artifacts,
        raw_tokens=spent.raw_tokens,
        given_tokens=spent.given_tokens,
        reads=spent.reads,
        read_tokens=spent.read_tokens,
        saved_tokens=spent.raw_tokens - spent.given_tokens - spent.read_tokens,
        compactions=spent.compactions,
        unsent_tokens=spent.unsent_tokens,
        persisted_tokens=spent.persisted_tokens,
        transient_tokens=spent.transient_tokens,
    )
