"""The pages of keys: list, create and revoke them, sign in with a key, and sign out.

A new key is shown once. The browser keeps the key of the sign-in in a cookie, sealed (`core/keys.py`).
"""

from typing import Final

from msgspec import Struct

from coatcheck.api.http.access import ADMIN
from coatcheck.api.http.request_parts import field
from coatcheck.api.keys import KeysQuery, NewKeyRequest
from coatcheck.api.page.call import Elsewhere, PageAnswer, PageCall, Shown, address, page
from coatcheck.core.artifact import EVERY_SCOPE
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import SESSION_SECONDS, KeySession, refusal_of_caller, seal_session


class RevokeForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """The form that revokes a key."""

    id: str


@page("GET /ui/keys", scope=ADMIN)
async def show_keys(call: PageCall) -> PageAnswer:
    """Shows the keys, including revoked and expired ones, and the form that creates a key."""
    query = call.query(KeysQuery, "done")
    listing = await call.services.keys.list(call.who, namespace=query.namespace, before=query.cursor, limit=query.limit)
    more = None if listing.next is None else address("/ui/keys", namespace=query.namespace, cursor=listing.next)
    return Shown("keys.jinja", {"items": listing.items, "more": more, "scopes": sorted(EVERY_SCOPE)})


@page("POST /ui/keys", scope=ADMIN)
async def create_key(call: PageCall) -> PageAnswer:
    """Creates a key and shows it. The key is shown only here."""
    form = await call.form(NewKeyRequest)
    info, secret = await form.create(call.services.keys, call.who)
    return Shown("new_key.jinja", {"info": info, "key": secret.reveal()}, status=201)


@page("POST /ui/keys/revoke", scope=ADMIN)
async def revoke_key(call: PageCall) -> PageAnswer:
    """Asks for confirmation; once confirmed, revokes the key."""
    form = await call.form(RevokeForm)
    own = " It is the key that you signed in with." if form.id == call.who.key_id else ""
    question = call.confirm(
        f"Revoke key {form.id}?",
        button="Revoke",
        back="/ui/keys",
        warning=f"Every request with it is refused from then on.{own}",
        note="It stays listed.",
    )
    if question is not None:
        return question
    await call.services.keys.revoke(call.who, form.id)
    return Elsewhere("/ui/keys?done=revoked")


COOKIE: Final = "coatcheck_session"
SECURE_COOKIE: Final = "__Host-" + COOKIE
"""Name of the cookie with TLS. Browsers let neither another host nor an unencrypted page set a cookie of this name. It
takes precedence over COOKIE."""


class SignInForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """The form of the sign-in page."""

    key: str = ""
    next: str = "/"


@page("GET /ui/login", keyless=True)
async def show_sign_in(call: PageCall) -> PageAnswer:
    """Shows the form that asks for a key; leads to the overview if no key is needed."""
    if call.session is None and not call.services.authenticate.is_required:
        return Elsewhere("/")
    return _form(call.get_parameter("next") or "/", call.get_parameter("why"))


@page("POST /ui/login", keyless=True)
async def sign_in(call: PageCall) -> PageAnswer:
    """Looks the key up, and sets a cookie with the sealed key."""
    form = await call.form(SignInForm)
    key = form.key.strip()
    try:
        if not key:
            raise refusal_of_caller("Paste a key. It begins with ck_live_.")
        await call.services.authenticate.identify(key)
    except CoatcheckError as error:
        if error.code not in {Code.UNAUTHENTICATED, Code.FORBIDDEN}:
            raise
        # The answer is the page with the form. As that is not an error, nothing else logs and counts the refusal.
        call.context.log.log_failure(error, call.scope["state"]["request_id"], "/ui/login")
        return Shown(
            "sign_in.jinja",
            {"next": form.next, "why": None, "problem": f"{error.detail} ({error.code})", "hours": _HOURS},
            status=401 if error.code is Code.UNAUTHENTICATED else 403,
        )
    session = seal_session(call.secret, KeySession(key, int(call.now.timestamp())))
    return Elsewhere(_local(form.next), _set_cookie(call, session, ""))


@page("POST /ui/logout", keyless=True)
async def sign_out(call: PageCall) -> PageAnswer:
    """Removes the cookie with the key."""
    # Reading the fields checks the token, so that no other web site can sign a user out.
    await call.fields()
    return Elsewhere("/ui/login", _set_cookie(call, "", "; Max-Age=0"))


_HOURS: Final = SESSION_SECONDS // 3600
"""Hours for which a sign-in lasts. The page names them."""


def _form(after: str, why: str | None) -> Shown:
    return Shown("sign_in.jinja", {"next": after, "why": why, "problem": None, "hours": _HOURS})


def _set_cookie(call: PageCall, value: str, more: str) -> str:
    origin = field(call.scope, b"origin") or ""
    tls = call.scope["scheme"] == "https" or origin.startswith("https://")  # a proxy may have terminated TLS
    name, secure = (SECURE_COOKIE, "; Secure") if tls else (COOKIE, "")
    return f"{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}"


def _local(path: str) -> str:
    """Returns a path if it is one of the administrator's page; otherwise the path of the overview."""
    plain = path.isascii() and path.isprintable() and "\\" not in path
    # If any path were accepted, a link to the sign-in page could lead to another web site.
    return path if plain and (path == "/" or path.startswith(("/ui/", "/?"))) else "/"
