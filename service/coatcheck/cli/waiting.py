"""Shows on a terminal that a command is still working, for how long, and how far it is. Prints nothing elsewhere."""

import contextlib
import sys
import threading
import time
from collections.abc import Generator
from typing import Final, TextIO

from coatcheck.cli.command_setup import render_size
from coatcheck.core.text.plural import plural

QUIET_SECONDS: Final = 2.0
"""Seconds before anything is shown."""
_TICK: Final = 1.0


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
        """Returns what is done, for how long, and how much of it."""
        amount = f", {plural(self._count, self._items)}, {render_size(self._size)}" if self._count else ""
        return f"{self._what}: {time.monotonic() - self._began:,.0f} s{amount}"


@contextlib.contextmanager
def waiting(what: str, items: str = "blob", *, quiet: float = QUIET_SECONDS, tick: float = _TICK) -> Generator[Waiting]:
    """Shows on one line of standard error what is done, for how long, and the reported progress, until it is done."""
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
    with contextlib.suppress(OSError):  # a terminal that has gone does not end the work
        while True:
            stream.write(f"\r\x1b[K{work.line} ")
            stream.flush()
            if stop.wait(tick):
                break
        stream.write("\r\x1b[K")
        stream.flush()
