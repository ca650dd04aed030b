"""`hook claude-code`: for hosts that run a command as a hook; it also sees what the host has cut.

For more than some 30,000 characters, the host writes a shell's output to a file on this machine and passes the hook
only the beginning with the file's name. A service must not open files that a request names; this command, which the
host itself has started, may. It never disturbs the host: errors go to standard error, nothing is printed, and it exits
with 0.
"""

import json
import sys
from typing import Any, Final

import click

from coatcheck.cli.exits import Exit, echo, standard_input
from coatcheck.cli.http_client import service_settings
from coatcheck_client import Client, Retries
from coatcheck_client.integrations.claude_code_event import whole_event

SECONDS: Final = 10.0


@click.group()
def hook() -> None:
    """Answer the hooks of agent hosts."""


@hook.command("claude-code")
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
        sys.exit(Exit.NOTHING)  # with 2, the host would show the error to its model
    stdin = standard_input()
    if stdin is None:
        echo("coatcheck: the tool's output stays as it is: standard input is closed.", err=True)
        return
    try:
        event = whole_event(json.load(stdin))
        with Client(settings.url, key=settings.key or None, timeout=SECONDS, retries=Retries(attempts=1)) as client:
            answer = client.answer_hook(event, labels=label, **options)
    except Exception as e:  # noqa: BLE001 - whatever it is, the host goes on with what it has
        echo(f"coatcheck: the tool's output stays as it is: {e}", err=True)
        return
    if "hookSpecificOutput" in answer:
        echo(json.dumps(answer))
