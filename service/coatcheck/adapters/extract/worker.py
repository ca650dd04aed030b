"""A worker process: reads payloads from its input, makes their text views, writes them to its output.

Run as `python -m coatcheck.adapters.extract.worker BYTES`, with the memory it may address. It ends when its input
ends, so that it never outlives the service; while it works, an alarm that nothing can block does the same. Opens no
files and no sockets, and writes nothing but answers.
"""

import gc
import os
import resource
import signal
import sys
from importlib import import_module
from math import ceil
from pathlib import Path
from typing import Final

from coatcheck.adapters.extract.wire import HEADER, LONGEST, ExtractAnswer, ExtractJob, framed, job
from coatcheck.core.views.view import ExtractedText

_GRACE: Final = 2
"""Seconds after which a worker ends itself when the service has not."""
_KIB: Final = 1 if sys.platform == "darwin" else 1024
"""Unit of ru_maxrss: bytes there, KiB elsewhere (getrusage(2))."""
_STATUS: Final = Path("/proc/self/status")
"""Of proc(5)."""


def main() -> None:
    """Serve until the input ends."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, int(sys.argv[1]))
    output = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no answer
    import_module("coatcheck.core.extract")  # after the limits, and before anyone waits for it

    gc.disable()  # a page makes objects by the hundred thousand, none of them in a circle
    _write(output, ExtractAnswer())
    while (body := _message(0)) is not None:
        asked = job(body)
        del body
        _alarm(asked.seconds + _GRACE)
        try:
            made = ExtractAnswer(_extracted(asked), None, _peak())
        except Exception as error:  # noqa: BLE001 - whatever a payload does, the service learns of it
            made = ExtractAnswer(None, type(error).__name__, _peak())
        del asked
        _write(output, made)
        signal.alarm(0)
        del made
        gc.collect()


def _extracted(asked: ExtractJob) -> ExtractedText | None:
    """What is heavy is imported here, by the worker that needs it."""
    from coatcheck.core.extract import extract_text, strip_markup  # noqa: PLC0415

    if asked.simple:
        return strip_markup(asked.media_type, asked.payload)
    if asked.form == "document":
        from coatcheck.adapters.extract.documents import extract_document  # noqa: PLC0415

        return extract_document(asked.payload, asked.seconds)
    return extract_text(asked.form, asked.media_type, asked.url, asked.payload)


def _alarm(seconds: int) -> None:
    signal.alarm(seconds)
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, ceil(used.ru_utime + used.ru_stime) + seconds)


def _limit(what: int, most: int) -> None:
    """Lower a limit, where the system lets us: macOS has no limit of addresses."""
    try:
        _, hard = resource.getrlimit(what)
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (soft, hard))
    except (ValueError, OSError):
        pass


def _peak() -> int:
    """Bytes of memory that this process has had at most."""
    try:
        with _STATUS.open("rb") as status:  # ru_maxrss would be that of the process which started this one, if larger
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith(b"VmHWM:"))
    except (OSError, StopIteration):  # no Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB


def _message(source: int) -> bytes | None:
    header = _exactly(source, HEADER.size)
    if header is None:
        return None
    (size,) = HEADER.unpack(header)
    return _exactly(source, size) if size <= LONGEST else None


def _exactly(source: int, size: int) -> bytes | None:
    """So many bytes; None when the input ends before."""
    data = bytearray()
    while len(data) < size:
        piece = os.read(source, min(size - len(data), 1 << 20))
        if not piece:
            return None
        data += piece
    return bytes(data)


def _write(output: int, answer: ExtractAnswer) -> None:
    data = memoryview(framed(answer))
    while data:
        data = data[os.write(output, data) :]


if __name__ == "__main__":
    main()
