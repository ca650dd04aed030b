"""Names keep to the glossary: a type's name is its own, retired words stay retired, and a name says what a thing is."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

ROOT = Path(__file__).parents[2]
SERVICE = ROOT / "service" / "coatcheck"
CLIENT = ROOT / "client" / "coatcheck_client"

PUBLIC: Final = frozenset({"ask", "offer_read", "settle_percent"})
"""Names of the interface that stay although they contain a retired word: Claude Code's own, a keyword argument of the
LangChain middleware, and a share of a budget."""

PARTICIPLES: Final = frozenset(
    re.findall(
        r"\w+",
        """asked begun built chosen cleaned counted cut decided done drafted drawn fitted folded found given gone held
        joined kept known left listed looked lost made marked meant merged met named opened packed placed rated read
        said seen sent settled shown spliced stated stored taken told wanted written""",
    )
)
"""Past participles that say how a value came about instead of what it is."""

MAX_PARTICIPLES: Final = 0.015
"""Share of bound names that may be nothing but a past participle. Members of the HTTP interface and of stored JSON are
among them (`stored`, `shown`, `gone`), and so is `read` as a verb."""


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


def _bound(tree: ast.AST) -> Iterator[tuple[str, int, bool]]:
    """Every name that a module gives to something: the name, its line, and whether it is a variable."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno, False
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name, node.lineno, True
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno, False
            case _:
                pass


def _log_messages(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).startswith(("log.", "LOG.", "logger."))
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value), node.lineno


def test_no_two_types_share_a_name() -> None:
    for package in (SERVICE, CLIENT):
        modules: dict[str, list[str]] = defaultdict(list)
        for module, name in _types():
            if module.startswith(f"{package.name}."):
                modules[name].append(module)
        assert {name: where for name, where in modules.items() if len(where) > 1} == {}


def test_no_name_contains_a_retired_word() -> None:
    retired = _retired()
    assert len(retired) > 1
    uses = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in _sources()
        for name, line, _ in _bound(ast.parse(path.read_text()))
        if name not in PUBLIC and not name.startswith("__") and _words(name) & retired
    ]
    assert uses == []


def test_no_module_is_called_by_a_retired_word() -> None:
    retired = _retired()
    paths = [*_sources(), *(ROOT / "tests").rglob("test_*.py")]
    assert [str(path) for path in paths if _words(path.stem) & retired] == []


def test_no_schema_metric_or_log_message_contains_a_retired_word() -> None:
    retired = _retired()
    document = msgspec.json.decode((ROOT / "openapi" / "openapi.json").read_bytes())
    schemas = document["components"]["schemas"]
    members = {member for schema in schemas.values() for member in schema.get("properties", {})}
    metrics = set(re.findall(r"`(coatcheck_[a-z_]+)", (ROOT / "docs" / "metrics.md").read_text()))
    assert len(members) > 1
    assert len(metrics) > 1
    names = {*schemas, *members, *metrics} - PUBLIC
    assert {name for name in names if _words(name) & retired} == set()
    messages = [
        f"{path.relative_to(ROOT)}:{line} {message}"
        for path in _sources()
        for message, line in _log_messages(ast.parse(path.read_text()))
        if _words(message) & retired
    ]
    assert messages == []


def test_few_names_are_participles() -> None:
    names = [
        name
        for path in sorted(SERVICE.rglob("*.py"))
        for name, _, plain in _bound(ast.parse(path.read_text()))
        if plain
    ]
    participles = [name for name in names if name in PARTICIPLES]
    assert len(participles) <= MAX_PARTICIPLES * len(names)
