"""Text views of JSON: indented documents, Jupyter notebooks, tool results of several parts, search responses.

Values stay as they are written, but a name that states type and size replaces encoded bytes. `core/views/parts.py`
defines what a part is. `core/search` lays out search responses: budgeted searches cite ranges of that view, so there
must be only one way to make it.
"""

import html
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, cast

import msgspec

from coatcheck.core.extract.blocks import TextWriter, one_line
from coatcheck.core.extract.boilerplate import TAG, words
from coatcheck.core.media.archives import format_size
from coatcheck.core.parts.blobs import name_blobs
from coatcheck.core.structure import JSON_FAULTS
from coatcheck.core.text.visible_text import visible
from coatcheck.core.views import parts
from coatcheck.core.views.view import ExtractedText
from coatcheck_client.contract.blobs import name_of
from coatcheck_client.contract.json_values import is_among

JSON_EXTRACTOR: Final = "json-indented 2"
_BOM: Final = b"\xef\xbb\xbf"
_PRETTY: Final = 200
"""Maximum mean length of lines, in bytes, with which a document is readable as it is."""
_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},:]|[^\s\[\]{},:"]++', re.DOTALL)
_MAX_LEVELS: Final = 32
"""Maximum levels of indentation. If deeper levels were indented further, a short document could become a huge one."""
_MAX_GROWTH: Final = 8
"""Maximum factor by which full indentation may enlarge a document; beyond it, only _MAX_LEVELS levels are indented."""
_MAX_TOKENS: Final = 4_000_000
"""Maximum JSON tokens of a view; the view of a document with more tokens is partial. Chosen, not measured."""


def extract_json(data: bytes) -> ExtractedText | None:
    """Returns the indented text of a JSON document, with names in place of encoded bytes.

    None if the document does not begin like JSON. Also None if it contains no encoded bytes, and is readable as it is
    or is NDJSON.
    """
    body = data.removeprefix(_BOM).strip(b" \t\r\n")
    if body[:1] not in {b"{", b"["}:
        return None
    without_blobs = name_blobs(body)
    if _reads_well(without_blobs):
        return None if without_blobs is body else ExtractedText(text=without_blobs + b"\n", extractor=JSON_EXTRACTOR)
    body = without_blobs
    try:
        text = msgspec.json.format(body, indent=2)
        text.decode()
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError):
        pass
    else:
        if len(text) <= _MAX_GROWTH * len(body) + 1024:
            return ExtractedText(text=text + b"\n", extractor=JSON_EXTRACTOR)
    indented_text, whole = indent_json(body.decode("utf-8", "replace"))
    return ExtractedText(text=indented_text.encode(), extractor=JSON_EXTRACTOR, partial=not whole)


def _reads_well(body: bytes) -> bool:
    lines = body.count(b"\n") + 1
    if lines > 1 and len(body) <= _PRETTY * lines:
        return True
    if lines == 1:
        return False
    first = body[: body.index(b"\n")].rstrip()
    try:  # if the first line is a document by itself, the text is NDJSON
        msgspec.json.decode(first, type=msgspec.Raw)
    except JSON_FAULTS:
        return False
    return True


def indent_json(text: str) -> tuple[str, bool]:
    """Returns the document indented token by token, and whether it was complete: all brackets and strings closed."""
    out: list[str] = []
    stack: list[str] = []
    whole = True
    last = ""
    for match in islice(_TOKEN.finditer(text), _MAX_TOKENS):
        mark = match.group()
        begins = mark not in "}],:"
        if not begins and mark in "}]":
            whole = whole and bool(stack) and stack[-1] == mark
            del stack[-1:]
        if (begins and last and last in "{[,") or (mark in "}]" and last not in {"{", "["}):
            out.append("\n" + "  " * min(len(stack), _MAX_LEVELS))
        out.append(": " if mark == ":" else mark)
        if mark in "{[":
            stack.append("}" if mark == "{" else "]")
        elif begins:
            whole = whole and (mark[0] != '"' or (len(mark) > 1 and mark[-1] == '"'))
        last = mark
    out.append("\n")
    return "".join(out), whole and not stack


NOTEBOOK_EXTRACTOR: Final = "notebook 1"
_NOTEBOOK_MEMBER: Final = re.compile(rb'"nbformat"\s*:\s*[2-9]')
_TITLE: Final = 80
"""Maximum characters of a cell's first line in the cell's title."""
_OLD_TYPES: Final = {
    **{name: f"text/{name}" for name in ("html", "latex")},
    **{name: f"image/{name}" for name in ("png", "jpeg")},
    "svg": "image/svg+xml",
    "text": "text/plain",
    "json": "application/json",
}
"""Media types by the names that nbformat 2 and 3 use for them."""


def may_be_notebook(head: bytes) -> bool:
    """Returns whether a document with this beginning may be a notebook; the member that proves it stands at the end."""
    return b'"cell_type"' in head and (b'"cells"' in head or b'"worksheets"' in head)


def extract_notebook(data: bytes) -> ExtractedText | None:
    """Returns the text of a notebook; None for any other document, and for a notebook that is cut off."""
    if not may_be_notebook(data) or _NOTEBOOK_MEMBER.search(data) is None:
        return None
    try:
        value: object = msgspec.json.decode(data)
    except JSON_FAULTS:
        return None
    cells = _cells_of(value)
    if cells is None:
        return None
    writer = TextWriter()
    for number, cell in enumerate(cells):
        source, title = _source_of(cell), _title_of(number, cell)
        if writer.size:
            writer.put("")
        writer.begin(title)
        lines = [f"## {title}", *([source.rstrip()] if source.strip() else [])]
        for output in _dicts(cell.get("outputs")):
            lines += [f"[out] {each}" if "\n" not in each else f"[out]\n{each}" for each in _outputs(output)]
        lines += [f"[attached: {one_line(name)}]" for name in _dict(cell.get("attachments"))]
        writer.put("\n".join(lines))
    return writer.finish(NOTEBOOK_EXTRACTOR)


def _source_of(cell: dict[str, Any]) -> str:
    return _text(cell.get("source", cell.get("input")))


def _title_of(number: int, cell: dict[str, Any]) -> str:
    """Returns the title of a cell: its number, its type and its first line."""
    first = next((line for line in _source_of(cell).splitlines() if line.strip()), "")
    return one_line(f"cell {number} {cell.get('cell_type') or ''}{f': {first[:_TITLE]}' if first else ''}")


def _cells_of(value: object) -> list[dict[str, Any]] | None:
    """Returns the cells of a decoded notebook; None if the value is no notebook."""
    notebook = _dict(value)
    if not isinstance(notebook.get("nbformat"), int):
        return None
    sheets = [notebook] if "cells" in notebook else _dicts(notebook.get("worksheets"))
    return [cell for sheet in sheets for cell in _dicts(sheet.get("cells"))] if sheets else None


def _outputs(output: dict[str, Any]) -> Iterator[str]:
    """Yields one output of a cell as texts: its text, and type and size in place of media."""
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
    """Returns a text that may be given as a list of lines; `end` is put between them."""
    return value if isinstance(value, str) else end.join(map(str, _list(value)))


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _dicts(value: object) -> list[dict[str, Any]]:
    return [mapping for each in _list(value) if (mapping := _dict(each))]


PARTS_EXTRACTOR: Final = "parts 3"
_TYPES: Final = words(
    "text input_text output_text text-plain image image_url input_image audio input_audio file input_file document "
    "resource resource_link search_result tool_reference video media refusal thinking redacted_thinking json "
    "function_call_output code_execution_output"
)
_MEDIA: Final = ("inlineData", "inline_data", "fileData", "file_data", "functionResponse", "function_response")
_PARTS_MEMBER: Final = re.compile(
    rb'"type"\s*:\s*"(?:'
    + b"|".join(sorted(name.encode() for name in _TYPES))
    + rb')"|"(?:inline_?[dD]ata|file_?[dD]ata)"'
)
_START: Final = re.compile(
    rb'\s*(?:\[\s*[{"]|\{\s*(?:"(?:jsonrpc|id)"\s*:[^,{\[]{1,80},\s*)*(?:"result"\s*:\s*\{\s*)?'
    rb'"(?:content"\s*:\s*\[|structuredContent"|isError"|_meta"))'
)
"""Matches the beginning of a list of parts, or of an MCP call's result, which may be in a JSON-RPC response."""
_RESULT: Final = frozenset(["content", "structuredContent", "isError", "_meta"])
"""Members of the result of a call, as MCP defines it."""
_ANSWER: Final = frozenset(["jsonrpc", "id", "result"])
"""Members of the JSON-RPC response around the result."""


def may_be_parts(head: bytes) -> bool:
    """Returns whether a document with this beginning may be a list of parts, or the result of an MCP call."""
    return bool(_START.match(head) and _PARTS_MEMBER.search(head))


def extract_parts(data: bytes) -> ExtractedText | None:
    """Returns the text of a payload that `core/views/parts.py` made of several parts, or of the result of an MCP call.

    None for any other payload. The text of a failed call begins with a part that says that the call failed.
    """
    if not may_be_parts(data):
        return None
    try:
        value: object = msgspec.json.decode(data)
    except JSON_FAULTS:
        return None
    whole = cast("dict[str, Any]", value) if isinstance(value, dict) else {"content": value}
    if whole.keys() == _ANSWER and isinstance(whole["result"], dict):
        whole = cast("dict[str, Any]", whole["result"])
    content = whole.get("content")
    if not whole.keys() <= _RESULT or not isinstance(content, list) or not is_parts(cast("list[object]", content)):
        return None
    return _write_parts(
        cast("list[object]", content), whole.get("structuredContent"), failed=whole.get("isError") is True
    )


def is_parts(value: list[object]) -> bool:
    """Returns whether a list is a provider's parts, rather than similar data."""
    typed = 0
    for each in value:
        if isinstance(each, str):
            continue
        if not isinstance(each, dict):
            return False
        part = cast("dict[str, Any]", each)
        kind = part.get("type")
        is_untyped = kind is None and (part.keys() & set(_MEDIA) or part.keys() == {"text"})
        if not is_untyped and not is_among(kind, _TYPES):
            return False
        typed += kind is not None or part.keys() != {"text"}
    return typed > 0


def _write_parts(value: list[object], structured: object, *, failed: bool) -> ExtractedText | None:
    writer = TextWriter()
    parts_of_text: list[tuple[str, str, str | None]] = list(map(_part, value))
    if failed:
        parts_of_text.insert(0, ("error", "The result says that the call failed.", None))
    if structured is not None:
        parts_of_text.append(("structured content", _json(structured), None))
    for number, (title, text, url) in enumerate(parts_of_text, 1):
        if writer.size:
            writer.put("")
        writer.begin(title, url=url)
        writer.put(f"# Part {number}: {one_line(title)}")
        body = text if text.endswith("\n") or not text else f"{text}\n"
        writer.write(name_blobs(body.encode("utf-8", "replace")))
    return writer.finish(PARTS_EXTRACTOR)


def _part(part: object) -> tuple[str, str, str | None]:
    """Returns a part's title, its readable text, and its URL."""
    if isinstance(part, str):
        return "text", part, None
    block = cast("dict[str, Any]", part)
    # Of a part that is only text, the text is shown; of a part that is only bytes, their type and size.
    kind = str(block.get("type") or next((key for key in _MEDIA if key in block), "text"))
    resource = parts.open_part(block)
    if resource is not None:
        title = resource.title or resource.url or kind
        media = resource.media_type or ""
        if _is_text(resource.data, media):
            return title, _indent_json(resource.data.decode()), resource.url
        return title, name_of(resource.media_type, len(resource.data)), resource.url
    # Any other part is shown with all of its members, so that nothing is lost; its text or its inner parts come first.
    text = block.get("text")
    url = next((v for k in ("url", "uri", "source") if isinstance(v := block.get(k), str)), None)
    name = block.get("title") or block.get("name")
    title = name if isinstance(name, str) and name else url if url and not url.startswith("data:") else kind
    if isinstance(text, str):
        rest = {k: v for k, v in block.items() if k not in {"text", "type"}}
        return title, f"{text}\n{_json(rest)}" if rest else text, url
    content = block.get("content")
    if isinstance(content, list) and is_parts(cast("list[object]", content)):
        inner = [_part(each)[1] for each in cast("list[object]", content)]
        head = f"{url}\n" if url else ""
        return title, head + "\n".join(inner), url
    return title, _json(block), url


def _is_text(data: bytes, media_type: str) -> bool:
    if media_type.startswith(("image/", "audio/", "video/")) or b"\x00" in data:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _indent_json(text: str) -> str:
    """Returns JSON in one line, which many programs print, with indentation; any other text as it is."""
    if text.lstrip()[:1] not in {"{", "["} or "\n" in text.strip():
        return text
    try:
        return _json(msgspec.json.decode(text))
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return text


def _json(value: object) -> str:
    return indent_json(msgspec.json.encode(value).decode())[0]


def extract_results(data: bytes) -> ExtractedText | None:
    """Returns the view of a search response; None if it holds neither results nor an answer of the provider."""
    from coatcheck.core.search.view import search_view  # noqa: PLC0415 - keeps the start of a worker fast

    view = search_view(data)
    return None if view.text is None else view
