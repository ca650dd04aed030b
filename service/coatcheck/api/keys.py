"""API keys. For administrators.

Wire types of keys: fields of requests and answers, with their bounds.

A key's text is only in the answer that creates it, and is hidden from that value's `repr`.
"""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct
from typing_extensions import override

from coatcheck.api.parameters import DURATION, AnyNamespace, Cursor, Limit, life
from coatcheck.api.route import JSON_BODY, Reply, RouteCall, route
from coatcheck.api.views import copy_fields
from coatcheck.core.errors import Code
from coatcheck.core.keys import NAME_LENGTH, SESSION_LENGTH
from coatcheck.core.rates import MOST, Rates

Scope = Literal["admin", "delete", "ingest", "read"]


class KeysQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/admin/keys`."""

    namespace: (
        Annotated[
            AnyNamespace,
            Meta(description="Only keys of this namespace. Administrators of all namespaces may leave it out."),
        ]
        | None
    ) = None
    limit: Limit = 50
    cursor: Cursor | None = None


class NewKeyRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that creates a key."""

    name: Annotated[
        str, Meta(min_length=1, max_length=NAME_LENGTH, description="The key's name, for people.", examples=["ci"])
    ]
    scopes: Annotated[
        tuple[Scope, ...],
        Meta(
            min_length=1,
            description="What the key allows: `ingest` to store, `read` to look up and read, `delete` to delete "
            "and to change how long artifacts are kept, `admin` to administer its namespace.",
            examples=[["ingest", "read"]],
        ),
    ]
    namespace: (
        Annotated[
            AnyNamespace,
            Meta(
                description="The namespace of the new key; it is created if it does not exist. Default: the namespace "
                "of the key that makes the request. `*`: a key of no namespace, which administers all of "
                "them and can do nothing else."
            ),
        ]
        | None
    ) = None
    session_prefix: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=SESSION_LENGTH,
                description="The key sees only sessions whose names begin with this.",
                examples=["user-42/"],
            ),
        ]
        | None
    ) = None
    ttl: Annotated[int | str, Meta(description=f"How long the key is valid. {DURATION}. Absent: forever.")] | None = (
        None
    )
    requests_per_minute: (
        Annotated[int, Meta(ge=0, le=MOST, description="Requests per minute; 0: no limit. Default: as configured.")]
        | None
    ) = None
    bytes_per_minute: (
        Annotated[int, Meta(ge=0, le=MOST, description="Bytes sent per minute; 0: no limit. Default: as configured.")]
        | None
    ) = None


class KeyView(Struct, frozen=True, kw_only=True):
    """A key, without its secret."""

    id: Annotated[str, Meta(pattern="^[0-9A-Za-z]{11}$", description="The public part of the key.")]
    namespace: Annotated[str, Meta(description="`*`: the key belongs to no namespace.")]
    name: str
    scopes: tuple[str, ...]
    session_prefix: str | None
    created_at: datetime
    expires_at: Annotated[datetime | None, Meta(description="When it expires. Null: never.")]
    revoked_at: Annotated[datetime | None, Meta(description="When it was revoked. Null: it is not revoked.")]
    requests_per_minute: Annotated[int | None, Meta(description="Requests per minute. Null: as configured.")]
    bytes_per_minute: Annotated[int | None, Meta(description="Bytes sent per minute. Null: as configured.")]


class NewKeyView(KeyView, frozen=True, kw_only=True):
    """A new key, with its secret: the only answer that contains it."""

    key: Annotated[
        str,
        Meta(
            pattern="^ck_live_[0-9A-Za-z]{11}_[0-9A-Za-z]{49}$",
            description="The key itself. It is not stored anywhere and is shown only this once.",
        ),
    ]

    @override
    def __repr__(self) -> str:
        return f"NewKeyView({self.id})"


class KeysView(Struct, frozen=True):
    """A page of keys, newest first."""

    items: tuple[KeyView, ...]
    next: str | None = None


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
