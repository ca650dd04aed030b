"""How a command ends: the exit codes, and an error as a sentence on standard error."""

import sys
from enum import IntEnum
from typing import NoReturn

import click


class Exit(IntEnum):
    """Exit codes; stable."""

    DONE = 0
    NOTHING = 1
    WRONG = 2
    ABSENT = 3
    UNREACHABLE = 4


def fail(code: Exit, message: str) -> NoReturn:
    """Say what is wrong and leave."""
    click.echo(f"coatcheck: {message}", err=True)
    sys.exit(code)
