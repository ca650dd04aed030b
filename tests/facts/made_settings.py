"""Files of settings and data: TOML, INI as `configparser` writes it, one YAML mapping as PyYAML does, metrics."""

import random
from collections.abc import Iterator
from typing import cast

import yaml

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


def mappings(rng: random.Random, count: int) -> Iterator[Case]:
    """One mapping with values of every sort, or one key that holds them all."""
    for _ in range(count):
        inner = {
            f"{rng.choice(('jobs', 'on', 'a-b', 'x.y/z', '007'))}{n}": _value(rng) for n in range(rng.randint(4, 40))
        }
        inner["last"] = {"one": {"two": 1}, "three": [1, {"four": {}}], "text": "a:\nb:\n  c:\n"}
        value = {"only": inner} if rng.random() < 0.3 else inner
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100, indent=rng.choice((2, 4)))
        text = rng.choice(("", "# made\n", "---\n")) + text
        root = cast("yaml.MappingNode", yaml.SafeLoader(text).get_single_node())
        titles: dict[int, str] = {}
        for key, node in root.value:
            titles[key.start_mark.line + 1] = str(key.value)
            for name, below in node.value if isinstance(node, yaml.MappingNode) and not node.flow_style else ():
                if len(root.value) == 1 or (not isinstance(below, yaml.ScalarNode) and not below.flow_style):
                    titles[name.start_mark.line + 1] = str(name.value)
        yield _case(rng, text, titles, {})


def _value(rng: random.Random) -> object:
    return rng.choice(
        [
            1,
            "word",
            "a: b",
            "two\nlines:\n  x:\n",
            "long " * 40,
            [],
            {},
            [1, 2],
            [{"a": 1, "b": {"c": 2}}],
            {"a": 1, "b": [1]},
        ]
    )


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
