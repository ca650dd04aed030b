"""Policies, for those who administer them."""

from coatcheck.api.http.request_parts import administered
from coatcheck.api.policies.wire import (
    ChangedPolicyView,
    ExplainedView,
    ExplainQuery,
    PoliciesQuery,
    PoliciesView,
    PolicyHistoryView,
    PolicyView,
    ScopeQuery,
    SetPolicyAsk,
    explained_view,
    policy_body,
    policy_of,
    policy_scope_view,
    scope_of,
    version_view,
)
from coatcheck.api.route import JSON_BODY, Call, route
from coatcheck.core.errors import Code
from coatcheck.core.policy import PolicyScope


@route("GET /v1/admin/policies", answers={200: "All of them."})
async def list_policies(call: Call, query: PoliciesQuery) -> PoliciesView:
    """List policies.

    Those of the namespace and those of all namespaces, as they are kept.
    """
    version, found = await call.services.policies.current(call.caller, query.namespace)
    items = tuple(PolicyView(scope=policy_scope_view(scope), policy=policy_body(policy)) for scope, policy in found)
    return PoliciesView(version=version, items=items)


@route("GET /v1/admin/policies/history", answers={200: "The versions."}, problems=(Code.POLICY_NOT_FOUND,))
async def get_policy_history(call: Call, query: ScopeQuery) -> PolicyHistoryView:
    """A scope's policy and its versions.

    Newest first, at most 100. The newest is the one that holds; null where it was removed.
    """
    scope = _scope(call, query)
    found = await call.services.policies.show(call.caller, scope)
    versions = tuple(map(version_view, found))
    return PolicyHistoryView(scope=policy_scope_view(scope), versions=versions)


@route("GET /v1/admin/policies/effective", answers={200: "What holds."})
async def explain_policies(call: Call, query: ExplainQuery) -> ExplainedView:
    """What holds for a payload, and why.

    For each field the most specific scope that says it decides: all namespaces, the namespace, then the session, the
    kind, the tool, a label; of several labels the first in the order of characters. What no policy says is left to
    the settings.
    """
    explained = await call.services.policies.explain(
        call.caller,
        query.namespace,
        session=query.session,
        kind=query.kind,
        tool_name=query.tool_name,
        labels=query.label,
    )
    return explained_view(explained)


@route("PUT /v1/admin/policies", answers={200: "Set."}, problems=JSON_BODY)
async def set_policy(call: Call, body: SetPolicyAsk) -> ChangedPolicyView:
    """Set a policy.

    Puts a policy in the place of the scope's own: what is left out is no longer decided. It holds for what is stored
    or changed from then on: on the replica that answers at once, on every other one within five seconds. What a
    receipt has promised stays. `max_bytes`, `max_artifacts`, `evict` and `tombstone_ttl` are kept by the namespace,
    and can be said only of a whole one or of all. Needs a key of `*` for the namespace `*`.
    """
    scope, policy = _scope(call, body), policy_of(body.policy)
    version = await call.services.policies.set(call.caller, scope, policy)
    return ChangedPolicyView(scope=policy_scope_view(scope), version=version, policy=policy_body(policy))


@route("DELETE /v1/admin/policies", answers={200: "Removed."}, problems=(Code.POLICY_NOT_FOUND,))
async def remove_policy(call: Call, query: ScopeQuery) -> ChangedPolicyView:
    """Remove a policy.

    Its versions stay listed. As with a new one, it takes up to five seconds on other replicas.
    """
    scope = _scope(call, query)
    version = await call.services.policies.remove(call.caller, scope)
    return ChangedPolicyView(scope=policy_scope_view(scope), version=version, policy=None)


def _scope(call: Call, named: ScopeQuery) -> PolicyScope:
    """The scope that a request names; without a namespace it is in the key's own."""
    return scope_of(named, named.namespace or administered(call.scope, None))
