"""API keys: how they are made and parsed, which caller they stand for, and how a browser keeps one.

A key is written as `ck_live_<key id>_<secret><checksum>`. The ID is public, and identifies the key's row. The secret
has 256 random bits, so that one SHA-256 protects it as well as a slow hash would. The checksum distinguishes a mistyped
or cut key from an unknown key without a query. Only the SHA-256 of the whole text is stored. Callers pass randomness
and time as arguments, and the `repr` of a value never shows a secret.

A cookie holds the key sealed (`core/opaque.py`). Whoever has the cookie can use the page for SESSION_SECONDS. Neither
the service's secret nor its database is enough to make a cookie, because the key inside is checked like any presented
key. For the same reason, all sessions of a key end when the key is revoked.
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
"""Namespace of a key that administers all namespaces. Where a request needs a namespace, such a key must name one."""
MAX_PAGE: Final = 200
"""Maximum items of one page of a list. Chosen, not measured."""
NAME_LENGTH: Final = 200
"""Maximum characters of a key's name. Chosen, not measured."""
SESSION_LENGTH: Final = 256
"""Maximum characters of a session prefix: the same as of a session's name."""
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID: Final = 11
"""Base-62 digits of a key's ID, which has 64 bits."""
_SECRET: Final = 43
"""Base-62 digits of a key's secret, which has 256 bits."""
_CHECK: Final = 6
"""Base-62 digits of a key's checksum, a CRC-32."""
_SHAPE: Final = re.compile(rf"{PREFIX}([0-9A-Za-z]{{{_ID}}})_([0-9A-Za-z]{{{_SECRET}}})([0-9A-Za-z]{{{_CHECK}}})")
_IN_TEXT: Final = re.compile(rf"{PREFIX}[0-9A-Za-z_]+")
"""Matches a key, or the beginning of a key. The prefix alone does not match: the service's own messages contain it."""
KEY_ID: Final = re.compile(rf"[0-9A-Za-z]{{{_ID}}}")
NAMESPACE: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
"""Matches a namespace's name. It is part of the names of S3 objects, so no other characters are allowed."""


class Key(Struct, frozen=True):
    """A presented key: the ID that it claims, and the digest that its row must have."""

    id: str
    digest: bytes
    """SHA-256 of the key's text."""


class KeySecret:
    """A new key's text, which is shown once to whoever requested the key. Its `repr` and `str` do not contain it."""

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
    """When the key's namespace was disabled; None: the namespace is enabled."""


class NamespaceInfo(Struct, frozen=True, kw_only=True):
    """A namespace and its state."""

    name: str
    created_at: datetime
    disabled_at: Annotated[datetime | None, Meta(description="When it was disabled. Null: it is enabled.")]


def make(key_id: bytes, secret: bytes) -> tuple[Key, KeySecret]:
    """Makes a key from random bytes: ID_BYTES for its ID, and SECRET_BYTES for its secret.

    Raises:
        ValueError: the number of bytes is wrong.
    """
    if len(key_id) != ID_BYTES or len(secret) != SECRET_BYTES:
        raise ValueError("a key is made of 8 and 32 random bytes")
    name = _base62(int.from_bytes(key_id, "big"), _ID)
    body = f"{PREFIX}{name}_{_base62(int.from_bytes(secret, 'big'), _SECRET)}"
    text = body + _checksum(body)
    return Key(name, _digest(text)), KeySecret(text)


def parse(text: str) -> Key:
    """Parses a presented key.

    Raises:
        CoatcheckError: `unauthenticated` for an invalid or mistyped key. The message repeats no character of the key.
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
    """Returns the caller who presents a key at the moment `now`. `row` is the stored row of the key's ID, if any.

    Only a caller who has the right secret learns why the key is no longer accepted.

    Raises:
        CoatcheckError: `unauthenticated` for an unknown, revoked or expired key; `forbidden` while the namespace is
            disabled.
    """
    # Digests are compared in constant time, and even without a row, so that the time reveals nothing.
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
    """Refuses callers who do not have a scope.

    Raises:
        CoatcheckError: `forbidden`, with the name of the scope.
    """
    if scope not in caller.scopes:
        space = "NAMESPACE" if caller.namespace == EVERYWHERE else caller.namespace
        raise _forbidden(
            f"This operation needs the scope '{scope}', which the key does not have. Use a key that has it; an "
            f"administrator makes one: coatcheck key create NAME --namespace {space} --scope {scope}",
            scope=scope,
        )


def is_everywhere(caller: Caller) -> bool:
    """Returns whether an administrator administers all namespaces: with a key of `*`, or where no key is needed."""
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
    """Returns the namespace to which an administrator's request applies. `namespace` is the one named there, or None.

    A key administers its own namespace, which a request need not name. A request with a key of `*` must name a
    namespace. A request without a key may name any namespace, and otherwise applies to `default`.

    Raises:
        CoatcheckError: `forbidden` for a namespace other than the key's; `invalid_request` if a name is required and
            missing.
    """
    if namespace is None:
        if caller.namespace == EVERYWHERE:
            raise _invalid("With a key of the namespace '*', name the namespace to administer.", "namespace")
        return caller.namespace
    if namespace != caller.namespace and not is_everywhere(caller):
        raise _forbidden("The key can administer only its own namespace. Leave `namespace` out, or use a key of '*'.")
    return namespace


def resolve_listed(caller: Caller, namespace: str | None) -> str | None:
    """Returns the namespace to list; None: all namespaces, because the administrator has all and names none.

    Raises:
        CoatcheckError: see `resolve_administered`.
    """
    return None if namespace is None and is_everywhere(caller) else resolve_administered(caller, namespace)


def require_session(caller: Caller, session: str | None) -> None:
    """Refuses a write into a session that the caller cannot see.

    Raises:
        CoatcheckError: `forbidden`.
    """
    if not caller.sees(session):
        raise _forbidden(
            f"The key is bound to sessions whose names begin with {caller.session_prefix!r}: name one of these.",
            field="session",
        )


def own_key(caller: Caller, key: str) -> str:
    """Returns an idempotency key as it is stored: prefixed for callers who are bound to sessions.

    The prefix keeps such a caller from finding the keys of others. Idempotency keys are printable and the separator is
    not, so that a prefixed key never equals another caller's key.
    """
    return key if caller.session_prefix is None else f"{caller.session_prefix}\x1f{key}"


def hide(text: str) -> str:
    """Returns a text that may quote a caller's input, with the secret of every API key in it replaced by `***`."""
    return _IN_TEXT.sub(f"{PREFIX}***", text) if PREFIX in text else text


def refusal_of_caller(detail: str) -> CoatcheckError:
    """Returns the error for an unknown caller."""
    return CoatcheckError(Code.UNAUTHENTICATED, detail)


def check_rates(requests: int | None, size: int | None) -> None:
    """Raises CoatcheckError `invalid_request` for rate limits that are not from 0 to MAX_LIMIT; None is accepted."""
    for value, field in ((requests, "requests_per_minute"), (size, "bytes_per_minute")):
        if value is not None and not 0 <= value <= MAX_LIMIT:
            raise _invalid(f"A limit must be a whole number from 0, which means none, to {MAX_LIMIT}.", field)


def check_terms(*, namespace: str, name: str, scopes: tuple[str, ...], session_prefix: str | None) -> None:
    """Raises CoatcheckError `invalid_request` for a name, scopes, a prefix or a namespace that no key can have."""
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
    """Returns the error for a cursor that did not come from a list of keys, namespaces or their contents."""
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
    """Returns the cursor of a list that continues after a namespace: its encoded name. None for no namespace."""
    return None if name is None else encode_word(name.encode())


def read_namespace_cursor(text: str | None) -> str | None:
    """Returns the name of the namespace after which a list continues; None if there is no cursor.

    Raises:
        CoatcheckError: `invalid_cursor` if the cursor does not encode the name of a namespace.
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
    """Refuses a number of items for a page that is not from 1 to MAX_PAGE.

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
"""Purpose with which sessions are sealed, so that no other sealed word is accepted as a session."""


class KeySession(NamedTuple):
    """The content of a cookie that keeps a browser signed in."""

    key: str
    """The key's text."""
    since: int
    """When the browser signed in, in seconds since 1970."""


def seal_session(secret: bytes, session: KeySession) -> str:
    """Returns a session as an opaque word. Only the holder of the service's secret can read the key in it."""
    return seal(secret, _SESSION, msgspec.msgpack.encode(session))


def open_session(secret: bytes, word: str, now: int) -> KeySession:
    """Returns the session that `seal_session` sealed in a word. `now` is in seconds since 1970.

    Raises:
        ValueError: the word was not made with this secret, or has expired.
    """
    session = msgspec.msgpack.decode(unseal(secret, _SESSION, word), type=KeySession)
    if not session.since - _SKEW <= now < session.since + SESSION_SECONDS:
        raise ValueError("the session is over")
    return session


def form_token(secret: bytes, session: str | None) -> str:
    """Returns the token of a session's forms, which other sites cannot know. `session` is None if nobody signed in."""
    data = b"" if session is None else session.encode()
    return hashlib.blake2b(data, digest_size=24, key=secret, person=b"page form").hexdigest()
