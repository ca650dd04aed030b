"""What `ast`, git and plain reading say of symbols, headings, files of a diff and commits."""

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Final

_LABEL: Final = re.compile(
    r"(Outline|Sections|(?:Largest|Inner|Smaller) (parts|sections)(?: of (\S.*?))?)(?: of the first (\d+) lines)?"
    r" \(with lines\): "
)

_MORE: Final = re.compile(r"… (\d+) more")


class OutlineOracle:
    """Understands an outline: titles with the lines that they stand in."""

    def __init__(self, label: str, titles: Mapping[int, str], lines: int) -> None:
        """`titles` by line: all that may be named, whole; `label` is a pattern."""
        self._label = label
        self._titles = titles
        self._lines = lines

    def __call__(self, line: str) -> bool:
        found = _LABEL.match(line)
        if found is None:
            return False
        label = {"parts": "Outline", "sections": "Sections", None: found[1]}[found[2]]
        assert re.fullmatch(self._label, label), line[:200]
        assert found[4] is None or int(found[4]) <= self._lines
        assert found[3] is None or all(name in self._titles.values() for name in found[3].split(" and ")), line
        largest = line.startswith("Largest")  # first, whatever their order in the text
        named: list[int] = []
        at = found.end()
        while True:
            before = {*named} if largest else set(range(max(named, default=0) + 1))
            number = self._entry(line, at, before)
            assert number, f"not there: {line[at : at + 120]!r}"
            named.append(number)
            at += len(self._shown(line, at, number))
            if at == len(line):
                return True
            assert line.startswith("; ", at), line[at:]
            at += 2
            more = _MORE.fullmatch(line, at)
            if more is not None:
                assert 0 < int(more[1]) <= len(self._titles) - len(named), f"{more[1]} more than {len(named)}"
                return True

    def _entry(self, line: str, at: int, before: set[int]) -> int:
        """The line of the entry that begins here, none of those `before`; 0 for one that is not there."""
        return next((n for n in self._titles if n not in before and self._shown(line, at, n)), 0)

    def _shown(self, line: str, at: int, number: int) -> str:
        """What is written of the title of this line: all of it, or its beginning and that something is missing."""
        title = self._titles[number]
        found = re.compile(rf"(?s)(.{{1,130}}?) {number}(?=; |$)").match(line, at)
        if found is None:
            return ""
        told = found[1]
        named = title.startswith(told) and title[len(told) :].lstrip()[:1] in set("(=:<#")
        whole = told in {title, f"{title}:"} or named or (told.endswith("…") and title.startswith(told[:-1]))
        return found[0] if whole else ""


def python_symbols(source: str, shift: int = 0) -> dict[int, str]:
    """The line of every definition, as it is written."""
    lines = source.split("\n")
    found = {
        node.lineno: node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    return {number + shift: folded(lines[number - 1].rstrip(" \t\r{:=(")) for number in sorted(found)}


def folded(line: str) -> str:
    """A line as a title."""
    return " ".join(line.split())


class DiffOracle:
    """Understands the files of a diff with the lines that each adds and removes, the largest changes first."""

    def __init__(self, files: Sequence[tuple[str, int, int]]) -> None:
        """`files` may name one several times, as commits do that change it again."""
        changed: dict[str, tuple[int, int]] = {}
        for name, added, removed in files:
            before = changed.get(name, (0, 0))
            changed[name] = before[0] + added, before[1] + removed
        self._files = [(name, *changes) for name, changes in changed.items()]

    def __call__(self, line: str) -> bool:
        found = re.match(r"(\d+) files?(?: in (\S.*?/))?, \+(\d+) -(\d+): ", line)
        if found is None:
            return False
        common = found[2] or ""
        assert all(name.startswith(common) for name, _, _ in self._files), line[:200]
        assert tuple(map(int, found.group(1, 3, 4))) == (
            len(self._files),
            sum(added for _, added, _ in self._files),
            sum(removed for _, _, removed in self._files),
        ), (line[:120], len(self._files))
        at = found.end()
        left = list(self._files)
        while left:
            if more := re.compile(r"… (\d+) more files$").match(line, at):
                assert int(more[1]) == len(left)
                return True
            for each in left:
                form = f"{each[0][len(common) :]} +{each[1]} -{each[2]}"
                if line.startswith(form, at) and line[at + len(form) : at + len(form) + 2] in {"", "; "}:
                    left.remove(each)
                    assert all(sum(other[1:]) <= sum(each[1:]) for other in left), "a larger change is behind it"
                    at += len(form) + 2
                    break
            else:
                raise AssertionError(f"no such change: {line[at : at + 150]!r}; there are {left[:3]}")
        assert at == len(line) + 2, line[at:]
        return True


class CommitsOracle:
    """Understands how many commits there are, and their hashes and subjects in order."""

    def __init__(self, commits: Sequence[tuple[str, str]]) -> None:
        self._commits = list(commits)

    def __call__(self, line: str) -> bool:
        found = re.match(r"(\d+) commits?: ", line)
        if found is None:
            return False
        assert int(found[1]) == len(self._commits), (line[:60], len(self._commits))
        at = found.end()
        for number, (digest, subject) in enumerate(self._commits):
            if more := re.compile(r"… (\d+) more$").match(line, at):
                assert int(more[1]) == len(self._commits) - number
                return True
            entry = re.compile(r"([0-9a-f]{7,40})(?: |(?=;|$))").match(line, at)
            assert entry is not None, line[at : at + 80]
            assert digest.startswith(entry[1]), (digest, entry[1])
            at = entry.end()
            if line.startswith(subject, at) and line[at + len(subject) : at + len(subject) + 2] in {"", "; "}:
                at += len(subject) + 2
                continue
            cut = re.compile(r"(?s)(.{5,120}?)…(?:; |$)").match(line, at)
            assert cut is not None, f"cut in two: {line[at : at + 90]!r} of {subject!r}"
            assert subject.startswith(cut[1]), (subject, cut[1])
            at = cut.end()
        return True


class DocumentsOracle:
    """Understands how many documents a stream has, and how many there are of each kind."""

    def __init__(self, documents: int, kinds: Mapping[str, int]) -> None:
        self._documents = documents
        self._kinds = kinds

    def __call__(self, line: str) -> bool:
        found = re.fullmatch(r"(\d+) documents(?:: (.*))?", line)
        if found is None:
            return False
        assert int(found[1]) == self._documents, (line, self._documents)
        told = dict(item.rsplit(" ", 1) for item in (found[2] or "").split(", ") if item)
        assert {kind: int(count) for kind, count in told.items()} == self._kinds, (line, self._kinds)
        return True


class PartsOracle:
    """Understands how many parts a file of settings has, and how many there are of each kind."""

    def __init__(self, parts: int, kinds: Mapping[str, int]) -> None:
        self._parts = parts
        self._kinds = kinds

    def __call__(self, line: str) -> bool:
        found = re.fullmatch(r"(\d+) parts: (.*)", line)
        if found is None:
            return False
        assert int(found[1]) == self._parts, (line, self._parts)
        told = dict(item.rsplit(" ", 1) for item in found[2].split(", "))
        assert {kind: int(count) for kind, count in told.items()} == self._kinds, (line, self._kinds)
        return True
