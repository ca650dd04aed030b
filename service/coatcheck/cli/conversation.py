"""`compact`, `hook` and `search-results`: pipe data of hosts without an integration through a running service.

If `compact` fails, it prints the request as it came: the next program in the pipe is about to send it.

`hook claude-code` also gets output that the host has cut. If a shell's output has more than some 30,000 characters, the
host writes it to a file on this machine, and passes the hook only the beginning and the file's name. A service must not
open files that a request names, but this command may, because the host itself has started it. An error never disturbs
the host: the command reports it on standard error and prints nothing else. It exits with 0, or with 1 if an option,
the URL or the key is invalid; only an exit code of 2 would disturb the host.
"""

import json
import sys
from io import BufferedReader
from typing import Any, Final

import click
import msgspec

from coatcheck.cli.command_setup import PipeCommand, open_input, unreadable, waiting
from coatcheck.cli.exits import Exit, Failure, echo, fail, standard_input
from coatcheck.cli.http_client import (
    ServiceClient,
    drop_missing,
    encode_options,
    service_options,
    service_settings,
    timeout_option,
)
from coatcheck.core.search.model import BOUNDS
from coatcheck.core.text.count import plural
from coatcheck_client import Client, Retries, ServiceError, requests
from coatcheck_client.integrations.claude_code_event import whole_event


def _rescue(pipe: str, stream: BufferedReader, _failure: Failure, as_json: bool) -> None:
    _print_unchanged(_read(pipe, stream), as_json=as_json)


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
def compact(service: ServiceClient, file: str, max_tokens: int | None, repair: bool, **fields: str | None) -> None:
    """Print a model request with cards in place of bulky outputs.

    FILE is the request, - for standard input. With --json the whole answer is printed: the body, and the report of
    what changed and why. If anything fails, the request is printed as it came, and the reason on standard error; with
    --json as the body, with null as the report.
    """
    with open_input(file) as stream:
        data = _read(file, stream)
    as_json = service.as_json
    try:
        body = _parse_request(data)
        request = {
            "body": body,
            **encode_options(fields),
            "policy": {} if max_tokens is None else {"max_tokens": max_tokens},
        }
        request |= {"repair": True} if repair else {}
        with waiting("Compacting"):
            answer = service.ask(
                "POST",
                "/v1/context/compact",
                {"body": object, "report": dict},
                content=_encode(request),
                headers={"content-type": "application/json"},
            )
        printed = json.dumps(answer, indent=2) if as_json else requests.encoded(answer["body"])
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


def _encode(request: dict[str, Any]) -> bytes:
    """Returns the JSON of a request to the service; ends the command if JSON cannot represent it, as with NaN."""
    try:
        return requests.encoded(request)
    except ServiceError as error:
        fail(Exit.WRONG, f"the request is not JSON: {error.detail}")


def _print_unchanged(data: bytes, *, as_json: bool) -> None:
    """Prints the request as it came; as JSON, an answer without a report that has the request as its body."""
    if not as_json:
        echo(data, nl=False)
        return
    try:
        body: Any = json.loads(data)
    except (ValueError, RecursionError):
        body = data.decode(errors="replace")
    echo(json.dumps({"body": body, "report": None}, indent=2))


class _HookCommand(click.Command):
    """A command that exits with 1 if its options are wrong: exit code 2 would disturb the host."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.show()
            ctx.exit(Exit.NOTHING)


HOOK_SECONDS: Final = 10.0
"""Seconds without any progress after which a hook gives up, so that the agent goes on with the output as it is."""


@click.group()
def hook() -> None:
    """Answer the hooks of agent hosts."""


@hook.command("claude-code", cls=_HookCommand)
@click.option("--url", "service", help="URL of the service (COATCHECK_URL).")
@click.option("--key", help="Key to use (COATCHECK_KEY).")
@click.option("--label", multiple=True, help="A label; may be given several times.")
@click.option("--ttl", help="How long to keep the payload: seconds, or 30m, 12h, 7d.")
@click.option("--card-tokens", type=int, help="Token budget of a card (600).")
@click.option("--inline-tokens", type=int, help="Leave texts of up to this many tokens unchanged (1000).")
def claude_code(service: str | None, key: str | None, label: tuple[str, ...], **options: Any) -> None:  # noqa: ANN401
    """Read a PostToolUse event from standard input, and print what replaces the tool's output, if anything does."""
    try:
        settings = service_settings(service, key)
    except SystemExit:
        sys.exit(Exit.NOTHING)  # with exit code 2, the host would show the error to its model
    stdin = standard_input()
    if stdin is None:
        echo("coatcheck: the tool's output stays as it is: standard input is closed.", err=True)
        return
    try:
        event = whole_event(json.load(stdin))
        with Client(
            settings.url, key=settings.key or None, timeout=HOOK_SECONDS, retries=Retries(attempts=1)
        ) as client:
            answer = client.answer_hook(event, labels=label, **options)
    except Exception as e:  # noqa: BLE001 - after any failure, the host goes on with the output
        echo(f"coatcheck: the tool's output stays as it is: {e}", err=True)
        return
    if "hookSpecificOutput" in answer:
        echo(json.dumps(answer))


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
def search_results(service: ServiceClient, file: str, *, summary: bool, **fields: str | int | None) -> None:
    """Store a web search's response, and print what a model reads of it.

    FILE is any search provider's response as it came, JSON or text; - for standard input.
    """
    with open_input(file) as stream:
        data = _read(file, stream)
    answer = service.ask(
        "POST",
        "/v1/search-results",
        {"text": str, "summary": dict},
        content=msgspec.json.encode({"response": _response(data), **drop_missing(**fields)}),
        headers={"content-type": "application/json"},
    )
    if service.as_json:
        echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
        return
    echo(answer["summary"]["text"] if summary else answer["text"])
    echo(f"coatcheck: {answer['payload']['text']} tokens", err=True)
    for warning in answer["warnings"]:
        echo(f"coatcheck: {warning['message']} [{warning['code']}]", err=True)


def _response(data: bytes) -> object:
    """Returns a JSON object or array byte for byte, and anything else as text."""
    try:
        msgspec.json.decode(data, type=dict | list)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return data.decode("utf-8", "replace")
    return msgspec.Raw(data)
