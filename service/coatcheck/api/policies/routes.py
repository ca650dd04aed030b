"""Policies, holds, usage and namespaces that go, for those who administer them."""

from datetime import timedelta
from typing import Any

from litestar import Request, Response, delete, get, post, put
from litestar.di import NamedDependency
from litestar.params import FromPath

from coatcheck.api.artifacts.wire import answer
from coatcheck.api.http.query import read_query
from coatcheck.api.http.request_parts import administered, caller
from coatcheck.api.http.small_body import small_body
from coatcheck.api.ingest.requests import duration, plain
from coatcheck.api.keys.wire import namespace_cursor, read_namespace_cursor
from coatcheck.api.parameters import EmptyQuery
from coatcheck.api.policies import docs
from coatcheck.api.policies import wire as fields
from coatcheck.api.services import RouteContext
from coatcheck.core import ids
from coatcheck.core.policy import PolicyScope
from coatcheck.core.quota import QuotaLimits
from coatcheck.usecases.holds import two_ends
from coatcheck.usecases.usage import NamespaceUsage


@get("/v1/admin/policies", opt={"doc": docs.LIST_POLICIES})
async def list_policies(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """All policies that concern a namespace, or all there are."""
    asked = read_query(request.scope, fields.PoliciesQuery)
    version, found = await desk.services.policies.current(caller(request.scope), asked.namespace)
    items = tuple(
        fields.PolicyView(scope=fields.scope_view(scope), policy=fields.policy_body(policy)) for scope, policy in found
    )
    return answer(fields.PoliciesView(version=version, items=items))


@get("/v1/admin/policies/history", opt={"doc": docs.SHOW_POLICY})
async def show_policy(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """The versions of one scope's policy."""
    scope = _scope(request, read_query(request.scope, fields.ScopeQuery))
    found = await desk.services.policies.show(caller(request.scope), scope)
    versions = tuple(map(fields.version_view, found))
    return answer(fields.PolicyHistoryView(scope=fields.scope_view(scope), versions=versions))


@get("/v1/admin/policies/effective", opt={"doc": docs.EXPLAIN_POLICY})
async def explain_policies(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """What holds for a payload, and which scope says so."""
    asked = read_query(request.scope, fields.ExplainQuery)
    explained = await desk.services.policies.explain(
        caller(request.scope),
        asked.namespace,
        session=asked.session,
        kind=asked.kind,
        tool_name=asked.tool_name,
        labels=asked.label,
    )
    return answer(fields.explained_view(explained))


@put("/v1/admin/policies", opt={"doc": docs.SET_POLICY})
async def set_policy(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """Set the policy of a scope."""
    asked = await small_body(request, desk, fields.SetPolicyAsk)
    scope, policy = _scope(request, asked), fields.policy_of(asked.policy)
    version = await desk.services.policies.set(caller(request.scope), scope, policy)
    return answer(
        fields.ChangedPolicyView(scope=fields.scope_view(scope), version=version, policy=fields.policy_body(policy))
    )


@delete("/v1/admin/policies", status_code=200, opt={"doc": docs.REMOVE_POLICY})
async def remove_policy(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """Remove the policy of a scope."""
    scope = _scope(request, read_query(request.scope, fields.ScopeQuery))
    version = await desk.services.policies.remove(caller(request.scope), scope)
    return answer(fields.ChangedPolicyView(scope=fields.scope_view(scope), version=version, policy=None))


@get("/v1/admin/holds", opt={"doc": docs.LIST_HOLDS})
async def list_holds(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """A page of holds."""
    asked = read_query(request.scope, fields.HoldsQuery)
    page = await desk.services.holds.list(caller(request.scope), asked.namespace, after=asked.cursor, limit=asked.limit)
    return answer(fields.HoldsView(tuple(map(fields.hold_view, page.items)), page.after))


@post("/v1/admin/holds", opt={"doc": docs.PLACE_HOLD})
async def place_hold(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """Place a hold."""
    asked = await small_body(request, desk, fields.NewHoldAsk)
    plain(asked.reason, "reason")
    if asked.ttl is not None and asked.until is not None:  # also where the life is for ever
        raise two_ends()
    life = None if asked.ttl is None else duration(asked.ttl, "ttl")
    hold = await desk.services.holds.place(
        caller(request.scope),
        asked.namespace,
        reason=asked.reason,
        number=None if asked.artifact is None else ids.parse(asked.artifact),
        session=plain(asked.session, "session"),
        until=asked.until,
        life=None if life is None else timedelta(seconds=life),
    )
    return answer(fields.hold_view(hold), status=201)


@delete("/v1/admin/holds/{hold_id:str}", status_code=200, opt={"doc": docs.RELEASE_HOLD})
async def release_hold(
    request: Request[Any, Any, Any], desk: NamedDependency[RouteContext], hold_id: FromPath[str]
) -> Response[bytes]:
    """Release a hold."""
    read_query(request.scope, EmptyQuery)
    return answer(fields.hold_view(await desk.services.holds.release(caller(request.scope), hold_id)))


@get("/v1/admin/usage", opt={"doc": docs.USAGE})
async def list_usage(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """What namespaces hold."""
    asked = read_query(request.scope, fields.UsageQuery)
    after = read_namespace_cursor(asked.cursor)
    page = await desk.services.usage(caller(request.scope), asked.namespace, after=after, limit=asked.limit)
    return answer(fields.UsagesView(tuple(map(fields.usage_view, page.items)), namespace_cursor(page.after)))


@delete("/v1/admin/namespaces/{namespace:str}", status_code=202, opt={"doc": docs.DELETE_NAMESPACE})
async def delete_namespace(
    request: Request[Any, Any, Any], desk: NamedDependency[RouteContext], namespace: FromPath[str]
) -> Response[bytes]:
    """Begin to delete everything in a namespace."""
    read_query(request.scope, EmptyQuery)
    usage = await desk.services.empty_namespace.begin(caller(request.scope), namespace)
    return answer(fields.usage_view(NamespaceUsage(usage, QuotaLimits(), "off")), status=202)


def _scope(request: Request[Any, Any, Any], asked: fields.ScopeQuery) -> PolicyScope:
    """The scope that a request names; without a namespace it is in the key's own."""
    own = asked.namespace or administered(request.scope, None)
    return fields.scope_of(asked, own)
