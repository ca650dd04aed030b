"""Totals of a text that streams in, in bounded memory: changes of a diff, blocks of calendars, elements of XML.

What is counted is decided by the beginning; all bytes are examined, however they are split.
"""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from posixpath import commonprefix
from typing import Final, final

from coatcheck.core.outline.diff import Diff
from coatcheck.core.outline.model import MAX_ENTRIES, What
from coatcheck.core.text.plural import counted, first_of
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position

_HEAD: Final = 16 * 1024
_SOON: Final = 2 * 1024
"""Maximum bytes before a diff."""
_PIECE: Final = 64 * 1024
"""Bytes of a diff that are examined together: fewer hunks than an outline may have."""
_LINE: Final = 4 * 1024
"""Bytes of a line that matter."""
_MOST: Final = 20_000
"""Maximum files of a diff; of one with more there are no totals."""
_FILES: Final = 40
_COMMON: Final = 24
"""Minimum characters that all names begin with from which their directory is told once."""
_NAMED: Final = 8
_SEVERAL: Final = 3
"""Elements of one name in the beginning that are worth counting."""
_TAG: Final = 1024 * 1024
"""Maximum bytes without the end of a tag."""
_SUBSET: Final = re.compile(rb"<!DOCTYPE[^<>\[]*\[[\s\S]*?(?:\]\s*>|\Z)")
_BEGINNING: Final = Position(0, 0, 0)
_HEADER: Final = re.compile(rb"^(?:diff -\S|Index: |--- \S[^\n]*\n\+\+\+ \S)", re.MULTILINE)
_HUNK: Final = BlockPattern(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
_BEGINS: Final = BlockPattern(r"^(?:BEGIN:[A-Za-z0-9-]+|-----BEGIN [A-Za-z0-9 ]+-----)[ \t\r]*$")
_BLOCK: Final = re.compile(rb"(?:BEGIN:|-----BEGIN )([A-Za-z0-9 -]*[A-Za-z0-9])")
_OPAQUE: Final = {b"<!--": b"-->", b"<![CDATA[": b"]]>", b"<?": b"?>"}
_OPENS: Final = re.compile(rb"<(?:!--|!\[CDATA\[|\?)")
_TOKEN: Final = re.compile(rb"(?s:<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>)|<(/?)([A-Za-z_][\w:.-]*)[^<>]*?(/?)>")


class Totals(ABC):
    """Counts something in a text: `feed` its bytes, then ask for `facts`."""

    @abstractmethod
    def feed(self, data: bytes) -> None:
        """Counts what is in the next bytes."""

    @abstractmethod
    def facts(self) -> tuple[str, ...]:
        """Returns what was counted, once all bytes have been fed; nothing if it could not be counted."""


def totals_of(head: bytes) -> Totals | None:
    """Returns what counts something in a text that begins like this; None if there is nothing to count."""
    first = head[:_SOON].lstrip(b"\xef\xbb\xbf \t\r\n")
    if first.startswith((b"BEGIN:", b"-----BEGIN ")):
        return BlockTotals()
    if first.startswith(b"<"):
        names = _repeated(head[:_HEAD])
        return ElementTotals(names) if names else None
    diff = b"\n@@ -" in head[:_HEAD] and _HUNK.find(head[:_HEAD]) and _HEADER.search(head, 0, _SOON)
    return DiffTotals() if diff else None


class _LineTotals(Totals):
    """The common part of what counts lines; of a longer line, only the beginning and the end are examined."""

    def __init__(self) -> None:
        self._carry = b""

    def feed(self, data: bytes) -> None:
        cut = data.rfind(b"\n") + 1
        if cut:
            self.lines(self._carry + data[:cut])
            self._carry = b""
        self._carry += data[cut : cut + _LINE - len(self._carry)]

    @abstractmethod
    def lines(self, data: bytes) -> None:
        """Counts what is in the next whole lines."""


@final
class DiffTotals(_LineTotals):
    """Counts the files of a diff, and the lines that each adds and removes; names its commits, if it has any."""

    def __init__(self) -> None:
        super().__init__()
        self._diff = Diff()
        self._added = Counter[str]()
        self._removed = Counter[str]()
        self._titles = Counter[str]()
        """How often each title of a file occurs."""
        self._commits: list[str] = []
        self._numbers = Counter[What]()
        """How many files, hunks and commits there are."""
        self._known = True
        """Whether every file so far could be counted, and told from the others."""

    def lines(self, data: bytes) -> None:
        """Counts what is in the next whole lines."""
        at = 0
        while at < len(data) and self._known:
            end = len(data) if len(data) - at <= _PIECE else data.rfind(b"\n", at, at + _PIECE) + 1
            end = end if end > at else data.find(b"\n", at) + 1
            self._diff.feed(data[at:end], _BEGINNING)
            at = end
            self.add(self._diff.settled())

    def add(self, entries: Iterable[tuple[What, str, list[int] | None]]) -> None:
        """Counts complete entries, each with its title and, if known, how many lines it adds and removes."""
        for what, title, counts in entries:
            self._numbers[what] += 1
            if what == "commit" and len(self._commits) < _NAMED:
                self._commits.append(title)
            if what == "file":
                several = title in self._titles and title.endswith("…")
                if counts is None or several or len(self._titles) >= _MOST:
                    self._known = False
                    return
                self._titles[title] += 1
                self._added[title] += counts[0]
                self._removed[title] += counts[1]

    def facts(self) -> tuple[str, ...]:
        """Returns the first commits, and the files with the largest changes."""
        self.lines(self._carry)
        self._carry = b""
        self.add(self._diff.settled(end=True))
        if not self._known or not self._titles:
            return ()
        commits = first_of(self._commits, self._numbers["commit"])
        more = self._numbers["commit"] - len(self._commits)
        listed = f"{commits}; … {more} more" if more else commits
        common = commonprefix(list(self._titles))
        common = common[: common.rfind("/") + 1] if len(self._titles) > 1 and len(common) >= _COMMON else ""
        largest = [f"{name[len(common) :]} +{self._added[name]} -{self._removed[name]}" for name in self._largest()]
        where = f" in {common}" if common else ""
        files = f"{counted(len(largest), 'file')}{where}, +{self._added.total()} -{self._removed.total()}"
        facts = f"{files}: {first_of(largest, _FILES, 'more files')}"
        return (f"{counted(self._numbers['commit'], 'commit')}: {listed}", facts) if commits else (facts,)

    def sections(self) -> list[str]:
        """Returns the files by which an outline's parts can be read, largest changes first, after `facts`."""
        if not self._known or self._numbers.total() >= MAX_ENTRIES:
            return []
        return [name for name in self._largest() if self._titles[name] == 1]

    def _largest(self) -> list[str]:
        return sorted(self._titles, key=lambda name: -self._added[name] - self._removed[name])


@final
class BlockTotals(_LineTotals):
    """Counts blocks that begin with `BEGIN:VEVENT` or `-----BEGIN CERTIFICATE-----`, by name."""

    def __init__(self) -> None:
        super().__init__()
        self._counts = Counter[bytes]()

    def lines(self, data: bytes) -> None:
        """Counts what is in the next whole lines."""
        for start, end, *_ in _BEGINS.lines(data):
            name = _BLOCK.match(data, start, end)
            if name is not None and (name[1] in self._counts or len(self._counts) < _MOST):
                self._counts[name[1]] += 1

    def facts(self) -> tuple[str, ...]:
        """Returns how many blocks there are of each name."""
        self.lines(self._carry)
        return _named("Blocks", self._counts)


@final
class ElementTotals(Totals):
    """Counts the elements of XML that have one of a few names, but not what comments and CDATA contain."""

    def __init__(self, names: tuple[bytes, ...]) -> None:
        self._counts = Counter[bytes](dict.fromkeys(names, 0))
        self._patterns = [(name, re.compile(b"<" + re.escape(name) + rb"(?=[\s/>])")) for name in names]
        self._carry = b""
        self._until = b""
        """What ends the comment, CDATA or instruction that the next bytes are in; empty outside of them."""
        self._known = True

    def feed(self, data: bytes) -> None:
        """Counts the elements in the next bytes, up to the end of the last tag."""
        data = self._carry + data
        cut = data.rfind(b">") + 1
        self._carry = data[cut:]
        if len(self._carry) > _TAG:
            self._known, self._carry = False, b""
        if cut and self._known:
            text = self._outside(data[:cut])
            for name, pattern in self._patterns:
                self._counts[name] += len(pattern.findall(text))

    def _outside(self, data: bytes) -> bytes:
        """Returns bytes that end with a tag, without what is opaque."""
        parts: list[bytes] = []
        at = 0
        while at < len(data):
            if self._until:
                end = data.find(self._until, at)
                if end < 0:
                    break
                at, self._until = end + len(self._until), b""
            opening = _OPENS.search(data, at)
            parts.append(data[at : opening.start() if opening else len(data)])
            if opening is None:
                break
            at, self._until = opening.end(), _OPAQUE[opening[0]]
        return b"".join(parts)

    def facts(self) -> tuple[str, ...]:
        """Returns how many elements there are of each name; nothing if something opaque did not end."""
        return _named("Elements", self._counts) if self._known and not self._until else ()


def _named(label: str, counts: Counter[bytes]) -> tuple[str, ...]:
    """Returns a fact of counts, the largest first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{name.decode('utf-8', 'replace')} {count}" for name, count in ordered]
    return (f"{label}: {first_of(named, _NAMED, separator=', ')}",) if named else ()


def _repeated(head: bytes) -> tuple[bytes, ...]:
    """Returns the names of the outermost elements that recur in the beginning of XML; nothing for any other text.

    A page has headings instead.
    """
    if (subset := _SUBSET.search(head)) is not None:
        if b"<!ENTITY" in subset[0]:  # its value may contain tags
            return ()
        head = head[subset.end() :]
    inside: list[bytes] = []
    counts: dict[int, Counter[bytes]] = {}
    for ends, name, closed in _TOKEN.findall(head):
        if ends:
            if not inside or inside.pop() != name:
                return ()
        elif name:
            if not inside and name.lower() == b"html":
                return ()
            counts.setdefault(len(inside), Counter())[name] += 1
            inside += [] if closed else [name]
    for depth in sorted(counts):
        names = [name for name, count in counts[depth].most_common(_SEVERAL) if count >= _SEVERAL]
        if names:
            return tuple(names)
    return ()
