"""Renders templates as HTML. Everything is escaped; invisible characters in a text are made visible."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from coatcheck.api.page.call import address
from coatcheck.api.page.plot import bars
from coatcheck.api.page.values import lasting, render_decision, render_exact_value, size
from coatcheck.core.text.plural import plural

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-"
    "\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
"""Matches control characters except tab and line feed, and characters without width or that change the text
direction."""
ASSETS: Final = {"page.css": "text/css", "page.js": "text/javascript"}


def visible(value: object) -> Markup:
    """Returns a text, escaped, with a mark for each invisible character."""
    return Markup(_UNSEEN.sub(_mark, str(escape(str(value)))))  # noqa: S704 - escaped in this very line


def _mark(match: re.Match[str]) -> str:
    return f'<span class="unseen">U+{ord(match[0]):04X}</span>'


def moment(value: datetime | None, otherwise: str = "\u2013") -> Markup:
    """Returns a moment in UTC, to the second."""
    if value is None:
        return escape(otherwise)
    return Markup('<time datetime="{}">{}</time>').format(value.isoformat(), value.strftime("%Y-%m-%d %H:%M:%S"))


def away(value: datetime, now: datetime) -> str:
    """Returns how far a moment is from now: `in 3 d 4 h`, `5 min ago`."""
    remaining: timedelta = value - now
    return (
        f"in {lasting(remaining.total_seconds())}"
        if remaining >= timedelta()
        else f"{lasting(remaining.total_seconds())} ago"
    )


@cache
def asset(name: str) -> bytes:
    """Returns the bytes of one of ASSETS."""
    return files("coatcheck.api.page").joinpath("assets", name).read_bytes()


@cache
def _asset_path(name: str) -> str:
    return f"/ui/assets/{name}?v={sha256(asset(name)).hexdigest()[:12]}"


def _plural(count: int, noun: str) -> str:
    return plural(count, noun)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("coatcheck.api.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    filters: dict[str, Any] = {
        "visible": visible,
        "size": size,
        "lasting": lasting,
        "moment": moment,
        "away": away,
        "decided": render_decision,
        "written": render_exact_value,
        "n": "{:,}".format,
        "plural": _plural,
    }
    functions: dict[str, Any] = {"address": address, "asset": _asset_path, "bars": bars}
    environment.filters.update(filters)
    environment.globals.update(functions)
    return environment


def render_page(template: str, values: Mapping[str, Any]) -> bytes:
    """Returns the HTML of a template."""
    return _environment().get_template(template).render(values).encode()
