"""The event of a PostToolUse hook, including all of an output that Claude Code has cut and kept in a file of its own.

For code that the host itself has started, on the same machine: a service must not open files that a request names.
"""

from pathlib import Path
from typing import Any, Final, cast

_LARGEST: Final = 24 * 1024**2
"""Maximum bytes of a file that are handed over: what fits into a JSON request."""
_SHELLS: Final = frozenset({"Bash", "PowerShell"})
_CUT: Final = ("persistedOutputPath", "persistedOutputSize")

Object = dict[str, Any]


def whole_event(event: Object) -> Object:
    """Returns the event with all of a shell's output; unchanged if the file does not exist or is over 24 MiB.

    Raises:
        OSError: if the file cannot be read.
    """
    response = event.get("tool_response")
    if event.get("tool_name") not in _SHELLS or not isinstance(response, dict):
        return event
    shell_response = cast("Object", response)
    path = shell_response.get(_CUT[0])
    if not isinstance(path, str) or not Path(path).is_file() or Path(path).stat().st_size > _LARGEST:
        return event
    kept = {name: value for name, value in shell_response.items() if name not in _CUT}
    return {**event, "tool_response": {**kept, "stdout": Path(path).read_text("utf-8", "replace")}}
