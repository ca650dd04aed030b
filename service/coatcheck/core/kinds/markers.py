"""Finds a payload's statements about itself: exit codes, wall time, original sizes, truncation notices.

Values are verbatim and bounded. Only statements about the whole output count, and only near its ends; a line that
merely mentions an error does not.
"""

import re
from typing import Final

from coatcheck.core.artifact import Marker, PayloadSample
from coatcheck.core.text.scan import BlockPattern

_ENDS: Final = 4096
_MAX_MARKERS: Final = 8
_MAX_VALUE: Final = 160
_LONGEST: Final = 2 * _MAX_VALUE
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
"""Finds the lines in one pass; the expression above then tells which statement each is."""


def find_markers(sample: PayloadSample) -> tuple[Marker, ...]:
    """Returns the payload's statements about itself, in order, without duplicates, at most eight."""
    ends = [sample.head[:_ENDS], (sample.tail or sample.head)[-_ENDS:]]
    markers: dict[tuple[str, str], None] = {}
    for part in [sample.head] if sample.whole and len(sample.head) <= 2 * _ENDS else ends:
        for start, end, *_ in _LINES.lines(part):
            if end - start > 4 * _LONGEST:
                continue
            line = part[start:end].decode("utf-8", "replace").removesuffix("\n")
            match = _MARKER_LINE.match(line) if len(line) <= _LONGEST else None
            if match and match.lastgroup is not None:
                markers.setdefault((match.lastgroup, match.group().strip()[:_MAX_VALUE]))
    pairs = list(markers)
    del pairs[2 : 2 - _MAX_MARKERS]  # the first two and the last ones stay
    return tuple(Marker(name, value) for name, value in pairs)
