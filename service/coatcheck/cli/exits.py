"""How a command ends: its exit code, its printed answer, and errors as sentences on standard error."""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from enum import IntEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TextIO, cast

import click
from typing_extensions import override

if TYPE_CHECKING:
    from io import TextIOWrapper


class Exit(IntEnum):
    """Exit codes. Their values and meanings stay as they are in later releases."""

    DONE = 0
    NOTHING = 1
    """Nothing was found, or a check found that something is wrong."""
    WRONG = 2
    """The command or its input is wrong; repeating it changes nothing."""
    ABSENT = 3
    """What the command names does not exist, or no longer exists."""
    UNREACHABLE = 4
    """The service or the store cannot be reached, or refuses for now."""
    UNTOLD = 5
    """The work is done, but its answer could not be printed."""
    INTERRUPTED = 130
    """128 + 2: the code that a shell reports for SIGINT."""
    UNREAD = 141
    """128 + 13: the code that a shell reports for a command that SIGPIPE has ended."""


class Failure(SystemExit):
    """Ends a command after the reason has been printed. A command that was given a text must still print that text."""

    def __init__(self, exit_code: Exit, message: str, error_code: str | None = None) -> None:
        """See `fail`."""
        super().__init__(exit_code)
        self.message = message
        self.error_code = error_code


def fail(exit_code: Exit, message: str, *, code: str | None = None) -> NoReturn:
    """Prints what is wrong on standard error, with --json as an object, and exits.

    Args:
        exit_code: how the command ends.
        message: a sentence for people.
        code: the permanent name of the error, if the service has one.

    Raises:
        Failure: always.
    """
    context = click.get_current_context(silent=True)
    if context is not None and context.params.get("as_json"):
        line = json.dumps({"detail": message, "code": code, "exit": exit_code}, ensure_ascii=False)
    else:
        word = click.style("coatcheck:", fg="red", bold=True)
        line = f"{word} {message}" + ("" if code is None else f" [{code}]")
    with contextlib.suppress(OSError):  # if nothing can be printed, the exit code still tells that the command failed
        click.echo(line, err=True)  # without colours if standard error is not a terminal
    _forget_outputs()
    raise Failure(exit_code, message, code)


def echo(message: str | bytes = "", *, nl: bool = True, err: bool = False) -> None:
    """Prints a message; ends the command if the message cannot be printed."""
    try:
        click.echo(message, nl=nl, err=err)
    except OSError as error:
        _unheard(error)


def echo_answer(answer: dict[str, Any], text: str, *, as_json: bool, none: str = "") -> None:
    """Prints an answer, as text or as JSON; for an empty text, prints `none` on standard error."""
    if as_json or text:
        echo(json.dumps(answer, indent=2) if as_json else text)
    else:
        echo(none, err=True)


def echo_items(items: list[Any], line: Callable[[Any], str], none: str, *, as_json: bool) -> None:
    """Prints a list.

    Args:
        items: what to print.
        line: returns an item as text.
        none: what to print on standard error if there are no items; not used with JSON.
        as_json: whether to print all items as JSON.
    """
    echo_answer({"items": items}, "" if as_json else "\n".join(map(line, items)), as_json=as_json, none=none)


class Commands(click.Group):
    """A group whose commands exit with codes of their own if they are interrupted, or if nobody reads their output.

    click would exit with 1 in both cases, which here means that nothing was found. A command's module is imported only
    when the command is called.
    """

    summaries: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """For each command, its module and the first sentence of its help."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.summaries)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.summaries:
            return None
        module = vars(import_module(f"coatcheck.cli.{self.summaries[cmd_name][0]}"))
        name = cmd_name.replace("-", "_")
        command: click.Command = module.get(f"{name}_") or module[name]  # `list_`, because `list` is Python's own
        return command

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        room = formatter.width - 6 - max(map(len, self.summaries))
        rows = [
            (name, click.Command(name, help=summary).get_short_help_str(room))
            for name, (_, summary) in sorted(self.summaries.items())
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    @override
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except OSError as error:
            if not _is_output(error):
                raise
            _unheard(error)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        # An answer may have characters that the output's encoding lacks, and a file's name bytes that are no text.
        stdout = cast("TextIOWrapper | None", sys.stdout)
        if stdout is not None and stdout.errors == "strict":
            stdout.reconfigure(errors="replace")
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            fail(Exit.INTERRUPTED, "interrupted.")
        except BrokenPipeError as error:
            _unheard(error)


def _is_output(error: OSError) -> bool:
    """Returns whether an error arose because an output refused what click itself printed, such as the help.

    Such an output refuses everything from then on, so this function prints an empty line, and compares the errors.
    """
    for stream in _outputs():
        try:
            click.echo(file=stream)
        except OSError as again:
            return again.errno == error.errno
    return False


def standard_input() -> TextIO | None:
    """Returns standard input; None if it was closed before the start."""
    return sys.stdin


def _outputs() -> list[TextIO]:
    """Returns standard error and standard output, but not one that was closed before the start."""
    outputs: tuple[TextIO | None, ...] = (sys.stderr, sys.stdout)
    return [stream for stream in outputs if stream is not None]


def _unheard(error: OSError) -> NoReturn:
    """Ends a command that cannot print; without a message if the reader of the output has closed the pipe."""
    if isinstance(error, BrokenPipeError):
        _forget_outputs()
        sys.exit(Exit.UNREAD)
    fail(Exit.UNTOLD, f"the answer could not be printed: {error.strerror}.")


def _forget_outputs() -> None:
    """Keeps the interpreter from failing at exit, when it tries again to print to an output that is broken."""
    for stream in _outputs():
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
