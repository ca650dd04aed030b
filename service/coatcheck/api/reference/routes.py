"""The API reference at `/docs` and the explanations of error codes. They need no key: all callers get the same pages.

The reference consists of Swagger UI's released files, compressed, and of a script that sets Swagger UI's options.
`maintenance/update_api_reference.py` installs another release. The page contains no key: it loads the OpenAPI document
like any client.

The explanation of an error code comes from its row in the table of errors, as a page, as text or as JSON. The content
security policy of a page lets the browser run the page's own scripts and call this service, and nothing else.
"""

import gzip
import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Annotated, Any, Final

from litestar import Request, Response
from litestar.openapi.plugins import SwaggerRenderPlugin
from msgspec import Meta, Struct

from coatcheck.api.http.error_table import TABLE
from coatcheck.api.http.request_parts import choose_media_type, field, takes_gzip
from coatcheck.api.route import JSON, Answer, RouteCall, json_response, route
from coatcheck.core.errors import CoatcheckError, Code

VERSION: Final = "5.35.0"
"""Installed version of Swagger UI."""
SHA256: Final = {
    "swagger-ui-bundle.js": "e6a898692f2d768e807c3ba4626068a69a2c5dd960dd6c76f3e4d3a3de180af2",
    "swagger-ui.css": "5ed08757e53da3e026d6cbecc61fe5d43585c9560b302d534ad56692519a273d",
}
"""Digests of Swagger UI's two files, not compressed."""
SCRIPT: Final = "swagger-ui-bundle.js"
STYLE: Final = "swagger-ui.css"
OPTIONS: Final = "reference.js"
"""Name of the script that sets Swagger UI's options, such as the address of the OpenAPI document."""
NAMES: Final = (SCRIPT, STYLE, OPTIONS)
"""Names of all files that `/docs` may load."""
_MEDIA_TYPES: Final = {"js": "text/javascript", "css": "text/css"}


def media_type(name: str) -> str:
    """Returns the media type of a file in `NAMES`."""
    return _MEDIA_TYPES[name.rpartition(".")[2]]


@cache
def read_compressed(name: str) -> bytes:
    """Returns a file in `NAMES`, compressed with gzip."""
    folder = files("coatcheck.api.reference").joinpath("assets")
    if name == OPTIONS:
        # Without a time in the gzip header, every process produces the same bytes.
        return gzip.compress(folder.joinpath(name).read_bytes(), 9, mtime=0)
    return folder.joinpath(f"{name}.gz").read_bytes()


def plain(name: str) -> bytes:
    """Returns a file in `NAMES`, not compressed, for clients that do not accept gzip."""
    return gzip.decompress(read_compressed(name))


_CODE: Final = re.compile("`([^`]+)`")
"""Matches code between backticks in a sentence of the table of errors."""
_STYLE: Final = (
    ":root{color-scheme:light dark;font:100%/1.5 system-ui,sans-serif}"
    "body{max-width:40rem;margin:3rem auto;padding:0 1rem}code{font-family:ui-monospace,monospace}"
)


class ErrorExplanation(Struct, frozen=True):
    """What an error code means, and what to do."""

    type: Annotated[str, Meta(examples=["/errors/held"])]
    code: Annotated[str, Meta(description="Permanent.", examples=["held"])]
    status: Annotated[int, Meta(examples=[423])]
    title: Annotated[str, Meta(examples=["Held"])]
    meaning: Annotated[str, Meta(description="What happened.")]
    advice: Annotated[str, Meta(description="What to do next.")]
    retry_after: Annotated[
        int | None,
        Meta(description="Seconds after which the same request may succeed; null: repeating it does not help."),
    ]


def explanation(code: Code) -> ErrorExplanation:
    """Returns the explanation of an error code."""
    row = TABLE[code]
    return ErrorExplanation(f"/errors/{code}", code, row.status, row.title, row.meaning, row.advice, row.retry_after)


def as_text(error: ErrorExplanation) -> bytes:
    """Returns an explanation as a few lines of text."""
    lines = [f"{error.code}: {error.title} ({error.status})", "", error.meaning, "", f"What to do: {error.advice}"]
    return ("\n".join([*lines, *_again(error)]) + "\n").encode()


def as_html(error: ErrorExplanation) -> bytes:
    """Returns an explanation as an HTML page that loads nothing and has no scripts."""
    again = "".join(f"<p>{_mark_code(line)}</p>\n" for line in _again(error))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{error.code} - Coatcheck</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{_mark_code(error.title)}</h1>
<p><code>{error.code}</code>, status {error.status}</p>
<p>{_mark_code(error.meaning)}</p>
<h2>What to do</h2>
<p>{_mark_code(error.advice)}</p>
{again}<p><a href="/docs">API reference</a></p>
</main>
</body>
</html>
""".encode()


def _again(error: ErrorExplanation) -> list[str]:
    if error.retry_after is None:
        return []
    return [f"The same request may succeed after {error.retry_after} s; the field Retry-After says when."]


def _mark_code(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))


PATH: Final = "/docs"
_INLINE: Final = re.compile(rb"<(script|style)(?![^>]* src=)[^>]*>(.*?)</\1>", re.DOTALL)
"""Matches an inline script or style of the page. The content security policy allows exactly these, by their hashes."""
_RENDERER: Final = SwaggerRenderPlugin(
    js_url=f"{PATH}/{SCRIPT}",
    css_url=f"{PATH}/{STYLE}",
    standalone_preset_js_url=f"{PATH}/{OPTIONS}",  # loaded after Swagger UI and before it starts
    favicon='<link rel="icon" href="data:,">',
)
_STUB: Final = {"info": {"title": "Coatcheck: API reference"}}
"""A stand-in for the OpenAPI document, which the renderer writes into the page. The script OPTIONS names the real
document."""


def render_reference(request: Request[Any, Any, Any]) -> bytes:
    """Returns the HTML of the API reference."""
    return _RENDERER.render(request, _STUB)  # pyright: ignore[reportUnknownMemberType] - Litestar's own annotations


def security_headers(page: bytes) -> dict[str, str]:
    """Returns header fields with which a browser runs only the page's own code and calls only this service."""
    sources = {"script": "'self'", "style": "'self'"}
    # Hashes in place of `unsafe-inline` keep the browser from running a script that somebody injected into the page.
    for kind, text in _INLINE.findall(page):
        sources[kind.decode()] += f" 'sha256-{b64encode(sha256(text).digest()).decode()}'"
    policy = (
        f"default-src 'none'; script-src {sources['script']}; style-src {sources['style']}; "
        "connect-src 'self'; img-src 'self' data:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
    )
    return {
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
    }


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
    # The files are stored compressed, and are decompressed only for a client that does not accept gzip.
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
