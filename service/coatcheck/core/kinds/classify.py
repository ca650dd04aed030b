"""Which kind a payload is: the caller's word, then the bytes, then the media type, then structure and the tool's name.

Looks at a bounded piece of the head. A page is not a page because it mentions https://, and a log is not a failure
because it contains the word error.
"""

import re
from itertools import pairwise
from typing import Final

from coatcheck.core.artifact import Kind, Said, Sample
from coatcheck.core.kinds.magic import identify
from coatcheck.core.kinds.results import results
from coatcheck.core.kinds.scan import Scan
from coatcheck.core.kinds.table import columns
from coatcheck.core.kinds.values import Reading, read_json

_LOOK: Final = 16 * 1024
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
_DECISIVE: Final = frozenset({Kind.JSON, Kind.TABLE, Kind.WEB_PAGE, Kind.DIFF})
"""Kinds that a media type settles by itself; `text/markdown` and the like are only believed when nothing else"
" speaks."""
_CODE_TYPE: Final = re.compile(
    r"text/(?:x-(?!log)|javascript|css|typescript|yaml|rust)|application/(?:x-)?(?:python|sh)"
)
_SEARCH_TOOL: Final = re.compile(
    r"(?:web|news|internet|google|bing|brave|tavily|exa|duckduckgo|ddg|serp)\w{0,12}[-_.]?search"
    r"|search[-_.]?(?:web|results|engine)|^search$|tavily|serper",
    re.IGNORECASE,
)
_FILE_TOOL: Final = re.compile(
    r"read[-_]?(?:text[-_]?)?file|file[-_]?read|view[-_]?file|^(?:read|cat|view|open)$|get[-_]file", re.IGNORECASE
)
_SHELL_TOOL: Final = re.compile(
    r"bash|shell|exec|terminal|command|^(?:sh|zsh|cmd|make|pytest|npm|cargo|run|i?python3?|repl)$|powershell"
    r"|run[-_]tests?|code[-_]interpreter|jupyter",
    re.IGNORECASE,
)
_HTML: Final = re.compile(
    rb"\A(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]{0,200}>\s*|<!--.{0,2000}?-->\s*){0,3}<(?:!doctype html|html\b|head\b"
    rb"|body\b)",
    re.IGNORECASE | re.DOTALL,
)
_DIFF: Final = re.compile(rb"^(?:diff --git a/|--- \S[^\n]*\n\+\+\+ \S|Index: \S+\n={20,})", re.MULTILINE)
_HUNK: Final = re.compile(rb"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@", re.MULTILINE)
_DIFF_WORDS: Final = (b"diff --git a/", b"\n+++ ", b"Index: ")
"""One of these is in every diff; looking for them first spares most texts the pattern."""
_LOG_LINE: Final = Scan(
    r"^(?:\x1b\[[0-9;]*m)*[\[(]?(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d\b"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)"
    r"|^(?:\x1b\[[0-9;]*m)*\[?(?:\x1b\[[0-9;]*m)*(?:INFO|DEBUG|WARN|WARNING|ERROR|TRACE|FATAL)\b|\b(?:level"
    r"|lvl)=(?:info|warn|error|debug)"
    r"|\[taskcluster|^\S+ \S+ \S+ \[\d\d/[A-Z][a-z]{2}/\d{4}"
)
_RUN_LINE: Final = Scan(
    r"^(?:\$ |> |\+ |# ?\w+@|\w+@[\w.-]+:|Started by |Running |Building |Compiling |Installing |Collecting "
    r"|npm |yarn |make(?:\[\d+\])?: |"
    r"=+ (?:test|FAIL|ERR)|Traceback \(|total \d+$|drwx|-rw-|PASS|FAIL|ok \d|not ok|\[\d+/\d+\])"
)
_NUMBER: Final = re.compile(rb"^\s{0,8}(\d{1,7})[:|\t ]")
_CODE_LINE: Final = Scan(
    r"^[ \t]{0,40}(?:def |class |import |from \S+ import |#include|package |func |fn |pub |const |let |var "
    r"|public |private |return\b|"
    r"if ?\(|for ?\(|while ?\(|\}|\{|//|/\*|\* |#!|@\w+|using |namespace |module |export |interface "
    r"|type \w+ =|</?\w)"
    r"|(?:[;{}]|\)[ \t]*(?:->|:|\{))[ \t\r]*$"
)
_HEAD_LINES: Final = 100
_TAIL_LINES: Final = 40
_LINE_CAP: Final = 200
"""How much of a line may speak for it."""


def classify(sample: Sample, said: Said) -> Kind:
    """The kind of a payload. Always answers; `text` when nothing speaks for anything else."""
    if said.kind is not None:
        return said.kind
    head = sample.head[:_LOOK]
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
    found = identify(head if len(head) < _LOOK else more)
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
    if _HTML.match(head):
        return Kind.WEB_PAGE
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start in {b"{", b"["}:
        reading = read_json(sample.head, whole=sample.whole)
        if reading is not None and _much(reading):
            found = results(reading.value)
            searched = found is not None and (_SEARCH_TOOL.search(tool) or len(found) > 1)
            return Kind.SEARCH_RESULTS if searched else Kind.JSON
    if any(word in head for word in _DIFF_WORDS) and _DIFF.search(head) and _HUNK.search(sample.head[: 4 * _LOOK]):
        return Kind.DIFF
    return None


def _much(reading: Reading) -> bool:
    """Whether what was read is enough to call it JSON: `[12:30:01] started` is not."""
    return reading.complete or reading.lines > 1 or reading.events >= _EVENTS


def _numbered(lines: list[bytes]) -> bool:
    """Whether this is a file shown by an editor or `cat -n`: most lines begin with numbers that count up."""
    numbers = [int(match.group(1)) for line in lines if (match := _NUMBER.match(line))]
    rising = sum(high - low == 1 for low, high in pairwise(numbers))
    return len(numbers) > 5 and len(numbers) >= 0.6 * len(lines) and rising >= 0.7 * len(numbers)  # noqa: PLR2004


def _by_lines(head: bytes, sample: Sample, tool: str) -> Kind:
    if _SEARCH_TOOL.search(tool) and head.count(b"http") > 1:
        return Kind.SEARCH_RESULTS
    if columns(head) is not None:
        return Kind.TABLE
    lines = _lines(head, sample)
    block, count = b"\n".join(lines), len(lines)
    if count < _FEW:
        count = 0
    if count and _LOG_LINE.share(block, count, 0.2):
        return Kind.COMMAND_OUTPUT if _SHELL_TOOL.search(tool) else Kind.LOG
    if _FILE_TOOL.search(tool) or head.startswith(b"#!") or _numbered(lines):
        return Kind.CODE_OR_FILE
    if _SHELL_TOOL.search(tool) or (count and _RUN_LINE.share(block, count, 0.1)):  # commands print much
        return Kind.COMMAND_OUTPUT
    return Kind.CODE_OR_FILE if count and _CODE_LINE.share(block, count, 0.35) else Kind.TEXT


_FEW: Final = 4
"""Lines that say nothing about a text when there are not more."""


def _lines(head: bytes, sample: Sample) -> list[bytes]:
    """The first lines of the payload and the last ones, each as far as it may speak, without blank ones."""
    tail = (sample.tail or sample.head)[-_LOOK:]
    lines = head.split(b"\n", _HEAD_LINES)[:_HEAD_LINES]
    lines += tail.rsplit(b"\n", _TAIL_LINES)[-_TAIL_LINES:]
    return [line[:_LINE_CAP] for line in lines if line and not line.isspace()]
