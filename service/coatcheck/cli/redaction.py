"""`coatcheck redaction`: the rules that find secrets, and those that are not used, with the reasons."""

import json

import click

from coatcheck.cli.command_setup import settings_for
from coatcheck.cli.exits import Exit, echo, fail


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def redaction(as_json: bool) -> None:
    """List the redaction rules that are on, and those that are off and why. Policies decide if redaction happens."""
    from coatcheck.adapters.redaction_rules import VERSION, Masks  # noqa: PLC0415 - client commands start quickly

    current = settings_for(None)
    try:
        rules = Masks(current.redaction_rules).rules()
    except ValueError as error:
        fail(Exit.WRONG, str(error))
    left = [{"rule": each.rule, "why": each.why} for each in rules.left_out]
    if as_json:
        made = {"gitleaks": VERSION, "default": current.redaction, "rules": list(rules.names), "left_out": left}
        echo(json.dumps(made, indent=2))
        return
    echo(
        f"{len(rules.names)} rules, from gitleaks {VERSION} and Coatcheck's own. Without a policy: {current.redaction}."
    )
    for name in rules.names:
        echo(f"  {name}")
    echo("Left out:")
    for each in left:
        echo(f"  {each['rule']}: {each['why']}")
