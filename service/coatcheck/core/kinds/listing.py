"""Lists that commands print: matches of a search by file, paths by directory and ending, long listings by type.

Recognises a list by its first lines and then counts all of its lines that were sampled. Names nothing that it did not
count, and says when the sample is not the whole.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from math import ceil
from typing import Final

from coatcheck.core.artifact import Sample
from coatcheck.core.kinds.cutter import plural

_GATE: Final = 60
"""Lines that decide whether it is a list."""
_SHARE: Final = 0.8
_FEWEST: Final = 8
"""Lines under which a list needs no counting."""
_LINES: Final = 3_000
_NAMED: Final = 16
"""Files, directories and endings that are named, the most frequent first."""
_FEW: Final = 6
"""Endings that are named before directories."""
_LONGEST: Final = 300
_BLANKS: Final = 3
"""Blanks that few names have."""

_MATCH: Final = re.compile(
    rb"([^\s:\x00\d\[][^\s:\x00]{0,199}):\d{1,7}[:-]|([\w.@+-]{1,60}(?:/[\w.@+-]{1,60}){1,12}):|([A-Za-z_./][\w.@+/-]{0,199}?)-\d{1,7}-"
)
"""A match of a search by file and line, by file alone, or a line beside one. No moment begins like a file."""
_PATH: Final = re.compile(
    rb"(?:[A-Za-z]:)?(?:\.{0,2}[/\\])?[\w.@+ ~=%,()\[\]-]{1,80}(?:[/\\][\w.@+ ~=%,()\[\]-]{1,80}){0,20}[/\\]?\r?\Z"
)
_LONG: Final = re.compile(
    rb"([-dlbcps])[r-][w-][xsS-][r-][w-][xsS-][r-][w-][xtT-][.+@]?\s.*?\s(\S+(?: -> .*)?)\r?\Z|total \d"
)
_TREE: Final = re.compile(
    rb"(?:\xe2\x94\x82|\xc2\xa0| |\|(?=[ \xc2]))*+(?:\xe2\x94[\x9c\x94]|[|`+])(?:\xe2\x94\x80|-)++ ?(.+)"
)
_ENDINGS: Final = re.compile(rb"(?m)^(?:.+\.([a-z0-9]{1,10})[*@=|/]*|.*)$")
"""Of each name in lower case its ending, if it has one, without the signs that listings put after it."""
_ENDING: Final = re.compile(rb"\w(\.[A-Za-z]\w{0,9})[*@=|/]?\Z")


def list_lines(sample: Sample) -> tuple[str, ...]:
    """What a list holds, in one or two lines; nothing if this is no list."""
    rows = [row for row in sample.head.split(b"\n", _GATE)[:_GATE] if row.strip()]
    if len(rows) < _FEWEST or max(map(len, rows)) > 2 * _LONGEST:
        return ()
    for looks, count in _LISTS:
        if _mostly(looks, rows):
            return _counted(sample, count) if looks is not _PATH or _pathlike(rows) else ()
    return ()


def _mostly(looks: re.Pattern[bytes], rows: list[bytes]) -> bool:
    """Whether enough rows look like this. Asks no more of them than decide it."""
    others = len(rows) - ceil(_SHARE * len(rows)) + 1
    misses = (row for row in rows if looks.match(row, 0, _LONGEST) is None)
    return next(islice(misses, others - 1, None), None) is None


def _pathlike(rows: list[bytes]) -> bool:
    """Whether these are paths rather than words: most have a separator or an ending, and hardly one is a sentence."""
    named = sum(b"/" in row or _ENDING.search(row) is not None for row in rows)
    sentences = sum(row.count(b" ") >= _BLANKS for row in rows)
    return named >= _SHARE * len(rows) and sentences <= len(rows) // 10


def _counted(sample: Sample, count: Callable[[Iterable[bytes]], tuple[str, ...]]) -> tuple[str, ...]:
    rows = sample.head.split(b"\n", _LINES)
    whole = sample.whole and len(rows) <= _LINES
    found = count(row for row in rows[:_LINES] if row)
    if not found or whole:
        return found
    return (f"In the first {plural(min(len(rows), _LINES), 'line')}: {found[0]}", *found[1:])


def _matches(rows: Iterable[bytes]) -> tuple[str, ...]:
    files: Counter[bytes] = Counter()
    for row in rows:
        match = _MATCH.match(row, 0, _LONGEST)
        if match and not match.group(3):
            files[match.group(1) or match.group(2)] += 1
    if files.total() < _FEWEST:
        return ()
    return (f"{plural(files.total(), 'matching line')} in {plural(len(files), 'file')}: {_named(files)}",)


def _paths(rows: Iterable[bytes]) -> tuple[str, ...]:
    plain = b"\n".join([row.rstrip(b"\r") for row in rows]).replace(b"\\", b"/").split(b"\n")
    parts = [row.removeprefix(b"./").rpartition(b"/") for row in plain]
    folders: Counter[bytes] = Counter()
    for (folder, slash), count in Counter([part[:2] for part in parts]).items():
        if folder.count(b"/") > 2:  # noqa: PLR2004 - deeper ones belong to these
            folders[b"/".join(folder.split(b"/", 3)[:3]) + slash] += count
        else:
            folders[folder + slash or b"./"] += count
    endings = _endings(name or folder for folder, _, name in parts)
    by_ending = f"by ending: {_named(endings, _FEW)}"
    return (f"{plural(folders.total(), 'path')}; {by_ending}; by directory: {_named(folders)}",)


def _long(rows: Iterable[bytes]) -> tuple[str, ...]:
    found = [match for row in rows if (match := _LONG.match(row, 0, _LONGEST)) and match.group(1)]
    types = Counter(match.group(1) for match in found)
    endings = _endings(match.group(2) for match in found if match.group(1) == b"-")
    ended = f"; by ending: {_named(endings)}" if endings else ""
    return (f"{plural(types[b'-'], 'file')}, {_ies(types[b'd'])}, {plural(types[b'l'], 'link')}{ended}",)


def _tree(rows: Iterable[bytes]) -> tuple[str, ...]:
    endings = _endings(match.group(1).rstrip(b"\r") for row in rows if (match := _TREE.match(row, 0, _LONGEST)))
    return (f"Tree of {plural(endings.total(), 'name')}; by ending: {_named(endings)}",)


def _ies(number: int) -> str:
    return f"{number} director{'y' if number == 1 else 'ies'}"


def _endings(names: Iterable[bytes]) -> Counter[bytes]:
    """How often names end in `.py` and the like; `none` for those that have no ending, or only one."""
    each = list(names)
    found = Counter(_ENDINGS.findall(b"\n".join(each).lower()) if each else ())
    return Counter({b"." + ending if ending else b"none": count for ending, count in found.items()})


def _named(counts: Counter[bytes], most: int = _NAMED) -> str:
    """`a.py 12, b.py 3`: the most frequent, in order of appearance where alike."""
    named = [f"{name.decode('utf-8', 'replace')} {count}" for name, count in counts.most_common(most)]
    more = len(counts) - len(named)
    return ", ".join(named) + (f", … {more} more" if more else "")


_LISTS: Final = ((_LONG, _long), (_TREE, _tree), (_MATCH, _matches), (_PATH, _paths))
"""How a list looks, and what counts it; the more particular first."""
