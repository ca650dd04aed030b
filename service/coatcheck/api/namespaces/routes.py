"""Namespaces: make, disable and empty them, and what they hold. For those who administer them."""

import base64
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from coatcheck.api.parameters import Cursor, Limit, Namespace, NamespaceName
from coatcheck.api.route import JSON_BODY, Call, Reply, route
from coatcheck.api.views import copy_fields
from coatcheck.core.errors import Code
from coatcheck.core.keys import NAMESPACE, not_a_cursor
from coatcheck.core.quota import QuotaLimits
from coatcheck.usecases.usage import NamespaceUsage


class NamespacesQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Query of a list of namespaces."""

    limit: Limit = 50
    cursor: Cursor | None = None


class NewNamespaceAsk(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that asks for a namespace."""

    name: NamespaceName


class NamespacePatchAsk(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that changes a namespace."""

    disabled: Annotated[bool, Meta(description="Whether its keys are refused. Its artifacts stay.")]


class NamespaceView(Struct, frozen=True):
    """A namespace."""

    name: str
    created_at: datetime
    disabled_at: Annotated[datetime | None, Meta(description="Since when its keys are refused. Null: they are not.")]


class NamespacesView(Struct, frozen=True):
    """A page of namespaces, by name."""

    items: tuple[NamespaceView, ...]
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


@route("GET /v1/admin/namespaces", answers={200: "A page."})
async def list_namespaces(call: Call, query: NamespacesQuery) -> NamespacesView:
    """List namespaces.

    Those that were made, or got a key; who administers one sees that one.
    """
    after = read_namespace_cursor(query.cursor)
    page = await call.services.namespaces.list(call.caller, after=after, limit=query.limit)
    return NamespacesView(tuple(copy_fields(NamespaceView, each) for each in page.items), namespace_cursor(page.after))


@route("POST /v1/admin/namespaces", answers={201: "Made.", 200: "It was there already."}, problems=JSON_BODY)
async def create_namespace(call: Call, body: NewNamespaceAsk) -> Reply[NamespaceView]:
    """Make a namespace.

    A namespace's first key makes it, too. Needs a key of the namespace `*`.
    """
    info, new = await call.services.namespaces.create(call.caller, body.name)
    return Reply(copy_fields(NamespaceView, info), 201 if new else 200)


@route(
    "PATCH /v1/admin/namespaces/{namespace}",
    answers={200: "As it is now."},
    problems=(*JSON_BODY, Code.NAMESPACE_NOT_FOUND),
)
async def update_namespace(call: Call, namespace: str, body: NamespacePatchAsk) -> NamespaceView:
    """Disable or enable a namespace.

    While it is disabled all of its keys are refused, by every replica and from the answer on; what it stores stays
    and expires as it would. Needs a key of the namespace `*`.
    """
    info = await call.services.namespaces.switch(call.caller, namespace, disabled=body.disabled)
    return copy_fields(NamespaceView, info)


@route(
    "DELETE /v1/admin/namespaces/{namespace}",
    answers={202: "Begun, now or before."},
    problems=(Code.HELD, Code.NAMESPACE_NOT_FOUND),
)
async def delete_namespace(call: Call, namespace: str) -> UsageView:
    """Delete everything in a namespace.

    From the answer on nothing is stored in it; what is in it goes in batches, as listUsage shows. What is held stays
    until it is released. When nothing is left the namespace can be used again. Needs a key of `*`.
    """
    usage = await call.services.empty_namespace.begin(call.caller, namespace)
    return usage_view(NamespaceUsage(usage, QuotaLimits(), "off"))


@route("GET /v1/admin/usage", answers={200: "A page."})
async def list_usage(call: Call, query: UsageQuery) -> UsagesView:
    """What namespaces hold.

    Artifacts and stored bytes, exactly, with the limits of the policies. Who administers every namespace and names
    none gets all of them.
    """
    after = read_namespace_cursor(query.cursor)
    page = await call.services.usage(call.caller, query.namespace, after=after, limit=query.limit)
    return UsagesView(tuple(map(usage_view, page.items)), namespace_cursor(page.after))


def namespace_cursor(name: str | None) -> str | None:
    """Where a list by the names of namespaces goes on: behind this one. Not the name itself, which any word can be."""
    if name is None:
        return None
    return base64.urlsafe_b64encode(msgspec.json.encode([name])).decode().rstrip("=")


def read_namespace_cursor(text: str | None) -> str | None:
    """The namespace behind which a list goes on.

    Raises:
        CoatcheckError: `invalid_cursor`.
    """
    if text is None:
        return None
    try:
        (name,) = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=tuple[str])
    except (ValueError, msgspec.MsgspecError) as error:
        raise not_a_cursor() from error
    if not NAMESPACE.fullmatch(name) or namespace_cursor(name) != text:  # one spelling only
        raise not_a_cursor()
    return name


def usage_view(line: NamespaceUsage) -> UsageView:
    """What a namespace holds, as callers see it."""
    return copy_fields(UsageView, line.usage, line.room, line)
