"""The command line: each command is one function, and its exit code tells how it ended. Most commands have `--json`."""

from typing import Final

import click

from coatcheck import __version__
from coatcheck.cli.exits import Commands

EXITS = """Exit codes. 0: done. 1: nothing matched, or a check found something. 2: the request was wrong. 3: no such
artifact, or gone. 4: the service or its storage cannot be reached. 5: the answer could not be printed. 130: stopped
with Ctrl-C. 141: the reader of the output closed the pipe.

put, card, read, search, search-results, list, get, outline, delete, compact, doctor, mcp, mcp-wrap, hook, namespace,
policy, hold, usage, status, retention and audit use the running service at --url or COATCHECK_URL, with the key in
--key or COATCHECK_KEY.

With --json, an error is a JSON object on standard error. Completion: eval "$(_COATCHECK_COMPLETE=bash_source
coatcheck)" in ~/.bashrc; zsh_source and fish_source for other shells."""

COMMANDS: Final = {
    "audit": ("retention", "Show who removed or changed what, when and why."),
    "backup": ("operate", "Copy the embedded store into the new directory DIR, even while the service runs."),
    "card": ("client", "Print the card of an artifact again, with any token budget."),
    "check": ("operate", "Compare the stored bytes with the catalogue and their digests, even while the service runs."),
    "compact": ("conversation", "Print a model request with cards in place of bulky outputs."),
    "delete": ("artifacts", "Delete artifacts: from now on they are reported as gone."),
    "doctor": ("doctor", "Say what works between this machine and the service, and what to do about the rest."),
    "get": ("artifacts", "Write the payload of an artifact to standard output, byte for byte."),
    "hold": ("namespace", "Protect artifacts from deletion, by anybody and by any route."),
    "hook": ("conversation", "Answer the hooks of agent hosts."),
    "key": ("key", "Create, list and revoke keys."),
    "list": ("artifacts", "List artifacts, newest first; with WORDS only those that contain all of them."),
    "mcp": ("mcp", "Serve the tools to an MCP host on standard input and output."),
    "mcp-wrap": ("mcp", "Serve another MCP server to a host, with cards for its large results."),
    "migrate": ("operate", "Migrate the catalogue's schema to this release."),
    "namespace": ("namespace", "Create, list, disable, enable and empty namespaces."),
    "openapi": ("operate", "Print the OpenAPI document, or check that a file matches it."),
    "outline": ("artifacts", "Print what is in an artifact and where: headings, definitions, files, keys, tables."),
    "policy": ("policy", "Set how long payloads are kept, how much a namespace may hold, and what models see."),
    "put": ("client", "Store FILE (- for standard input) and print what the model should read instead."),
    "read": ("client", "Print a part of an artifact."),
    "redaction": ("policy", "List the redaction rules that are on, and those that are off and why."),
    "restore": ("operate", "Restore BACKUP into a data directory that holds no store yet."),
    "retention": ("retention", "Plan removals, apply them, review past runs, and undo them."),
    "search": ("client", "Print the lines of an artifact that match PATTERN (RE2), as grep does."),
    "search-results": ("conversation", "Store a web search's response, and print what a model reads of it."),
    "serve": ("serve", "Start the service."),
    "settings": ("operate", "List every setting with its default, its value here and its meaning."),
    "status": ("namespace", "Show how full a session's context was when it was measured or compacted last."),
    "usage": ("namespace", "Show how much each namespace holds: artifacts, stored bytes, and its limits."),
}
"""For each command, its module and the first sentence of its help. So the help imports no command, and a command
imports no other."""


class _Coatcheck(Commands):
    summaries = COMMANDS


@click.group(
    cls=_Coatcheck,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXITS,
)
@click.version_option(__version__, prog_name="coatcheck")
def main() -> None:
    """Coatcheck keeps bulky tool output out of a language model's context without losing it."""
