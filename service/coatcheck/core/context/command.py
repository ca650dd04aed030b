"""The command of a tool call: its arguments in a short form. Pure, with work bounded by the length of the result."""

import json
import re
from typing import Final

from coatcheck.core.context.body.encoding import Value, as_list, as_object, is_utf8
from coatcheck.core.context.body.splice import parse_document
from coatcheck.core.text.long_text import Text, head_of, is_text

COMMAND_CHARS: Final = 500
"""Maximum characters of a command that is taken from a call's arguments."""
_ARGUMENT_CHARS: Final = 120
"""Maximum characters of an argument that is included in a subject."""
_PARSED_CHARS: Final = 64 * 1024
"""Maximum characters of a JSON document that is parsed to find a command in it."""


def _beginning(text: Text) -> str:
    """Returns as much of a long text as a command can show."""
    return head_of(text, COMMAND_CHARS + 1)


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=_beginning)

_READERS: Final = frozenset(
    {"cat", "file_read", "fs_read", "get_file_contents", "open", "open_file", "read", "read_file"}
    | {"read_file_content", "read_files", "read_many_files", "read_text_file", "readfile", "view", "view_file"}
)
"""Tools that show a file, by the names that agents give them."""
_EDITORS: Final = frozenset({"str_replace_based_edit_tool", "str_replace_editor", "file_editor", "text_editor"})
"""Tools that show a file if the command in their arguments is `view`."""
_FILES: Final = frozenset(
    {"path", "file", "filepath", "filename", "targetfile", "absolutepath", "relativepath", "notebookpath"}
)
"""Names of arguments that are a file's path, compared without case and `_`."""
_PATCHED: Final = re.compile(r"^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ (?:b/)?)([^\t\n]{1,120})", re.MULTILINE)
_PATCH_CHARS: Final = 4_000
"""Characters of a patch in which the first file is searched for."""
_SHOWS: Final = re.compile(r"\s*(?:cat|head|tail|nl|less|bat|sed\s+-n)\s[^|;&<>\n]*")


def reads_file(tool: str | None, command: str | None) -> bool:
    """Returns whether a call asks for a file's text, by its tool's name or by a shell command that shows a file."""
    bare = (tool or "").casefold().rpartition("__")[2]
    if bare in _READERS:
        return True
    if command is None:
        return False
    return command == "view" if bare in _EDITORS else _SHOWS.fullmatch(command) is not None


def command_of(arguments: Value) -> str | None:
    """Returns the `command` of a call's arguments, else the arguments as compact JSON, up to COMMAND_CHARS.

    Arguments may be an object, an object as JSON text, or free text, which stays as it is. Returns None for empty
    arguments, and for arguments with half of a surrogate pair.
    """
    value: Value = _parse_object(arguments) if is_text(arguments) else arguments
    command = as_object(value).get("command")
    value = command if is_text(command) else value
    text = _beginning(value) if is_text(value) else _compact(value) if value else ""
    short = text if len(text) <= COMMAND_CHARS else f"{text[: COMMAND_CHARS - 1]}…"
    return short if short and is_utf8(short) else None


def subject_of(arguments: Value) -> str | None:
    """Returns a call's subject: its command, else only its short arguments, such as a path; None if there is none."""
    value: Value = _parse_object(arguments) if is_text(arguments) else arguments
    members = as_object(value)
    if not members or is_text(members.get("command")):
        return command_of(arguments)
    short = {key: one for key, one in members.items() if len(one if is_text(one) else str(one)) <= _ARGUMENT_CHARS}
    only = next(iter(short.values()), None)
    return command_of(only if len(short) == 1 and is_text(only) else short)


def file_of(arguments: Value, depth: int = 2) -> str | None:
    """Returns the path of the file that a call writes: an argument named like a path, or the first path in a patch."""
    value: Value = parse_document(arguments) if is_text(arguments) else arguments
    if is_text(arguments) and not isinstance(value, dict | list):
        match = _PATCHED.search(head_of(arguments, _PATCH_CHARS))
        return match[1].strip() if match is not None and is_utf8(match[1]) else None
    members = as_object(value)
    for key, one in members.items():
        if (
            key.replace("_", "").casefold() in _FILES
            and is_text(one)
            and one
            and len(one) <= _ARGUMENT_CHARS
            and is_utf8(one)
        ):
            return str(one)
    inner = list(members.values()) or as_list(value)[:1]
    return next((path for one in inner if depth and (path := file_of(one, depth - 1)) is not None), None)


def _parse_object(text: Text) -> Value:
    """Returns the object in a JSON text; for any other text, the text itself."""
    if len(text) > _PARSED_CHARS or not str(text).lstrip().startswith("{"):
        return text
    try:
        return json.loads(str(text))
    except (ValueError, RecursionError):
        return text


def _compact(value: Value) -> str:
    """Returns the beginning of a value as JSON, with one character more than COMMAND_CHARS if the value is longer."""
    text = ""
    for piece in _ENCODER.iterencode(value):
        text += piece[: COMMAND_CHARS + 1]
        if len(text) > COMMAND_CHARS:
            break
    return text
