"""Files of settings and data: TOML, INI as `configparser` writes it, one YAML mapping as PyYAML does, metrics."""

import configparser
import io
import random
import tomllib
from collections import Counter
from collections.abc import Iterator
from typing import cast

import yaml

from coatcheck.core.artifact import DeclaredMetadata
from facts.cases import Case
from facts.says_source import OutlineOracle, PartsOracle

_NAMES = ("desk", "a-b.c", "007", "größe", "w" * 70, "x y")
_SAID = (DeclaredMetadata(), DeclaredMetadata(tool_name="read_file"), DeclaredMetadata(tool_name="cat"))


def _case(rng: random.Random, text: str, titles: dict[int, str], parts: dict[str, int]) -> Case:
    lines = text.count("\n") + 1
    oracles = (OutlineOracle("Outline|Sections", titles, lines), PartsOracle(len(titles), parts))
    return Case(text.encode(), oracles, rng.choice(_SAID))


def toml(rng: random.Random, count: int) -> Iterator[Case]:
    """Tables, arrays of tables with and without names, strings that span lines and look like tables."""
    for _ in range(count):
        lines = ["version = 1", ""]
        titles: dict[int, str] = {}
        for table in ("project", "tool.x", 'tool."y.z"'):
            titles[len(lines) + 1] = f"[{table}]"
            lines += [f"[{table}]  # of {table}", 'list = [\n    "[no]",', ' ["1"],\n]', f"n = {rng.randrange(9)}"]
            lines = "\n".join(lines).split("\n")
        lines += ['text = """', "[no.table]", 'name = "no"', '"""', ""]
        packages = rng.randint(0, 90)
        for number in range(packages):
            named = rng.random() < 0.9
            titles[len(lines) + 1] = f"{rng.choice(_NAMES)}-{number}" if named else "[[package]]"
            name = [f'name = "{titles[len(lines) + 1]}"'] if named else []
            lines += ["[[package]]", *name, 'version = "1"', 'needs = [\n    { name = "other" },\n]', ""]
            lines = "\n".join(lines).split("\n")
        text = "\n".join(lines)
        assert len(cast("list[object]", tomllib.loads(text).get("package", []))) == packages
        yield _case(rng, text, titles, {"[[package]]": packages} if packages else {})


def ini(rng: random.Random, count: int) -> Iterator[Case]:
    """Sections of settings, some without a value or with several lines, and comments."""
    for _ in range(count):
        parser = configparser.ConfigParser(allow_no_value=True, interpolation=None)
        for number in range(rng.randint(2, 40)):
            parser[f"{rng.choice(_NAMES)} {number}"] = {
                f"key{n}": rng.choice(["1", "a = b", "two\nlines [x]", "[x]", "%(a)s"])
                for n in range(rng.randint(1, 9))
            }
        made = io.StringIO()
        parser.write(made)
        text = ("; made\n" if rng.random() < 0.5 else "") + made.getvalue()
        lines = text.split("\n")
        titles = {n: line for n, line in enumerate(lines, 1) if line[:1] == "[" and line[1:-1] in parser}
        assert len(titles) == len(parser.sections())
        yield _case(rng, text, titles, {})


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


def metrics(rng: random.Random, count: int) -> Iterator[Case]:
    """Families of metrics, with or without help, type and labels."""
    for _ in range(count):
        lines: list[str] = []
        titles: dict[int, str] = {}
        kinds: list[str] = []
        for number in range(rng.randint(4, 90)):
            name, kind = (
                f"node_{rng.choice(('disk', 'cpu:rate'))}_{number}",
                rng.choice(["gauge", "counter", "histogram"]),
            )
            titles[len(lines) + 1] = name
            kinds.append(kind)
            lines += [f"# HELP {name} Of # TYPE {name}."] * rng.randrange(2)
            lines += [f"# TYPE {name} {kind}"]
            lines += [f'{name}{{n="{n} # TYPE a b"}} {rng.random()}' for n in range(rng.randrange(4))] or [
                f"{name} 1e+09 17"
            ]
        yield _case(rng, "\n".join(lines) + "\n", titles, Counter(kinds))


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
