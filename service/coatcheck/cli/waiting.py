"""Shows on a terminal that a command is still at work, and for how long. Elsewhere it prints nothing."""

import contextlib
import sys
import threading
import time
from collections.abc import Generator
from typing import Final, TextIO

QUIET_SECONDS: Final = 2.0
"""Seconds before anything is shown."""
_TICK: Final = 1.0


@contextlib.contextmanager
def waiting(what: str, *, quiet: float = QUIET_SECONDS, tick: float = _TICK) -> Generator[None]:
    """Show `what` with the seconds that it has taken, on one line of standard error, until the work is done."""
    stream: TextIO | None = sys.stderr
    if stream is None or not stream.isatty():
        yield
        return
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(stream, what, done, quiet, tick), daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _tell(stream: TextIO, what: str, done: threading.Event, quiet: float, tick: float) -> None:
    began = time.monotonic()
    if done.wait(quiet):
        return
    with contextlib.suppress(OSError):  # a terminal that has gone away does not end the work
        while True:
            stream.write(f"\r{what}: {time.monotonic() - began:,.0f} s ")
            stream.flush()
            if done.wait(tick):
                break
        stream.write("\r\x1b[K")
        stream.flush()
