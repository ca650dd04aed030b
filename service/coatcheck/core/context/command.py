"""The command of a tool call: its arguments, shortened. Pure, with work bounded by the length of the result."""

import json
import re
from typing import Final

from coatcheck.core.context.body.shape import Value, as_object, is_utf8
from coatcheck.core.text.long_text import Text, head_of, is_text

SHORT: Final = 500
"""Maximum characters of a command that is taken from a call's arguments."""
_PARSED: Final = 64 * 1024
"""Maximum characters of a JSON document that is parsed to find a command in it."""


def _beginning(text: Text) -> str:
    """As much of a long text as a command can show of it."""
    return head_of(text, SHORT + 1)


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=_beginning)

_READERS: Final = frozenset(
    {"cat", "file_read", "fs_read", "get_file_contents", "open", "open_file", "read", "read_file"}
    | {"read_file_content", "read_files", "read_many_files", "read_text_file", "readfile", "view", "view_file"}
)
"""Tools that show a file, by the names that agents give them."""
_EDITORS: Final = frozenset({"str_replace_based_edit_tool", "str_replace_editor", "file_editor", "text_editor"})
"""Tools that show a file if their command is `view`."""
_SHOWS: Final = re.compile(r"\s*(?:cat|head|tail|nl|less|bat|sed\s+-n)\s[^|;&<>\n]*")


def reads_file(tool: str | None, command: str | None) -> bool:
    """Returns whether a call requests a file's text: by its tool's name, or by a shell command that shows a file."""
    bare = (tool or "").casefold().rpartition("__")[2]
    if bare in _READERS:
        return True
    if command is None:
        return False
    return command == "view" if bare in _EDITORS else _SHOWS.fullmatch(command) is not None


def command_of(arguments: Value) -> str | None:
    """Returns the `command` of a call's arguments, or else the arguments as compact JSON, cut to SHORT characters.

    Arguments may be an object, an object as JSON text, or free text. Returns None for empty arguments or ones with
    halves of surrogate pairs.
    """
    value: Value = _parsed(arguments) if is_text(arguments) else arguments
    command = as_object(value).get("command")
    value = command if is_text(command) else value
    text = _beginning(value) if is_text(value) else _compact(value) if value else ""
    short = text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"
    return short if short and is_utf8(short) else None


def _parsed(text: Text) -> Value:
    """Returns the object in a JSON text, or the text."""
    if len(text) > _PARSED or not str(text).lstrip().startswith("{"):
        return text
    try:
        return json.loads(str(text))
    except (ValueError, RecursionError):
        return text


def _compact(value: Value) -> str:
    """Returns the beginning of a value as JSON, at least SHORT characters, and one more if it has them."""
    text = ""
    for piece in _ENCODER.iterencode(value):
        text += piece[: SHORT + 1]
        if len(text) > SHORT:
            break
    return text
