"""`coatcheck compact`: makes a model-bound request smaller, through a running service.

Whatever fails, the request is printed as it came: what follows in the pipe is about to send it.
"""

import json
from io import BufferedReader
from typing import Any

import click

from coatcheck.cli.exits import Exit, Failure, echo, fail
from coatcheck.cli.http_client import ask, connect, encode_options, service_options, timeout_option
from coatcheck.cli.pipes import PipeCommand, open_input, unreadable
from coatcheck.cli.waiting import waiting
from coatcheck.core.text.plural import plural


def _rescue(_pipe: str, stream: BufferedReader, _failure: Failure, as_json: bool) -> None:
    _print_unchanged(stream.read(), as_json=as_json)


@click.command(cls=PipeCommand, rescue=_rescue)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--session", help="Conversation that the request belongs to.")
@click.option("--format", help="The body's format (default: detected by its structure).")
@click.option(
    "--max-tokens",
    type=int,
    help="Maximum tokens of the request. If replacing outputs is not enough, the oldest messages are left out.",
)
@click.option(
    "--no-tools", "tools", flag_value="none", help="The model cannot read further: leave the tool out of cards."
)
@click.option("--repair", is_flag=True, help="Mend what a provider would refuse, such as outputs without a call.")
@timeout_option
@service_options
def compact(
    file: str,
    max_tokens: int | None,
    repair: bool,
    timeout: float,
    service: str | None,
    key: str | None,
    as_json: bool,
    **fields: Any,  # noqa: ANN401 - texts
) -> None:
    """Print a model request with cards in place of bulky outputs.

    FILE is the request, - for standard input. With --json the whole answer is printed: the body, and the report of
    what changed and why. If anything fails, the request is printed as it came, and the reason on standard error; with
    --json as the body, with null as the report.
    """
    with open_input(file) as stream:
        data = _read(file, stream)
    try:
        body = _parse_request(data)
        request = {
            "body": body,
            **encode_options(fields),
            "policy": {} if max_tokens is None else {"max_tokens": max_tokens},
        }
        request |= {"repair": True} if repair else {}
        with connect(service, key, timeout) as client, waiting("Compacting"):
            answer = ask(lambda: client.post("/v1/context/compact", json=request), client, body=object, report=dict)
        printed = json.dumps(answer if as_json else answer["body"], ensure_ascii=False, indent=2 if as_json else None)
    except BaseException:
        _print_unchanged(data, as_json=as_json)
        raise
    echo(printed)
    if not as_json:
        echo(f"coatcheck: {plural(len(answer['report']['changes']), 'change')}; --json says which.", err=True)
        for sentence in (*answer["report"].get("repaired", ()), *answer["report"].get("notes", ())):
            echo(f"coatcheck: {sentence}", err=True)


def _read(file: str, stream: BufferedReader) -> bytes:
    try:
        return stream.read()
    except OSError as error:
        unreadable(file, error)


def _parse_request(data: bytes) -> Any:  # noqa: ANN401 - JSON
    """Returns the request; ends the command if it is not JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        fail(Exit.WRONG, f"the request is not JSON: {error}.")


def _print_unchanged(data: bytes, *, as_json: bool) -> None:
    """Prints the request as it came; as JSON the answer that changes nothing, in which what is not JSON is a text."""
    if not as_json:
        echo(data, nl=False)
        return
    try:
        body: Any = json.loads(data)
    except (ValueError, RecursionError):
        body = data.decode(errors="replace")
    echo(json.dumps({"body": body, "report": None}, indent=2))
