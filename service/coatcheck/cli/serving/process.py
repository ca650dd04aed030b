"""What a serving process owes to its surroundings: its state for systemd (`Type=notify`), freed memory, and the log.

The GNU C library returns large blocks to the system at first, and stops for every block as large as what it saw freed,
up to 32 MiB: after one large request, the process keeps that memory, in pieces that the next one does not fit into. And
it gives threads heaps of their own, so that what one thread has freed is of no use to another; one heap is enough for
threads of which one runs at a time. What is free in the middle of that heap is returned from time to time: the heap
shrinks by itself only at its end.

The log has lines of text, or one JSON object per line. No text of a payload is logged. Our own messages name IDs,
codes, sizes and routes; for an exception, the type and the traceback's places are shown, and its message only if
exceptions of that kind are about the system, not about what was handed over. What other libraries log about their
inputs is not shown at all.
"""

import asyncio
import contextlib
import ctypes
import json
import logging
import os
import socket
import sys
import traceback
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any, Final

from typing_extensions import override

from coatcheck.core.errors import CoatcheckError
from coatcheck.settings import Settings

SOCKET = "NOTIFY_SOCKET"
"""The variable in which systemd names its socket."""

log = logging.getLogger(__name__)


def notify(state: str) -> None:
    """Sends a state such as `READY=1` to the socket that the variable SOCKET names; a failure is only logged."""
    address = os.environ.get(SOCKET, "")  # noqa: TID251 - the manager's protocol, no setting
    if not address:
        return
    if address.startswith("@"):  # an abstract name
        address = f"\0{address[1:]}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.connect(address)
            manager.sendall(state.encode())
    except OSError as error:
        log.warning("cannot send %s to the service manager: %s", state, error)


_TRIM_THRESHOLD: Final = -1
"""Parameters of mallopt(3), as malloc.h numbers them."""
_MMAP_THRESHOLD: Final = -3
"""Likewise."""
_ARENA_MAX: Final = -8
"""Likewise."""
LARGE_BYTES: Final = 4 * 1024 * 1024
"""Blocks from this size on are allocated from the system; smaller ones are reused, which is faster."""
KEPT_BYTES: Final = 16 * 1024 * 1024
"""Free memory at the end of the heap that is kept."""
TRIM_SECONDS: Final = 60.0
"""Seconds between two times at which free pages are returned. Allocation waits for it: 10 to 60 ms for a heap of 300
MB, as measured."""


def return_freed_memory() -> bool:
    """Fixes the size of a large block, and the number of heaps; returns whether this C library can."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # macOS, musl: their allocators work differently
        return False
    options = ((_MMAP_THRESHOLD, LARGE_BYTES), (_TRIM_THRESHOLD, KEPT_BYTES), (_ARENA_MAX, 1))
    return all(mallopt(parameter, value) for parameter, value in options)


@contextlib.asynccontextmanager
async def returning_free_pages(seconds: float = TRIM_SECONDS) -> AsyncGenerator[None]:
    """Returns free pages to the system every few seconds, until exit, where this C library can (malloc_trim(3))."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        yield
        return

    async def keep_trimming() -> None:
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(trim, 0)

    task = asyncio.create_task(keep_trimming(), name="returning free pages")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


_QUIET: Final = {"alembic": logging.WARNING, "uvicorn.error": logging.WARNING, "opentelemetry": logging.ERROR}
"""Loggers that report every step, or every attempt; their warnings or errors are shown."""
_SILENT: Final = ("mcp", "pypdf", "httpx", "httpcore", "multipart", "chardet", "asyncio", "litestar")
"""Loggers that quote their inputs."""
_SPEAKS_OF_THE_SYSTEM: Final = (
    CoatcheckError,
    OSError,
    ImportError,
    AttributeError,
    NameError,
    MemoryError,
    RecursionError,
    NotImplementedError,
)
"""Exceptions whose messages contain no data. RuntimeError is not among them: libraries raise it for anything."""


def set_up(settings: Settings) -> None:
    """Logs to standard error as configured. Calling it again replaces what was set up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.log_format == "json" else TextLines())
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    level = logging.getLogger().level
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(max(least, level))
    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logs_access = settings.access_log or level <= logging.DEBUG
    logging.getLogger("coatcheck.access").setLevel(logging.INFO if logs_access else logging.WARNING)


class TextLines(logging.Formatter):
    """Formats records as lines of text, for people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    @override
    def formatException(self, ei: Any) -> str:
        """Returns the types and places of an exception and of its causes."""
        return format_error(ei[1])


class JsonLines(logging.Formatter):
    """Formats records for programs: `at`, `level`, `logger`, `message`, then the record's facts, then `exception`."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Returns the record as one line."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": getattr(record, "plain", None) or record.getMessage(),
        }
        facts: dict[str, Any] = getattr(record, "facts", {})
        line |= {name: value for name, value in facts.items() if name not in line}
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = format_error(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False, default=str)


def format_error(error: BaseException | None) -> str:
    """Returns an exception as it may be logged: places, types, and messages that are about the system."""
    parts: list[str] = []
    error_ids: set[int] = set()
    # Causes can form a circle, which must not hang the log.
    while error is not None and id(error) not in error_ids:
        error_ids.add(id(error))
        frames = "".join(traceback.format_tb(error.__traceback__))
        parts.append(f"Traceback (most recent call last):\n{frames}{_describe_error(error)}")
        if error.__cause__ is not None:
            error = error.__cause__
        else:
            error = None if error.__suppress_context__ else error.__context__
    return "\n\nwhich came from:\n\n".join(parts)


def _describe_error(error: BaseException) -> str:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(error, _SPEAKS_OF_THE_SYSTEM) and not isinstance(error, UnicodeError):
        return f"{name}: {error}"
    return f"{name} (its words are not shown: they may be a payload's)"
