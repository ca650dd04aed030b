"""The input and output of describers, and the functions that they share: kinds by lines, markers, named parts.

Values are verbatim and bounded; make them inert before showing them to a model. The kind of a text is decided by a
share of its lines, never by a single line. Markers are a payload's statements about itself (exit codes, wall time,
truncation notices). They count only near the payload's ends and if they are about the whole output; a line that merely
mentions an error is no marker.
"""

import re
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from typing import Final

from msgspec import Struct

from coatcheck.core.artifact import DeclaredMetadata, Kind, Marker, PayloadSample
from coatcheck.core.outline.model import OutlineEntry
from coatcheck.core.structure import JsonReading, read_json, style_of
from coatcheck.core.survey import Survey
from coatcheck.core.text.scan import BlockPattern
from coatcheck_client.contract.inert import one_line

SECTION_CHARS: Final = 60
"""Maximum characters of a section's title in a call."""
_MAX_PARTS: Final = 24
"""Maximum parts of a text that a card may name. Chosen, not measured: a card of 600 tokens names fewer."""


class PayloadProbe(Struct, dict=True):
    """A payload while it is recognised. Values that several steps need are computed once, on demand."""

    sample: PayloadSample
    """Both ends of the payload, or all of it."""
    declared: DeclaredMetadata
    """The metadata that the caller declared."""
    survey: Survey | None = None
    """The survey of the payload; None if the sample is the whole payload, or there is no survey."""
    lines: PayloadSample | None = None
    """The sample as it is written, if `sample` has only the messages of lines with fields; otherwise None."""

    @cached_property
    def json(self) -> JsonReading | None:
        """The payload read as JSON, as far as possible; None if it does not begin like JSON."""
        return read_json(self.sample.head, whole=self.sample.whole)


class Description(Struct, frozen=True, kw_only=True):
    """Facts about a payload. Each fact is true of the whole payload, or names the part of which it is true."""

    lead: tuple[str, ...] = ()
    """Lines of the card that come before the facts of a survey."""
    facts: tuple[str, ...] = ()
    """Lines for the card, most important first."""
    title: str | None = None
    url: str | None = None
    language: str | None = None
    media_type: str | None = None
    path: str | None = None
    """A JSONPath to the values that a reader most likely wants next."""
    parts: tuple[tuple[str, int, int], ...] = ()
    """Titles of parts that can be read by `section`, largest first, with the first line and number of lines of each."""
    document: bool = False
    """Whether `parts` are headings."""


NOTHING = Description()
OUTLINE: Final = (("outline", 1, 1 << 62),)
"""Value of `parts` for a payload whose outline is worth reading first, whatever the card shows."""


def clip_line(text: str, size: int) -> str:
    """Returns a text on one line, shortened to `size` characters; `…` at its end says so.

    What follows the first `4 * size` characters is left out, too: they may be mostly blanks.
    """
    flat = " ".join(text[: 4 * size].split())
    is_whole = len(flat) <= size and not text[4 * size :].strip()
    return flat if is_whole else flat[: size - 1] + "…"


def may_name(title: str) -> bool:
    """Returns whether a title is inert, and short enough for the call that a card suggests."""
    return len(title) <= SECTION_CHARS and title == one_line(title)


def select_named_parts(entries: Iterable[OutlineEntry]) -> tuple[tuple[str, int, int], ...]:
    """Returns the first entries that the call on a card may name, in the form of `Description.parts`."""
    parts = [(each.title, each.lines) for each in entries if each.lines is not None and may_name(each.title)]
    return tuple([(title, lines.first, lines.last - lines.first + 1) for title, lines in parts[:_MAX_PARTS]])


_COLOUR: Final = r"(?:\x1b\[[0-9;]*m)*"
_STAMPED: Final = BlockPattern(
    rf"^(?:[\w.-]+ +\| )?{_COLOUR}[\[(<]? ?{_COLOUR}(?:"
    r"(?:(?:[^a-z\s]\S{0,30} +){0,4}?\S{0,12}?|[\w.@/-]{1,40}:? \[?)(?:\d\d:\d\d:\d\d\b"
    r"|\d{4}[-/.]\d\d[-/.]\d\d[T _-]\d\d:)"
    rf"|(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE)\b{_COLOUR} ?(?:[:\]|(]| {{2,}}\S| [\w.]+:)"
    r"|\d+\.\d{6}\]|1[5-9]\d{8}[. :]|[IWEF]\d{4} |\d{1,3}>\d? ?[A-Z\d]"  # kernel, seconds since 1970, klog, syslog
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

_HEAD_BYTES: Final = 8 * 1024
"""Bytes of the beginning whose lines are examined."""
_TAIL_BYTES: Final = 4 * 1024
"""Bytes of the end whose lines are examined."""
_HEAD_LINES: Final = 32
"""Lines of the beginning that are examined. Chosen, not measured: examining them costs time in every put."""
_TAIL_LINES: Final = 12
"""Lines of the end that are examined. They are fewer, because the end of a text is mostly a summary."""
_LINE_BYTES: Final = 160
"""Bytes of each examined line that are read."""
_MIN_LINES: Final = 4
"""Minimum lines of a text whose kind is decided by shares of lines."""
_LOG: Final = 0.4
"""Minimum share of a log's lines that begin with a time or level. It is low, because many lines continue others."""
_BY_SHARES: Final = {"code": Kind.CODE_OR_FILE, "prose": Kind.TEXT, "output": Kind.COMMAND_OUTPUT}


def kind_by_lines(sample: PayloadSample, tool: str) -> Kind:
    """Returns the kind of a text by its lines, and by the name of the tool that returned it, which may be empty."""
    lines, of_shell = _select_lines(sample), _SHELL_TOOL.search(tool) is not None
    block, count = b"\n".join(lines).decode("utf-8", "ignore").encode(), len(lines)
    least = (_LOG if count >= _MIN_LINES else 1) * count
    if count > 1 and _STAMPED.count(block, least) >= least:
        return Kind.COMMAND_OUTPUT if of_shell else Kind.LOG
    if _FILE_TOOL.search(tool) or block.startswith(b"#!") or _is_numbered(lines):
        return Kind.CODE_OR_FILE
    if of_shell:
        return Kind.COMMAND_OUTPUT
    return _BY_SHARES[style_of(block, count)] if count >= _MIN_LINES else Kind.TEXT


def _select_lines(sample: PayloadSample) -> list[bytes]:
    """Returns the first and the last lines of a sample, shortened, without blank lines."""
    first = sample.head[:_HEAD_BYTES].split(b"\n", _HEAD_LINES)
    rest = first[_HEAD_LINES] if len(first) > _HEAD_LINES else b""
    tail = (sample.tail or sample.head[_HEAD_BYTES:] or rest)[-_TAIL_BYTES:]
    lines = first[:_HEAD_LINES] + (tail.rsplit(b"\n", _TAIL_LINES)[-_TAIL_LINES:] if tail else [])
    return [line[:_LINE_BYTES] for line in lines if line and not line.isspace()]


def _is_numbered(lines: list[bytes]) -> bool:
    """Returns whether lines begin with increasing numbers, as an editor or `cat -n` shows a file."""
    matches = [_NUMBER.match(line) for line in lines[:_HEAD_LINES]]
    numbers = [int(match[1]) for match in matches if match]
    if len(numbers) < _MIN_LINES or len(numbers) < 0.6 * len(matches):
        return False
    return sum(0 < high - low <= 3 for low, high in pairwise(numbers)) >= 0.7 * (len(numbers) - 1)  # noqa: PLR2004


_END_BYTES: Final = 4096
"""Bytes of each end that are searched for markers. Harnesses put their markers first or last."""
_MAX_MARKERS: Final = 8
"""Maximum markers that are kept. In a text with more, such lines are the content."""
_MARKER_CHARS: Final = 160
"""Maximum characters of a marker that are kept."""
_MARKER_LINE_CHARS: Final = 2 * _MARKER_CHARS
"""Maximum characters of a line that may be a marker."""

_PATTERN: Final = (
    r"^[ \t]*(?:"
    r"(?P<exit_code>\[exit(?: code)?:? ?-?\d+\]|(?:process |command |shell )?exit(?:ed)?(?: with)?(?: code| status)"
    r"(?: is| was)?[ :=]{1,3}-?\d+\.?|(?:process|command|script|job|child) (?:exited|finished|terminated|failed"
    r"|completed|returned)(?: with)?(?:(?: non-zero)? (?:exit )?(?:code|status))?[ :=]{1,3}-?\d+\.?|"
    r"exit_?code[=:] ?-?\d+|return ?code[=:] ?-?\d+|<exit_?code>-?\d+</exit_?code>|"
    r"exited with (?:code|status)[ :]-?\d+|.{0,60}\bcommand failed with exit (?:code|status) \d+.{0,80}|"
    r"##\[error\]process completed with exit code \d+\.?|"
    r"finished: (?:success|failure|unstable|aborted)|build (?:success|successful|failure|failed))"
    r"|(?P<wall_time>(?:wall|total|elapsed|real) ?time[ :=]{1,3}[\d.:]+ ?(?:s|sec|seconds|ms|m|min|minutes)?\b.{0,20}|"
    r"real\s{1,4}\d+m[\d.]+s|duration[:=] ?[\d.]+ ?(?:s|ms|seconds)?)"
    r"|(?P<original_token_count>original token count: ?\d[\d,]*)"
    r"|(?P<original_lines>total output lines: ?\d[\d,]*)"
    r"|(?P<file>\[file: .{1,200}?(?:\(\d+ lines total\))?\])"
    r"|(?P<truncated>[\[<(*.… -]{0,8}(?:(?:output|content|response|file|text|results?) )?(?:(?:was|has been|is) )?"
    r"(?:truncated|omitted)(?:[\])>.…*:]| (?:to|at|after|from|because|due|for)\b|$).{0,100}"
    r"|[\[<(*.… -]{0,8}\d[\d,]* (?:more )?(?:lines?|chars?|characters?|bytes|tokens?) (?:(?:were|are) )?"
    r"(?:omitted|truncated|skipped|more|not shown|remaining|above|below|elided|hidden)\b.{0,60}"
    r"|[\[<(*.…]{1,8} ?\d[\d,]* more (?:lines?|chars?|characters?|bytes|tokens?)\b.{0,60}"
    r"|warning: truncated output.{0,100})"
    r")[ \t]*\r?$"
)
_MARKER_LINE: Final = re.compile(_PATTERN, re.IGNORECASE)
_LINES: Final = BlockPattern(_PATTERN, ignore_case=True)
"""Finds the lines that are markers in one pass. `_MARKER_LINE` then determines the marker in each line."""


def find_markers(sample: PayloadSample) -> tuple[Marker, ...]:
    """Returns the payload's statements about itself, in order, without duplicates, at most _MAX_MARKERS."""
    ends = [sample.head[:_END_BYTES], (sample.tail or sample.head)[-_END_BYTES:]]
    markers: dict[tuple[str, str], None] = {}
    for part in [sample.head] if sample.whole and len(sample.head) <= 2 * _END_BYTES else ends:
        for start, end, *_ in _LINES.lines(part):
            if end - start > 4 * _MARKER_LINE_CHARS:
                continue
            line = part[start:end].decode("utf-8", "replace").removesuffix("\n")
            match = _MARKER_LINE.match(line) if len(line) <= _MARKER_LINE_CHARS else None
            if match and match.lastgroup is not None:
                markers.setdefault((match.lastgroup, match.group().strip()[:_MARKER_CHARS]))
    pairs = list(markers)
    del pairs[2 : 2 - _MAX_MARKERS]  # if there are too many, the first two and the last six are kept
    return tuple(Marker(name, value) for name, value in pairs)
