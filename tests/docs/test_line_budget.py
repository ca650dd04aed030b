"""The line budget: what counts, what exceeds it, and that its numbers only fall by themselves."""

import tomllib
from pathlib import Path

import line_budget

ROOT = Path(__file__).parents[2]
MODULE = '''"""A module."""

# A comment.
LIMIT = 3  # lines
"""Why three."""


class Box:
    """A class."""

    width: int
    """In metres."""


def measure() -> str:
    """Returns text.

    More.
    """
    return """not
    a docstring"""
'''


def test_docstrings_comments_and_blank_lines_do_not_count() -> None:
    assert line_budget.count_code_lines(MODULE) == 6


def test_packages_are_counted_apart_from_loose_modules(tmp_path: Path) -> None:
    (tmp_path / "core" / "deep").mkdir(parents=True)
    (tmp_path / ".venv").mkdir()
    for name in ("settings.py", "core/a.py", "core/deep/b.py", ".venv/c.py"):
        (tmp_path / name).write_text("x = 1\n")
    assert line_budget.count_tree(tmp_path) == {line_budget.LOOSE: 1, "core": 2}


def test_more_than_the_number_is_refused_and_the_number_itself_is_not() -> None:
    budget = {"service": {"core": 10, "gone": 5}}
    assert line_budget.compare({"service": {"core": 10}}, {"service": {"core": 10}}) == []
    assert line_budget.compare(budget, {"service": {"core": 11, "new": 1}}) == [
        "service/core has 11 code lines; it may have 10.",
        "service/new has 1 code lines and no number.",
        "service/gone has a number, but no code.",
    ]


def test_numbers_are_lowered_and_never_raised() -> None:
    text = '# Why.\n["service"]\napi = 7\ncore = 10  # a reason\ngone = 5\n'
    lowered = line_budget.lower(text, {"service": {"api": 9, "core": 8}})
    assert lowered == '# Why.\n["service"]\napi = 7\ncore = 8  # a reason\n'
    assert tomllib.loads(lowered) == {"service": {"api": 7, "core": 8}}


def test_every_package_of_the_trees_has_a_number() -> None:
    budget = tomllib.loads(line_budget.BUDGET.read_text(encoding="utf-8"))
    assert set(budget) == {"service/coatcheck", "client/coatcheck_client", "tests"}
    for tree, limits in budget.items():
        assert limits.keys() == line_budget.count_tree(ROOT / tree).keys()
