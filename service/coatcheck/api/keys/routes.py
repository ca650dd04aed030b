"""Keys and namespaces, for those who administer them."""

from datetime import timedelta
from typing import Any, Final

from litestar import Request, Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from coatcheck.api.artifacts.wire import answer
from coatcheck.api.http.query import read_query
from coatcheck.api.http.request_parts import caller
from coatcheck.api.http.small_body import small_body
from coatcheck.api.ingest.requests import duration
from coatcheck.api.keys import docs
from coatcheck.api.keys.wire import (
    KeysQuery,
    KeysView,
    NamespacePatchAsk,
    NamespacesQuery,
    NamespacesView,
    NewKeyAsk,
    NewNamespaceAsk,
    key_view,
    namespace_cursor,
    namespace_view,
    new_key_view,
    read_namespace_cursor,
)
from coatcheck.api.parameters import EmptyQuery
from coatcheck.api.services import RouteContext
from coatcheck.core.rates import Rates

_SECRET: Final = {"cache-control": "no-store"}


@get("/v1/admin/keys", opt={"doc": docs.LIST_KEYS})
async def list_keys(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """A page of keys, newest first."""
    asked = read_query(request.scope, KeysQuery)
    page = await desk.services.keys.list(
        caller(request.scope), namespace=asked.namespace, before=asked.cursor, limit=asked.limit
    )
    return answer(KeysView(tuple(map(key_view, page.items)), page.before))


@post("/v1/admin/keys", opt={"doc": docs.CREATE_KEY})
async def create_key(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """Make a key and show it, once."""
    asked = await small_body(request, desk, NewKeyAsk)
    life = None if asked.ttl is None else duration(asked.ttl, "ttl")
    info, secret = await desk.services.keys.create(
        caller(request.scope),
        namespace=asked.namespace,
        name=asked.name,
        scopes=asked.scopes,
        session_prefix=asked.session_prefix,
        life=None if life is None else timedelta(seconds=life),
        rates=Rates(requests=asked.requests_per_minute, bytes=asked.bytes_per_minute),
    )
    return answer(new_key_view(info, secret.reveal()), status=201, headers=_SECRET)


@delete("/v1/admin/keys/{key_id:str}", status_code=200, opt={"doc": docs.REVOKE_KEY})
async def revoke_key(
    request: Request[Any, Any, Any], desk: NamedDependency[RouteContext], key_id: FromPath[str]
) -> Response[bytes]:
    """Refuse a key from now on."""
    read_query(request.scope, EmptyQuery)
    return answer(key_view(await desk.services.keys.revoke(caller(request.scope), key_id)))


@get("/v1/admin/namespaces", opt={"doc": docs.LIST_NAMESPACES})
async def list_namespaces(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """A page of namespaces, by name."""
    asked = read_query(request.scope, NamespacesQuery)
    after = read_namespace_cursor(asked.cursor)
    page = await desk.services.namespaces.list(caller(request.scope), after=after, limit=asked.limit)
    return answer(NamespacesView(tuple(map(namespace_view, page.items)), namespace_cursor(page.after)))


@post("/v1/admin/namespaces", opt={"doc": docs.CREATE_NAMESPACE})
async def create_namespace(request: Request[Any, Any, Any], desk: NamedDependency[RouteContext]) -> Response[bytes]:
    """Have a namespace."""
    asked = await small_body(request, desk, NewNamespaceAsk)
    info, new = await desk.services.namespaces.create(caller(request.scope), asked.name)
    return answer(namespace_view(info), status=201 if new else 200)


@patch("/v1/admin/namespaces/{namespace:str}", opt={"doc": docs.SWITCH_NAMESPACE})
async def update_namespace(
    request: Request[Any, Any, Any], desk: NamedDependency[RouteContext], namespace: FromPath[str]
) -> Response[bytes]:
    """Refuse a namespace's keys, or take them again."""
    asked = await small_body(request, desk, NamespacePatchAsk)
    info = await desk.services.namespaces.switch(caller(request.scope), namespace, disabled=asked.disabled)
    return answer(namespace_view(info))
