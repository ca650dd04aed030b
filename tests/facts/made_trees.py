"""Drawn trees and recursive listings, made with what their landmarks are."""

import random
from collections.abc import Iterator
from typing import Final, NamedTuple

from coatcheck.core.artifact import DeclaredMetadata
from facts.cases import Case
from facts.says_source import OutlineOracle


class Branch(NamedTuple):
    """A name, and what is below it."""

    name: str
    inner: "tuple[Branch, ...]" = ()


class Style(NamedTuple):
    """What is drawn before a name and before what is below it: for any branch, and for the last one."""

    branch: str
    last: str
    beside: str
    below: str
    before: str = ""


STYLES: Final = {
    "lines": Style("├── ", "└── ", "│   ", "    "),
    "tree": Style("├── ", "└── ", "│\u00a0\u00a0 ", "    "),
    "narrow": Style("├─┬ ", "└─┬ ", "│ ", "  "),
    "ascii": Style("|-- ", "`-- ", "|   ", "    "),
    "gradle": Style("+--- ", "\\--- ", "|    ", "     "),
    "maven": Style("+- ", "\\- ", "|  ", "   ", "[INFO] "),
}


def grown(rng: random.Random, depth: int = 0, least: int = 1) -> Branch:
    """A tree of which most branches are inside others."""
    name = f"{rng.choice(['src', 'web-pack@5.1', 'org.e:a:jar:1.0', 'größe', 'a b', '.hidden', '@types/x'])}{depth}"
    if depth > 3:
        return Branch(name)
    return Branch(name, tuple(grown(rng, depth + 1) for _ in range(rng.randint(max(least, 2 - depth // 2), 4))))


def drawn(tree: Branch, style: Style) -> tuple[list[str], dict[int, tuple[int, str]]]:
    """The lines of a tree, and by line the level and the name of its root and the branches of this."""
    lines = [style.before + tree.name]
    outer = {1: (1, tree.name)}

    def below(inner: tuple[Branch, ...], before: str) -> None:
        for branch in inner:
            last = branch is inner[-1]
            lines.append(style.before + before + (style.last if last else style.branch) + branch.name)
            if not before:
                outer[len(lines)] = 2, branch.name
            below(branch.inner, before + (style.below if last else style.beside))

    below(tree.inner, "")
    return lines, outer


def trees(rng: random.Random, count: int) -> Iterator[Case]:
    """Trees as several programs draw them, except Maven, whose lines have levels to count."""
    for _ in range(count):
        lines, outer = drawn(grown(rng, least=2), STYLES[rng.choice(list(STYLES)[:-1])])
        oracle = OutlineOracle("Outline", {line: title for line, (_, title) in outer.items()}, len(lines))
        said = rng.choice([DeclaredMetadata(), DeclaredMetadata(tool_name="bash"), DeclaredMetadata(tool_name="read")])
        yield Case(("\n".join(lines) + "\n").encode(), (oracle,), said)


def listings(rng: random.Random, count: int) -> Iterator[Case]:
    """Listings as `ls -R` prints them, with names that look like folders."""
    for _ in range(count):
        lines, titles = list[str](), dict[int, str]()
        roots = rng.choice([["."], ["/etc", "/usr/lib/git"], ["lib"]])
        for root in roots:
            folders = sorted({root, *(f"{root}/{rng.choice('abc')}/{rng.choice('xyz')}{n}" for n in range(9))})
            for folder in folders:
                lines += [""] if lines else []
                lines.append(f"{folder}:")
                titles[len(lines)] = folder
                lines += rng.choice([[], ["one", "odd:", "two.py"], ["total 4", "-rw-r--r-- 1 a a 0 Jan 1 x:"]])
        oracle = OutlineOracle("Outline", titles, len(lines))
        yield Case(("\n".join(lines) + "\n").encode(), (oracle,), DeclaredMetadata(tool_name="bash"))
