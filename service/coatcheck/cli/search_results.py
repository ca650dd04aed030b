"""`coatcheck search-results`: what a model would read of a web search's response, and what stays of it."""

from typing import Any

import click
import msgspec

from coatcheck.cli.exits import echo
from coatcheck.cli.http_client import ask, connect, service_options
from coatcheck.cli.pipes import open_input, unreadable
from coatcheck.core.search.limits import BOUNDS


def _limit(name: str, meaning: str) -> Any:  # noqa: ANN401 - click's decorator
    least, most = BOUNDS[name]
    return click.option(f"--web-{name.replace('_', '-')}", name, type=click.IntRange(least, most), help=meaning)


@click.command("search-results")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--query", help="What was searched for (default: what the provider repeats).")
@click.option("--session", help="Conversation that the search belongs to.")
@click.option("--turn", help="Name of the turn, in which searches may be limited.")
@click.option("--tool-name", help="Tool that made the search.")
@_limit("max_results", "Results whose text is shown.")
@_limit("max_tokens_per_result", "Maximum tokens of one result.")
@_limit("max_total_tokens", "Maximum tokens in all.")
@click.option("--summary", is_flag=True, help="Print what stays for later turns instead.")
@service_options
def search_results(
    file: str,
    *,
    summary: bool,
    service: str | None,
    key: str | None,
    as_json: bool,
    **fields: Any,  # noqa: ANN401 - texts and numbers
) -> None:
    """Store a web search's response, and print what a model reads of it.

    FILE is any search provider's response as it came, JSON or text; - for standard input.
    """
    with open_input(file) as stream:
        try:
            data = stream.read()
        except OSError as error:
            unreadable(file, error)
    body = msgspec.json.encode(
        {"response": _response(data), **{name: value for name, value in fields.items() if value is not None}}
    )
    with connect(service, key) as client:
        answer = ask(
            lambda: client.post("/v1/search-results", content=body, headers={"content-type": "application/json"}),
            client,
            text=str,
            summary=dict,
        )
    if as_json:
        echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
        return
    echo(answer["summary"]["text"] if summary else answer["text"])
    echo(f"coatcheck: {answer['payload']['text']} tokens", err=True)
    for warning in answer["warnings"]:
        echo(f"coatcheck: {warning['message']} [{warning['code']}]", err=True)


def _response(data: bytes) -> object:
    """Returns JSON as it is, byte for byte, and anything else as text."""
    try:
        msgspec.json.decode(data, type=dict | list)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return data.decode("utf-8", "replace")
    return msgspec.Raw(data)
