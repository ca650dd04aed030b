"""Which kind a payload is: the caller's word, then the bytes, then the media type, then structure and the tool's name.

Looks at a bounded piece of the head. A page is not a page because it mentions https://, and a log is not a failure
because it contains the word error.
"""

import re
from typing import Final

from coatcheck.core.artifact import Kind, Said, Sample
from coatcheck.core.kinds.lines import LOOK, Lines, chosen, look
from coatcheck.core.kinds.markup import is_page
from coatcheck.core.kinds.results import results
from coatcheck.core.kinds.search_tool import is_search_tool
from coatcheck.core.kinds.searched import listed, searched
from coatcheck.core.kinds.tabular import tabular
from coatcheck.core.media import identify
from coatcheck.core.structure.json_values import Reading, read_json
from coatcheck.core.text.scan import Scan

_BY_MEDIA_TYPE: Final = {
    "text/html": Kind.WEB_PAGE,
    "application/xhtml+xml": Kind.WEB_PAGE,
    "text/csv": Kind.TABLE,
    "text/tab-separated-values": Kind.TABLE,
    "text/x-diff": Kind.DIFF,
    "text/x-patch": Kind.DIFF,
    "application/x-patch": Kind.DIFF,
    "application/x-ndjson": Kind.JSON,
    "application/jsonl": Kind.JSON,
    "text/markdown": Kind.CODE_OR_FILE,
    "application/javascript": Kind.CODE_OR_FILE,
    "application/xml": Kind.CODE_OR_FILE,
    "text/xml": Kind.CODE_OR_FILE,
    "application/yaml": Kind.CODE_OR_FILE,
    "application/toml": Kind.CODE_OR_FILE,
}
_EVENTS: Final = 12
_OBJECT: Final = re.compile(rb'(?:\xef\xbb\xbf)?[\s\[]*\{\s*"[^"\n]{0,200}"\s*:')
_BEGUN: Final = 3
"""Keys, values and brackets read of a document that begins as one and is cut off soon after."""
_DECISIVE: Final = frozenset({Kind.JSON, Kind.TABLE, Kind.WEB_PAGE, Kind.DIFF})
"""Kinds that a media type settles by itself; `text/markdown` and the like are only believed when nothing else"
" speaks."""
_CODE_TYPE: Final = re.compile(
    r"text/(?:x-(?!log)|javascript|css|typescript|yaml|rust)|application/(?:x-)?(?:python|sh)"
)
_FILE_TOOL: Final = re.compile(
    r"read[-_]?(?:text[-_]?)?file|file[-_]?read|view[-_]?file|^(?:read|cat|view|open)$|get[-_]file", re.IGNORECASE
)
_SHELL_TOOL: Final = re.compile(
    r"bash|shell|exec|terminal|command|^(?:sh|zsh|cmd|make|pytest|npm|cargo|run|i?python3?|repl)$|powershell"
    r"|run[-_]tests?|code[-_]interpreter|jupyter",
    re.IGNORECASE,
)
_DIFF: Final = re.compile(
    rb"^(?:diff --git |diff -\w+ |--- \S[^\n]*\n\+\+\+ \S|\*\*\* \S[^\n]*\n--- \S|Index: \S+\n={20,})", re.MULTILINE
)
_HUNK: Final = re.compile(
    rb"^(?:@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@|\*{15}$|\d+(?:,\d+)?[acd]\d+(?:,\d+)?$)", re.MULTILINE
)
_CHANGE: Final = Scan(r"^(?:[-+ !\\@]|diff |index |\*{3} |\*{15}|[<>] |Index: |={20,}|(?:new|old|deleted) )")
_SIGNED: Final = Scan(r"^[-+!<>]")
_DIFF_WORDS: Final = (b"diff -", b"\n+++ ", b"\n@@ -", b"Index: ", b"\n***************")
"""One of these is in every diff; looking for them first spares most texts the patterns."""
_LOG_SHARE: Final = 0.25


def classify(sample: Sample, said: Said) -> Kind:
    """The kind of a payload. Always answers; `text` when nothing speaks for anything else."""
    if said.kind is not None:
        return said.kind
    head = sample.head[:LOOK]
    media_type = (said.media_type or "").partition(";")[0].strip().lower()
    binary = _binary(head, sample.head, media_type)
    if binary is not None:
        return binary
    return (
        _declared(media_type, _DECISIVE)
        or _structured(sample, head, said.tool_name or "")
        or (Kind.JSON if media_type.endswith("json") and head.strip() else None)
        or _declared(media_type, frozenset(Kind))
        or _by_lines(head, sample, said.tool_name or "")
    )


def _declared(media_type: str, among: frozenset[Kind]) -> Kind | None:
    """What the media type says, if it is one of these."""
    kind = _BY_MEDIA_TYPE.get(media_type) or (Kind.CODE_OR_FILE if _CODE_TYPE.match(media_type) else None)
    return kind if kind in among else None


def _binary(head: bytes, more: bytes, media_type: str) -> Kind | None:
    found = identify(head if len(head) < LOOK else more)
    if found is not None:
        return Kind.IMAGE if found.image else Kind.BINARY
    if media_type == "image/svg+xml":
        return Kind.CODE_OR_FILE
    if not head or _texty(head):
        return None
    return Kind.IMAGE if media_type.startswith("image/") else Kind.BINARY


_CONTROLS: Final = bytes([0, 1, 2, 3, 4, 5, 6, 14, 15, 16, 17, 18])


def _texty(head: bytes) -> bool:
    """Whether bytes read as text: next to no NUL, few undecodable or control characters; UTF-16 is not."""
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if head.count(0) * 50 > len(head) or controls * 10 > len(head):
        return False
    bad = head.decode("utf-8", "replace").count("\ufffd")
    return bad * 6 <= len(head)


def _structured(sample: Sample, head: bytes, tool: str) -> Kind | None:
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start in {b"{", b"["}:
        reading = read_json(sample.head, whole=sample.whole)
        if reading is not None and (_much(reading) or (_OBJECT.match(head) and reading.events >= _BEGUN)):
            found = searched(reading.value) or bool(is_search_tool(tool) and results(reading.value))
            return Kind.SEARCH_RESULTS if found else Kind.JSON
    if _changes(sample, head):
        return Kind.DIFF
    return Kind.WEB_PAGE if b"<" in head and is_page(head) else None


def _much(reading: Reading) -> bool:
    """Whether what was read is enough to call it JSON: `[12:30:01] started` is not."""
    return reading.complete or reading.lines > 1 or reading.events >= _EVENTS


def _changes(sample: Sample, head: bytes) -> bool:
    """A header with a hunk soon after; or hunks among lines that nearly all begin as those of a diff do."""
    if not any(word in head for word in _DIFF_WORDS):
        return False
    header = _DIFF.search(head)
    hunk = _HUNK.search(sample.head[: 4 * LOOK])
    if hunk is None:
        return False
    if header is not None and (header.start() < _SOON or hunk.start() > header.start()):
        between = head.count(b"\n", 0, header.start())
        if between <= _SOON_LINES:
            return True
    lines = chosen(sample)
    block, count = b"\n".join(lines), len(lines)
    return _CHANGE.share(block, count, 0.9) and _SIGNED.share(block, count, 0.02)


_SOON: Final = 2_000
_SOON_LINES: Final = 60


def _by_lines(head: bytes, sample: Sample, tool: str) -> Kind:
    if is_search_tool(tool) and head.count(b"http") > 1:
        return Kind.SEARCH_RESULTS
    if b"http" in head and listed(head):
        return Kind.SEARCH_RESULTS
    lines = chosen(sample)
    seen = look(lines)
    if not (seen.numbered and seen.aligned < _COLUMNS) and seen.hard < _MUCH_CODE and tabular(head):
        return Kind.TABLE
    return _of(seen, head, tool)


def _of(seen: Lines, head: bytes, tool: str) -> Kind:
    if seen.stamped >= (_LOG_SHARE if seen.count >= _FEW else 1) and seen.count > 1:
        return Kind.COMMAND_OUTPUT if _SHELL_TOOL.search(tool) else Kind.LOG
    if _FILE_TOOL.search(tool) or head.startswith(b"#!") or (seen.numbered and seen.aligned < _COLUMNS):
        return Kind.CODE_OR_FILE
    if _SHELL_TOOL.search(tool):
        return Kind.COMMAND_OUTPUT
    if seen.count < _FEW:
        return Kind.TEXT
    return _voted(seen)


def _voted(seen: Lines) -> Kind:
    """By shares. What begins and ends as output is output, whatever it shows in between."""
    printed = max(seen.printed, 0.9 * seen.listed) + (0.5 * seen.aligned if seen.hard < _HARDLY else 0.0)
    coded = seen.coded + seen.hard
    if printed >= _PRINTS and printed >= 0.8 * coded:
        return Kind.COMMAND_OUTPUT
    low, high = sorted((seen.opening, seen.closing))
    both = high >= _EDGE and low >= _OTHER_EDGE
    if (both or (seen.closing >= _END and coded < _TELLS)) and seen.stamped + seen.printed >= _SOME:
        return Kind.LOG if seen.stamped > seen.printed else Kind.COMMAND_OUTPUT
    if coded >= _CODES and coded >= 0.7 * seen.prose:
        return Kind.CODE_OR_FILE
    if seen.prose >= _TELLS:
        return Kind.TEXT
    return Kind.CODE_OR_FILE if coded > _TELLS else Kind.TEXT


_COLUMNS: Final = 0.5
"""Numbered lines with columns under each other are rows, not a file with line numbers."""
_MUCH_CODE: Final = 0.3
_HARDLY: Final = 0.1
"""Under this share of plain code, columns may be a program's."""
_PRINTS: Final = 0.2
_SOME: Final = 0.1
_EDGE: Final = 0.4
_OTHER_EDGE: Final = 0.15
_END: Final = 0.7
_CODES: Final = 0.35
_TELLS: Final = 0.3
"""Shares of lines: low, because most lines of most things say nothing of what they are."""
_FEW: Final = 4
"""Lines that say nothing about a text when there are not more."""
