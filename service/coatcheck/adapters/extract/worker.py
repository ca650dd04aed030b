"""A worker process. It receives payloads through a socket, which is its standard input, and answers with text views.

It is started as `python -m coatcheck.adapters.extract.worker BYTES`, where BYTES is the address space that it may use.
It ends when its input ends, and so does not outlive the service. While it works, an alarm ends it in time. It opens no
sockets, reads no files except its program and its status, and writes nothing but answers.
"""

import gc
import os
import resource
import signal
import sys
from contextlib import suppress
from importlib import import_module
from math import ceil
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from coatcheck.adapters.extract.wire import LONGEST, ExtractAnswer, ExtractJob, decode_job, encode_message
from coatcheck.core.views.view import ExtractedText

_GRACE: Final = 2
"""Seconds after a job's time limit at which a worker ends itself, if the service has not ended it before."""
_KIB: Final = 1 if sys.platform == "darwin" else 1024
"""Bytes in one unit of ru_maxrss: the unit is a byte on macOS and a KiB on other systems (getrusage(2))."""
_STATUS: Final = Path("/proc/self/status")
"""The file in which Linux reports the memory of a process (proc(5))."""


def main() -> None:
    """Carries out jobs until the input ends."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, int(sys.argv[1]))
    connection = Connection(os.dup(0))
    import_module("coatcheck.core.extract")  # after the limits are set, and before the first job is waiting

    gc.disable()  # parsing a page creates hundreds of thousands of objects, but no cycles to collect
    connection.send_bytes(encode_message(ExtractAnswer()))
    # The input ends with the service.
    with suppress(EOFError, ConnectionError):
        while True:
            extract_job = decode_job(connection.recv_bytes(LONGEST))
            _alarm(extract_job.seconds + _GRACE)
            try:
                answer = ExtractAnswer(_extract(extract_job), None, _peak())
            except Exception as error:  # noqa: BLE001 - a hostile payload may raise anything; the service must learn it
                answer = ExtractAnswer(None, type(error).__name__, _peak())
            del extract_job
            connection.send_bytes(encode_message(answer))
            signal.alarm(0)
            del answer
            gc.collect()


def _extract(extract_job: ExtractJob) -> ExtractedText | None:
    """Returns the text view of a payload. Large modules are imported only here, when a job needs them."""
    from coatcheck.core.extract import extract_text, strip_markup  # noqa: PLC0415

    if extract_job.form == "document":
        from coatcheck.adapters.extract.documents import extract_document, list_document  # noqa: PLC0415

        if extract_job.simple:
            return list_document(extract_job.payload, extract_job.seconds)
        return extract_document(extract_job.payload, extract_job.seconds, extract_job.media_type)
    if extract_job.simple:
        return strip_markup(extract_job.media_type, extract_job.payload)
    return extract_text(extract_job.form, extract_job.media_type, extract_job.url, extract_job.payload)


def _alarm(seconds: int) -> None:
    signal.alarm(seconds)
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, ceil(used.ru_utime + used.ru_stime) + seconds)


def _limit(what: int, most: int) -> None:
    """Sets a soft resource limit, if the operating system supports it: macOS has no limit of the address space."""
    try:
        _, hard = resource.getrlimit(what)
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (soft, hard))
    except (ValueError, OSError):
        pass


def _peak() -> int:
    """Returns the peak memory of this process in bytes."""
    try:
        # On Linux, ru_maxrss includes the peak of the process that has started this one, so the status is read instead.
        with _STATUS.open("rb") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith(b"VmHWM:"))
    except (OSError, StopIteration):  # the system is not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB


if __name__ == "__main__":
    main()
