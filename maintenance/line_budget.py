"""Keep the code within its line budget, `maintenance/size.toml`.

    python maintenance/line_budget.py           print how many code lines each package has, and how many it may have
    python maintenance/line_budget.py FOLDER …  print how many code lines these folders have
    python maintenance/line_budget.py --check   fail if a package has more than it may have; writes nothing
    python maintenance/line_budget.py --lower   lower the numbers of packages that have shrunk

A code line is a line of a Python file that is neither blank, nor a comment, nor part of a docstring (of a module,
class, function, constant or field). Explaining code costs nothing.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
BUDGET: Final = ROOT / "maintenance" / "size.toml"
LOOSE: Final = "modules"
"""Stands for the modules of a tree that are in none of its packages."""


def find_docstring_lines(tree: ast.AST) -> set[int]:
    """Returns the numbers of the lines that docstrings occupy, counted from 1."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def count_code_lines(source: str) -> int:
    """Returns how many code lines a module has."""
    docstrings = find_docstring_lines(ast.parse(source))
    lines = enumerate(map(str.strip, source.splitlines()), 1)
    return sum(1 for number, line in lines if line and not line.startswith("#") and number not in docstrings)


def list_modules(folder: Path) -> Iterator[Path]:
    """Yields the Python files below `folder`, without those of environments and packages installed into it."""
    for path in sorted(folder.rglob("*.py")):
        if not any(part.startswith(".") or part == "node_modules" for part in path.relative_to(folder).parts):
            yield path


def count_folder(folder: Path) -> int:
    """Returns how many code lines the Python files below `folder` have."""
    return sum(count_code_lines(path.read_text(encoding="utf-8")) for path in list_modules(folder))


def count_tree(tree: Path) -> dict[str, int]:
    """Returns the code lines of each top-level package of a tree, and of its modules outside of packages."""
    counts = {LOOSE: 0}
    for path in list_modules(tree):
        parts = path.relative_to(tree).parts
        package = LOOSE if len(parts) == 1 else parts[0]
        counts[package] = counts.get(package, 0) + count_code_lines(path.read_text(encoding="utf-8"))
    return {package: count for package, count in counts.items() if count}


def compare(budget: dict[str, dict[str, int]], counts: dict[str, dict[str, int]]) -> list[str]:
    """Returns a sentence for each package that exceeds its number, has none, or is gone."""
    sentences: list[str] = []
    for tree, packages in counts.items():
        limits = budget[tree]
        for package, count in packages.items():
            limit = limits.get(package)
            if limit is None:
                sentences.append(f"{tree}/{package} has {count:,} code lines and no number.")
            elif count > limit:
                sentences.append(f"{tree}/{package} has {count:,} code lines; it may have {limit:,}.")
        sentences += [f"{tree}/{package} has a number, but no code." for package in limits.keys() - packages.keys()]
    return sentences


def lower(text: str, counts: dict[str, dict[str, int]]) -> str:
    """Returns the budget file's text, with the numbers of packages that have shrunk lowered to what they have."""
    lines: list[str] = []
    packages: dict[str, int] = {}
    for line in text.splitlines():
        if header := re.fullmatch(r'\["?([^"\]]+)"?\]', line):
            packages = counts.get(header[1], {})
        elif entry := re.match(r"([\w-]+) = (\d+)", line):
            count = min(packages.get(entry[1], 0), int(entry[2]))
            if not count:
                continue
            line = f"{entry[1]} = {count}{line[entry.end() :]}"  # noqa: PLW2901 - the rest of the line is a reason
        lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print, check or lower the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true")
    action.add_argument("--lower", action="store_true")
    arguments = parser.parse_args()
    if arguments.folders:
        sizes = {folder: count_folder(folder.resolve()) for folder in arguments.folders}
        sys.stdout.write("".join(f"{count:7,} {folder}\n" for folder, count in sizes.items()))
        sys.stdout.write(f"{sum(sizes.values()):7,} in all\n")
        return
    text = BUDGET.read_text(encoding="utf-8")
    budget = tomllib.loads(text)
    counts = {tree: count_tree(ROOT / tree) for tree in budget}
    if arguments.lower:
        BUDGET.write_text(lower(text, counts), encoding="utf-8")
    elif arguments.check:
        if sentences := compare(budget, counts):
            advice = "Remove code elsewhere in the package, or raise its number in a commit that says why."
            sys.exit("\n".join([*sentences, f"maintenance/size.toml: {advice}"]))
    else:
        for tree, packages in counts.items():
            limits = budget[tree]
            lines = (f"{count:7,} of {limits.get(name, 0):6,} {name}\n" for name, count in packages.items())
            sys.stdout.write(f"{tree}: {sum(packages.values()):,}\n" + "".join(lines))


if __name__ == "__main__":
    main()
