"""Write the pages of `docs/reference`, each made from the code that it describes; `--check` compares them.

    python maintenance/site/reference.py [--check]

The pages of errors and metrics are made and compared by tests. Nothing here describes what the code does not say
itself: a meaning that is missing on a page is added to the code.
"""

import argparse
import inspect
import json
import re
import sys
import typing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import click

import coatcheck_client
from coatcheck import settings
from coatcheck.cli import EXITS, main
from coatcheck.core import artifact
from coatcheck.core.artifact import Kind
from coatcheck.core.kinds.spec import SPECS
from coatcheck.core.policies import policy
from coatcheck_client import administration, fields

ROOT: Final = Path(__file__).parents[2]
TARGET: Final = ROOT / "docs" / "reference"
_GAP: Final = "\n\n"
MADE: Final = "<!-- Made from the code by `make reference`. -->\n"


def _cell(text: object) -> str:
    """A text as one cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def _table(head: str, rows: Iterable[Iterable[object]]) -> str:
    names = [name.strip() for name in head.split("|")]
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    return "\n".join([*lines, *(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows)])


def _remarks(module: Any, name: str) -> dict[str, str]:  # noqa: ANN401 - any module
    """The docstrings below the members of a class, by their names."""
    source = inspect.getsource(getattr(module, name))
    found = re.findall(r'^    (\w+)(?:: .*| = .*)\n    """((?:.|\n)*?)"""', source, re.MULTILINE)
    return {member: " ".join(text.split()) for member, text in found}


def settings_page() -> str:
    """Every setting."""
    rows = [
        (f"`{row['name']}`", f"`{row['default']}`" if row["default"] != "" else "", row["meaning"])
        for row in settings.describe()
    ]
    return f"""# Settings

The service reads its settings from the environment, once, when it starts; `coatcheck settings` prints them with their
values here. Each one may also be the name of a file: `COATCHECK_DATABASE_URL_FILE=/run/secrets/url`.

{_table("setting | default | what it does", rows)}
"""


def policies_page() -> str:
    """Every field of a policy."""
    remarks = _remarks(policy, "Policy")
    rows = [
        (
            f"`{name}`",
            "a namespace" if name in policy.NAMESPACE_ONLY else "anything",
            remarks[name],
        )
        for name in policy.FIELDS
    ]
    scopes = ", ".join(f"`{part}`" for part in policy.PARTS)
    return f"""# Policies

A policy decides for all namespaces (`*`), for a namespace, or for a part of it: {scopes}, from the least specific to
the most. The most specific policy that sets a field decides it. The [settings](settings.md) decide fields
that no policy sets. [How to set one](../how-to/retention.md).

{_table("field | can be set for | what it decides", rows)}
"""


def _commands(command: click.Command, path: str) -> Iterable[tuple[str, click.Command]]:
    """Every command that does something, with its whole name."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name in command.list_commands(click.Context(command)):
        inner = command.get_command(click.Context(command), name)
        if inner is not None and not inner.hidden:
            yield from _commands(inner, f"{path} {name}")


def _command(path: str, command: click.Command) -> str:
    usage = " ".join([path, *command.collect_usage_pieces(click.Context(command))])
    rows = [
        (f"`{'`, `'.join([*option.opts, *option.secondary_opts])}`", option.help or "")
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden and "--help" not in option.opts
    ]
    help_text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    parts = [f"## {path}", f"`{usage}`", help_text, *([_table("option | what it does", rows)] if rows else [])]
    return "\n\n".join(part for part in parts if part)


def command_line_page() -> str:
    """Every command with its options."""
    exits = EXITS.split("\n\n")
    return (
        "\n\n".join(
            [
                "# Command line",
                "`coatcheck COMMAND --help` prints the same.",
                *exits,
                *(_command(path, command) for path, command in _commands(main, "coatcheck")),
                "",
            ]
        ).rstrip()
        + "\n"
    )


def kinds_page() -> str:
    """Every kind of payload."""
    remarks = _remarks(artifact, "Kind")
    rows = [
        (
            f"`{kind}`",
            remarks[kind.name],
            f"`{SPECS[kind].text_view}`",
            "JSONPath" if SPECS[kind].paths else "lines" if SPECS[kind].readable else "bytes",
        )
        for kind in Kind
    ]
    return f"""# Kinds

A payload's kind decides what its card shows. The service recognises it, unless the request declares a `kind`.
The text view (`view=text`) is the readable form; `same` is the payload itself.

{_table("kind | what it is | text view | read by", rows)}
"""


def http_page() -> str:
    """Every route."""
    document = json.loads((ROOT / "openapi" / "openapi.json").read_text())
    by_tag: dict[str, list[tuple[str, ...]]] = {tag["name"]: [] for tag in document["tags"]}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method in {"get", "put", "post", "delete", "patch", "head"}:
                by_tag[operation["tags"][0]].append((f"`{method.upper()} {path}`", operation["summary"]))
    about = {tag["name"]: tag.get("description", "") for tag in document["tags"]}
    sections = [
        f"## {tag}\n\n{about[tag]}\n\n{_table('route | what it does', rows)}" for tag, rows in by_tag.items() if rows
    ]
    return f"""# HTTP

Parameters, bodies and answers are in the OpenAPI document: as a page at `/docs` of a running service, as JSON at
`/v1/openapi.json` and in [openapi.json](../../openapi/openapi.json). Errors are problem details; see
[errors](../errors.md). Every answer has the request's ID in `X-Request-ID` and the service's release in
`Coatcheck-Version`.

{_GAP.join(sections)}
"""


def _signature(function: Callable[..., object]) -> str:
    """The parameters with their defaults. Without types, which differ in form from Python to Python."""
    parts: list[str] = []
    starred = False
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            parts.append("*")
        prefix = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        parts.append(f"{prefix}{parameter.name}{default}")
    return ", ".join(parts)


def _methods(owner: type) -> str:
    rows = [
        (f"`{name}({_signature(method)})`", (inspect.getdoc(method) or "").partition("\n\n")[0])
        for name in dir(owner)
        if not name.startswith("_") and callable(method := getattr(owner, name))
    ]
    return _table("method | what it does", rows)


def client_page() -> str:
    """Every method of the client."""
    groups = [
        (name, kept) for name, kept in vars(fields).items() if typing.is_typeddict(kept) and not name.startswith("_")
    ]
    rows = [(f"`{name}`", ", ".join(f"`{key}`" for key in sorted(kept.__annotations__))) for name, kept in groups]
    return f"""# Python client

`Client` and `AsyncClient` (`coatcheck_client`) have the same methods; those of `AsyncClient` are awaited.
[How to use it](../how-to/python.md).

`Client({_signature(coatcheck_client.Client.__init__)})`

{inspect.getdoc(coatcheck_client.Client)}

{_methods(coatcheck_client.Client)}

## Named parameters

`**declared` and `**parameters` above are these; the [HTTP interface](http.md) has the same names.

{_table("parameters | names", rows)}

## Administration

Methods of `client.admin`, for keys with the scope `admin`.

{_methods(administration.Admin)}
"""


PAGES: Final[dict[str, Callable[[], str]]] = {
    "settings": settings_page,
    "policies": policies_page,
    "command-line": command_line_page,
    "client": client_page,
    "kinds": kinds_page,
    "http": http_page,
}


def write(*, check: bool) -> int:
    """Write every page, or compare; returns the exit code."""
    stale: list[str] = []
    for name, page in PAGES.items():
        heading, _, rest = page().partition("\n")
        text = f"{heading}\n\n{MADE}{rest}"
        path = TARGET / f"{name}.md"
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(str(path.relative_to(ROOT)))
    if stale:
        sys.stderr.write(f"Not as the code says: {', '.join(stale)}. Run `make reference`.\n")
    return 1 if stale else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--check", action="store_true", help="compare, and end with 1 if a page is not as the code says"
    )
    sys.exit(write(check=parser.parse_args().check))
