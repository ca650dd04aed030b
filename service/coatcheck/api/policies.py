"""Routes with which administrators set, remove and explain policies. Durations are seconds or text such as `7d`."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from coatcheck.api.parameters import DURATION, AnyNamespace, DomainNames, Name, Namespace, seconds
from coatcheck.api.route import JSON_BODY, RouteCall, route
from coatcheck.core.artifact import Caller, Kind
from coatcheck.core.errors import Code, invalid_request
from coatcheck.core.keys import resolve_administered
from coatcheck.core.policies.policy import MAX_BYTES, PARTS, Automatic, Part, Policy, PolicyScope, decisions
from coatcheck.core.search.model import BOUNDS
from coatcheck.ports.decisions import PolicyVersion
from coatcheck.storing.policies import EffectivePolicy

Life = int | str | None | UnsetType
"""A duration: seconds or text such as `7d`. None: no end; UNSET: the policy does not decide the field."""
Bytes = Annotated[int, Meta(ge=0, le=MAX_BYTES)]
_TIMES = ("ttl", "idle_ttl", "max_ttl")
"""Fields that are durations and may be None, which means no end."""


def _search(name: str) -> Meta:
    least, most = BOUNDS[name]
    return Meta(ge=least, le=most)


class PolicyBody(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Decisions for one scope. A field that is left out is not decided; null, where it is allowed, is a decision."""

    ttl: Annotated[
        Life,
        Meta(description=f"How long an artifact is kept if the caller specifies no time. {DURATION}; null: forever."),
    ] = UNSET
    idle_ttl: Annotated[
        Life,
        Meta(
            description="How long an artifact is kept without a read if the caller specifies no time; at least a "
            "minute. Null: no limit."
        ),
    ] = UNSET
    max_ttl: Annotated[
        Life,
        Meta(
            description="Longest time that an artifact is kept; longer times, requested or by policy, are cut to it. "
            "It does not apply to pinned artifacts. Null: no limit."
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
        Meta(
            description="What a full namespace does: refuse new payloads, or evict the least recently read artifacts."
        ),
    ] = UNSET
    tombstone_ttl: Annotated[
        int | str | UnsetType, Meta(description="How long a removed artifact is reported as gone, with the reason.")
    ] = UNSET
    card_tokens: Annotated[
        Annotated[int, Meta(ge=64, le=8192)] | Automatic | UnsetType,
        Meta(
            description="Budget of a card if the caller specifies none. `auto`: up to 2,048 tokens if the payload "
            "reports many different failures, at most 300 if it reports one, otherwise the setting."
        ),
    ] = UNSET
    inline_tokens: Annotated[
        Annotated[int, Meta(ge=0, le=100_000)] | UnsetType,
        Meta(
            description="Payloads of at most this many tokens are returned unchanged; 0 makes a card of every payload."
        ),
    ] = UNSET
    search_enabled: Annotated[
        bool | UnsetType,
        Meta(
            description="Whether responses of web searches are taken. If not, the answer says that they are off, and "
            "nothing is stored."
        ),
    ] = UNSET
    search_keep_summary: Annotated[
        bool | UnsetType,
        Meta(description="Whether later turns keep sentences and sources of a web search. If not, they keep one line."),
    ] = UNSET
    search_max_searches: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None | UnsetType,
        Meta(description="Maximum searches with results in a session. Null: no limit."),
    ] = UNSET
    search_max_searches_per_turn: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None | UnsetType,
        Meta(description="Maximum searches with results in a turn that the caller names. Null: no limit."),
    ] = UNSET
    search_max_results: Annotated[
        Annotated[int, _search("max_results")] | UnsetType,
        Meta(description="Results of a web search whose text is shown, if the caller specifies no number."),
    ] = UNSET
    search_max_tokens_per_result: Annotated[
        Annotated[int, _search("max_tokens_per_result")] | UnsetType,
        Meta(description="Maximum tokens of one result of a web search if the caller specifies none."),
    ] = UNSET
    search_max_total_tokens: Annotated[
        Annotated[int, _search("max_total_tokens")] | UnsetType,
        Meta(description="Maximum tokens of the text of a web search if the caller specifies none."),
    ] = UNSET
    search_allowed_domains: Annotated[
        DomainNames | UnsetType,
        Meta(
            description="If given, web searches show only results of these domains and their subdomains, whatever the "
            "caller names. An empty list: all."
        ),
    ] = UNSET
    search_excluded_domains: Annotated[
        DomainNames | UnsetType,
        Meta(
            description="Web searches show no results of these domains and their subdomains, whatever the caller names."
        ),
    ] = UNSET
    redaction: Annotated[
        Literal["off", "shown", "stored", "refuse"] | UnsetType,
        Meta(
            description="What happens to secrets found in a payload. `off`: nothing. `shown`: models see markers in "
            "their place, and the payload is stored as it is. `stored`: the stored payload has the markers, too. "
            "`refuse`: the payload is refused."
        ),
    ] = UNSET
    keep_card_text: Annotated[
        bool | UnsetType,
        Meta(
            description="Whether the text of the card that a payload got when it was stored is kept with it; if not, "
            "only its digest is."
        ),
    ] = UNSET


class ScopeQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query that names a policy's scope: a whole namespace or one part of it."""

    namespace: (
        Annotated[AnyNamespace, Meta(description="The namespace, or `*` for all of them. Default: the key's own.")]
        | None
    ) = None
    session: Name | None = None
    kind: Kind | None = None
    tool: Name | None = None
    label: Name | None = None


class SetPolicyRequest(ScopeQuery, kw_only=True, forbid_unknown_fields=True):
    """The body that sets a policy."""

    EXAMPLES: ClassVar = [{"session": "run-17", "policy": {"ttl": "7d"}}]

    policy: PolicyBody


class PoliciesQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/admin/policies`."""

    namespace: Annotated[AnyNamespace, Meta(description="Only policies that concern this namespace.")] | None = None


class ExplainQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/admin/policies/effective`, which describe a payload."""

    namespace: Namespace | None = None
    session: Name | None = None
    kind: Kind | None = None
    tool_name: Name | None = None
    label: Annotated[tuple[Name, ...], Meta(description="May be repeated.")] = ()


class PolicyScopeView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a policy applies to."""

    namespace: Annotated[str, Meta(description="`*`: all of them.")]
    session: str | None = None
    kind: str | None = None
    tool: str | None = None
    label: str | None = None


class PolicyView(Struct, frozen=True, kw_only=True):
    """A scope's policy."""

    scope: PolicyScopeView
    policy: PolicyBody


class PoliciesView(Struct, frozen=True, kw_only=True):
    """All policies that concern a namespace, or all policies."""

    version: Annotated[int, Meta(description="Counts every change of any policy.")]
    items: tuple[PolicyView, ...]


class PolicyVersionView(Struct, frozen=True, kw_only=True):
    """A version of a scope's policy."""

    version: int
    policy: Annotated[PolicyBody | None, Meta(description="Null: it was removed.")]
    at: datetime
    by: str


class PolicyHistoryView(Struct, frozen=True, kw_only=True):
    """The versions of a scope's policy, newest first; the first one is in force."""

    scope: PolicyScopeView
    versions: tuple[PolicyVersionView, ...]


class ChangedPolicyView(Struct, frozen=True, kw_only=True):
    """A policy that was set or removed."""

    scope: PolicyScopeView
    version: int
    policy: PolicyBody | None


class PolicySourceView(Struct, frozen=True, kw_only=True):
    """Which scope decides a field."""

    field: str
    value: Annotated[int | str | bool | tuple[str, ...] | None, Meta(description="Null: forever, or no limit.")]
    scope: PolicyScopeView


class EffectivePolicyView(Struct, frozen=True, kw_only=True):
    """The policy in force for a payload. Fields that are not decided are left to the settings."""

    policy: PolicyBody
    sources: tuple[PolicySourceView, ...]


def scope_of(query: ScopeQuery, caller: Caller) -> PolicyScope:
    """Returns the scope that a query names; its namespace defaults to the key's own.

    Raises:
        CoatcheckError: `invalid_request` if the query names more than one part of a namespace.
    """
    parts: list[tuple[Part, str]] = [(part, value) for part in PARTS if (value := getattr(query, part)) is not None]
    if len(parts) > 1:
        raise invalid_request(
            "A policy applies to a whole namespace, or to one session, kind, tool or label in it: "
            "name only one of these.",
            field=parts[1][0],
        )
    namespace = query.namespace or resolve_administered(caller, None)
    return PolicyScope(namespace, *parts[0]) if parts else PolicyScope(namespace)


def policy_of(body: PolicyBody) -> Policy:
    """Returns the policy in a body.

    Raises:
        CoatcheckError: `invalid_request` for an invalid duration.
    """
    values: dict[str, Any] = {
        name: value for name in body.__struct_fields__ if (value := getattr(body, name)) is not UNSET
    }
    # None is a decision, too, and means no end. It stays None.
    for name in _TIMES:
        if values.get(name) is not None:
            values[name] = seconds(values[name], name)
    if "tombstone_ttl" in values:
        values["tombstone_ttl"] = _tombstone(body.tombstone_ttl)
    return Policy(**values)


def _tombstone(value: int | str | UnsetType) -> int:
    """Returns the seconds that a tombstone lasts; 0: there is no tombstone.

    Raises:
        CoatcheckError: `invalid_request` for an invalid duration, or for one without end.
    """
    if value in {0, "0"} or value is UNSET:
        return 0
    duration = seconds(value, "tombstone_ttl")
    if duration is None:
        raise invalid_request("'tombstone_ttl' must be a limited time.", field="tombstone_ttl")
    return duration


def policy_body(policy: Policy) -> PolicyBody:
    """Returns a policy as callers see it, with durations in seconds."""
    return PolicyBody(**decisions(policy))  # pyright: ignore[reportArgumentType] - the same fields


def policy_scope_view(scope: PolicyScope) -> PolicyScopeView:
    """Returns a scope as callers see it."""
    return PolicyScopeView(namespace=scope.namespace, **({} if scope.part is None else {scope.part: scope.value}))


def version_view(version: PolicyVersion) -> PolicyVersionView:
    """Returns a version of a policy as callers see it."""
    policy = None if version.policy is None else policy_body(version.policy)
    return PolicyVersionView(version=version.version, policy=policy, at=version.at, by=version.by)


def explanation_view(explained: EffectivePolicy) -> EffectivePolicyView:
    """Returns the policy in force as callers see it."""
    sources = tuple(
        PolicySourceView(field=name, value=source.value, scope=policy_scope_view(source.scope))  # pyright: ignore[reportArgumentType]
        for name, source in sorted(explained.sources.items())
    )
    return EffectivePolicyView(policy=policy_body(explained.policy), sources=sources)


@route("GET /v1/admin/policies", answers={200: "All policies that concern the namespace."})
async def list_policies(call: RouteCall, query: PoliciesQuery) -> PoliciesView:
    """List policies.

    Returns the policies of the namespace, and the policies that apply to all namespaces, as they are stored.
    """
    version, policies = await call.services.policies.current(call.caller, query.namespace)
    items = tuple(PolicyView(scope=policy_scope_view(scope), policy=policy_body(policy)) for scope, policy in policies)
    return PoliciesView(version=version, items=items)


@route("GET /v1/admin/policies/history", answers={200: "The versions."}, problems=(Code.POLICY_NOT_FOUND,))
async def get_policy_history(call: RouteCall, query: ScopeQuery) -> PolicyHistoryView:
    """Get the versions of a scope's policy.

    Newest first, at most 100. The newest is in force; null means that the policy was removed.
    """
    scope = scope_of(query, call.caller)
    history = await call.services.policies.show(call.caller, scope)
    versions = tuple(map(version_view, history))
    return PolicyHistoryView(scope=policy_scope_view(scope), versions=versions)


@route("GET /v1/admin/policies/effective", answers={200: "The policy in force, and where each field comes from."})
async def explain_policies(call: RouteCall, query: ExplainQuery) -> EffectivePolicyView:
    """Explain which policy applies to a payload.

    For each field, the most specific scope that sets it decides. From least to most specific: all namespaces, the
    namespace, then the session, the kind, the tool, a label; among several labels, the first in character order.
    The settings decide fields that no policy sets.
    """
    explained = await call.services.policies.explain(
        call.caller,
        query.namespace,
        session=query.session,
        kind=query.kind,
        tool_name=query.tool_name,
        labels=query.label,
    )
    return explanation_view(explained)


@route("PUT /v1/admin/policies", answers={200: "The policy was set."}, problems=JSON_BODY)
async def set_policy(call: RouteCall, body: SetPolicyRequest) -> ChangedPolicyView:
    """Set a policy.

    Replaces the scope's policy: fields that are left out are unset. The policy applies to everything stored or changed
    from then on: at once on the replica that answers, within five seconds on every other one. What earlier receipts
    have promised does not change. `max_bytes`, `max_artifacts`, `evict` and `tombstone_ttl` apply to whole namespaces,
    and can only be set for one whole namespace or for all of them. Needs a key of `*` for the namespace `*`.
    """
    scope, policy = scope_of(body, call.caller), policy_of(body.policy)
    version = await call.services.policies.set(call.caller, scope, policy)
    return ChangedPolicyView(scope=policy_scope_view(scope), version=version, policy=policy_body(policy))


@route("DELETE /v1/admin/policies", answers={200: "The policy was removed."}, problems=(Code.POLICY_NOT_FOUND,))
async def remove_policy(call: RouteCall, query: ScopeQuery) -> ChangedPolicyView:
    """Remove a policy.

    Its versions stay listed. Like a new policy, the removal takes up to five seconds to reach other replicas.
    """
    scope = scope_of(query, call.caller)
    version = await call.services.policies.remove(call.caller, scope)
    return ChangedPolicyView(scope=policy_scope_view(scope), version=version, policy=None)
