"""Docstrings make sense in a hover: they say what a thing is or returns, without the name above or the file around."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
SERVICE: Final = ROOT / "service" / "coatcheck"
CLIENT: Final = ROOT / "client" / "coatcheck_client"
_EMPTY: Final = re.compile(r"The same\b|The (verbs?|step|tool)\.|Makes? (it|them)[.;:]|Make the (verb|step)\b")
_POINTER: Final = re.compile(r"See [A-Za-z_.]+\.")
"""A method that implements a Protocol may point to the Protocol's docstring."""
_LEAST_WORDS: Final = 3


def _public(body: list[ast.stmt]) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Public classes, functions and special methods of a module or class; not what a function defines inside."""
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("__") or not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from _public(node.body)


def _faults(source: str) -> list[str]:
    """Names of what has a docstring that says nothing, each with the docstring's first line."""
    found: list[str] = []
    for node in _public(ast.parse(source).body):
        text = ast.get_docstring(node)
        if text is None or _POINTER.fullmatch(text):
            continue
        short = len(text.split()) < _LEAST_WORDS and not node.name.startswith("__")
        if _EMPTY.match(text) or short:
            found.append(f"{node.name}: {text.splitlines()[0]}")
    return found


@pytest.mark.parametrize(
    "text",
    ["The same, counted.", "The verb.", "The step.", "Makes it.", "Make it.", "Make the verb of it.", "Two words."],
)
def test_an_empty_docstring_is_found(text: str) -> None:
    assert _faults(f'class C:\n    def f(self):\n        """{text}"""\n') == [f"f: {text}"]


@pytest.mark.parametrize(
    "text", ["Returns the size, in bytes.", "See Catalog.", "See Catalog.find.", "Makes it whole."]
)
def test_a_docstring_that_says_something_is_none(text: str) -> None:
    assert _faults(f'def f():\n    """{text}"""\n') == []


def test_a_special_method_may_be_brief_but_not_empty() -> None:
    assert _faults('class C:\n    def __enter__(self):\n        """Start."""\n') == []
    assert _faults('class C:\n    def __init__(self):\n        """Make the verb."""\n') == ["__init__: Make the verb."]


def test_docstrings_say_something() -> None:
    found = {
        str(path.relative_to(ROOT)): faults
        for path in sorted([*SERVICE.rglob("*.py"), *CLIENT.rglob("*.py")])
        if (faults := _faults(path.read_text()))
    }
    assert found == {}
