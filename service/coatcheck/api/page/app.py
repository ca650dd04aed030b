"""The page as an application of its own: routes, sign-in, forms that only it can create, and errors as pages.

A cookie contains a sealed key, which is looked up on every request; what it may do, and whether it was revoked, is
never cached. Forms are accepted only from this origin, with the token of their session. No part of a payload ever
becomes markup, and the browser is told to run only the page's one script and to load nothing from elsewhere.
"""

import hashlib
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final

from litestar.types import HTTPScope, Receive, Scope, Send

import coatcheck
from coatcheck.api.http.body import content_length
from coatcheck.api.http.error_table import TABLE
from coatcheck.api.http.exchange import set_route
from coatcheck.api.http.headers import field
from coatcheck.api.http.origin_guard import same_origin
from coatcheck.api.http.problems import Problem, members, render
from coatcheck.api.http.rates import set_allowance
from coatcheck.api.page import artifact, artifacts, keys, overview, policies, retention, sessions, sign_in
from coatcheck.api.page.call import Elsewhere, PageCall, PageRoute, Shown, address, pages_of
from coatcheck.api.page.render import ASSETS, asset, render_page
from coatcheck.api.services import Inspection, RouteContext
from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.key_session import KeySession, open_session
from coatcheck.core.keys import allow, is_everywhere

PAGES: Final[list[PageRoute]] = pages_of(sign_in, overview, artifacts, artifact, sessions, policies, retention, keys)
_CSP: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = (
    ("content-security-policy", _CSP),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),  # a stricter value makes browsers hide the origin of our own forms
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)
_ASSETS: Final = "/ui/assets/"
_DONE: Final = {
    "job": "The job was changed.",
    "kept": "The artifact was changed.",
    "placed": "The hold was placed.",
    "released": "The hold was released.",
    "removed": "The policy was removed.",
    "revoked": "The key was revoked.",
    "set": "The policy was set.",
}
"""What a page says that a form led to, by the word in its address."""
_UNKNOWN: Final = Caller(name="", scopes=frozenset())


class Page:
    """The administrator's page."""

    def __init__(self, context: RouteContext, inspection: Inspection) -> None:
        self._context = context
        self._inspection = inspection

    def methods(self, path: str) -> list[str]:
        """Returns the methods of a path, in alphabetical order; none if there is no such page."""
        if path.startswith(_ASSETS):
            found: set[str] = {"GET"} if path.removeprefix(_ASSETS) in ASSETS else set()
        else:
            found = {each.method for each in PAGES if each.takes(path)}
        if found:
            found.add("OPTIONS")
        return sorted(found | {"HEAD"} if "GET" in found else found)

    async def __call__(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Answers a GET or POST.

        Raises:
            CoatcheckError: `route_not_found`, `method_not_allowed`, `forbidden_host`, `unauthenticated`, `forbidden`,
                and what the use cases raise; before anything has been sent.
        """
        method, path = str(scope["method"]), scope["path"]
        if path.startswith(_ASSETS) and path.removeprefix(_ASSETS) in ASSETS and method == "GET":
            set_route(scope, _ASSETS + "{name}")
            await _send_asset(path.removeprefix(_ASSETS), send)
            return
        for route in PAGES:
            found = route.takes(path)
            if found is not None and route.method == method:
                set_route(scope, route.path)
                await self._serve(route, found.groupdict(), scope, receive, send)
                return
        if self.methods(path):
            raise CoatcheckError(Code.METHOD_NOT_ALLOWED, f"This page does not take {method[:20]}.")
        raise CoatcheckError(Code.ROUTE_NOT_FOUND, "There is no such page. Start at the overview.")

    async def _serve(
        self, route: PageRoute, given: dict[str, str], scope: HTTPScope, receive: Receive, send: Send
    ) -> None:
        if route.method == "POST":
            same_origin(scope)
        now = int(self._context.services.clock.now().timestamp())
        secret = hashlib.blake2b(await self._inspection.seal_key(), digest_size=32, person=b"page").digest()
        cookie = _cookie(scope)
        session: KeySession | None = None
        if cookie is not None:
            try:
                session = open_session(secret, cookie, now)
            except ValueError:
                cookie = None
        who = _UNKNOWN
        if not route.keyless:
            try:
                who = await self._let_in(route, scope, session)
            except CoatcheckError as error:
                if error.code is not Code.UNAUTHENTICATED or route.method != "GET":
                    raise
                after = None if scope["path"] == "/" else _wanted(scope)
                why = "revoked" if session is not None else None
                await _send(send, *_redirect(Elsewhere(address("/ui/login", next=after, why=why))))
                return
        call = PageCall(scope, receive, send, self._context, self._inspection, who, cookie, secret)
        answer = await route.function(call, **given)
        if isinstance(answer, Elsewhere):
            await _send(send, *_redirect(answer))
        elif answer is not None:
            await _send(send, *_shown(answer, call, route))

    async def _let_in(self, route: PageRoute, scope: HTTPScope, session: KeySession | None) -> Caller:
        """Returns the signed-in caller, according to the key's present state."""
        services = self._context.services
        who = await services.authenticate.identify(None if session is None else session.key)
        scope["state"]["caller"] = who
        if route.scope is not None:
            allow(who, route.scope)
        allowance = services.allowances.of(who)
        if allowance is not None:
            scope["state"]["exchange"].allow(allowance)
            set_allowance(scope, allowance)
            allowance.begin(content_length(scope))
        return who

    @staticmethod
    def problem(error: CoatcheckError, request_id: str) -> Problem:
        """Returns an error as a page: its permanent code, what is wrong, and what to do."""
        rendered = render(error, request_id)
        values = {
            "problem": members(error, request_id),
            "advice": TABLE[error.code].advice,
            "signing_in": error.code is Code.UNAUTHENTICATED,
        }
        headers = [(name, value) for name, value in rendered.headers if name != "content-type"]
        return Problem(
            rendered.status,
            [("content-type", "text/html; charset=utf-8"), *HEADERS, *headers],
            render_page("error.jinja", values),
        )


def _wanted(scope: HTTPScope) -> str:
    query = scope["query_string"].decode("ascii", "replace")
    return f"{scope['path']}?{query}" if query else scope["path"]


def _cookie(scope: Scope) -> str | None:
    jar = SimpleCookie()
    try:
        jar.load(field(scope, b"cookie") or "")
    except CookieError:
        return None
    given = (jar[name].value for name in (sign_in.SECURE_COOKIE, sign_in.COOKIE) if name in jar)
    return next(filter(None, given), None)


def _shown(answer: Shown, call: PageCall, route: PageRoute) -> tuple[int, list[tuple[str, str]], bytes]:
    who = call.who
    common: Mapping[str, Any] = {
        "who": who,
        "may": call.may,
        "everywhere": is_everywhere(who) and call.may("admin"),
        "signed_in": call.session is not None,
        "token": call.token,
        "now": call.now,
        "here": route.path,
        "done": _DONE.get(call.given("done") or ""),
        "release": coatcheck.__version__,
    }
    body = render_page(answer.template, {**common, **answer.values})
    return answer.status, [("content-type", "text/html; charset=utf-8"), ("cache-control", "no-store")], body


def _redirect(answer: Elsewhere) -> tuple[int, list[tuple[str, str]], bytes]:
    headers = [("location", answer.path), ("cache-control", "no-store")]
    if answer.cookie is not None:
        headers.append(("set-cookie", answer.cookie))
    return 303, headers, b""


async def _send_asset(name: str, send: Send) -> None:
    headers = [("content-type", f"{ASSETS[name]}; charset=utf-8"), ("cache-control", "public, max-age=86400")]
    await _send(send, 200, headers, asset(name))


async def _send(send: Send, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
    given = [*HEADERS, *headers, ("content-length", str(len(body)))]
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in given]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body, "more_body": False})
