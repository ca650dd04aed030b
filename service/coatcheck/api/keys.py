"""Routes with which administrators list, create and revoke API keys.

Only the answer to the creation of a key contains the key itself. The `repr` of that answer leaves the key out.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, structs
from typing_extensions import override

from coatcheck.api.parameters import DURATION, AnyNamespace, Cursor, Limit, life
from coatcheck.api.route import JSON_BODY, Reply, RouteCall, route
from coatcheck.core.artifact import Caller
from coatcheck.core.errors import Code
from coatcheck.core.keys import NAME_LENGTH, SESSION_LENGTH, KeyInfo, KeySecret
from coatcheck.core.rates import MAX_LIMIT, Rates
from coatcheck.usecases.tenants.administer_keys import AdministerKeys, KeysPage

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
        Annotated[
            int, Meta(ge=0, le=MAX_LIMIT, description="Requests per minute; 0: no limit. Default: as configured.")
        ]
        | None
    ) = None
    bytes_per_minute: (
        Annotated[
            int, Meta(ge=0, le=MAX_LIMIT, description="Bytes sent per minute; 0: no limit. Default: as configured.")
        ]
        | None
    ) = None

    async def create(self, keys: AdministerKeys, caller: Caller) -> tuple[KeyInfo, KeySecret]:
        """Creates the key and returns its description and its secret.

        Raises:
            CoatcheckError: `invalid_request`; `forbidden` if the caller may not create such a key.
        """
        return await keys.create(
            caller,
            namespace=self.namespace,
            name=self.name,
            scopes=self.scopes,
            session_prefix=self.session_prefix,
            life=life(self.ttl, "ttl"),
            rates=Rates(requests=self.requests_per_minute, bytes=self.bytes_per_minute),
        )


class NewKey(KeyInfo, frozen=True, kw_only=True):
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
        # The inherited method would return the key, which could get into a log or a traceback.
        return f"NewKey({self.id})"


@route("GET /v1/admin/keys", answers={200: "A page."}, problems=(Code.INVALID_CURSOR,))
async def list_keys(call: RouteCall, query: KeysQuery) -> KeysPage:
    """List keys.

    Newest first, including revoked and expired keys. Secrets are not stored anywhere.
    """
    return await call.services.keys.list(call.caller, namespace=query.namespace, before=query.cursor, limit=query.limit)


@route("POST /v1/admin/keys", answers={201: "Created."}, problems=JSON_BODY)
async def create_key(call: RouteCall, body: NewKeyRequest) -> Reply[NewKey]:
    """Create a key.

    Returns the key itself, once. A key administers only its own namespace; a key of the namespace `*` administers all
    namespaces, and each request names the one that it means. Once the first key exists, every caller needs one.
    """
    info, secret = await body.create(call.services.keys, call.caller)
    new_key = NewKey(**structs.asdict(info), key=secret.reveal())
    return Reply(new_key, 201, {"cache-control": "no-store"})


@route("DELETE /v1/admin/keys/{key_id}", answers={200: "Revoked, now or earlier."}, problems=(Code.KEY_NOT_FOUND,))
async def revoke_key(call: RouteCall, key_id: str) -> KeyInfo:
    """Revoke a key.

    Once this request is answered, every replica refuses all further requests with the key. The key stays listed.
    """
    return await call.services.keys.revoke(call.caller, key_id)
