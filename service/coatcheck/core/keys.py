"""API keys: how they are made and parsed, which caller they stand for, and how a browser keeps one.

`ck_live_<key id>_<secret><checksum>`: the ID is public and finds the row; the secret has 256 random bits, so that one
SHA-256 protects it as well as a slow hash would; the checksum distinguishes a mistyped or cut key from an unknown one
without a query. Only the SHA-256 of the whole text is stored. Randomness and time are arguments, and no value here
shows a secret by its `repr`.

A cookie holds the key sealed (`core/opaque.py`). Whoever has
the cookie can use the page for SESSION_SECONDS. The service's secret alone, or its database alone, is not enough to
make one, because the key inside is checked like any presented key; so a revoked key ends all of its sessions.
"""

import hashlib
import hmac
import re
import zlib
from datetime import datetime
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta, Struct

from coatcheck.core.artifact import EVERY_SCOPE, Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.opaque import decode_word, encode_word, seal, unseal
from coatcheck.core.rates import MAX_LIMIT, Rates

PREFIX: Final = "ck_live_"
ID_BYTES: Final = 8
"""Random bytes of a key's ID."""
SECRET_BYTES: Final = 32
"""Random bytes of a key's secret."""
ADMIN: Final = "admin"
EVERYWHERE: Final = "*"
"""A key's namespace if it has none of its own. Such a key administers, and names a namespace where one is needed."""
MAX_PAGE: Final = 200
"""Maximum items of one page of a list: chosen, not measured."""
NAME_LENGTH: Final = 200
"""Maximum characters of a key's name. Chosen, not measured."""
SESSION_LENGTH: Final = 256
"""Maximum characters of a session prefix, as of a session."""
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID: Final = 11
"""Digits of 64 bits in base 62."""
_SECRET: Final = 43
"""Digits of 256 bits."""
_CHECK: Final = 6
"""Digits of a CRC-32."""
_SHAPE: Final = re.compile(rf"{PREFIX}([0-9A-Za-z]{{{_ID}}})_([0-9A-Za-z]{{{_SECRET}}})([0-9A-Za-z]{{{_CHECK}}})")
_IN_TEXT: Final = re.compile(rf"{PREFIX}[0-9A-Za-z_]+")
"""Matches a key, or a part of one; not the prefix alone, which our own sentences contain."""
KEY_ID: Final = re.compile(rf"[0-9A-Za-z]{{{_ID}}}")
NAMESPACE: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
"""Matches a namespace's name. It is part of the names of S3 objects, so no other characters are allowed."""


class Key(Struct, frozen=True):
    """A presented key: the ID that it claims, and the digest that its row must have."""

    id: str
    digest: bytes
    """SHA-256 of its text."""


class KeySecret:
    """A new key's text. It is shown to whoever requested the key, once, and to nobody by accident."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Returns the secret text itself."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__


class KeyInfo(Struct, frozen=True, kw_only=True):
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

    @property
    def rates(self) -> Rates | None:
        """The key's own rate limits; None: it has none."""
        if self.requests_per_minute is None and self.bytes_per_minute is None:
            return None
        return Rates(requests=self.requests_per_minute, bytes=self.bytes_per_minute)


class KeyRow(Struct, frozen=True):
    """A key as it is stored."""

    info: KeyInfo
    digest: bytes
    disabled_at: datetime | None = None
    """When its namespace was disabled."""


class NamespaceInfo(Struct, frozen=True, kw_only=True):
    """A namespace and its state."""

    name: str
    created_at: datetime
    disabled_at: Annotated[datetime | None, Meta(description="When it was disabled. Null: it is enabled.")]


def make(key_id: bytes, secret: bytes) -> tuple[Key, KeySecret]:
    """Makes a key from random bytes: `ID_BYTES` and `SECRET_BYTES` of them."""
    if len(key_id) != ID_BYTES or len(secret) != SECRET_BYTES:
        raise ValueError("a key is made of 8 and 32 random bytes")
    name = _base62(int.from_bytes(key_id, "big"), _ID)
    body = f"{PREFIX}{name}_{_base62(int.from_bytes(secret, 'big'), _SECRET)}"
    text = body + _checksum(body)
    return Key(name, _digest(text)), KeySecret(text)


def parse(text: str) -> Key:
    """Parses a presented key.

    Raises:
        CoatcheckError: `unauthenticated`, without repeating a character of it, for an invalid or mistyped key.
    """
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise refusal_of_caller(
            f"The presented key is not one of this service's. A key begins with {PREFIX}; send it exactly as issued."
        )
    if not hmac.compare_digest(_checksum(text[:-_CHECK]), match[3]):
        raise refusal_of_caller(
            "The key is mistyped or incomplete: its checksum does not match. Copy it again in full."
        )
    return Key(match[1], _digest(text))


def caller_of(key: Key, row: KeyRow | None, now: datetime) -> Caller:
    """Returns who presents a key at this moment, by the row that its ID found.

    Only the holder of the secret learns why the key is no longer accepted.

    Raises:
        CoatcheckError: `unauthenticated`; `forbidden` while the namespace is disabled.
    """
    # Always compared, and in constant time.
    same = hmac.compare_digest(bytes(32) if row is None else row.digest, key.digest)
    if row is None or not same:
        raise refusal_of_caller("This key does not exist. Ask the administrator for one.")
    info = row.info
    if info.revoked_at is not None:
        raise refusal_of_caller("The key was revoked. Ask the administrator for a new one.")
    if info.expires_at is not None and info.expires_at <= now:
        raise refusal_of_caller("The key has expired. Ask the administrator for a new one.")
    if row.disabled_at is not None:
        raise _forbidden("The key's namespace is disabled. Only the administrator of the service can enable it.")
    return Caller(
        namespace=info.namespace,
        name=info.name,
        scopes=frozenset(info.scopes),
        session_prefix=info.session_prefix,
        key_id=info.id,
        rates=info.rates,
    )


def allow(caller: Caller, scope: str) -> None:
    """Lets a caller do what needs a scope.

    Raises:
        CoatcheckError: `forbidden`, naming the scope.
    """
    if scope not in caller.scopes:
        space = "NAMESPACE" if caller.namespace == EVERYWHERE else caller.namespace
        raise _forbidden(
            f"This operation needs the scope '{scope}', which the key does not have. Use a key that has it; an "
            f"administrator makes one: coatcheck key create NAME --namespace {space} --scope {scope}",
            scope=scope,
        )


def is_everywhere(caller: Caller) -> bool:
    """Returns whether an administrator administers all namespaces: with a key of `*`, or if no key is needed."""
    return caller.namespace == EVERYWHERE or caller.key_id is None


def require_everywhere(caller: Caller) -> None:
    """Refuses callers who do not administer all namespaces.

    Raises:
        CoatcheckError: `forbidden`.
    """
    if not is_everywhere(caller):
        raise _forbidden(
            "This operation concerns the whole service: it needs a key of the namespace '*'. Whoever may open the "
            "database makes one: coatcheck key create NAME --namespace '*'"
        )


def resolve_administered(caller: Caller, namespace: str | None) -> str:
    """Returns the namespace that an administrator's request is about, which it may name.

    A key administers its own namespace, and need not name it. A key of `*` must name one. Without a key, any may be
    named, and the default is `default`.

    Raises:
        CoatcheckError: `forbidden` for a namespace other than the key's; `invalid_request` if one must be named.
    """
    if namespace is None:
        if caller.namespace == EVERYWHERE:
            raise _invalid("With a key of the namespace '*', name the namespace to administer.", "namespace")
        return caller.namespace
    if namespace != caller.namespace and not is_everywhere(caller):
        raise _forbidden("The key can administer only its own namespace. Leave `namespace` out, or use a key of '*'.")
    return namespace


def resolve_listed(caller: Caller, namespace: str | None) -> str | None:
    """Returns the namespace that an administrator lists; None: all of them, as they administer all and name none.

    Raises:
        CoatcheckError: see `resolve_administered`.
    """
    return None if namespace is None and is_everywhere(caller) else resolve_administered(caller, namespace)


def require_session(caller: Caller, session: str | None) -> None:
    """Refuses a write into a session that does not exist for the caller.

    Raises:
        CoatcheckError: `forbidden`.
    """
    if not caller.sees(session):
        raise _forbidden(
            f"The key is bound to sessions whose names begin with {caller.session_prefix!r}: name one of these.",
            field="session",
        )


def own_key(caller: Caller, key: str) -> str:
    """Returns an idempotency key as it is stored: separate for callers bound to sessions, who must not find others'.

    An idempotency key is printable, so that two callers' keys never have the same spelling.
    """
    return key if caller.session_prefix is None else f"{caller.session_prefix}\x1f{key}"


def hide(text: str) -> str:
    """Returns a text that repeats what somebody sent, without the secret of a key sent in the wrong place."""
    return _IN_TEXT.sub(f"{PREFIX}***", text) if PREFIX in text else text


def refusal_of_caller(detail: str) -> CoatcheckError:
    """Returns the error for an unknown caller."""
    return CoatcheckError(Code.UNAUTHENTICATED, detail)


def check_rates(requests: int | None, size: int | None) -> None:
    """Raises CoatcheckError `invalid_request` for impossible limits."""
    for value, field in ((requests, "requests_per_minute"), (size, "bytes_per_minute")):
        if value is not None and not 0 <= value <= MAX_LIMIT:
            raise _invalid(f"A limit must be a whole number from 0, which means none, to {MAX_LIMIT}.", field)


def check_terms(*, namespace: str, name: str, scopes: tuple[str, ...], session_prefix: str | None) -> None:
    """Raises CoatcheckError `invalid_request` for what no key can contain."""
    if not 1 <= len(name) <= NAME_LENGTH or not name.isprintable():
        raise _invalid(f"A key's name must have 1 to {NAME_LENGTH} printable characters.", "name")
    unknown = sorted(set(scopes) - EVERY_SCOPE)
    if unknown or not scopes:
        scope_names = ", ".join(sorted(EVERY_SCOPE))
        raise _invalid(f"A key must have at least one scope of {scope_names}.", "scopes")
    if session_prefix is not None:
        if not 1 <= len(session_prefix) <= SESSION_LENGTH or "\0" in session_prefix:
            raise _invalid(f"A session prefix must have 1 to {SESSION_LENGTH} characters.", "session_prefix")
        if ADMIN in scopes:
            raise _invalid("An administrator's key cannot be bound to sessions: leave one of the two out.", "scopes")
    if namespace == EVERYWHERE:
        if set(scopes) != {ADMIN}:
            raise _invalid("A key of the namespace '*' can only administer: its one scope must be 'admin'.", "scopes")
        return
    check_namespace(namespace)


def check_namespace(name: str) -> None:
    """Raises CoatcheckError `invalid_request` for an invalid name of a namespace."""
    if not NAMESPACE.fullmatch(name):
        raise _invalid(
            "A namespace's name must be 1 to 63 lower-case letters, digits, '-' and '_', and begin with a letter or "
            "digit.",
            "namespace",
        )


def not_a_cursor() -> CoatcheckError:
    """Returns the refusal of a cursor that no list of keys, namespaces or their contents has given."""
    return CoatcheckError(Code.INVALID_CURSOR, "The cursor did not come from this list. Start again without a cursor.")


def _forbidden(detail: str, **extra: str) -> CoatcheckError:
    return CoatcheckError(Code.FORBIDDEN, detail, **extra)


def _invalid(detail: str, field: str) -> CoatcheckError:
    return CoatcheckError(Code.INVALID_REQUEST, detail, field=field)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()), _CHECK)


def _base62(value: int, digits: int) -> str:
    out: list[str] = []
    for _ in range(digits):
        value, digit = divmod(value, len(_DIGITS))
        out.append(_DIGITS[digit])
    return "".join(reversed(out))


def namespace_cursor(name: str | None) -> str | None:
    """Returns the cursor of a list that continues after a namespace; it encodes the name, which could be any word."""
    return None if name is None else encode_word(name.encode())


def read_namespace_cursor(text: str | None) -> str | None:
    """Returns the name of the namespace after which a list continues.

    Raises:
        CoatcheckError: `invalid_cursor`.
    """
    if text is None:
        return None
    try:
        name = decode_word(text).decode()
    except ValueError as error:
        raise not_a_cursor() from error
    if not NAMESPACE.fullmatch(name):
        raise not_a_cursor()
    return name


def check_page_limit(limit: int) -> None:
    """Refuses a page of more items than MAX_PAGE, or of none.

    Raises:
        CoatcheckError: `invalid_request`.
    """
    if not 1 <= limit <= MAX_PAGE:
        raise CoatcheckError(Code.INVALID_REQUEST, f"limit must be 1 to {MAX_PAGE}, not {limit}.", limit=limit)


SESSION_SECONDS: Final = 12 * 3600
"""Seconds that a browser stays signed in."""
_SKEW: Final = 60
"""Seconds by which the clocks of replicas may differ."""
_SESSION: Final = b"page session"
"""Purpose of a session's seal."""


class KeySession(NamedTuple):
    """The content of a cookie."""

    key: str
    """Text of the key."""
    since: int
    """When the browser signed in, in seconds since 1970."""


def seal_session(secret: bytes, session: KeySession) -> str:
    """Returns a session as a word that reveals the key only to the holder of the secret."""
    return seal(secret, _SESSION, msgspec.msgpack.encode(session))


def open_session(secret: bytes, word: str, now: int) -> KeySession:
    """Returns the session that was sealed.

    Raises:
        ValueError: the word was not made with this secret, or has expired.
    """
    session = msgspec.msgpack.decode(unseal(secret, _SESSION, word), type=KeySession)
    if not session.since - _SKEW <= now < session.since + SESSION_SECONDS:
        raise ValueError("the session is over")
    return session


def form_token(secret: bytes, session: str | None) -> str:
    """Returns the token of a session's forms, which other sites' forms lack; None: nobody signed in."""
    data = b"" if session is None else session.encode()
    return hashlib.blake2b(data, digest_size=24, key=secret, person=b"page form").hexdigest()
