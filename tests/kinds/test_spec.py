"""One table says what is special about a kind; no other module asks which kind a payload is."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import coatcheck
from coatcheck.core.artifact import Kind
from coatcheck.core.kinds.spec import SEARCH_RESPONSE, SPECS

PACKAGE = Path(coatcheck.__file__).parent
OWN = (PACKAGE / "core" / "kinds", PACKAGE / "core" / "artifact.py")
"""Where members are named: the table with what recognises and describes kinds, and the enumeration itself."""
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if not any(path.is_relative_to(own) for own in OWN))


def names_of(tree: ast.Module) -> set[str]:
    """What a module calls the enumeration of kinds."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "coatcheck.core.artifact"
        for alias in node.names
        if alias.name == "Kind"
    }


def is_kind_of_artifact(node: ast.expr) -> bool:
    """Whether an expression is `….facts.kind` or `….said.kind`."""
    if not (isinstance(node, ast.Attribute) and node.attr == "kind"):
        return False
    owner = node.value
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return name in {"facts", "said", "declared"}


def questions(source: str) -> Iterator[int]:
    """The lines of a module that name a kind, or compare an artifact's kind with anything but None."""
    tree = ast.parse(source)
    names = names_of(tree)

    def is_enum(node: ast.expr) -> bool:
        return (isinstance(node, ast.Name) and node.id in names) or (
            isinstance(node, ast.Attribute) and node.attr == "Kind" and ast.unparse(node.value).endswith("artifact")
        )

    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=owner, attr=name) if is_enum(owner) and name in Kind.__members__:
                yield node.lineno
            case ast.Subscript(value=owner) if is_enum(owner):
                yield node.lineno
            case ast.Call(func=owner, args=[ast.Constant()]) if is_enum(owner):
                yield node.lineno
            case ast.Compare(left=left, comparators=others) if any(map(is_kind_of_artifact, [left, *others])):
                if not all(isinstance(each, ast.Constant) and each.value is None for each in others):
                    yield node.lineno
            case _:
                pass


@pytest.mark.parametrize(
    "line",
    [
        "kind is Kind.JSON",
        "Kind['JSON']",
        "kind in {Kind.LOG}",
        "Kind('json')",
        "a.facts.kind == 'json'",
        "match kind:\n    case Kind.DIFF: pass",
    ],
)
def test_the_search_for_questions_finds_them(line: str) -> None:
    assert list(questions(f"from coatcheck.core.artifact import Kind\n{line}\n"))


@pytest.mark.parametrize("line", ["Kind(word)", "[kind.value for kind in Kind]", "said.kind is None", "kind: Kind"])
def test_reading_a_kind_by_its_name_is_no_question(line: str) -> None:
    assert not list(questions(f"from coatcheck.core.artifact import Kind\n{line}\n"))


def test_no_module_but_the_table_asks_which_kind_a_payload_is() -> None:
    found = [f"{path.relative_to(PACKAGE)}:{line}" for path in MODULES for line in questions(path.read_text())]
    assert not found, f"a column of KindSpec should say it: {found}"


def test_every_kind_has_a_row() -> None:
    assert set(SPECS) == set(Kind)


def test_a_media_type_determines_one_kind() -> None:
    names = [name for spec in SPECS.values() for name in spec.media_types]
    assert sorted(names) == sorted(set(names))


def test_what_is_handed_over_as_a_search_response_is_of_the_kind_that_lists_results() -> None:
    assert [kind for kind, spec in SPECS.items() if spec.results == "yes"] == [SEARCH_RESPONSE]


def test_json_lists_results_where_its_tool_searches() -> None:
    spec = SPECS[Kind.JSON]
    assert spec.lists_results("web_search")
    assert not spec.lists_results("get_user")
    assert not spec.lists_results(None)
