"""Places, URLs and paths in a payload that an agent may need for its next step. Scans the sample's ends only."""

import re
from typing import Final

from coatcheck.core.artifact import Kind, Sample

_SCAN: Final = 48 * 1024
_ENOUGH: Final = 100
_LINE_CAP: Final = 2_000
_MAX_HINTS: Final = 24
_MAX_LENGTH: Final = 200

_PLACE: Final = re.compile(
    r"(?<![\w/.:@+-])((?:[A-Za-z]:\\|\.{0,2}/)?[\w.@+-]{1,60}(?:[/\\][\w.@+-]{1,60}){0,12}\.[A-Za-z]\w{0,7})"
    r"(?::(\d{1,6})(?::\d{1,5})?\b|:\[(\d{1,6}),\d{1,5}\]|\((\d{1,6})(?:,\d{1,5})?\)|\", line (\d{1,6}))"
)
_URL: Final = re.compile(r"https?://[^\s<>\"'`\\)\]}|^]{4,300}")
_PATH: Final = re.compile(r"(?<![\w/.:<@+~-])((?:/|~/|\./|\.\./)[\w.@+-]{1,60}(?:/[\w.@+-]{1,60}){1,12})(?![\w/-])")
_NUMBERED: Final = re.compile(r"\.[A-Za-z]\w{0,7}(?::\[?|\(|\", line )\d")
_NUMERIC_TAIL: Final = re.compile(r"\d+(?:\.\d+)*\Z")


def find_hints(sample: Sample, kind: Kind) -> tuple[str, ...]:
    """Distinct `path:line` places first (the last ones first: failures end a log), then URLs, then paths."""
    ends = [sample.head[:_SCAN]] if sample.size <= _SCAN else [sample.head[: _SCAN // 2]]
    if sample.size > _SCAN:
        ends.append((sample.tail or sample.head)[-_SCAN // 2 :])
    files = kind not in {Kind.JSON, Kind.TABLE, Kind.WEB_PAGE, Kind.SEARCH_RESULTS}
    places: dict[str, None] = {}
    urls: dict[str, None] = {}
    paths: dict[str, None] = {}
    for line in b"\n".join(reversed(ends)).decode("utf-8", "replace").split("\n"):
        part = line[:_LINE_CAP]
        if "://" in part:
            for match in _URL.finditer(part):
                urls.setdefault(match.group().rstrip(".,;:!?*_"))
        if not files:
            continue
        if len(places) < _ENOUGH and _NUMBERED.search(part):
            for match in _PLACE.finditer(part):
                number = next(group for group in match.groups()[1:] if group)
                places.setdefault(f"{match.group(1)}:{number}")
        if len(paths) < _ENOUGH and "/" in part:
            for match in _PATH.finditer(part):
                paths.setdefault(match.group(1).rstrip("."))
    shown = [place for place in places if not _NUMERIC_TAIL.fullmatch(place.partition(":")[0])]
    chosen = [*shown[:12], *list(urls)[:8], *list(paths)[:8]]
    return tuple(hint for hint in chosen if len(hint) <= _MAX_LENGTH)[:_MAX_HINTS]
