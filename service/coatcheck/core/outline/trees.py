"""Drawn trees, by their outermost branches, and recursive listings of folders, by their folders.

Trees are drawn as by `tree`, `npm ls`, `cargo tree` and `mvn dependency:tree`; folders are listed as by `ls -R`, each
below its path and a colon. Branches further inside and the names in a folder are the text itself, no landmarks.
"""

import re
from typing import Final, final

from coatcheck.core.caches import remember
from coatcheck.core.outline.line_scanner import StartScanner
from coatcheck.core.outline.model import EntryStart, titled
from coatcheck.core.text.re2_binding import PATTERN_BYTES
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position

_LOOK: Final = 16 * 1024
_LINES: Final = 60
"""Lines at the beginning that tell whether a text is a tree."""
_LEAST: Final = 3
_DRAWN: Final = 0.9
"""Share of these lines that are branches; others are roots, and sums at the end."""
_INNER: Final = 0.4
"""Share of the branches that are not outermost: of a list that is hardly nested, every line would be a landmark."""
_PLUGIN: Final = r"(?:\[INFO\] )?"
_BRANCH: Final = r"(?:[├└][─┬]*|[|`]-{1,3}|[+\\]-{1,3}) ?"
_BEFORE: Final = "[│|: \t\u00a0]"
_BRANCHES: Final = re.compile(f"{_PLUGIN}({_BEFORE}*){_BRANCH}(?=[^\\s─|+-])")
_ROOT: Final = r"[^\s│├└|`+\\]"
_MARK: Final = BlockPattern(r"[├└]|[|`+\\]-")
"""Found near the beginning of every tree; searching for it is cheap."""
_SOON: Final = 512
_LONGEST: Final = 402
_PATH: Final = re.compile(rb"[^\s:][^\n:]{0,400}:")
_LISTED: Final = BlockPattern(r"^[^\s:][^\n:]{0,400}:\r?$")


def is_tree(head: bytes) -> bool:
    """Returns whether a text begins as a drawn tree with several levels."""
    return _MARK.find(head, 0, min(len(head), _SOON)) is not None and bool(_outermost(head))


def _outermost(head: bytes) -> tuple[int, ...]:
    """Returns how many characters precede the outermost branches of a tree; nothing for any other text.

    If there is only one of them, its own branches are landmarks, too.
    """
    lines = [line for line in head[:_LOOK].decode("utf-8", "replace").split("\n")[: _LINES + 1][:-1] if line.strip()]
    found = [_BRANCHES.match(line) for line in lines]
    depths = [len(match[1]) for match in found if match is not None]
    if len(depths) < _LEAST or len(depths) < _DRAWN * (len(lines) - 2) or not any(found[: _LEAST + 1]):
        return ()
    outer = sorted(set(depths))[: 1 + (depths.count(min(depths)) == 1)]
    return tuple(outer) if sum(depth not in outer for depth in depths) >= _INNER * len(depths) else ()


@remember("patterns", 8, PATTERN_BYTES)
def _marks(depths: tuple[int, ...]) -> BlockPattern:
    branches = "|".join(f"{_BEFORE}{{{depth}}}" for depth in depths)
    return BlockPattern(f"^{_PLUGIN}(?:(?:{branches}){_BRANCH}[^\\s─|+-]|{_ROOT})")


@final
class Tree(StartScanner):
    """Finds the roots of a tree and their branches."""

    def __init__(self, head: bytes) -> None:
        super().__init__()
        self._depths = _outermost(head)
        self._marks = _marks(self._depths)
        self._root: tuple[bytes, Position, int] | None = None
        """The last line without branch, its place and the byte after it: a root if a branch is below it."""
        self._rooted = False

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines, the first of which begins at this place."""
        counted, here = 0, place
        for start, end, *_ in self._marks.lines(data):
            if self.full:
                return
            here, counted = here.after(data[counted:start]), start
            line = data[start:end].decode("utf-8", "replace")
            branch = _BRANCHES.match(line)
            if branch is None:
                self._root = data[start:end], here, here.byte + end - start
                continue
            if len(branch[1]) not in self._depths:
                continue
            if self._root is not None and self._root[2] == here.byte:
                self._begin(self._root[0], 1, self._root[1])
                self._rooted = True
            depth = self._depths.index(len(branch[1]))
            self._begin(line[branch.end() :].encode(), 1 + depth + self._rooted, here)

    def _begin(self, title: bytes, level: int, place: Position) -> None:
        self.starts.append(EntryStart("part", titled(title.removeprefix(b"[INFO] ")), level, place))


def is_listing(head: bytes) -> bool:
    """Returns whether a text begins like `ls -R`, with several folders, each named above what is in it."""
    if not head[:_LONGEST].partition(b"\n")[0].endswith((b":", b":\r")):
        return False
    lines = head[: head.rfind(b"\n", 0, _LOOK) + 1].replace(b"\r\n", b"\n").split(b"\n")[:-1]
    names = [line for above, line in zip([b"", *lines], lines, strict=False) if line and not above]
    if len(names) < _LEAST or not all(map(_PATH.fullmatch, names)) or len(set(names)) < len(names):
        return False
    inside = names[0][:-1].rstrip(b"/") + b"/"
    bare = sum(b"/" not in name and not name.startswith(inside) for name in names[1:])
    return 2 * bare < len(names) and not any(line[:1] in {b" ", b"\t"} for line in lines)


@final
class Folders(StartScanner):
    """Finds the folders of a recursive listing; one inside another is part of it."""

    def __init__(self) -> None:
        super().__init__()
        self._inside: list[str] = []
        """The folders around the next one, each with a slash at its end."""
        self._blank = True
        """Whether the line above the block is empty, or there is none."""

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines, the first of which begins at this place."""
        counted, here = 0, place
        for start, end, *_ in _LISTED.lines(data):
            if self.full:
                return
            if not (self._blank if start == 0 else _is_blank_above(data, start)):
                continue
            here, counted = here.after(data[counted:start]), start
            path = data[start:end].rstrip()[:-1].decode("utf-8", "replace")
            while self._inside and not path.startswith(self._inside[-1]):
                self._inside.pop()
            self._inside.append(path.rstrip("/") + "/")
            self.starts.append(EntryStart("part", titled(path), len(self._inside), here))
        if data:
            self._blank = _is_blank_above(data, len(data))


def _is_blank_above(data: bytes, start: int) -> bool:
    return not data[data.rfind(b"\n", 0, start - 1) + 1 : start].strip()
