"""Notebooks of every format as text: cells in order, sources and outputs, pictures by type and size."""

import json
from typing import Any

import pytest

from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.extract import extract_text
from core.sample_payloads import card_of
from extract.office_files import markdown, written
from extract.sample_pages import check_sections

PICTURE = "iVBORw0KGgo" * 400
TRACE = ["\x1b[31mKeyError\x1b[0m Traceback", "----> 1 table['region']", "\x1b[31mKeyError\x1b[0m: 'region'"]


def notebook(form: int) -> dict[str, Any]:
    """A notebook of a heading, a table, a picture and a failure, as this format writes it."""
    source, old = ("source", False) if form >= 4 else ("input", True)
    data = {"png": PICTURE, "text": ["<Figure>"]} if old else {"data": {"image/png": PICTURE, "text/plain": "<Figure>"}}
    table = {"html": "<td>a &amp; b</td>"} if old else {"data": {"text/html": ["<td>a &amp; b</td>"]}}
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "source": ["# Tides\n", "größer"]},
        {
            "cell_type": "code",
            source: ["x = 1\n", "x"],
            "outputs": [{"output_type": "stream", "text": ["one\n", "two\n"]}],
        },
        {"cell_type": "code", source: "plot()", "outputs": [{"output_type": "display_data", **data}]},
        {"cell_type": "code", source: "show()", "outputs": [{"output_type": "execute_result", **table}]},
        {
            "cell_type": "code",
            source: "table['region']",
            "outputs": [
                {
                    "output_type": "pyerr" if old else "error",
                    "ename": "KeyError",
                    "evalue": "'region'",
                    "traceback": TRACE,
                }
            ],
        },
    ]
    held: dict[str, Any] = {"worksheets": [{"cells": cells}]} if old else {"cells": cells}
    return {**held, "metadata": {"name": ""}, "nbformat": form, "nbformat_minor": 0}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("form", [2, 3, 4])
def test_a_notebook_is_its_cells_with_what_they_put_out(form: int, indent: int | None) -> None:
    made = extract_text("json", None, None, json.dumps(notebook(form), indent=indent).encode())
    assert made is not None
    assert made.text is not None
    assert made.text.decode() == (
        "## cell 0 markdown: # Tides\n# Tides\ngrößer\n\n"
        "## cell 1 code: x = 1\nx = 1\nx\n[out]\none\ntwo\n\n"
        "## cell 2 code: plot()\nplot()\n[out] <Figure>\n[out] [image/png, 3.3 kB: not shown]\n\n"
        "## cell 3 code: show()\nshow()\n[out] a & b\n\n"
        "## cell 4 code: table['region']\ntable['region']\n"
        "[out]\nKeyError Traceback\n----> 1 table['region']\nKeyError: 'region'\n"
    )
    check_sections(made.sections, made.text)
    assert [each.title for each in made.sections][4] == "cell 4 code: table['region']"


@pytest.mark.parametrize("form", [2, 3, 4])
def test_a_notebook_of_any_format_is_told_by_its_cells(form: int) -> None:
    data = json.dumps(notebook(form)).encode()
    text = card_of(data, DeclaredMetadata(), 400)[1]
    assert "Notebook, 5 cells: " in text
    assert "cell 4 code: table['region'] (failed: KeyError: 'region')\n" in text


def test_a_notebook_that_pandoc_wrote_has_every_word_of_its_source() -> None:
    source = markdown(3)
    made = extract_text("json", None, None, written(source, "ipynb"))
    assert made is not None
    assert made.extractor == "notebook 1"
    text = " ".join((made.text or b"").decode().split())
    for line in source.replace("*", "").splitlines():
        for word in line.strip("#>|- 0123456789.").split("[")[0].split("|"):
            assert " ".join(word.split()) in text.replace("*", "")


@pytest.mark.parametrize(
    "data",
    [
        b'{"cells": [{"cell_type": "code"}], "nbformat": "4"}',
        b'{"cells": [{"cell_type": "code"}], "nbformat": 4',
        b'{"cell_type": "code", "cells": 1}',
        b'{"cells": [{"cell_type": "code", "a": ' + b"[" * 50_000 + b"]" * 50_000 + b'}], "nbformat": 4}',
        b'{"cells": [], "x": "\\"cell_type\\"", "nbformat": 4}',
    ],
    ids=["a number in quotes", "cut off", "another document", "nested deep", "empty"],
)
def test_what_is_no_notebook_has_no_cells(data: bytes) -> None:
    made = extract_text("json", None, None, data)
    assert made is None or made.extractor != "notebook 1"


def test_odd_members_of_cells_are_passed_over() -> None:
    cells: list[Any] = [
        1,
        {"cell_type": None, "source": 7, "outputs": {"a": 1}, "attachments": []},
        {"cell_type": "code"},
    ]
    cells.append({"cell_type": "code", "outputs": [{"data": [1]}, {"ename": 1, "traceback": None}, 3]})
    made = extract_text("json", None, None, json.dumps({"cells": cells, "nbformat": 4}).encode())
    assert made is not None
    assert (made.text or b"").decode() == "## cell 0\n\n## cell 1 code\n\n## cell 2 code\n[out] 1: None\n"
