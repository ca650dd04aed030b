"""Completes the event of a PostToolUse hook with the whole output, if Claude Code has cut it and kept it in a file.

Only for code that the host itself starts on the same machine: a service must not open a file that a request names.
"""

from pathlib import Path
from typing import Any, Final, cast

from coatcheck_client.contract.json_values import is_among

_LARGEST: Final = 24 * 1024**2
"""Maximum bytes of a file that is read: an event with more would not fit into a JSON request."""
_SHELLS: Final = frozenset({"Bash", "PowerShell"})
"""Tools whose output Claude Code cuts and keeps in a file."""
_CUT: Final = ("persistedOutputPath", "persistedOutputSize")
"""Members of a tool's response that name the file with the whole output, and its size."""

Object = dict[str, Any]


def whole_event(event: Object) -> Object:
    """Returns the event with the whole output of a shell.

    Returns it unchanged if the tool is not a shell, if no file is named or exists, or if the file is over 24 MiB.

    Raises:
        OSError: the file cannot be read.
    """
    response = event.get("tool_response")
    if not is_among(event.get("tool_name"), _SHELLS) or not isinstance(response, dict):
        return event
    shell_response = cast("Object", response)
    path = shell_response.get(_CUT[0])
    if not isinstance(path, str) or not Path(path).is_file() or Path(path).stat().st_size > _LARGEST:
        return event
    kept = {name: value for name, value in shell_response.items() if name not in _CUT}
    return {**event, "tool_response": {**kept, "stdout": Path(path).read_text("utf-8", "replace")}}
