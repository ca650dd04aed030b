"""The administrator's page as an application of its own: routes, sign-in, forms with a token, and errors as pages.

A cookie contains a sealed key. The key is looked up on every request, and neither its scopes nor its revocation are
ever cached. Forms are accepted only from this origin, and only with the token of their session. No part of a payload
ever becomes markup. The browser is told to run only the page's own script and to load nothing from other sites.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final

from litestar.types import HTTPScope, Receive, Scope, Send

import coatcheck
from coatcheck.api.http.access import same_origin
from coatcheck.api.http.body import content_length
from coatcheck.api.http.error_table import TABLE
from coatcheck.api.http.exchange import set_route
from coatcheck.api.http.problems import Problem, members, render
from coatcheck.api.http.rates import set_allowance
from coatcheck.api.http.request_parts import field, refuse_nul
from coatcheck.api.page import artifact, artifacts, keys, overview, policies, retention, sessions
from coatcheck.api.page.call import (
    Elsewhere,
    PageAnswer,
    PageCall,
    PageRoute,
    Shown,
    address,
    address_of,
    pages_of,
)
from coatcheck.api.page.render import ASSETS, asset, render_page
from coatcheck.api.services import Inspection, RouteContext
from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import KeySession, allow, is_everywhere, open_session

PAGES: Final[list[PageRoute]] = pages_of(keys, overview, artifacts, artifact, sessions, policies, retention)
"""All pages. The first page with the path and the method of a request answers it."""
_CSP: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = (
    ("content-security-policy", _CSP),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),  # with a stricter value, browsers would hide the origin of the page's own forms
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)
"""Header fields of every answer of the page, including errors and assets."""
_ASSETS: Final = "/ui/assets/"
"""Beginning of the paths of the page's style sheet and script, which need no key."""
_DONE: Final = {
    "job": "The job was changed.",
    "kept": "The artifact was changed.",
    "placed": "The hold was placed.",
    "released": "The hold was released.",
    "removed": "The policy was removed.",
    "revoked": "The key was revoked.",
    "same": "The policy was like that already.",
    "set": "The policy was set.",
}
"""By the value of `done` in a page's address, the sentence with which the page reports the result of a form."""
_NOBODY: Final = Caller(name="", scopes=frozenset())
"""The caller of a page that needs no key. It has no scopes."""


class Page:
    """The administrator's page."""

    def __init__(self, context: RouteContext, inspection: Inspection) -> None:
        self._context = context
        self._inspection = inspection

    def methods(self, path: str) -> list[str]:
        """Returns the methods of a path, in alphabetical order; none if there is no such page."""
        if path.startswith(_ASSETS):
            page_methods: set[str] = {"GET"} if path.removeprefix(_ASSETS) in ASSETS else set()
        else:
            page_methods = {each.method for each in PAGES if each.takes(path)}
        if page_methods:
            page_methods.add("OPTIONS")
        return sorted(page_methods | {"HEAD"} if "GET" in page_methods else page_methods)

    async def __call__(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Serves a GET or POST request.

        Raises:
            CoatcheckError: `route_not_found`, `method_not_allowed`, `forbidden_host`, `unauthenticated`, `forbidden`,
                and the errors of the use cases. They are raised before anything has been sent.
        """
        method, path = str(scope["method"]), scope["path"]
        if path.startswith(_ASSETS) and path.removeprefix(_ASSETS) in ASSETS and method == "GET":
            set_route(scope, _ASSETS + "{name}")
            await _send_asset(path.removeprefix(_ASSETS), send)
            return
        for route in PAGES:
            match = route.takes(path)
            if match is not None and route.method == method:
                set_route(scope, route.path)
                await self._serve(route, match.groupdict(), scope, receive, send)
                return
        # A page with this path exists, but it has other methods.
        if self.methods(path):
            raise CoatcheckError(Code.METHOD_NOT_ALLOWED, f"This page does not take {method[:20]}.")
        raise CoatcheckError(Code.ROUTE_NOT_FOUND, "There is no such page. Start at the overview.")

    async def _serve(
        self, route: PageRoute, path_values: dict[str, str], scope: HTTPScope, receive: Receive, send: Send
    ) -> None:
        if route.method == "POST":
            same_origin(scope)
        # A cookie that cannot be opened, because it is too old or has another secret, is ignored: the caller signs in
        # again.
        now = int(self._context.services.clock.now().timestamp())
        # This secret is for the page only. Data that the store seals for other purposes can never pass for a cookie.
        secret = hashlib.blake2b(await self._inspection.seal_key(), digest_size=32, person=b"page").digest()
        cookie = _cookie(scope)
        session: KeySession | None = None
        if cookie is not None:
            try:
                session = open_session(secret, cookie, now)
            except ValueError:
                cookie = None
        who = _NOBODY
        if not route.keyless:
            try:
                who = await self._context.services.authenticate.identify(None if session is None else session.key)
            except CoatcheckError as error:
                if error.code is not Code.UNAUTHENTICATED or route.method != "GET":
                    raise
                # Only a page that was requested with GET can be shown after the sign-in; a form would be sent twice.
                after = None if scope["path"] == "/" else address_of(scope)
                why = "revoked" if session is not None else None
                await _send(send, *_redirect(Elsewhere(address("/ui/login", next=after, why=why))))
                return
            scope["state"]["caller"] = who
        call = PageCall(scope, receive, send, self._context, self._inspection, who, cookie, secret)
        await self._answer(route, call, path_values)

    async def _answer(self, route: PageRoute, call: PageCall, path_values: dict[str, str]) -> None:
        send, headers = call.send, list[tuple[str, str]]()
        try:
            if not route.keyless:
                self._let_in(route, call.scope, call.who)
            refuse_nul(path_values)
            answer = await route.function(call, **path_values)
        except CoatcheckError as error:
            # A page that needs no key does not show its form again: a refused sign-in must not repeat the typed key.
            if route.keyless or call.scope["state"]["exchange"].sent.started:
                raise
            answer, headers = await self._render_refusal(route, call, path_values, error)
        if isinstance(answer, Elsewhere):
            await _send(send, *_redirect(answer))
        elif answer is not None:
            status, own, body = _render_page(answer, call, route)
            await _send(send, status, [*own, *headers], body)

    def _let_in(self, route: PageRoute, scope: Scope, who: Caller) -> None:
        """Checks the scope of the signed-in caller's key, and counts the request against its rate limit."""
        if route.scope is not None:
            allow(who, route.scope)
        allowance = self._context.services.allowances.of(who)
        if allowance is not None:
            scope["state"]["exchange"].allow(allowance)
            set_allowance(scope, allowance)
            allowance.begin(content_length(scope))

    async def _render_refusal(
        self, route: PageRoute, call: PageCall, path_values: dict[str, str], error: CoatcheckError
    ) -> tuple[PageAnswer, list[tuple[str, str]]]:
        """Returns the page for a refused request, and the header fields of the error.

        If a form was refused and its page can be shown, the page has the form again, filled with the values that were
        sent. Otherwise it is a page about the error.
        """
        request_id: str = call.scope["state"]["request_id"]
        self._context.log.log_failure(error, request_id, route.path)
        call.refusal = error
        rendered = render(error, request_id)
        headers = [each for each in rendered.headers if each[0] not in {"content-type", "cache-control"}]
        form = _form_page(route)
        # Show the values of a refused form again, if possible on the page of that form.
        if form is not None and call.sent is not None:
            # If storage is unavailable, or the key may not see that page, the page about the error shows the values.
            with suppress(CoatcheckError):
                if form.scope is not None:
                    allow(call.who, form.scope)
                answer = await form.function(call, **path_values)
                if isinstance(answer, Shown):
                    return replace(answer, status=rendered.status), headers
        if route.method == "GET":
            with suppress(CoatcheckError):  # perhaps the query string itself is malformed
                call.sent = call.pairs()
        values = {"problem": members(error, request_id), "advice": TABLE[error.code].advice, "method": route.method}
        return Shown("error.jinja", {**values, "signing_in": False, "sent": call.sent}, rendered.status), headers

    @staticmethod
    def problem(error: CoatcheckError, request_id: str) -> Problem:
        """Returns an error as a page, with its permanent code, what is wrong, and what to do."""
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


def _form_page(route: PageRoute) -> PageRoute | None:
    """Returns the page that contains the form of a POST route: the page at the same path, or at the path above.

    None if the route is not a POST, or no page has these paths.
    """
    above = (route.path, route.path.rpartition("/")[0])
    form_pages = (page for path in above for page in PAGES if (page.method, page.path) == ("GET", path))
    return next(form_pages, None) if route.method == "POST" else None


def _cookie(scope: Scope) -> str | None:
    jar = SimpleCookie()
    try:
        jar.load(field(scope, b"cookie") or "")
    except CookieError:
        return None
    cookies = (jar[name].value for name in (keys.SECURE_COOKIE, keys.COOKIE) if name in jar)
    return next(filter(None, cookies), None)


def _render_page(answer: Shown, call: PageCall, route: PageRoute) -> tuple[int, list[tuple[str, str]], bytes]:
    who = call.who
    common: Mapping[str, Any] = {
        "who": who,
        "may": call.may,
        "everywhere": is_everywhere(who) and call.may("admin"),
        "signed_in": call.session is not None,
        "token": call.token,
        "now": call.now,
        "here": route.path,
        "path": call.address,
        # After a refusal, the address may still have the result of an earlier form.
        "done": None if call.refusal else _DONE.get(call.get_parameter("done") or ""),
        "refusal": call.refusal and members(call.refusal, call.scope["state"]["request_id"]),
        "typed": call.typed_values_of,
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
    fields = [*HEADERS, *headers, ("content-length", str(len(body)))]
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body, "more_body": False})
