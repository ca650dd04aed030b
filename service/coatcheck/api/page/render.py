"""Renders templates as HTML, and values for them: plots, sizes, times, and values of policies.

Every text is escaped, and invisible characters in it are made visible. A plot is an inline SVG without script and
style; the page also has a table with the same numbers, for people who cannot see the plot. Values of policies are
rendered in two ways: with units for readers, and exactly as a form accepts them.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from coatcheck.api.page.call import address
from coatcheck.core.text.count import plural

WIDTH: Final = 720
"""Width of a plot, in units of the SVG's view box."""
HEIGHT: Final = 120
"""Height of a plot, in units of the SVG's view box."""
_TOP: Final = 6
"""Space above the highest bar, in units of the SVG's view box."""
_BAR_WIDTH: Final = 24.0
"""Maximum width of a bar, in units of the SVG's view box."""


def bars(title: str, values: Sequence[tuple[datetime, int]], form: str = "%Y-%m-%d %H:%M") -> Markup:
    """Returns a plot with one bar per moment, in the given order. A negative value counts as 0.

    Args:
        title: what the values count.
        values: moments with their values.
        form: format of the moments, for `strftime`.
    """
    most = max([value for _, value in values] + [1])
    step = WIDTH / max(1, len(values))
    rects: list[str] = []
    for number, (at, value) in enumerate(values):
        height = max(0, value) * (HEIGHT - _TOP) / most
        if height <= 0:
            continue
        # A value above 0 must be visible even beside a value that is a thousand times as high.
        height = max(height, 1.5)
        width = min(step * 0.8, _BAR_WIDTH)
        rects.append(
            f'<rect x="{number * step + (step - width) / 2:.1f}" y="{HEIGHT - height:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}"><title>{at.strftime(form)}: {value:,}</title></rect>'
        )
    total = sum(value for _, value in values)
    label = escape(f"{title}: {total:,} in all, at most {most if total else 0:,} at once")
    grid = f'<line x1="0" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>'
    svg = (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT + 1}" role="img" aria-label="{label}" '
        f'preserveAspectRatio="none">{grid}{"".join(rects)}</svg>'
    )
    return Markup(svg)  # noqa: S704 - made of numbers and of an escaped label


_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
"""Units of sizes. Each is _UNIT_RATIO times the previous one."""
_SPANS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
"""Units of durations with their seconds, the longest first."""
_UNIT_RATIO: Final = 1024
"""Ratio between two successive units of sizes."""
_FORM_UNITS: Final = {
    "ttl": ((86_400, "d"), (3600, "h"), (60, "m")),
    "bytes": ((1024**3, "gib"), (1024**2, "mib"), (1024, "kib")),
}
"""By the last word of a field's name, the units that a form accepts, the largest first."""


def size(value: int) -> str:
    """Returns a number of bytes in readable form: `1.5 MiB`."""
    number, unit = float(value), _UNITS[0]
    for unit in _UNITS:
        if number < _UNIT_RATIO or unit == _UNITS[-1]:
            break
        number /= _UNIT_RATIO
    return f"{value} B" if unit == "B" else f"{number:.1f} {unit}"


def lasting(seconds: float | None) -> str:
    """Returns a duration in its two largest units; None means forever."""
    if seconds is None:
        return "without end"
    remaining, parts = int(abs(seconds)), list[str]()
    for span, unit in _SPANS:
        if remaining >= span and len(parts) < 2:  # noqa: PLR2004 - two units say enough
            parts.append(f"{remaining // span} {unit}")
            remaining %= span
    return " ".join(parts) or "0 s"


def render_decision(name: str, value: Any) -> str:  # noqa: ANN401 - values of all fields
    """Returns the value of a policy's field for readers, with its unit."""
    if isinstance(value, tuple):
        return ", ".join(cast("tuple[str, ...]", value)) or "none"
    if value is None:
        return "without end" if name.endswith("ttl") else "no limit"
    if isinstance(value, bool):
        return render_exact_value(name, value)
    if not isinstance(value, int):
        return str(value)
    return lasting(value) if name.endswith("ttl") else size(value) if name.endswith("bytes") else f"{value:,}"


def render_exact_value(name: str, value: Any) -> str:  # noqa: ANN401 - values of all fields
    """Returns the exact value of a policy's field as a form accepts it: `7d`, `10gib`, `none`, `true`, `a.org`."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return ", ".join(cast("tuple[str, ...]", value)) or "none"
    units = _FORM_UNITS.get(name.rpartition("_")[2], ())
    return next((f"{value // size}{unit}" for size, unit in units if value and value % size == 0), str(value))


_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-"
    "\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
"""Matches a control character other than tab and line feed, a character without width, or one that changes the
direction of the text."""
ASSETS: Final = {"page.css": "text/css", "page.js": "text/javascript"}
"""The page's files, and their media types."""


def visible(value: object) -> Markup:
    """Returns an escaped text with a visible mark in place of each invisible character."""
    # Escape first: the marks themselves are markup.
    return Markup(_INVISIBLE.sub(_mark, str(escape(str(value)))))  # noqa: S704 - escaped in this very line


def _mark(match: re.Match[str]) -> str:
    return f'<span class="unseen">U+{ord(match[0]):04X}</span>'


def moment(value: datetime | None, otherwise: str = "\u2013") -> Markup:
    """Returns a moment as an HTML element, in UTC and to the second; `otherwise` if it is None."""
    if value is None:
        return escape(otherwise)
    return Markup('<time datetime="{}">{}</time>').format(value.isoformat(), value.strftime("%Y-%m-%d %H:%M:%S"))


def away(value: datetime, now: datetime) -> str:
    """Returns the distance between a moment and now: `in 3 d 4 h`, `5 min ago`."""
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
    # The digest changes with the file. A browser may therefore keep the file for a day and never uses an old one.
    return f"/ui/assets/{name}?v={sha256(asset(name)).hexdigest()[:12]}"


@cache
def _environment() -> Environment:
    # With StrictUndefined, a misspelt name in a template is an error instead of an empty space on the page.
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
        "plural": plural,
    }
    functions: dict[str, Any] = {"address": address, "asset": _asset_path, "bars": bars}
    environment.filters.update(filters)
    environment.globals.update(functions)
    return environment


def render_page(template: str, values: Mapping[str, Any]) -> bytes:
    """Returns the HTML of a template that is filled with the given values."""
    return _environment().get_template(template).render(values).encode()
