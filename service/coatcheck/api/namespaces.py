"""Routes with which administrators list, create, disable and empty namespaces, and list their usage."""

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from coatcheck.api.parameters import Cursor, Limit, Namespace, NamespaceName
from coatcheck.api.route import JSON_BODY, Reply, RouteCall, route
from coatcheck.core.errors import Code
from coatcheck.core.keys import NamespaceInfo
from coatcheck.core.policies.quota import QuotaLimits
from coatcheck.usecases.tenants.administer_keys import NamespacesPage
from coatcheck.usecases.tenants.show_usage import NamespaceUsage, UsagePage


class NamespacesQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/admin/namespaces`."""

    limit: Limit = 50
    cursor: Cursor | None = None


class NewNamespaceRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that creates a namespace."""

    name: NamespaceName


class NamespacePatchRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that changes a namespace."""

    EXAMPLES: ClassVar = [{"disabled": True}]

    disabled: Annotated[bool, Meta(description="Whether to refuse its keys. Its artifacts stay.")]


class UsageQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/admin/usage`."""

    namespace: Namespace | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


@route("GET /v1/admin/namespaces", answers={200: "A page."})
async def list_namespaces(call: RouteCall, query: NamespacesQuery) -> NamespacesPage:
    """List namespaces.

    Lists namespaces that were created or received a key. A key of a single namespace sees only its own.
    """
    return await call.services.namespaces.list(call.caller, cursor=query.cursor, limit=query.limit)


@route("POST /v1/admin/namespaces", answers={201: "Created.", 200: "It existed already."}, problems=JSON_BODY)
async def create_namespace(call: RouteCall, body: NewNamespaceRequest) -> Reply[NamespaceInfo]:
    """Create a namespace.

    Creating the first key of a namespace also creates the namespace. Needs a key of the namespace `*`.
    """
    info, new = await call.services.namespaces.create(call.caller, body.name)
    return Reply(info, 201 if new else 200)


@route(
    "PATCH /v1/admin/namespaces/{namespace}",
    answers={200: "The namespace as it is now."},
    problems=(*JSON_BODY, Code.NAMESPACE_NOT_FOUND),
)
async def update_namespace(call: RouteCall, namespace: str, body: NamespacePatchRequest) -> NamespaceInfo:
    """Disable or enable a namespace.

    While a namespace is disabled, every replica refuses all of its keys, from the answer on; its artifacts stay, and
    expire as usual. Needs a key of the namespace `*`.
    """
    return await call.services.namespaces.switch(call.caller, namespace, disabled=body.disabled)


@route(
    "DELETE /v1/admin/namespaces/{namespace}",
    answers={202: "Deletion has begun, now or earlier."},
    problems=(Code.HELD, Code.NAMESPACE_NOT_FOUND),
)
async def delete_namespace(call: RouteCall, namespace: str) -> NamespaceUsage:
    """Delete everything in a namespace.

    From the answer on, nothing can be stored in it; its contents are deleted in batches. listUsage shows the
    progress. Held artifacts stay until their holds are released. Once it is empty, the namespace can be used again.
    Needs a key of `*`.
    """
    usage = await call.services.empty_namespace.begin(call.caller, namespace)
    return NamespaceUsage.of(usage, QuotaLimits(), "off")


@route("GET /v1/admin/usage", answers={200: "A page."})
async def list_usage(call: RouteCall, query: UsageQuery) -> UsagePage:
    """List what namespaces use.

    Returns exact numbers of artifacts and stored bytes, with the limits that policies set. If an administrator
    of all namespaces names none, the answer has all of them.
    """
    return await call.services.usage(call.caller, query.namespace, cursor=query.cursor, limit=query.limit)
