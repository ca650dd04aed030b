"""Routes of the API reference and of error explanations. They need no key: they are the same for everybody."""

from typing import Any

from litestar import Request, Response

from coatcheck.api.http.headers import choose_media_type, field, takes_gzip
from coatcheck.api.reference.assets import NAMES, media_type, plain, read_compressed
from coatcheck.api.reference.error_page import ErrorExplanation, as_html, as_text, explanation
from coatcheck.api.reference.page import render_reference, security_headers
from coatcheck.api.route import JSON, Answer, RouteCall, json_response, route
from coatcheck.core.errors import CoatcheckError, Code


@route("GET /docs", scope=None, tag="Service", answers={200: Answer("The page.", media=("text/html",))})
async def show_reference(call: RouteCall) -> Response[bytes]:
    """Show this document as a page.

    The API reference, in which requests can be tried. It loads nothing from elsewhere.
    """
    request: Request[Any, Any, Any] = Request(call.scope)
    page = render_reference(request)
    headers = {**security_headers(page), "cache-control": "no-cache"}
    return Response(content=page, media_type="text/html", headers=headers)


@route(
    "GET /docs/{asset}",
    scope=None,
    tag="Service",
    answers={200: Answer("The file.", media=("text/javascript", "text/css"))},
    problems=(Code.ROUTE_NOT_FOUND,),
)
async def get_reference_asset(call: RouteCall, asset: str) -> Response[bytes]:
    """Get a file of the API reference.

    Returns a script or a style sheet that the page `/docs` loads.
    """
    if asset not in NAMES:
        raise CoatcheckError(Code.ROUTE_NOT_FOUND, f"The API reference has the files {', '.join(NAMES)}.")
    headers = {
        "cache-control": "public, max-age=3600",
        "vary": "Accept-Encoding",
        "x-content-type-options": "nosniff",
        "cross-origin-resource-policy": "same-origin",
    }
    if takes_gzip(field(call.scope, b"accept-encoding")):
        return Response(
            content=read_compressed(asset),
            media_type=media_type(asset),
            headers={**headers, "content-encoding": "gzip"},
        )
    return Response(content=plain(asset), media_type=media_type(asset), headers=headers)


@route(
    "GET /errors/{code}",
    scope=None,
    tag="Service",
    answers={200: Answer("The explanation.", media=("text/html", "text/plain"))},
    problems=(Code.ROUTE_NOT_FOUND,),
)
async def explain_error(call: RouteCall, code: str) -> ErrorExplanation | Response[bytes]:
    """Explain an error code.

    Returns what the `type` of a problem refers to: what happened, and what to do. The answer is a page, unless JSON or
    text is preferred.
    """
    try:
        error = explanation(Code(code))
    except ValueError:
        raise CoatcheckError(
            Code.ROUTE_NOT_FOUND, f"There is no error code {code[:80]!a}. /v1/openapi.json names them all."
        ) from None
    kind = choose_media_type(
        field(call.scope, b"accept"), ("text/html", JSON, "application/problem+json", "text/plain")
    )
    headers = {"vary": "Accept", "cache-control": "public, max-age=3600", "x-content-type-options": "nosniff"}
    if kind == "text/html":
        page = as_html(error)
        return Response(content=page, media_type=kind, headers={**security_headers(page), **headers})
    if kind == "text/plain":
        return Response(content=as_text(error), media_type=kind, headers=headers)
    return json_response(error, headers=headers)
