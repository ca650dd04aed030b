"""API keys. For administrators."""

from coatcheck.api.durations import life
from coatcheck.api.keys.wire import KeysQuery, KeysView, KeyView, NewKeyRequest, NewKeyView
from coatcheck.api.route import JSON_BODY, Reply, RouteCall, route
from coatcheck.api.views import copy_fields
from coatcheck.core.errors import Code
from coatcheck.core.rates import Rates


@route("GET /v1/admin/keys", answers={200: "A page."}, problems=(Code.INVALID_CURSOR,))
async def list_keys(call: RouteCall, query: KeysQuery) -> KeysView:
    """List keys.

    Newest first, including revoked and expired keys. Secrets are not stored anywhere.
    """
    page = await call.services.keys.list(call.caller, namespace=query.namespace, before=query.cursor, limit=query.limit)
    return KeysView(tuple(copy_fields(KeyView, each) for each in page.items), page.before)


@route("POST /v1/admin/keys", answers={201: "Created."}, problems=JSON_BODY)
async def create_key(call: RouteCall, body: NewKeyRequest) -> Reply[NewKeyView]:
    """Create a key.

    Returns the key itself, once. A key administers only its own namespace; a key of the namespace `*` administers all
    namespaces, and each request names the one that it means. Once the first key exists, every caller needs one.
    """
    info, secret = await call.services.keys.create(
        call.caller,
        namespace=body.namespace,
        name=body.name,
        scopes=body.scopes,
        session_prefix=body.session_prefix,
        life=life(body.ttl, "ttl"),
        rates=Rates(requests=body.requests_per_minute, bytes=body.bytes_per_minute),
    )
    return Reply(copy_fields(NewKeyView, info, key=secret.reveal()), 201, {"cache-control": "no-store"})


@route("DELETE /v1/admin/keys/{key_id}", answers={200: "Revoked, now or earlier."}, problems=(Code.KEY_NOT_FOUND,))
async def revoke_key(call: RouteCall, key_id: str) -> KeyView:
    """Revoke a key.

    Every replica refuses all requests that arrive after the answer. The key stays listed.
    """
    return copy_fields(KeyView, await call.services.keys.revoke(call.caller, key_id))
