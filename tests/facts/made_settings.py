"""Help and settings with titled blocks."""

import random
from collections.abc import Iterator

from coatcheck.core.artifact import DeclaredMetadata
from facts.cases import Case
from facts.says_output import lines_of
from facts.says_source import OutlineOracle, PartsOracle

_NAMES = ("desk", "a-b.c", "007", "größe", "w" * 70, "x y")
_SAID = (DeclaredMetadata(), DeclaredMetadata(tool_name="read_file"), DeclaredMetadata(tool_name="cat"))


def _case(rng: random.Random, text: str, titles: dict[int, str], parts: dict[str, int]) -> Case:
    lines = text.count("\n") + 1
    oracles = (OutlineOracle("Outline|Sections", titles, lines), PartsOracle(len(titles), parts), lines_of(text))
    return Case(text.encode(), oracles, rng.choice(_SAID))


def titled(rng: random.Random, count: int) -> Iterator[Case]:
    """Help with titled blocks, and settings below banners."""
    for number in range(count):
        lines: list[str] = ["# One example", ""] if number % 2 else ["usage: x [options]", ""]
        titles: dict[int, str] = {}
        for part in range(rng.randint(3, 30)):
            title = f"{rng.choice(('Video', 'Global (a)', 'Üb'))} options {part}"
            titles[len(lines) + 1] = title
            if not number % 2:
                lines += [f"{title}:", *[f"  -{n}  {rng.random()}" for n in range(rng.randint(1, 9))], ""]
            elif rng.random() < 0.5:
                lines += [f"##### {title} #####", "", "# a comment", f"port {part}", ""]
            else:
                lines += ["#" + "-" * 30, f"# {title}", "#" + "-" * 30, f"port {part}", ""]
        yield _case(rng, "\n".join(lines), titles, {})
