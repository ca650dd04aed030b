"""`coatcheck redaction`: the rules that find secrets, and those that are not used, with the reasons."""

import json
from datetime import date

import click

from coatcheck.cli.command_setup import settings_for
from coatcheck.cli.exits import Exit, echo, fail


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def redaction(as_json: bool) -> None:
    """List the redaction rules that are on, and those that are off and why. Policies decide if redaction happens."""
    from coatcheck.adapters.clock import SystemClock  # noqa: PLC0415 - client commands start quickly
    from coatcheck.adapters.redaction_rules import RELEASED, VERSION, Masks  # noqa: PLC0415

    current = settings_for(None)
    try:
        rules = Masks(current.redaction_rules).rules()
    except ValueError as error:
        fail(Exit.WRONG, str(error))
    left_out = [{"rule": each.rule, "why": each.why} for each in rules.left_out]
    age = (SystemClock().now().date() - date.fromisoformat(RELEASED)).days
    if as_json:
        report = {
            "gitleaks": VERSION,
            "released": RELEASED,
            "days_old": age,
            "default": current.redaction,
            "rules": list(rules.names),
            "left_out": left_out,
        }
        echo(json.dumps(report, indent=2))
        return
    echo(
        f"{len(rules.names)} rules: gitleaks' of {RELEASED} ({VERSION}), {age} days old, and Coatcheck's own. "
        f"Without a policy: {current.redaction}."
    )
    for name in rules.names:
        echo(f"  {name}")
    echo("Left out:")
    for each in left_out:
        echo(f"  {each['rule']}: {each['why']}")
