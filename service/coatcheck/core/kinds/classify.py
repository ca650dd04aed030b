"""Decides the kind of a payload: by the declaration, the bytes, the media type, the structure, and the tool's name.

The kind only adds facts and weights to a card, so that the rules are no more elaborate than these need.
"""

import re
from typing import Final

from coatcheck.core.artifact import Kind
from coatcheck.core.kinds.description import PayloadProbe, kind_by_lines
from coatcheck.core.kinds.results import find_results, is_listing, is_search_answer, is_search_tool
from coatcheck.core.kinds.spec import SPECS
from coatcheck.core.media import identify, identify_written
from coatcheck.core.structure import read_table

_BY_MEDIA_TYPE: Final = {name: kind for kind, spec in SPECS.items() for name in spec.media_types}
_BY_BEGINNING: Final = [(kind, spec.begins) for kind, spec in SPECS.items() if spec.begins is not None]
_FILE_TYPE: Final = re.compile(
    r"text/(?:x-(?!log)|markdown|javascript|css|typescript|yaml|rust|xml)"
    r"|application/(?:(?:x-)?(?:python|sh)|javascript|xml|yaml|toml)|image/svg"
)
"""Matches media types of files. They count only if the structure indicates no other kind."""
_OBJECT: Final = re.compile(rb'(?:\xef\xbb\xbf)?[\s\[]*\{\s*"[^"\n]{0,200}"\s*:')
_MUCH: Final = 60
"""A text with more than this many bytes of valid JSON before an error is JSON. A text with fewer may only look like
JSON, as `[12:30:01] started` does."""
_DIFF: Final = re.compile(
    rb"^(?:diff --git |diff -\w+ |--- \S[^\n]*\n\+\+\+ \S|\*\*\* \S[^\n]*\n--- \S|Index: \S+\n={20,})", re.MULTILINE
)
_HUNK: Final = re.compile(
    rb"^(?:@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@|\*{15}$|\d+(?:,\d+)?[acd]\d+(?:,\d+)?$)", re.MULTILINE
)
_CHANGE: Final = re.compile(
    rb"^(?:[-+ !\\@]|diff |index |\*{3}|[<>] |Index: |={20,}|(?:new|old|deleted) |$)", re.MULTILINE
)
_DIFF_WORDS: Final = (b"diff -", b"\n+++ ", b"\n@@ -", b"Index: ", b"\n***************")
"""Every diff contains one of these words. They are searched first, so that most texts need not be matched against the
slower patterns."""
_ENCODED: Final = re.compile(
    rb"^content-transfer-encoding:\s*(?:base64|quoted-printable)", re.IGNORECASE | re.MULTILINE
)
_CONTROLS: Final = bytes([*range(7), *range(16, 26), *range(28, 32), 127])
_HEAD_BYTES: Final = 8 * 1024
"""Bytes at the beginning that decide the kind. The number is small, because examining them costs time in every put."""
_MESSAGE_BYTES: Final = 2 * 1024
"""Maximum bytes of the message before a diff."""


def classify(payload: PayloadProbe) -> Kind:
    """Returns the kind of a payload; `text` if nothing indicates another kind."""
    declared, head = payload.declared, payload.sample.head[:_HEAD_BYTES]
    if declared.kind is not None:
        return declared.kind
    if identify_written(head, declared.media_type) is not None and not _sends_diff(head):
        return Kind.DOCUMENT
    media_type = (declared.media_type or "").partition(";")[0].strip().lower()
    if (binary := identify(payload.sample.head)) is not None or not _is_text(head):
        actual_type = media_type if binary is None else binary.media_type
        return Kind.IMAGE if actual_type.startswith("image/") else Kind.BINARY
    tool = declared.tool_name or ""
    return (
        _BY_MEDIA_TYPE.get(media_type)
        or _by_structure(payload, head, tool)
        or (Kind.JSON if media_type.endswith("json") and head.strip() else None)
        or (Kind.CODE_OR_FILE if _FILE_TYPE.match(media_type) else None)
        or _by_text(payload, head, tool)
    )


def _is_text(head: bytes) -> bool:
    """Returns whether bytes are text: almost no NUL, few undecodable or control characters; UTF-16 is not."""
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if head.count(0) * 50 > len(head) or controls * 10 > len(head):
        return False
    return head.isascii() or head.decode("utf-8", "replace").count("\ufffd") * 6 <= len(head)


def _by_structure(payload: PayloadProbe, head: bytes, tool: str) -> Kind | None:
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in {b"{", b"["} and (reading := payload.json) is not None:
        much = reading.complete or reading.lines > 1 or reading.size > _MUCH
        if much or (reading.value and _OBJECT.match(head)):
            is_search = is_search_answer(reading.value) or (is_search_tool(tool) and find_results(reading.value))
            return Kind.SEARCH_RESULTS if is_search else Kind.JSON
    if _is_diff(head):
        return Kind.DIFF
    return next((kind for kind, begins in _BY_BEGINNING if begins(head)), None)


def _by_text(payload: PayloadProbe, head: bytes, tool: str) -> Kind:
    if b"http" in head and (is_listing(head[: _HEAD_BYTES // 2]) or (is_search_tool(tool) and head.count(b"http") > 1)):
        return Kind.SEARCH_RESULTS
    if read_table(head) is not None:
        return Kind.TABLE
    return kind_by_lines(payload.sample, tool)


def _sends_diff(head: bytes) -> bool:
    """Returns whether a mail contains a diff below its headers, without an encoding."""
    return _ENCODED.search(head) is None and _is_diff(head)


def _is_diff(head: bytes) -> bool:
    """Returns whether a text is a diff: it has hunks, and a header near its beginning or hardly any other lines."""
    if not any(word in head for word in _DIFF_WORDS):
        return False
    header, hunk = _DIFF.search(head), _HUNK.search(head)
    if hunk is None:
        return False
    if header is not None and header.start() < _MESSAGE_BYTES:
        return True
    return len(_CHANGE.findall(head)) > 0.9 * head.count(b"\n")
