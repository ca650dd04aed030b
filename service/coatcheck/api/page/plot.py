"""Bars over time as inline SVG: no script, no style, and a table with the same numbers for who cannot see them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from markupsafe import Markup, escape

WIDTH: Final = 720
HEIGHT: Final = 120
_TOP: Final = 6
_MOST_WIDTH: Final = 24.0


def bars(title: str, values: Sequence[tuple[datetime, int]], form: str = "%Y-%m-%d %H:%M") -> Markup:
    """Returns one bar per moment, in order; a negative value counts as 0."""
    most = max([value for _, value in values] + [1])
    step = WIDTH / max(1, len(values))
    rects: list[str] = []
    for number, (at, value) in enumerate(values):
        height = max(0, value) * (HEIGHT - _TOP) / most
        if height <= 0:
            continue
        height = max(height, 1.5)
        width = min(step * 0.8, _MOST_WIDTH)
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
