"""What requests and answers about keys and namespaces say: their fields, with their bounds.

A key's text is in one answer only, the one that makes it, and that value does not show it by its `repr`.
"""

import base64
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from typing_extensions import override

from coatcheck.api.parameters import DURATION
from coatcheck.core.keys import NAME_LENGTH, NAMESPACE, SESSION_LENGTH, KeyInfo, NamespaceInfo, not_a_cursor
from coatcheck.core.rates import MOST
from coatcheck.usecases.keys import MAX_PAGE

Scope = Literal["admin", "delete", "ingest", "read"]
NamespaceName = Annotated[
    str,
    Meta(
        pattern="^[a-z0-9][a-z0-9_-]{0,62}$",
        description="A namespace's name: 1 to 63 lower-case letters, digits, `-` and `_`.",
        examples=["team-a"],
    ),
]
KeysNamespace = Annotated[
    str,
    Meta(
        pattern="^([a-z0-9][a-z0-9_-]{0,62}|\\*)$",
        description="The namespace that it is about; absent: the presented key's own.",
        examples=["team-a"],
    ),
]
Limit = Annotated[int, Meta(ge=1, le=MAX_PAGE, description="Items of a page.")]
Cursor = Annotated[str, Meta(description="`next` of the page before.")]


class KeysQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Query of a list of keys."""

    namespace: (
        Annotated[KeysNamespace, Meta(description="Only keys of this one. An administrator of all may leave it out.")]
        | None
    ) = None
    limit: Limit = 50
    cursor: Cursor | None = None


class NamespacesQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Query of a list of namespaces."""

    limit: Limit = 50
    cursor: Cursor | None = None


class NewKeyAsk(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that asks for a key."""

    name: Annotated[
        str, Meta(min_length=1, max_length=NAME_LENGTH, description="What people call it.", examples=["ci"])
    ]
    scopes: Annotated[
        tuple[Scope, ...],
        Meta(
            min_length=1,
            description="What it allows: `ingest` to store, `read` to look up and read, `delete` to delete and to "
            "change how long artifacts are kept, `admin` to administer its namespace.",
            examples=[["ingest", "read"]],
        ),
    ]
    namespace: (
        Annotated[
            KeysNamespace,
            Meta(
                description="Whose key it is; absent: the presented key's own namespace. It is made where there is "
                "none of that name. `*`: a key of no namespace, which administers all and does nothing else."
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
                description="Only sessions whose names begin with this exist for the key.",
                examples=["user-42/"],
            ),
        ]
        | None
    ) = None
    ttl: Annotated[int | str, Meta(description=f"How long it is good. {DURATION}. Absent: for ever.")] | None = None
    requests_per_minute: (
        Annotated[int, Meta(ge=0, le=MOST, description="Requests in a minute; 0: no limit. Absent: as configured.")]
        | None
    ) = None
    bytes_per_minute: (
        Annotated[int, Meta(ge=0, le=MOST, description="Bytes sent in a minute; 0: no limit. Absent: as configured.")]
        | None
    ) = None


class NewNamespaceAsk(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that asks for a namespace."""

    name: NamespaceName


class NamespacePatchAsk(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that changes a namespace."""

    disabled: Annotated[bool, Meta(description="Whether its keys are refused. Its artifacts stay.")]


class KeyView(Struct, frozen=True, kw_only=True):
    """A key, without its secret."""

    id: Annotated[str, Meta(pattern="^[0-9A-Za-z]{11}$", description="The public part of the key.")]
    namespace: Annotated[str, Meta(description="`*`: none of its own.")]
    name: str
    scopes: tuple[str, ...]
    session_prefix: str | None
    created_at: datetime
    expires_at: Annotated[datetime | None, Meta(description="The moment from which it is refused. Null: never.")]
    revoked_at: Annotated[datetime | None, Meta(description="Since when it is refused. Null: it is not revoked.")]
    requests_per_minute: Annotated[int | None, Meta(description="Requests in a minute. Null: as configured.")]
    bytes_per_minute: Annotated[int | None, Meta(description="Bytes sent in a minute. Null: as configured.")]


class NewKeyView(KeyView, frozen=True, kw_only=True):
    """A new key, with its secret: the only answer that ever has it."""

    key: Annotated[
        str,
        Meta(
            pattern="^ck_live_[0-9A-Za-z]{11}_[0-9A-Za-z]{49}$",
            description="The key itself. It is kept nowhere: this is the only time that it is shown.",
        ),
    ]

    @override
    def __repr__(self) -> str:
        return f"NewKeyView({self.id})"


class KeysView(Struct, frozen=True):
    """A page of keys, newest first."""

    items: tuple[KeyView, ...]
    next: str | None = None


class NamespaceView(Struct, frozen=True):
    """A namespace."""

    name: str
    created_at: datetime
    disabled_at: Annotated[datetime | None, Meta(description="Since when its keys are refused. Null: they are not.")]


class NamespacesView(Struct, frozen=True):
    """A page of namespaces, by name."""

    items: tuple[NamespaceView, ...]
    next: str | None = None


def key_view(info: KeyInfo) -> KeyView:
    """A key as administrators see it."""
    return KeyView(**{name: getattr(info, name) for name in KeyView.__struct_fields__})


def new_key_view(info: KeyInfo, text: str) -> NewKeyView:
    """The same with its text."""
    return NewKeyView(key=text, **{name: getattr(info, name) for name in KeyView.__struct_fields__})


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


def namespace_view(info: NamespaceInfo) -> NamespaceView:
    """A namespace as administrators see it."""
    return NamespaceView(info.name, info.created_at, info.disabled_at)
