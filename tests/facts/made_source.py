"""Source files, real and made, as they are and as tools print them; documents in Markdown."""

# ruff: noqa: E501 - lines as programs print them

import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from coatcheck.core.artifact import DeclaredMetadata, Kind
from facts.cases import Case
from facts.says_output import lines_of
from facts.says_source import OutlineOracle, folded, python_symbols

_LIBRARY: Final = Path(sysconfig.get_paths()["stdlib"])
_OUTER: Final = "\n\n\n"


def _said(rng: random.Random, name: str) -> DeclaredMetadata:
    return rng.choice(
        [
            DeclaredMetadata(tool_name="read_file"),
            DeclaredMetadata(title=name),
            DeclaredMetadata(tool_name="Read", title=name),
            DeclaredMetadata(kind=Kind.CODE_OR_FILE),
        ]
    )


def library(rng: random.Random, count: int) -> Iterator[Case]:
    """Python's own library; `ast` knows what is defined where."""
    paths = sorted(path for path in _LIBRARY.glob("*.py") if 2_000 < path.stat().st_size < 90_000)
    for path in rng.sample(paths, min(count, len(paths))):
        text = path.read_text("utf-8", "replace")
        yield source_case(text, python_symbols(text), _said(rng, path.name))


def source_case(text: str, titles: dict[int, str], said: DeclaredMetadata, *, label: str = "Outline") -> Case:
    """A file that is declared as one."""
    return Case(text.encode(), (OutlineOracle(label, titles, text.count("\n") + 1),), said)


def python(rng: random.Random, count: int) -> Iterator[Case]:
    """Python with strings, comments and decorators that look like definitions, printed in several ways."""
    for number in range(count):
        text = _python(rng)
        titles = python_symbols(text)
        yield printed(rng, number % 5, text, titles)


def printed(rng: random.Random, form: int, text: str, titles: dict[int, str]) -> Case:
    """A source as it is, or as `cat -n`, editors and grep print it. Lines of the card are those of the print."""
    lines = text.split("\n")
    first = rng.choice([1, 1, 40, 1_200])
    if form == 1:
        text = "\n".join(f"{n:6d}\t{line}" for n, line in enumerate(lines, first))
    elif form == 2:
        text = "\n".join(f"{n:6d}→{line}" for n, line in enumerate(lines, first))
    elif form == 3:
        text = "\n".join(f"src/shop.py:{n}:{line}" for n, line in enumerate(lines, first))
    elif form == 4:
        text = "\n".join(f"{n}: {line}" for n, line in enumerate(lines, first))
    oracles = (OutlineOracle("Outline", titles, len(lines)), lines_of(text, file=["src/shop.py"] * len(lines)))
    said = rng.choice([DeclaredMetadata(), DeclaredMetadata(tool_name="read_file")]) if form else _said(rng, "shop.py")
    return Case(text.encode(), oracles, said)


def _python(rng: random.Random) -> str:
    parts = ['"""A module.\n\ndef not_this(x):\n    class Nor: This\n"""', "import os"]
    for n in range(rng.randint(2, 25)):
        name = rng.choice(
            [f"work_{n}", f"größe_{n}", f"a_very_long_name_that_goes_on_for_longer_than_a_title_may_be_{n}"]
        )
        form = rng.randrange(5)
        if form == 0:
            parts.append(
                f"@decorated\ndef {name}(a, b=1, *, c: int = {n}) -> int:\n    # def commented(out):\n    return a + {n}"
            )
        elif form == 1:
            parts.append(
                f"class Thing{n}(Base):\n    x = 1\n\n    def method_{n}(self):\n        return 'def quoted(): pass'\n\n    async def other(self, y):\n        def inner(): return 1\n        return inner"
            )
        elif form == 2:
            parts.append(f'TEXT_{n} = """\nclass InText{n}:\n    def hidden(self):\n        pass\n"""')
        elif form == 3:
            parts.append(f"def {name}(\n    first,\n    second,\n):\n    return {{'class': first, 'def': second}}")
        else:
            parts.append(f"class_name = {n}\ndef_{n} = lambda: 0\nprint('class Printed:')")
    return _OUTER.join(parts) + "\n"


def script(rng: random.Random, count: int) -> Iterator[Case]:
    """JavaScript and C, made with what is defined where."""
    for number in range(count):
        lines, titles = (_javascript if number % 2 else _c)(rng)
        name = "shop.js" if number % 2 else "shop.c"
        yield source_case(
            "\n".join(lines) + "\n",
            titles,
            rng.choice([DeclaredMetadata(title=name), DeclaredMetadata(title=f"src/{name}", tool_name="read_file")]),
        )


def _put(lines: list[str], titles: dict[int, str], text: str, defines: int = 0) -> None:
    """Adds lines of which the first so many define something."""
    for number, line in enumerate(text.split("\n")):
        lines.append(line)
        if number < defines:
            titles[len(lines)] = folded(line.rstrip(" \t{:=("))


_EXPORTS: Final = (
    ("export const limit%: Map<string, number> = new Map(%);\n", 1),
    ("exports.f% = function (first, second) {\n  return first;\n};\n", 1),
    ("exports.same% = same%;\nthing%.of = 'export const no = 1';\n", 0),
    ("Shop.prototype.sell% = (one, two) => {\n  let x = one;\n};\n", 1),
)
"""What modules export, and how many of its first lines define something."""


def _javascript(rng: random.Random) -> tuple[list[str], dict[int, str]]:
    lines: list[str] = []
    titles: dict[int, str] = {}
    _put(lines, titles, "/*\n * function commented() {\n */\nimport x from 'x';\n")
    for n in range(rng.randint(2, 30)):
        form = rng.randrange(10)
        if form == 0:
            _put(lines, titles, f"export async function load{n}(a, b) {{\n  return a + {n};\n}}\n", 1)
        elif form == 1:
            _put(lines, titles, f"class Shop{n} extends Base {{", 1)
            _put(lines, titles, f"  open(door) {{\n    if (door) {{\n      return {n};\n    }}\n  }}\n}}\n", 1)
        elif form == 2:
            _put(lines, titles, f"const sum{n} = (a, b) => a + b;\n", 1)
        elif form == 3:
            _put(lines, titles, f"const text{n} = `\nfunction inText{n}() {{\n}}\n`;\n")
        elif form == 4:
            _put(lines, titles, f"// class Commented{n} {{\nlet plain{n} = call('function quoted() {{');\n")
        elif form < 9:
            text, defines = _EXPORTS[form - 5]
            _put(lines, titles, text.replace("%", str(n)), defines)
        else:
            _put(lines, titles, f"interface Shape{n} {{\n  sides: number;\n}}\n", 1)
    return lines, titles


def _c(rng: random.Random) -> tuple[list[str], dict[int, str]]:
    lines: list[str] = []
    titles: dict[int, str] = {}
    _put(lines, titles, "/* int commented(void) {\n   return 0; } */\n#include <stdio.h>\n")
    for n in range(rng.randint(2, 30)):
        form = rng.randrange(5)
        if form == 0:
            _put(lines, titles, f"static int add_{n}(int a, int b)\n{{\n    return call(a) + b;\n}}\n", 1)
        elif form == 1:
            _put(lines, titles, f"struct point_{n} {{\n    int x;\n}};\n", 1)
        elif form == 2:
            _put(lines, titles, f"#define MAX_{n}(a, b) ((a) > (b) ? (a) : (b))\n", 1)
        elif form == 3:
            _put(lines, titles, f"/*\nvoid hidden_{n}(void) {{\n*/\nint declared_{n}(void);\nint value_{n} = {n};\n")
        else:
            _put(lines, titles, f"char *name_{n}(const char *s) {{\n    while (*s) s++;\n    return 0;\n}}\n", 1)
    return lines, titles


def markdown(rng: random.Random, count: int) -> Iterator[Case]:
    """Documents with headings, and with what only looks like one."""
    for number in range(count):
        lines: list[str] = []
        titles: dict[int, str] = {}
        for n in range(rng.randint(2, 40)):
            form = rng.randrange(6) if n else 0
            if form < 3:
                words = rng.choice(
                    ["Ships", "Of harbours; and more", "C# and F#", "The `code` of ports", "größe 7", "Long " * 20]
                )
                lines += [f"{'#' * (1 if not n else rng.randint(1, 4))} {words.strip()} {n}", ""]
                titles[len(lines) - 1] = f"{words.strip()} {n}"
            elif form == 3:
                lines += ["```sh", "# a comment, no heading", "make", "```", ""]
            elif form == 4:
                lines += [f"Words about {n}, and #{n} is no heading.", "#hashtag neither", ""]
            else:
                lines += [f"Part {n}", "-" * 6, "", "Some words."]
                titles[len(lines) - 3] = f"Part {n}"
        said = rng.choice(
            [
                DeclaredMetadata(title="README.md"),
                DeclaredMetadata(url="https://e.example/guide.md"),
                DeclaredMetadata(media_type="text/markdown"),
                DeclaredMetadata(tool_name="read_file"),
            ]
        )
        del number
        yield source_case("\n".join(lines) + "\n", titles, said, label="Sections")
