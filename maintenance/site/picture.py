"""Draw `docs/card.svg`: a payload and, beside it, the card that the service makes of it, as it is.

    PYTHONPATH=tests python maintenance/site/picture.py

A test compares the committed picture with the card of the present engine.
"""

import re
import tempfile
from html import escape
from pathlib import Path
from typing import Any, Final

from support.service import serving

ROOT: Final = Path(__file__).parents[2]
TARGET: Final = ROOT / "docs" / "card.svg"
PAYLOAD: Final = ROOT / "examples" / "test-run.log"
_TOP: Final = 64
_ROW: Final = 15
_COLUMNS: Final = 96
_LEFT: Final = 300
_STYLE: Final = """
svg { background: #ffffff }
text { font: 11.5px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #24292f; white-space: pre }
.head { font: 600 15px system-ui, sans-serif } .note { fill: #57606a } .own { fill: #0550ae }
.line { fill: #c4cad1 } .shown { fill: #0969da } .box { fill: none; stroke: #d0d7de }
@media (prefers-color-scheme: dark) {
svg { background: #0d1117 }
text { fill: #e6edf3 } .note { fill: #9198a1 } .own { fill: #79c0ff }
.line { fill: #3d444d } .shown { fill: #4493f8 } .box { stroke: #3d444d }
}
"""


def shown_lines(card: str) -> set[int]:
    """The numbers of the lines that a card shows."""
    found: set[int] = set()
    for first, last in re.findall(r"^¦ (\d+)(?:-(\d+))?$", card, re.MULTILINE):
        found.update(range(int(first), int(last or first) + 1))
    return found


def _miniature(payload: str, shown: set[int], height: int) -> list[str]:
    """One thin bar for each line of the payload."""
    lines = payload.splitlines()
    step = height / len(lines)
    return [
        f'<rect class="{"shown" if number in shown else "line"}" x="24" y="{_TOP + 10 + (number - 1) * step:.2f}" '
        f'width="{min(len(line), 110) * 2}" height="{step * 0.75:.2f}"/>'
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]


def _cut(line: str) -> str:
    return line if len(line) <= _COLUMNS else f"{line[: _COLUMNS - 1]}…"


def picture(payload: str, receipt: dict[str, Any]) -> str:
    """The drawing, as SVG; lines of the card that are too long for it end with `…`."""
    card: str = receipt["text"]
    rows = card.splitlines()
    height = len(rows) * _ROW
    count = receipt["card"]["tokens"]["count"]
    text = [
        f'<text x="{_LEFT + 14}" y="{_TOP + 20 + number * _ROW}"'
        f"{' class=' + chr(34) + 'own' + chr(34) if row.startswith(('[art_', '¦')) else ''}>{escape(_cut(row))}</text>"
        for number, row in enumerate(rows)
    ]
    width = _LEFT + 14 + _COLUMNS * 7 + 24
    name = f"{count:,} tokens of output, and the card of {receipt['tokens']} tokens that the model reads instead"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_TOP + height + 40}" role="img">',
            f"<title>{escape(name)}</title>",
            f"<style>{_STYLE}</style>",
            '<text class="head" x="16" y="28">What the tool printed</text>',
            f'<text class="note" x="16" y="48">{len(payload.splitlines())} lines, {count:,} tokens</text>',
            f'<text class="head" x="{_LEFT}" y="28">What the model reads</text>',
            f'<text class="note" x="{_LEFT}" y="48">{receipt["tokens"]} tokens: the marked lines, the next call</text>',
            f'<rect class="box" x="16" y="{_TOP}" width="240" height="{height + 20}" rx="6"/>',
            f'<rect class="box" x="{_LEFT}" y="{_TOP}" width="{width - _LEFT - 12}" height="{height + 20}" rx="6"/>',
            *_miniature(payload, shown_lines(card), height),
            *text,
            "</svg>",
            "",
        ]
    )


def of_today() -> str:
    """The drawing of what a service of this tree makes of the example."""
    payload = PAYLOAD.read_text()
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as service:
        return picture(payload, service.post(payload, tool_name="bash", title=PAYLOAD.name))


if __name__ == "__main__":
    TARGET.write_text(of_today())
