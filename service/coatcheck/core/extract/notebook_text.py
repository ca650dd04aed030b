"""A Jupyter notebook (nbformat 2 to 4) as text: its cells in order, each with its source and what it put out."""

import html
import re
from collections.abc import Iterator
from typing import Any, Final, cast

import msgspec

from coatcheck.core.extract.sections import count_lines, locate_headings, one_line, sections
from coatcheck.core.extract.tags import TAG
from coatcheck.core.media.archives import format_size
from coatcheck.core.text.terminal import visible
from coatcheck.core.views.view import ExtractedText

NOTEBOOK_EXTRACTOR: Final = "notebook 1"
_NOTEBOOK_MEMBER: Final = re.compile(rb'"nbformat"\s*:\s*[2-9]')
_TITLE: Final = 80
"""Characters of a cell's first line that are in its title."""
_OLD_TYPES: Final = {
    **{name: f"text/{name}" for name in ("html", "latex")},
    **{name: f"image/{name}" for name in ("png", "jpeg")},
    "svg": "image/svg+xml",
    "text": "text/plain",
    "json": "application/json",
}
"""Media types by the names of nbformat 2 and 3."""


def may_be_notebook(head: bytes) -> bool:
    """Returns whether a document that begins like this is worth reading as a notebook, whose format stands last."""
    return b'"cell_type"' in head and (b'"cells"' in head or b'"worksheets"' in head)


def extract_notebook(data: bytes) -> ExtractedText | None:
    """Returns the text of a notebook; None for any other document, or one that is cut off."""
    if not may_be_notebook(data) or _NOTEBOOK_MEMBER.search(data) is None:
        return None
    try:
        value: object = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    cells = cells_of(value)
    if cells is None:
        return None
    out: list[str] = []
    headings: list[tuple[int, str, int, str | None]] = []
    size = 0
    for number, cell in enumerate(cells):
        source = _text(cell.get("source", cell.get("input")))
        first = next((line for line in source.splitlines() if line.strip()), "")
        title = one_line(f"cell {number} {cell.get('cell_type') or ''}{f': {first[:_TITLE]}' if first else ''}")
        lines = [f"{chr(10) if out else ''}## {title}", *([source.rstrip()] if source.strip() else [])]
        for output in _dicts(cell.get("outputs")):
            lines += [f"[out] {each}" if "\n" not in each else f"[out]\n{each}" for each in _outputs(output)]
        lines += [f"[attached: {one_line(name)}]" for name in _dict(cell.get("attachments"))]
        piece = "\n".join(lines) + "\n"
        headings.append((size + bool(out), title, 1, None))
        out.append(piece)
        size += len(piece.encode("utf-8", "replace"))
    text = "".join(out).encode("utf-8", "replace")
    outline = sections(locate_headings(headings, text), prefix="p", size=len(text), lines=count_lines(text))
    return ExtractedText(text=text, sections=outline, extractor=NOTEBOOK_EXTRACTOR) if text else None


def cells_of(value: object) -> list[dict[str, Any]] | None:
    """Returns the cells of a notebook that was decoded; None if it is none."""
    notebook = _dict(value)
    if not isinstance(notebook.get("nbformat"), int):
        return None
    sheets = [notebook] if "cells" in notebook else _dicts(notebook.get("worksheets"))
    return [cell for sheet in sheets for cell in _dicts(sheet.get("cells"))] if sheets else None


def _outputs(output: dict[str, Any]) -> Iterator[str]:
    """Yields what a cell put out: text, or what it is and its size."""
    if "ename" in output:
        traceback = _text(output.get("traceback"), "\n").encode("utf-8", "replace")
        trace_text = visible(traceback).decode("utf-8", "replace").strip()
        last = f"{output.get('ename')}: {output.get('evalue')}"
        yield trace_text if last in trace_text else f"{trace_text}\n{last}".strip()
        return
    forms = {_OLD_TYPES.get(name, name): value for name, value in {**output, **_dict(output.get("data"))}.items()}
    plain = _text(forms.get("text/plain")).strip("\n")
    if plain:
        yield plain
    for name, value in forms.items():
        if name.startswith(("image/", "audio/", "video/", "application/pdf")):
            text = _text(value)
            size = len(text) if name == "image/svg+xml" else len("".join(text.split())) * 3 // 4
            yield f"[{one_line(name)}, {format_size(size)}: not shown]"
        elif not plain and name == "text/html":
            yield " ".join(html.unescape(TAG.sub(" ", _text(value))).split())
        elif not plain and name in {"text/markdown", "text/latex"}:
            yield _text(value).strip("\n")
        elif not plain and name == "application/json":
            yield msgspec.json.encode(value).decode()


def _text(value: object, end: str = "") -> str:
    """Returns a text that may be written as a list of lines."""
    return value if isinstance(value, str) else end.join(map(str, _list(value)))


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _dicts(value: object) -> list[dict[str, Any]]:
    return [mapping for each in _list(value) if (mapping := _dict(each))]
