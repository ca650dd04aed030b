"""What the commands at the end of a pipe share. If anything fails, such a command prints what it was given.

What came through a pipe exists nowhere else, and a model, or another program, waits for it.
"""

import contextlib
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO, cast

import click
from typing_extensions import override

from coatcheck.cli.exits import Exit, Failure, fail, standard_input

PIPE: Final = "-"
"""The name of standard input as a file."""

Rescue = Callable[[str, BufferedReader, Failure, bool], None]
"""Prints what came through a pipe: its name, the pipe, why the command fails, and whether as JSON."""


class PipeCommand(click.Command):
    """A command that prints what came through its pipe even if its options are wrong, so that it never begins."""

    def __init__(self, *args: Any, rescue: Rescue, **attributes: Any) -> None:  # noqa: ANN401 - as those of click
        super().__init__(*args, **attributes)
        self._rescue = rescue

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        arguments = list(args)  # click empties the list
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if (pipe := next(filter(_is_pipe, arguments), None)) is not None:
                failure = Failure(Exit.WRONG, error.format_message())
                with contextlib.suppress(Failure), open_input(pipe) as stream:
                    self._rescue(pipe, stream, failure, "--json" in arguments)
            raise


def _is_pipe(argument: str) -> bool:
    """Returns whether an argument names a pipe; a terminal is none, since nobody has typed anything yet."""
    if argument == PIPE:
        return not is_terminal(standard_input())
    try:
        return Path(argument).is_fifo()
    except OSError:  # an option's value may be too long for a name
        return False


def is_terminal(stream: TextIO | None) -> bool:
    """Returns whether a standard stream is a terminal; None is one that was closed before the start."""
    return stream is not None and stream.isatty()


def open_input(file: str) -> BufferedReader:
    """Opens a file, or standard input; ends the command if it cannot be read."""
    try:
        if file != PIPE:
            return Path(file).open("rb")
    except OSError as error:
        unreadable(file, error)
    stdin = standard_input()
    if stdin is None:
        fail(Exit.WRONG, "standard input is closed, so there is nothing to read.")
    return cast("BufferedReader", stdin.buffer)


def unreadable(file: str, error: OSError) -> NoReturn:
    """Ends the command because its input cannot be read."""
    name = "standard input" if file == PIPE else sendable(file)
    fail(Exit.WRONG, f"{name} cannot be read: {error.strerror}.")


def sendable(text: str) -> str:
    """Returns a name or a title that can be sent: bytes in it that are not text become U+FFFD, as in a file's name."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
