"""The command line: one command, one function; `--json` everywhere; exit codes that mean something."""

import click

from coatcheck import __version__
from coatcheck.cli.artifacts import delete, get, list_artifacts, outline
from coatcheck.cli.audit import audit
from coatcheck.cli.backup import backup, restore
from coatcheck.cli.check import check
from coatcheck.cli.client import card, put, read, search
from coatcheck.cli.compact import compact
from coatcheck.cli.exits import Commands
from coatcheck.cli.hold import hold
from coatcheck.cli.hook import hook
from coatcheck.cli.key import key
from coatcheck.cli.mcp import mcp
from coatcheck.cli.namespace import namespace
from coatcheck.cli.operate import migrate, openapi, settings
from coatcheck.cli.policy import policy
from coatcheck.cli.redaction import redaction
from coatcheck.cli.retention import retention
from coatcheck.cli.serve import serve
from coatcheck.cli.usage import usage

EXITS = """Exit codes. 0: done. 1: nothing matched, or a check found something. 2: the request was wrong. 3: no such
artifact, or gone. 4: the service or its storage cannot be reached. 5: the answer could not be printed. 130: stopped
with Ctrl-C. 141: the reader of the output closed the pipe.

put, card, read, search, list, get, outline, delete, compact, mcp, hook, namespace, policy, hold, usage, retention and
audit ask the running service that --url or COATCHECK_URL names, with the key that --key or COATCHECK_KEY gives.

With --json an error is an object, too, on standard error. Completion: eval "$(_COATCHECK_COMPLETE=bash_source
coatcheck)" in ~/.bashrc; zsh_source and fish_source for other shells."""


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXITS)
@click.version_option(__version__, prog_name="coatcheck")
def main() -> None:
    """Coatcheck keeps bulky tool output out of a language model's context without losing it."""


for _command in (
    serve,
    put,
    card,
    read,
    search,
    list_artifacts,
    get,
    outline,
    delete,
    compact,
    mcp,
    hook,
    key,
    namespace,
    policy,
    hold,
    usage,
    retention,
    audit,
    migrate,
    check,
    backup,
    restore,
    settings,
    redaction,
    openapi,
):
    main.add_command(_command)
