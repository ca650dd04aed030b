"""Manual pages and help of options, made with what heads each part, and with what only looks like it."""

import random
from collections.abc import Iterator
from typing import Final

from coatcheck.core.artifact import DeclaredMetadata
from facts.cases import Case
from facts.made_source import source_case

_TITLES: Final = ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "FILES", "SEE ALSO", "BUGS & FIXES")


def manuals(rng: random.Random, count: int) -> Iterator[Case]:
    """Manuals as `man` and `--help` print them, whatever tool they come from."""
    for number in range(count):
        lines, titles = (_page if number % 3 else _help)(rng)
        said = rng.choice([DeclaredMetadata(tool_name="bash"), DeclaredMetadata(), DeclaredMetadata(tool_name="read")])
        yield source_case("\n".join(lines) + "\n", titles, said, label="Sections")


def _body(rng: random.Random, indent: int) -> list[str]:
    words = ["keeps coats and hats", "A LINE IN CAPITALS", "as it says:", "-v, --verbose", "1. is no heading"]
    return [" " * indent + rng.choice(words) for _ in range(rng.randint(1, 9))]


def _page(rng: random.Random) -> tuple[list[str], dict[int, str]]:
    lines, titles = ["COAT(1)                      Manual                      COAT(1)"], dict[int, str]()
    for title in rng.sample(_TITLES, rng.randint(3, len(_TITLES))):
        lines += ["", title]
        titles[len(lines)] = title
        for n in range(rng.choice([0, 0, 2])):
            lines += [*_body(rng, 7), "", f"   Part {n} of it"]
            titles[len(lines)] = f"Part {n} of it"
        lines += [*_body(rng, 7), "", *_body(rng, 14)]
    return lines, titles


def _help(rng: random.Random) -> tuple[list[str], dict[int, str]]:
    lines, titles = ["Usage: coat [options]", "", "Keeps coats.", ""], dict[int, str]()
    for n in range(rng.randint(4, 12)):
        lines += [f"Options of sort {n}:"]
        titles[len(lines)] = f"Options of sort {n}:"
        lines += ["  -a, --all       all of them", "      --none", "                  none of them", *_body(rng, 2), ""]
    return lines, titles
