"""Places, URLs and paths in a payload that an agent may need for its next step. Scans the sample's ends only."""

import re
from collections.abc import Callable
from itertools import islice
from typing import Final

from coatcheck.core.artifact import Kind, Sample
from coatcheck.core.kinds.scan import Scan

_SCAN: Final = 48 * 1024
_LINE_CAP: Final = 2_000
_TRIED: Final = 200
"""Lines of each sort that are looked at closely: repeats of the same place do not make it longer than that."""
_PLACES, _URLS, _PATHS = 12, 8, 8
"""How many of each sort are kept."""
_MAX_HINTS: Final = 24
_MAX_LENGTH: Final = 200

_PLACE: Final = re.compile(
    r"(?<![\w/.:@+-])((?:[A-Za-z]:\\|\.{0,2}/)?[\w.@+-]{1,60}(?:[/\\][\w.@+-]{1,60}){0,12}\.[A-Za-z]\w{0,7})"
    r"(?::(\d{1,6})(?::\d{1,5})?\b|:\[(\d{1,6}),\d{1,5}\]|\((\d{1,6})(?:,\d{1,5})?\)|\", line (\d{1,6}))"
)
_URL: Final = re.compile(r"https?://[^\s<>\"'`\\)\]}|^]{4,300}")
_PATH: Final = re.compile(r"(?<![\w/.:<@+~-])((?:/|~/|\./|\.\./)[\w.@+-]{1,60}(?:/[\w.@+-]{1,60}){1,12})(?![\w/-])")
_NUMBERED: Final = Scan(r"\.[A-Za-z]\w{0,7}(?::\[?|\(|\", line )\d")
_LINKED: Final = Scan(r"https?://")
_SLASHED: Final = Scan(r"(?:^|[^\w/.:<@+~-])(?:~|\.\.?)?/[\w.@+-]+/[\w.@+-]")
_NUMERIC_TAIL: Final = re.compile(r"\d+(?:\.\d+)*\Z")


def find_hints(sample: Sample, kind: Kind) -> tuple[str, ...]:
    """Distinct `path:line` places first (the last ones first: failures end a log), then URLs, then paths."""
    ends = [sample.head[:_SCAN]] if sample.size <= _SCAN else [sample.head[: _SCAN // 2]]
    if sample.size > _SCAN:
        ends.append((sample.tail or sample.head)[-_SCAN // 2 :])
    data = b"\n".join(reversed(ends))
    files = kind not in {Kind.JSON, Kind.TABLE, Kind.WEB_PAGE, Kind.SEARCH_RESULTS}
    chosen = _found(data, _NUMBERED, _PLACE, _PLACES, _place) if files else []
    chosen += _found(data, _LINKED, _URL, _URLS, _url)
    chosen += _found(data, _SLASHED, _PATH, _PATHS, _path) if files else []
    return tuple(hint for hint in chosen if len(hint) <= _MAX_LENGTH)[:_MAX_HINTS]


def _found(
    data: bytes, scan: Scan, pattern: re.Pattern[str], most: int, name: Callable[[re.Match[str]], str]
) -> list[str]:
    """The first distinct things that a pattern finds on the lines that a scan tells."""
    found: dict[str, None] = {}
    for start, end, at, _ in islice(scan.lines(data), _TRIED):
        low = max(start, at - _LINE_CAP // 2) if at - start > _LINE_CAP // 2 else start
        line = data[low : min(end, low + _LINE_CAP)].decode("utf-8", "replace").rstrip("\n")
        found.update((hint, None) for match in pattern.finditer(line) if (hint := name(match)))
        if len(found) >= most:
            break
    return list(found)[:most]


def _place(match: re.Match[str]) -> str:
    if _NUMERIC_TAIL.fullmatch(match.group(1)):
        return ""
    number = next(group for group in match.groups()[1:] if group)
    return f"{match.group(1)}:{number}"


def _url(match: re.Match[str]) -> str:
    return match.group().rstrip(".,;:!?*_")


def _path(match: re.Match[str]) -> str:
    return match.group(1).rstrip(".")
