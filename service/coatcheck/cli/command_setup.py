"""Shared by the commands: settings, options that take a size, errors that name options, pipes, and progress.

If anything fails, a command at the end of a pipe prints its input: the input exists nowhere else, and a model or
another program waits for it. Progress is shown only on a terminal.
"""

import contextlib
import re
import sys
import threading
import time
from collections.abc import Callable, Generator
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO, cast

import click
from typing_extensions import override

from coatcheck.cli.exits import Exit, Failure, fail, standard_input
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.policies.policy import size_of
from coatcheck.core.text.count import plural
from coatcheck.settings import Settings, load

_EXITS = {Code.INVALID_REQUEST: Exit.WRONG, Code.INTEGRITY: Exit.NOTHING}
"""Exit codes by error code. Any other error ends the command as a failure of storage does."""


def settings_for(data: str | None) -> Settings:
    """Returns the settings from the environment, with the command line's data directory.

    Ends the command if they are invalid.
    """
    try:
        return load(data=data)
    except ValueError as error:
        fail(Exit.WRONG, str(error))


def holds_store(settings: Settings) -> bool:
    """Returns whether a store exists already.

    If the store is in PostgreSQL, always returns True, because only a connection could tell.
    """
    if settings.database_url:
        return True
    from coatcheck.bootstrap import DATABASE  # noqa: PLC0415 - the client commands must start quickly

    return (Path(settings.data) / DATABASE).exists()


def require_store(settings: Settings) -> None:
    """Ends the command if the settings name an embedded store that does not exist."""
    if not holds_store(settings):
        fail(
            Exit.WRONG,
            f"there is no store in {Path(settings.data).resolve()}. Name its directory with --data. "
            "(`coatcheck migrate` makes a store, and so does the first `coatcheck serve`.)",
        )


def end(error: CoatcheckError) -> NoReturn:
    """Prints the error and exits: 2 for a wrong request, 1 for damage that was found, 4 for any other error."""
    fail(_EXITS.get(error.code, Exit.UNREACHABLE), error.detail)


def render_size(count: float) -> str:
    """Returns a number of bytes in readable form."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:  # noqa: PLR2004 - binary units
            return plural(int(count), "byte") if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def byte_size(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Converts the value of an option that takes a size into bytes; None if there is no value. A callback for click.

    Raises:
        click.BadParameter: the value is not a size; click then ends the command.
    """
    if value is None:
        return None
    try:
        return size_of(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is not a number of bytes; kib, mib, gib or tib may follow the number."
        ) from None


_FIELD: Final = re.compile(
    r"""
      '(?P<must>[a-z_]+)'(?=\ must\b)                              # 'card_tokens' must be a whole number
    | \b(?P<flag>[a-z_]+)=true\b(?!\ \(on\ the\ command\ line)     # use literal=true
    | (?:(?<=\bneeds\ its\ )|(?<=\bwith\ ))(?P<needed>[a-z]+)\b(?!=)    # needs its namespace; with ttl
    | \b(?P<plain>[a-z]+(?:_[a-z]+)+)\b                            # try ignore_case
    """,
    re.VERBOSE,
)
"""Matches words in the service's sentences that may name a field. Only those that an option has are replaced."""
_CALLED: Final = {"url": "source", "labels": "label"}
"""Names of options by field, where the two differ."""


def in_options(sentence: str) -> str:
    """Returns a sentence that names the running command's options instead of fields.

    From the first quotation mark to the last, the sentence stays as it is.
    """
    context = click.get_current_context(silent=True)
    if context is None:
        return sentence
    options = {each.name: each.opts[0] for each in context.command.params if isinstance(each, click.Option)}

    def option(match: re.Match[str]) -> str:
        name = next(each for each in match.groups() if each)
        return options.get(name) or options.get(_CALLED.get(name, "")) or match[0]

    # Text in quotation marks is a user's pattern, or an example.
    parts = re.split(r'(".*")', sentence)
    return "".join(part if at % 2 else _FIELD.sub(option, part) for at, part in enumerate(parts))


PIPE: Final = "-"
"""The file name that stands for standard input."""

Rescue = Callable[[str, BufferedReader, Failure, bool], None]
"""Prints what came through a pipe. Arguments: the pipe's name, the pipe, the failure, whether to print JSON."""


class PipeCommand(click.Command):
    """A command that prints what came through its pipe even if it cannot start because its options are wrong."""

    def __init__(self, *args: Any, rescue: Rescue, **attributes: Any) -> None:  # noqa: ANN401 - as those of click
        super().__init__(*args, **attributes)
        self._rescue = rescue

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        arguments = list(args)  # click empties the list
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            # The options could not be parsed, so the pipe is recognised by its name among the typed arguments.
            if (pipe := next(filter(_is_pipe, arguments), None)) is not None:
                failure = Failure(Exit.WRONG, error.format_message())
                with contextlib.suppress(Failure), open_input(pipe) as stream:
                    self._rescue(pipe, stream, failure, "--json" in arguments)
            raise


def _is_pipe(argument: str) -> bool:
    """Returns whether an argument names a pipe, or a standard input that is no terminal.

    At a terminal, nobody has typed anything yet that could be lost.
    """
    if argument == PIPE:
        return not is_terminal(standard_input())
    try:
        return Path(argument).is_fifo()
    except OSError:  # an option's value may be too long for a name
        return False


def is_terminal(stream: TextIO | None) -> bool:
    """Returns whether a standard stream is a terminal. None stands for a stream that was closed before the start."""
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
    """Returns a name or a title that can be sent. Bytes that are not text, as in some files' names, become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


QUIET_SECONDS: Final = 2.0
"""Seconds before the progress is shown."""
_TICK: Final = 1.0
"""Seconds between two updates of the line that shows the progress."""


class Waiting:
    """The progress of a command. Threads may add to it."""

    def __init__(self, what: str, items: str) -> None:
        self._what = what
        self._items = items
        self._count = 0
        self._size = 0
        self._began = time.monotonic()

    def add(self, items: int, size: int) -> None:
        """Adds further items and their bytes."""
        self._count += items
        self._size += size

    @property
    def line(self) -> str:
        """Returns the line to show: what is being done, for how long, and how much is done already."""
        amount = f", {plural(self._count, self._items)}, {render_size(self._size)}" if self._count else ""
        return f"{self._what}: {time.monotonic() - self._began:,.0f} s{amount}"


@contextlib.contextmanager
def waiting(what: str, items: str = "blob", *, quiet: float = QUIET_SECONDS, tick: float = _TICK) -> Generator[Waiting]:
    """Shows the progress of the `with` block on one line of standard error, if that is a terminal."""
    work = Waiting(what, items)
    stream: TextIO | None = sys.stderr
    if stream is None or not stream.isatty():
        yield work
        return
    stop = threading.Event()
    teller = threading.Thread(target=_tell, args=(stream, work, stop, quiet, tick), daemon=True)
    teller.start()
    try:
        yield work
    finally:
        stop.set()
        teller.join()


def _tell(stream: TextIO, work: Waiting, stop: threading.Event, quiet: float, tick: float) -> None:
    if stop.wait(quiet):
        return
    with contextlib.suppress(OSError):  # a terminal that has closed must not end the work
        while True:
            stream.write(f"\r\x1b[K{work.line} ")
            stream.flush()
            if stop.wait(tick):
                break
        stream.write("\r\x1b[K")
        stream.flush()
