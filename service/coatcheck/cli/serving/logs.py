"""The format of the log: lines of text, or one JSON object per line. Set up once, before anything is opened.

No text of a payload is logged. Our own messages name IDs, codes, sizes and routes; for an exception, the type and the
traceback's places are shown, and its message only if exceptions of that kind are about the system, not about what was
handed over. What other libraries log about their inputs is not shown at all.
"""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Final

from typing_extensions import override

from coatcheck.core.errors import CoatcheckError
from coatcheck.settings import Settings

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
