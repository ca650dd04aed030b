"""Routes of namespaces: create, disable and empty them, and list their usage. For administrators."""

import base64
from datetime import datetime
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta, Struct

from coatcheck.api.parameters import Cursor, Limit, Namespace, NamespaceName
from coatcheck.api.route import JSON_BODY, Reply, RouteCall, route
from coatcheck.api.views import copy_fields
from coatcheck.core.errors import Code
from coatcheck.core.keys import NAMESPACE, not_a_cursor
from coatcheck.core.policies.quota import QuotaLimits
from coatcheck.usecases.tenants.show_usage import NamespaceUsage


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


class NamespaceView(Struct, frozen=True):
    """A namespace and its state."""

    name: str
    created_at: datetime
    disabled_at: Annotated[datetime | None, Meta(description="When it was disabled. Null: it is enabled.")]


class NamespacesView(Struct, frozen=True):
    """A page of namespaces, by name."""

    items: tuple[NamespaceView, ...]
    next: str | None = None


class UsageQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/admin/usage`."""

    namespace: Namespace | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class UsageView(Struct, frozen=True, kw_only=True):
    """What a namespace holds, and its limits."""

    namespace: str
    bytes: Annotated[
        int, Meta(description="Stored bytes: compressed, and counted once if several artifacts share them.")
    ]
    artifacts: Annotated[int, Meta(description="Includes artifacts that have expired and are not removed yet.")]
    reserved: Annotated[int, Meta(description="Bytes reserved by uploads in progress.")]
    max_bytes: Annotated[int | None, Meta(description="Null: no limit.")]
    max_artifacts: Annotated[int | None, Meta(description="Null: no limit.")]
    evict: Annotated[str, Meta(description="What happens when it is full.")]
    deleting_at: Annotated[datetime | None, Meta(description="When its deletion began. Null: it is not being deleted.")]


class UsagesView(Struct, frozen=True):
    """A page of namespaces, by name."""

    items: tuple[UsageView, ...]
    next: str | None = None


@route("GET /v1/admin/namespaces", answers={200: "A page."})
async def list_namespaces(call: RouteCall, query: NamespacesQuery) -> NamespacesView:
    """List namespaces.

    Lists namespaces that were created or received a key. A key of a single namespace sees only its own.
    """
    after = read_namespace_cursor(query.cursor)
    page = await call.services.namespaces.list(call.caller, after=after, limit=query.limit)
    return NamespacesView(tuple(copy_fields(NamespaceView, each) for each in page.items), namespace_cursor(page.after))


@route("POST /v1/admin/namespaces", answers={201: "Created.", 200: "It existed already."}, problems=JSON_BODY)
async def create_namespace(call: RouteCall, body: NewNamespaceRequest) -> Reply[NamespaceView]:
    """Create a namespace.

    Creating the first key of a namespace also creates the namespace. Needs a key of the namespace `*`.
    """
    info, new = await call.services.namespaces.create(call.caller, body.name)
    return Reply(copy_fields(NamespaceView, info), 201 if new else 200)


@route(
    "PATCH /v1/admin/namespaces/{namespace}",
    answers={200: "The namespace as it is now."},
    problems=(*JSON_BODY, Code.NAMESPACE_NOT_FOUND),
)
async def update_namespace(call: RouteCall, namespace: str, body: NamespacePatchRequest) -> NamespaceView:
    """Disable or enable a namespace.

    While a namespace is disabled, every replica refuses all of its keys, from the answer on; its artifacts stay, and
    expire as usual. Needs a key of the namespace `*`.
    """
    info = await call.services.namespaces.switch(call.caller, namespace, disabled=body.disabled)
    return copy_fields(NamespaceView, info)


@route(
    "DELETE /v1/admin/namespaces/{namespace}",
    answers={202: "Deletion has begun, now or earlier."},
    problems=(Code.HELD, Code.NAMESPACE_NOT_FOUND),
)
async def delete_namespace(call: RouteCall, namespace: str) -> UsageView:
    """Delete everything in a namespace.

    From the answer on, nothing can be stored in it; its contents are deleted in batches. listUsage shows the
    progress. Held artifacts stay until their holds are released. Once it is empty, the namespace can be used again.
    Needs a key of `*`.
    """
    usage = await call.services.empty_namespace.begin(call.caller, namespace)
    return usage_view(NamespaceUsage(usage, QuotaLimits(), "off"))


@route("GET /v1/admin/usage", answers={200: "A page."})
async def list_usage(call: RouteCall, query: UsageQuery) -> UsagesView:
    """List what namespaces use.

    Returns exact numbers of artifacts and stored bytes, with the limits that policies set. If an administrator
    of all namespaces names none, the answer has all of them.
    """
    after = read_namespace_cursor(query.cursor)
    page = await call.services.usage(call.caller, query.namespace, after=after, limit=query.limit)
    return UsagesView(tuple(map(usage_view, page.items)), namespace_cursor(page.after))


def namespace_cursor(name: str | None) -> str | None:
    """Returns the cursor of a list that continues after a namespace; it encodes the name, which could be any word."""
    if name is None:
        return None
    return base64.urlsafe_b64encode(msgspec.json.encode([name])).decode().rstrip("=")


def read_namespace_cursor(text: str | None) -> str | None:
    """Returns the name of the namespace after which a list continues.

    Raises:
        CoatcheckError: `invalid_cursor`.
    """
    if text is None:
        return None
    try:
        (name,) = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=tuple[str])
    except (ValueError, msgspec.MsgspecError) as error:
        raise not_a_cursor() from error
    if not NAMESPACE.fullmatch(name) or namespace_cursor(name) != text:  # each name has exactly one cursor
        raise not_a_cursor()
    return name


def usage_view(line: NamespaceUsage) -> UsageView:
    """Returns a namespace's usage as callers see it."""
    return copy_fields(UsageView, line.usage, line.room, line)
