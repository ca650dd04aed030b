"""Policies. For administrators."""

from coatcheck.api.policies.wire import (
    ChangedPolicyView,
    ExplainedView,
    ExplainQuery,
    PoliciesQuery,
    PoliciesView,
    PolicyHistoryView,
    PolicyView,
    ScopeQuery,
    SetPolicyRequest,
    explanation_view,
    policy_body,
    policy_of,
    policy_scope_view,
    scope_of,
    version_view,
)
from coatcheck.api.route import JSON_BODY, RouteCall, route
from coatcheck.core.errors import Code
from coatcheck.core.keys import resolve_administered
from coatcheck.core.policies.policy import PolicyScope


@route("GET /v1/admin/policies", answers={200: "All policies that concern the namespace."})
async def list_policies(call: RouteCall, query: PoliciesQuery) -> PoliciesView:
    """List policies.

    Returns the policies of the namespace and those of all namespaces, as they are stored.
    """
    version, policies = await call.services.policies.current(call.caller, query.namespace)
    items = tuple(PolicyView(scope=policy_scope_view(scope), policy=policy_body(policy)) for scope, policy in policies)
    return PoliciesView(version=version, items=items)


@route("GET /v1/admin/policies/history", answers={200: "The versions."}, problems=(Code.POLICY_NOT_FOUND,))
async def get_policy_history(call: RouteCall, query: ScopeQuery) -> PolicyHistoryView:
    """Get the versions of a scope's policy.

    Newest first, at most 100. The newest is in force; null means that the policy was removed.
    """
    scope = _scope(call, query)
    history = await call.services.policies.show(call.caller, scope)
    versions = tuple(map(version_view, history))
    return PolicyHistoryView(scope=policy_scope_view(scope), versions=versions)


@route("GET /v1/admin/policies/effective", answers={200: "The policy in force, and where each field comes from."})
async def explain_policies(call: RouteCall, query: ExplainQuery) -> ExplainedView:
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

    Replaces the scope's policy: fields that are left out are unset. The policy applies to everything stored
    or changed from then on: at once on the replica that answers, within five seconds on every other one. What a receipt
    has promised stays. `max_bytes`, `max_artifacts`, `evict` and `tombstone_ttl` apply to whole namespaces, and can
    only be set for one whole namespace or for all of them. Needs a key of `*` for the namespace `*`.
    """
    scope, policy = _scope(call, body), policy_of(body.policy)
    version = await call.services.policies.set(call.caller, scope, policy)
    return ChangedPolicyView(scope=policy_scope_view(scope), version=version, policy=policy_body(policy))


@route("DELETE /v1/admin/policies", answers={200: "The policy was removed."}, problems=(Code.POLICY_NOT_FOUND,))
async def remove_policy(call: RouteCall, query: ScopeQuery) -> ChangedPolicyView:
    """Remove a policy.

    Its versions stay listed. Like a new policy, the removal takes up to five seconds to reach other replicas.
    """
    scope = _scope(call, query)
    version = await call.services.policies.remove(call.caller, scope)
    return ChangedPolicyView(scope=policy_scope_view(scope), version=version, policy=None)


def _scope(call: RouteCall, query: ScopeQuery) -> PolicyScope:
    """Returns the scope that a request names; its namespace defaults to the key's own."""
    return scope_of(query, query.namespace or resolve_administered(call.caller, None))
