"""`coatcheck compact`: makes a model-bound request smaller, through a running service."""

import json
from typing import Any, BinaryIO

import click

from coatcheck.cli.exits import Exit, echo, fail
from coatcheck.cli.http_client import ask, connect, given, service_options
from coatcheck.cli.waiting import waiting
from coatcheck.core.text.plural import plural


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option("--session", help="Conversation that the request belongs to.")
@click.option("--format", help="The body's format (default: detected by its structure).")
@click.option(
    "--max-tokens",
    type=int,
    help="Maximum tokens of the request. If replacing outputs is not enough, the oldest messages are left out.",
)
@service_options
def compact(
    file: BinaryIO,
    max_tokens: int | None,
    service: str | None,
    key: str | None,
    as_json: bool,
    **fields: Any,  # noqa: ANN401 - texts
) -> None:
    """Print a model request with cards in place of bulky outputs.

    FILE is the request, - for standard input. With --json the whole answer is printed: the body, and the report of
    what changed and why.
    """
    try:
        body: Any = json.load(file)
    except ValueError as error:
        fail(Exit.WRONG, f"the request is not JSON: {error}.")
    asked = {"body": body, **given(fields), "policy": {} if max_tokens is None else {"max_tokens": max_tokens}}
    with connect(service, key) as client, waiting("Compacting"):
        found = ask(lambda: client.post("/v1/context/compact", json=asked), client, body=object, report=dict)
    echo(json.dumps(found if as_json else found["body"], ensure_ascii=False, indent=2 if as_json else None))
    if not as_json:
        echo(f"coatcheck: {plural(len(found['report']['changes']), 'change')}; --json says which.", err=True)
