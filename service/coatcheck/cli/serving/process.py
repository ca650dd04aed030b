"""Reports a serving process's state to systemd (`Type=notify`), returns freed memory to the system, sets up the log.

The GNU C library at first returns large blocks to the system when they are freed. But after it has freed a block, it
keeps blocks of up to that size, at most 32 MiB. So after one large request the process would keep that memory, in
pieces that the next request does not fit into; therefore the size of a large block is fixed here. The library also
gives threads heaps of their own, and one thread cannot use memory that another has freed. Only one Python thread runs
at a time, so one heap is enough. That heap shrinks by itself only at its end, so free memory in its middle is returned
from time to time.

The log has lines of text, or one JSON object per line. No text of a payload is logged. Our own messages name IDs,
codes, sizes and routes. Of an exception, the log shows the type and the places of the traceback. It shows the message
only if exceptions of that type are about the system and not about an input. Messages of other libraries that quote
their inputs are not shown at all.
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
"""The environment variable in which systemd names its socket."""

log = logging.getLogger(__name__)


def notify(state: str) -> None:
    """Sends a state such as `READY=1` to the socket that NOTIFY_SOCKET names, if any; a failure is only logged."""
    address = os.environ.get(SOCKET, "")  # noqa: TID251 - the manager's protocol, no setting
    if not address:
        return
    if address.startswith("@"):  # a name in the abstract namespace: unix(7)
        address = f"\0{address[1:]}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.connect(address)
            manager.sendall(state.encode())
    except OSError as error:
        log.warning("cannot send %s to the service manager: %s", state, error)


_TRIM_THRESHOLD: Final = -1
"""Number of mallopt(3)'s parameter M_TRIM_THRESHOLD in malloc.h."""
_MMAP_THRESHOLD: Final = -3
"""Number of M_MMAP_THRESHOLD."""
_ARENA_MAX: Final = -8
"""Number of M_ARENA_MAX."""
LARGE_BYTES: Final = 4 * 1024 * 1024
"""Bytes from which a block is allocated from the system. Smaller blocks are reused, which is faster."""
KEPT_BYTES: Final = 16 * 1024 * 1024
"""Maximum bytes of free memory that are kept at the end of the heap."""
TRIM_SECONDS: Final = 60.0
"""Seconds between two times at which free pages are returned. Allocations wait meanwhile: for a heap of 300 MB, 10 to
60 ms were measured."""


def return_freed_memory() -> bool:
    """Fixes the size of a large block, and the number of heaps; returns whether this C library supports that."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # macOS, musl: their allocators work differently
        return False
    options = ((_MMAP_THRESHOLD, LARGE_BYTES), (_TRIM_THRESHOLD, KEPT_BYTES), (_ARENA_MAX, 1))
    return all(mallopt(parameter, value) for parameter, value in options)


@contextlib.asynccontextmanager
async def returning_free_pages(seconds: float = TRIM_SECONDS) -> AsyncGenerator[None]:
    """Returns free pages to the system every `seconds` during the `with` block, if the C library has malloc_trim(3)."""
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
"""Loggers that report every step or every attempt, each with the lowest level that is shown."""
_SILENT: Final = ("mcp", "pypdf", "httpx", "httpcore", "multipart", "chardet", "asyncio", "litestar")
"""Loggers that quote their inputs; nothing below the level CRITICAL is shown."""
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
"""Exceptions whose messages quote no inputs. RuntimeError is not among them: libraries raise it for anything."""


def set_up(settings: Settings) -> None:
    """Sets up the log on standard error, as the settings say. A second call replaces the first setup."""
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
        """Returns an exception and its causes as they may be logged."""
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
    # Causes can form a circle, in which this must not loop forever.
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
