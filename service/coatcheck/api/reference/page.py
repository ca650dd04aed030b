"""The page of the API reference: Litestar's renderer for Swagger UI, files from this package, a strict policy.

The policy lets the browser run the page's own scripts and call this service, and nothing else. The page is the same for
everybody and contains no key: it loads the OpenAPI document like any client.
"""

import re
from base64 import b64encode
from hashlib import sha256
from typing import Any, Final

from litestar import Request
from litestar.openapi.plugins import SwaggerRenderPlugin

from coatcheck.api.reference.assets import OPTIONS, SCRIPT, STYLE

PATH: Final = "/docs"
_INLINE: Final = re.compile(rb"<(script|style)(?![^>]* src=)[^>]*>(.*?)</\1>", re.DOTALL)
_RENDERER: Final = SwaggerRenderPlugin(
    js_url=f"{PATH}/{SCRIPT}",
    css_url=f"{PATH}/{STYLE}",
    standalone_preset_js_url=f"{PATH}/{OPTIONS}",  # loaded after Swagger UI and before it starts
    favicon='<link rel="icon" href="data:,">',
)
_STUB: Final = {"info": {"title": "Coatcheck: API reference"}}
"""Written into the page by the renderer; the options name the document itself."""


def render_reference(request: Request[Any, Any, Any]) -> bytes:
    """Returns the page's HTML."""
    return _RENDERER.render(request, _STUB)  # pyright: ignore[reportUnknownMemberType] - Litestar's own annotations


def security_headers(page: bytes) -> dict[str, str]:
    """Returns header fields that allow only the page's own code and requests to this service."""
    sources = {"script": "'self'", "style": "'self'"}
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
