"""What requests and answers about policies, holds and usage say: their fields, with their bounds."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from coatcheck.api.durations import seconds
from coatcheck.api.keys.wire import KeysNamespace, NamespaceName
from coatcheck.api.parameters import DURATION
from coatcheck.core import ids
from coatcheck.core.artifact import Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.holds import MAX_REASON, Hold
from coatcheck.core.policy import MAX_BYTES, MAX_VALUE, PARTS, Part, Policy, PolicyScope, decisions
from coatcheck.ports.decisions import PolicyVersion
from coatcheck.usecases.policies import EffectivePolicy
from coatcheck.usecases.usage import MAX_PAGE, NamespaceUsage

Life = int | str | None | UnsetType
Limit = Annotated[int, Meta(ge=1, le=MAX_PAGE, description="Items of a page.")]
Cursor = Annotated[str, Meta(description="`next` of the page before.")]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_VALUE)]
Bytes = Annotated[int, Meta(ge=0, le=MAX_BYTES)]
Namespace = Annotated[NamespaceName, Meta(description="The namespace that it is about; absent: the key's own.")]
_TIMES = ("ttl", "idle_ttl", "max_ttl")


class PolicyBody(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Decisions for one scope. What is left out is not decided; null, where it is allowed, is a decision too."""

    ttl: Annotated[
        Life,
        Meta(description=f"How long an artifact is kept when the caller names no time. {DURATION}; null: for ever."),
    ] = UNSET
    idle_ttl: Annotated[
        Life,
        Meta(description="How long without a read, when the caller names none; at least a minute. Null: no limit."),
    ] = UNSET
    max_ttl: Annotated[
        Life,
        Meta(
            description="Longest time that a caller may ask for; a longer wish is cut to it. A pin suspends it. "
            "Null: none."
        ),
    ] = UNSET
    max_bytes: Annotated[
        Bytes | None | UnsetType, Meta(description="Stored bytes of the namespace. Null: no limit.")
    ] = UNSET
    max_artifacts: Annotated[
        Bytes | None | UnsetType, Meta(description="Artifacts of the namespace. Null: no limit.")
    ] = UNSET
    max_artifact_bytes: Annotated[
        Bytes | None | UnsetType, Meta(description="Bytes of one payload. Null: the service's own limit.")
    ] = UNSET
    evict: Annotated[
        Literal["off", "least_recently_read"] | UnsetType,
        Meta(description="What a full namespace does: refuse, or let go of what was read longest ago."),
    ] = UNSET
    tombstone_ttl: Annotated[
        int | str | UnsetType, Meta(description='How long what is gone is answered with "gone, because".')
    ] = UNSET
    card_tokens: Annotated[
        Annotated[int, Meta(ge=64, le=8192)] | UnsetType,
        Meta(description="Budget of a card when the caller names none."),
    ] = UNSET
    inline_tokens: Annotated[
        Annotated[int, Meta(ge=0, le=100_000)] | UnsetType,
        Meta(description="Payloads of at most this many tokens are answered inline; 0 makes a card of everything."),
    ] = UNSET
    redaction: Annotated[
        Literal["off", "shown", "stored", "refuse"] | UnsetType,
        Meta(description="What happens to secrets found in a payload."),
    ] = UNSET


class ScopeQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Query that names a policy's scope: a namespace, whole or one part of it."""

    namespace: Annotated[KeysNamespace, Meta(description="Absent: the key's own; `*`: all of them.")] | None = None
    session: Name | None = None
    kind: Kind | None = None
    tool: Name | None = None
    label: Name | None = None


class SetPolicyAsk(ScopeQuery, kw_only=True, forbid_unknown_fields=True):
    """The body that sets a policy."""

    policy: PolicyBody


class PoliciesQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Query of the list of policies."""

    namespace: Annotated[KeysNamespace, Meta(description="Only those that concern this one.")] | None = None


class ExplainQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Query that describes a payload."""

    namespace: Namespace | None = None
    session: Name | None = None
    kind: Kind | None = None
    tool_name: Name | None = None
    label: Annotated[tuple[Name, ...], Meta(description="May be repeated.")] = ()


class ScopeView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whom a policy is for."""

    namespace: Annotated[str, Meta(description="`*`: all of them.")]
    session: str | None = None
    kind: str | None = None
    tool: str | None = None
    label: str | None = None


class PolicyView(Struct, frozen=True, kw_only=True):
    """A scope's policy."""

    scope: ScopeView
    policy: PolicyBody


class PoliciesView(Struct, frozen=True, kw_only=True):
    """All policies that concern a namespace, or all there are."""

    version: Annotated[int, Meta(description="Counts every change of any policy.")]
    items: tuple[PolicyView, ...]


class PolicyVersionView(Struct, frozen=True, kw_only=True):
    """A version of a scope's policy."""

    version: int
    policy: Annotated[PolicyBody | None, Meta(description="Null: it was removed.")]
    at: datetime
    by: str


class PolicyHistoryView(Struct, frozen=True, kw_only=True):
    """The versions of a scope's policy, newest first; the first one holds."""

    scope: ScopeView
    versions: tuple[PolicyVersionView, ...]


class ChangedPolicyView(Struct, frozen=True, kw_only=True):
    """A policy that was set or removed."""

    scope: ScopeView
    version: int
    policy: PolicyBody | None


class SourceView(Struct, frozen=True, kw_only=True):
    """Which scope decides a field."""

    field: str
    value: Annotated[int | str | None, Meta(description="Null: for ever, or no limit.")]
    scope: ScopeView


class ExplainedView(Struct, frozen=True, kw_only=True):
    """What holds for a payload. What is not decided is left to the settings."""

    policy: PolicyBody
    sources: tuple[SourceView, ...]


class NewHoldAsk(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that places a hold: on an artifact, a session, or with neither on the namespace."""

    reason: Annotated[str, Meta(min_length=1, max_length=MAX_REASON, description="Why; whoever is refused may ask.")]
    namespace: Namespace | None = None
    artifact: Annotated[str, Meta(description="Its ID.", examples=["art_482913077564201876"])] | None = None
    session: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    until: (
        Annotated[datetime, Meta(tz=True, description="From when on it holds no more. Absent: until it is released.")]
        | None
    ) = None
    ttl: Annotated[int | str, Meta(description=f"The same, counted from now. {DURATION}.")] | None = None


class HoldsQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Query of a list of holds."""

    namespace: Namespace | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class HoldView(Struct, frozen=True, kw_only=True):
    """A hold."""

    id: Annotated[str, Meta(pattern="^hold_[0-9a-f]{16}$", examples=["hold_00ff12ab34cd56ef"])]
    namespace: str
    artifact: Annotated[str | None, Meta(description="The artifact that it covers.")]
    session: Annotated[str | None, Meta(description="The session that it covers; with neither: the namespace.")]
    reason: str
    by: str
    at: datetime
    until: Annotated[datetime | None, Meta(description="Null: until it is released.")]


class HoldsView(Struct, frozen=True):
    """A page of holds, by ID."""

    items: tuple[HoldView, ...]
    next: str | None = None


class UsageQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Query of what namespaces hold."""

    namespace: Namespace | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class UsageView(Struct, frozen=True, kw_only=True):
    """What a namespace holds, and may hold."""

    namespace: str
    bytes: Annotated[int, Meta(description="Stored bytes: compressed, and once where several artifacts share them.")]
    artifacts: Annotated[int, Meta(description="Also those that have expired and are not buried yet.")]
    reserved: Annotated[int, Meta(description="Bytes that uploads under way have reserved.")]
    max_bytes: Annotated[int | None, Meta(description="Null: no limit.")]
    max_artifacts: Annotated[int | None, Meta(description="Null: no limit.")]
    evict: Annotated[str, Meta(description="What happens when it is full.")]
    deleting_at: Annotated[datetime | None, Meta(description="Since when it is being deleted.")]


class UsagesView(Struct, frozen=True):
    """A page of namespaces, by name."""

    items: tuple[UsageView, ...]
    next: str | None = None


def scope_of(asked: ScopeQuery, own: str) -> PolicyScope:
    """The scope that is named; without a namespace it is in one's own.

    Raises:
        CoatcheckError: `invalid_request` when it names two parts.
    """
    named: list[tuple[Part, str]] = [(part, value) for part in PARTS if (value := getattr(asked, part)) is not None]
    if len(named) > 1:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            "A policy is for a whole namespace, or for one session, kind, tool or label of it: name one of these.",
            field=named[1][0],
        )
    namespace = asked.namespace or own
    return PolicyScope(namespace, *named[0]) if named else PolicyScope(namespace)


def policy_of(body: PolicyBody) -> Policy:
    """The policy that a body says.

    Raises:
        CoatcheckError: `invalid_request` for a duration that is none.
    """
    given: dict[str, Any] = {
        name: value for name in body.__struct_fields__ if (value := getattr(body, name)) is not UNSET
    }
    for name in _TIMES:
        if given.get(name) is not None:
            given[name] = seconds(given[name], name)
    if "tombstone_ttl" in given:
        given["tombstone_ttl"] = _tombstone(body.tombstone_ttl)
    return Policy(**given)


def _tombstone(value: int | str | UnsetType) -> int:
    """How long a tombstone lasts: 0 is none, and none lasts for ever."""
    if value in {0, "0"} or value is UNSET:
        return 0
    found = seconds(value, "tombstone_ttl")
    if found is None:
        raise CoatcheckError(Code.INVALID_REQUEST, "'tombstone_ttl' cannot be for ever.", field="tombstone_ttl")
    return found


def policy_body(policy: Policy) -> PolicyBody:
    """A policy as callers see it: durations in seconds."""
    return PolicyBody(**decisions(policy))  # pyright: ignore[reportArgumentType] - the same fields


def scope_view(scope: PolicyScope) -> ScopeView:
    """A scope as callers see it."""
    return ScopeView(namespace=scope.namespace, **({} if scope.part is None else {scope.part: scope.value}))


def version_view(version: PolicyVersion) -> PolicyVersionView:
    """A version as callers see it."""
    policy = None if version.policy is None else policy_body(version.policy)
    return PolicyVersionView(version=version.version, policy=policy, at=version.at, by=version.by)


def explained_view(explained: EffectivePolicy) -> ExplainedView:
    """What holds, as callers see it."""
    sources = tuple(
        SourceView(field=name, value=source.value, scope=scope_view(source.scope))  # pyright: ignore[reportArgumentType]
        for name, source in sorted(explained.sources.items())
    )
    return ExplainedView(policy=policy_body(explained.policy), sources=sources)


def hold_view(hold: Hold) -> HoldView:
    """A hold as callers see it."""
    return HoldView(
        id=hold.id,
        namespace=hold.namespace,
        artifact=None if hold.number is None else ids.render(hold.number),
        session=hold.session,
        reason=hold.reason,
        by=hold.made_by,
        at=hold.at,
        until=hold.until,
    )


def usage_view(line: NamespaceUsage) -> UsageView:
    """What a namespace holds, as callers see it."""
    usage, room = line.usage, line.room
    return UsageView(
        namespace=usage.namespace,
        bytes=usage.bytes,
        artifacts=usage.artifacts,
        reserved=usage.reserved,
        max_bytes=room.max_bytes,
        max_artifacts=room.max_artifacts,
        evict=line.evict,
        deleting_at=usage.deleting_at,
    )
