"""Names keep to the glossary: a type's name is its own, and retired words stay retired."""

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[2]
SERVICE = ROOT / "service" / "coatcheck"
CLIENT = ROOT / "client" / "coatcheck_client"

# The client mirrors the service's answers under the same names, and is a package of its own (see its import contract).
UNCHANGED: Final = frozenset[str]()
"""Modules, or types as `module.Type`, that still use a retired word."""

PUBLIC: Final = frozenset({"ask"})
"""Retired words that types may keep where their names are components of `openapi.json`."""


def _module(path: Path) -> str:
    package = CLIENT if path.is_relative_to(CLIENT) else SERVICE
    return ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")


def _sources() -> list[Path]:
    return sorted([*SERVICE.rglob("*.py"), *CLIENT.rglob("*.py")])


def _types() -> list[tuple[str, str]]:
    """Module and name of every public class."""
    return [
        (_module(path), node.name)
        for path in _sources()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]


def _retired() -> set[str]:
    page = (ROOT / "docs" / "glossary.md").read_text()
    table = page[page.index("## Words that are not used") :]
    return set(re.findall(r"^\| ([a-z]+) \|", table, re.MULTILINE)) - {"not"}


def _words(name: str) -> set[str]:
    """The words of `snake_case` and `CamelCase`, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_no_two_types_share_a_name() -> None:
    for package in (SERVICE, CLIENT):
        modules: dict[str, list[str]] = defaultdict(list)
        for module, name in _types():
            if module.startswith(f"{package.name}."):
                modules[name].append(module)
        assert {name: where for name, where in modules.items() if len(where) > 1} == {}


def test_no_module_or_type_uses_a_retired_word() -> None:
    retired = _retired()
    assert len(retired) > 1
    modules = {_module(path): _words(path.stem) for path in _sources()}
    tests = {f"tests/{path.name}": _words(path.stem) for path in (ROOT / "tests").rglob("*.py")}
    types = {f"{module}.{name}": _words(name) - PUBLIC for module, name in _types()}
    used = {name: words & retired for name, words in (modules | tests | types).items() if words & retired}
    assert {name: words for name, words in used.items() if name not in UNCHANGED} == {}


def test_what_is_excepted_is_there() -> None:
    types = _types()
    named = {_module(path) for path in _sources()} | {f"{module}.{name}" for module, name in types}
    assert named >= UNCHANGED
