"""What a call's arguments say in short."""

import json
from typing import Any

import pytest

from coatcheck.core.context.command import COMMAND_CHARS, command_of


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ({"command": "make -j\nall", "timeout": 5}, "make -j\nall"),
        ('{"command": "make", "cwd": "/"}', "make"),
        ({"path": "a.py", "line": 1, "über": None}, '{"line":1,"path":"a.py","über":null}'),
        ({"command": ["bash", "-lc", "make"]}, '{"command":["bash","-lc","make"]}'),
        ("*** Begin Patch", "*** Begin Patch"),
        ('{"command": ', '{"command": '),
        (["make"], '["make"]'),
        ({}, None),
        (None, None),
        ("", None),
        ({"command": "\ud800"}, None),
    ],
)
def test_the_command_is_taken_or_else_the_arguments_as_compact_json(arguments: Any, command: str | None) -> None:  # noqa: ANN401 - any JSON
    assert command_of(arguments) == command


@pytest.mark.parametrize("form", [dict[str, str], json.dumps])
def test_arguments_of_any_size_are_cut_at_the_bound(form: Any) -> None:  # noqa: ANN401 - a conversion
    many = form({f"key {n}": "x" * 100 for n in range(200_000)})
    short = command_of(many)
    assert short is not None
    assert (len(short), short[-1]) == (COMMAND_CHARS, "…")
