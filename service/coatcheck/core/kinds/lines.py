"""Decides the sort of a text by how its first and last lines begin and end, and by the tool that printed it.

A share of the lines decides, never a single one; and what a card shows of a text with statements does not depend on it.
"""

import re
from itertools import pairwise
from typing import Final

from coatcheck.core.artifact import Kind, PayloadSample
from coatcheck.core.structure.line_style import style_of
from coatcheck.core.text.scan import BlockPattern

_COLOUR: Final = r"(?:\x1b\[[0-9;]*m)*"
_STAMPED: Final = BlockPattern(
    rf"^(?:[\w.-]+ +\| )?{_COLOUR}[\[(<]? ?{_COLOUR}(?:"
    r"(?:(?:[^a-z\s]\S{0,30} +){0,4}?\S{0,12}?|[\w.@/-]{1,40}:? \[?)(?:\d\d:\d\d:\d\d\b"
    r"|\d{4}[-/.]\d\d[-/.]\d\d[T _-]\d\d:)"
    rf"|(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE)\b{_COLOUR} ?(?:[:\]|(]| {{2,}}\S| [\w.]+:)"
    r"|\d+\.\d{6}\]|1[5-9]\d{8}[. :]|[IWEF]\d{4} |\d{1,3}>\d? ?[A-Z\d]"  # a kernel's, since 1970, klog, syslog
    r"|(?:time|ts|level|lvl|severity)=\S|\S+ \S+ \S+ \[\d\d/[A-Z][a-z]{2}/\d{4}:)"
)
_NUMBER: Final = re.compile(rb" {0,9}(\d{1,7})(?:[:|\t]|\xe2\x86\x92| [|:] ?| \xe2\x94\x82| {1,2}\S)")
_FILE_TOOL: Final = re.compile(
    r"read[-_]?(?:text[-_]?)?file|file[-_]?read|view[-_]?file|^(?:read|cat|view|open)$|get[-_]file", re.IGNORECASE
)
_SHELL_TOOL: Final = re.compile(
    r"bash|shell|exec|terminal|command|^(?:sh|zsh|cmd|make|run|i?python3?|repl)$|run[-_]tests?|code[-_]interpreter",
    re.IGNORECASE,
)

_HEAD: Final = 8 * 1024
_TAIL: Final = 4 * 1024
_HEAD_LINES: Final = 32
_TAIL_LINES: Final = 12
_MAX_LINE_CHARS: Final = 160
"""Number of lines that are examined, and bytes of each."""
_FEW: Final = 4
"""Maximum number of lines that say nothing about a text."""
_LOG: Final = 0.4
"""Share of the lines: low, because most lines of most texts say nothing about the sort."""
_BY_SHARES: Final = {"code": Kind.CODE_OR_FILE, "prose": Kind.TEXT, "output": Kind.COMMAND_OUTPUT}


def kind_by_lines(sample: PayloadSample, tool: str) -> Kind:
    """Returns the sort of a text that a tool of this name returned, which may be empty."""
    lines, of_shell = _select_lines(sample), _SHELL_TOOL.search(tool) is not None
    block, count = b"\n".join(lines).decode("utf-8", "ignore").encode(), len(lines)
    least = (_LOG if count >= _FEW else 1) * count
    if count > 1 and _STAMPED.count(block, least) >= least:
        return Kind.COMMAND_OUTPUT if of_shell else Kind.LOG
    if _FILE_TOOL.search(tool) or block.startswith(b"#!") or _is_numbered(lines):
        return Kind.CODE_OR_FILE
    if of_shell:
        return Kind.COMMAND_OUTPUT
    return _BY_SHARES[style_of(block, count)] if count >= _FEW else Kind.TEXT


def _select_lines(sample: PayloadSample) -> list[bytes]:
    """Returns the first and last lines, shortened, without blank ones."""
    first = sample.head[:_HEAD].split(b"\n", _HEAD_LINES)
    rest = first[_HEAD_LINES] if len(first) > _HEAD_LINES else b""
    tail = (sample.tail or sample.head[_HEAD:] or rest)[-_TAIL:]
    lines = first[:_HEAD_LINES] + (tail.rsplit(b"\n", _TAIL_LINES)[-_TAIL_LINES:] if tail else [])
    return [line[:_MAX_LINE_CHARS] for line in lines if line and not line.isspace()]


def _is_numbered(lines: list[bytes]) -> bool:
    """Returns whether lines begin with increasing numbers, as an editor or `cat -n` shows a file."""
    matches = [_NUMBER.match(line) for line in lines[:_HEAD_LINES]]
    numbers = [int(match[1]) for match in matches if match]
    if len(numbers) < _FEW or len(numbers) < 0.6 * len(matches):
        return False
    return sum(0 < high - low <= 3 for low, high in pairwise(numbers)) >= 0.7 * (len(numbers) - 1)  # noqa: PLR2004
