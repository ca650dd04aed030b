"""Reads the arguments of a tool call, for whose parameters models use many different names and spellings.

The parser accepts almost anything, and reports what it did: for every argument that it changed, ignored or could not
read, it adds a note to the answer. It refuses a call if it understood the artifact but none of the call's other
arguments, because the model wanted something other than the beginning of the artifact. When arguments conflict, these
rules decide:

1. A parameter's own name wins over its other names. Of the other names, the first in the table below wins.
2. `offset`, under any of its names, wins over a range, and a range wins over `head` and `tail`.
3. `limit` wins over an end, except with `pattern`: there, `limit` counts matches, and an end is the last line searched.
4. `pattern` wins over `query`, `query` over `path`, and `path` over `outline`. A call with any of them reads no lines.

This module never looks at the artifact itself. It raises an error in two cases only: for the calls that it refuses, and
if no artifact is named.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from coatcheck.core import ids
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.tools import values
from coatcheck.tools.values import ReadStart
from coatcheck_client.contract.inert import one_line
from coatcheck_client.contract.tools import MAX_LINES, MAX_MATCHES, MAX_VALUES

MAX_CONTEXT: Final = 20
"""Maximum lines around a match. A larger `context` is lowered to this, since reading lines shows them at less cost."""
_REPEATED_CHARS: Final = 40
"""Maximum characters of a name written by the caller that a note repeats."""
_MAX_NAMED_ARGUMENTS: Final = 5
"""Maximum unknown arguments that a note names."""
_SINGLE: Final = frozenset({"line", "line_number"})
"""Names of `offset` that mean a single line; `context` beside them means the lines around that line."""
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
"""Matches where a new word begins in a name such as `startLine`."""

_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "artifact_id": ("artifact_id", "id", "artifact", "key", "artifactid", "uri", "file_path", "file", "filename"),
    "section": ("section", "section_id", "part"),
    "offset": ("offset", "start_line", "from_line", "first_line", "line", "line_number", "start", "from", "begin"),
    "end": ("end_line", "to_line", "last_line", "end", "to", "stop"),
    "range": ("range", "line_range", "lines", "view_range"),
    "head": ("head",),
    "tail": ("tail",),
    "limit": ("limit", "max_lines", "num_lines", "line_count", "count", "head_limit", "max_results", "max_count"),
    "pattern": ("pattern", "regex", "regexp", "search", "grep", "search_pattern", "search_term", "find"),
    "query": ("query", "question", "q"),
    "path": ("path", "json_path", "jsonpath", "json_pointer", "pointer"),
    "outline": ("outline", "toc", "table_of_contents"),
    "context": ("context", "context_lines", "c", "before", "after", "a", "b"),
    "ignore_case": ("ignore_case", "case_insensitive", "i"),
    "case_sensitive": ("case_sensitive",),
    "literal": ("literal", "fixed_strings", "fixed_string"),
    "view": ("view",),
}
"""By parameter, the names that models use for it. Most are names of parameters in other tools for reading. Earlier
names win over later ones."""
_LIST_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "session": ("session", "session_id"),
    "kind": ("kind", "type"),
    "tool_name": ("tool_name", "tool"),
    "label": ("label",),
    "query": ("query", "q", "search", "text", "words", "pattern", "find"),
    "limit": _NAMES["limit"],
    "cursor": ("cursor",),
}
"""By parameter of `list_artifacts`, the names that models use for it. `list_artifacts` searches no text, so a `pattern`
is read as a query."""
_SEPARATORS: Final = {"pattern": "|", "query": " "}
"""Parameters that may be given as a list of texts, and the separator with which the texts are joined."""
_SWITCHES: Final = ("ignore_case", "literal")
"""Parameters that are on or off."""
_FIND: Final = ("pattern", "query", "path")
"""Parameters that search. If a call has several, the first one in this order is used."""
OUTLINE_WORDS: Final = frozenset({"outline", "toc", "contents", "sections", "list", "all", "?", "*"})
"""Values of `section` with which models ask for the list of sections."""
_MAX_LIMITS: Final[dict[str | None, tuple[int, str]]] = {
    None: (MAX_LINES, "lines"),
    "pattern": (MAX_MATCHES, "matches"),
    "path": (MAX_VALUES, "values"),
    "outline": (MAX_VALUES, "entries"),
}
"""The maximum `limit` and the unit that it counts, by the kind of request. None: the request reads lines."""
_LINE_PARAMETERS: Final = ("offset", "range", "head", "tail", "limit", "end")
"""Parameters that select lines."""
_WITHOUT_EFFECT: Final[dict[str | None, tuple[str, ...]]] = {
    "query": (*_LINE_PARAMETERS, "context", *_SWITCHES, "case_sensitive"),
    "path": ("range", "head", "tail", "end", "context", *_SWITCHES, "case_sensitive"),
    "outline": ("range", "head", "tail", "end", "context", *_SWITCHES, "case_sensitive"),
    None: ("context", *_SWITCHES, "case_sensitive"),
}
"""Parameters without effect, by the kind of request. None: the request reads lines."""
_ID_HOLDERS: Final = ("path", "query", "section", "pattern", "range")
"""Parameters in which models put the artifact's ID by mistake; they are searched if `artifact_id` is missing."""


class ReadArguments(Struct, frozen=True, kw_only=True):
    """A request of `read_artifact`. At most one of `pattern`, `query`, `path` and `outline` is set."""

    artifact_id: str
    """The ID as the caller wrote it, not yet checked: the use case refuses an invalid one."""
    outline: bool = False
    section: str | None = None
    """The section's name, as the outline gives it, or its title."""
    offset: ReadStart | None = None
    """The line to begin at; None: the beginning of what is read. `last` is set only with a pattern: the last line that
    is searched."""
    place: str | None = None
    """With a path: `offset` as the caller wrote it. It is a copy of the cursor in an earlier answer."""
    limit: int | None = None
    """Maximum lines, matches, values or outline entries, by the kind of request; None: the default."""
    pattern: str | None = None
    """A regular expression that selects lines; plain text if `literal` is true."""
    query: str | None = None
    """The words for which passages are searched."""
    path: str | None = None
    """A JSONPath expression over the payload."""
    context: int | None = None
    """Lines to show before and after each match; None: the default."""
    ignore_case: bool = False
    literal: bool = False
    raw: bool = False
    """Whether to read the payload itself instead of its readable text."""
    notes: tuple[str, ...] = ()
    """Sentences about arguments that were dropped or reinterpreted. The answer repeats them, so that the model learns
    how to call the tool."""


class ListArguments(Struct, frozen=True, kw_only=True):
    """A request of `list_artifacts`. Each None means that the caller set no such condition."""

    session: str | None = None
    kind: str | None = None
    tool_name: str | None = None
    label: str | None = None
    query: str | None = None
    limit: int | None = None
    cursor: str | None = None
    """`next` of the previous page, as its text gave it."""
    notes: tuple[str, ...] = ()


def read_arguments(arguments: dict[str, object], notes: list[str]) -> ReadArguments:
    """Returns the request that a call of `read_artifact` stands for. `notes` come from unpacking the arguments.

    Raises:
        CoatcheckError: `invalid_request` if no artifact is named, or if the call has other arguments and none of these
            was understood; `invalid_artifact_id` if the artifact's ID is invalid, too.
    """
    reader = _ArgumentReader(arguments, notes)
    artifact_id, section = _artifact(reader)
    # Models often fill in several search parameters. The first in the order of _FIND is used, and each of the others is
    # dropped with a note.
    words = {name: reader.text(name) for name in _FIND}
    used = next((name for name, word in words.items() if word is not None), None)
    for name, word in words.items():
        if word is not None and name != used:
            _drop_other_search(reader, used, name)
            words[name] = None
    outline = reader.switch("outline")
    if outline and used is not None:
        _drop_other_search(reader, used, "outline")
    elif outline:
        used = "outline"
    if used != "pattern":
        _drop_without_effect(reader, used)
    # With a path, `offset` is a cursor from an earlier answer, not a line.
    offset, limit = (None, reader.integer("limit")) if used == "path" else _span(reader, used)
    context = reader.integer("context") if used == "pattern" else None
    section = reader.text("section") or section
    # Without any argument that was understood, the read would begin at the top, which the model did not request.
    if reader.misread and (used, offset, limit, section) == (None, None, None, None):
        ids.parse(artifact_id)  # if the ID is wrong too, the model should correct that first
        names = "offset, limit, pattern, query, path, section or outline"
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"{' '.join(reader.all_notes())} Nothing was read: use {names}; offset=1 reads from the beginning.",
        )
    return ReadArguments(
        artifact_id=artifact_id,
        outline=used == "outline",
        section=section,
        offset=offset,
        place=reader.place() if used == "path" else None,
        limit=_limit(reader, used, limit),
        pattern=words["pattern"],
        query=words["query"],
        path=words["path"],
        context=None if context is None else max(0, min(context, MAX_CONTEXT)),
        ignore_case=reader.switch("ignore_case")
        or (reader.has("case_sensitive") and not reader.switch("case_sensitive")),
        literal=reader.switch("literal"),
        raw=_is_raw(reader),
        notes=reader.all_notes(),
    )


def _is_raw(reader: "_ArgumentReader") -> bool:
    view = (reader.text("view") or "").strip().lower()
    if view not in {"", "raw", "text"} and not values.is_none_word(view):
        reader.notes.append("view takes only raw, and was left out.")
    return view == "raw"


def _drop_other_search(reader: "_ArgumentReader", used: str | None, name: str) -> None:
    reader.notes.append(f"{used} was used, and {name} was left out: give only one of them.")
    reader.drop(name)


def _limit(reader: "_ArgumentReader", used: str | None, limit: int | None) -> int | None:
    """Returns the limit, lowered to its maximum; None if it is below 1. A query has no maximum."""
    if limit is None or used not in _MAX_LIMITS:
        return limit
    if limit < 1:
        reader.notes.append("limit must be at least 1 and was left out.")
        return None
    most, things = _MAX_LIMITS[used]
    if limit > most:
        reader.notes.append(f"limit is at most {most:,} {things}.")
    return min(limit, most)


def list_arguments(arguments: dict[str, object], notes: list[str]) -> ListArguments:
    """Returns the request that a call of `list_artifacts` stands for. `notes` come from unpacking the arguments."""
    reader = _ArgumentReader(arguments, notes, _LIST_NAMES)
    return ListArguments(
        session=reader.text("session"),
        kind=reader.text("kind"),
        tool_name=reader.text("tool_name"),
        label=reader.text("label"),
        query=reader.text("query"),
        limit=reader.integer("limit"),
        cursor=reader.text("cursor"),
        notes=reader.all_notes(),
    )


class _ArgumentReader:
    """Gives access to a call's arguments by parameter, whatever names the caller used, and collects notes."""

    def __init__(
        self, arguments: dict[str, object], notes: list[str], names: Mapping[str, tuple[str, ...]] = _NAMES
    ) -> None:
        self.notes = list(notes)
        self.misread = bool(notes)
        """Whether some part of the call was not understood."""
        self._values: dict[str, object] = {}
        """By parameter, the argument as the caller wrote it."""
        self.called: dict[str, str] = {}
        """By parameter, the name that the caller used. Notes repeat this name."""
        # In a dict, a later item replaces an earlier one. The reversed order makes the first of two spellings win.
        plain = {_plain(name): value for name, value in reversed(arguments.items()) if not values.is_nothing(value)}
        for name, aliases in names.items():
            matching_aliases = [alias for alias in aliases if alias in plain]
            for alias in matching_aliases:
                value = plain.pop(alias)
                if name not in self._values:
                    self._values[name], self.called[name] = value, alias
                elif value != self._values[name]:
                    self.notes.append(f"{self.called[name]} was used, {alias} was not.")
        unknown = [_render_name(name) for name in reversed(plain)]
        if unknown:
            self.misread = True
            more = f" and {len(unknown) - _MAX_NAMED_ARGUMENTS} more" if len(unknown) > _MAX_NAMED_ARGUMENTS else ""
            self.notes.append(f"Unknown arguments ignored: {', '.join(unknown[:_MAX_NAMED_ARGUMENTS])}{more}.")

    def has(self, name: str) -> bool:
        return name in self._values

    def raw(self, name: str) -> object:
        return self._values.get(name)

    def drop(self, name: str) -> None:
        self._values.pop(name, None)

    def text(self, name: str) -> str | None:
        """Returns the text of a parameter; None if it is absent or could not be read.

        A list of texts becomes the alternatives of a pattern, or the words of a query. If any other parameter is given
        as a list, only the first text of the list is used.
        """
        value = self._values.get(name)
        if value is None:
            return None
        several = values.texts(value)
        if len(several) > 1 and name not in _SEPARATORS:
            called = self.called[name]
            self.notes.append(f"{called} takes one value: this is for the first. Give the others in further calls.")
            value = several[0]
        if values.is_placeholder(value):
            self.misread = True
            self.notes.append(f"{name}={value} stands for words of your own, and was left out.")
            self.drop(name)
            return None
        word = values.text(value, joint=_SEPARATORS.get(name, "|"))
        if word is None:
            self._unreadable(name)
        return word

    def integer(self, name: str) -> int | None:
        value = self._values.get(name)
        number = values.integer(value)
        if value is not None and number is None and not values.is_none_word(value):
            self._unreadable(name)
        return number

    def position(self, name: str) -> ReadStart | None:
        value = self._values.get(name)
        place = values.position(value)
        if value is not None and place is None and not values.is_none_word(value):
            self._unreadable(name)
        return place

    def place(self) -> str | None:
        """Returns `offset` as the cursor of a path's values; None if it is absent, or a line number."""
        if values.position(self._values.get("offset")) is None:
            return self.text("offset")
        self.notes.append("offset counts lines, which the values of a path do not have, and was left out.")
        return None

    def switch(self, name: str) -> bool:
        return values.truth(self._values.get(name))

    def all_notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.notes))

    def _unreadable(self, name: str) -> None:
        self.misread = True
        self.notes.append(f"{self.called.get(name, name)} could not be read and was left out.")


def _artifact(reader: _ArgumentReader) -> tuple[str, str | None]:
    """Returns the artifact's ID as the caller wrote it, and the section if the caller gave a citation.

    Raises:
        CoatcheckError: `invalid_request` if no argument has an ID.
    """
    value = reader.raw("artifact_id")
    reference = values.find_reference(value)
    if reference is None:
        # Another argument may contain the ID. It is dropped then: the ID must not be taken for a path or a pattern.
        for name in _ID_HOLDERS:
            reference = values.find_reference(reader.raw(name)) if isinstance(reader.raw(name), str) else None
            if reference is not None:
                reader.drop(name)
                break
    if reference is not None:
        if reference.others:
            reader.notes.append("Several artifacts were named; this is the first. Read one in each call.")
        return reference.text, reference.section
    artifact_id = values.text(value)
    if artifact_id is None or values.is_placeholder(artifact_id) or "…" in artifact_id:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            'artifact_id is missing. Copy it from the card: read_artifact(artifact_id="art_…"), with its 18 digits.',
        )
    return artifact_id, None


def _drop_without_effect(reader: _ArgumentReader, used: str | None) -> None:
    """Drops parameters that have no effect on this kind of request; a note names those that differ from the default."""
    around = used is None and reader.called.get("offset") in _SINGLE and not (reader.has("limit") or reader.has("head"))
    # A single line with `context` selects lines, so this `context` does have an effect.
    unused = [name for name in _WITHOUT_EFFECT[used] if reader.has(name) and not (around and name == "context")]
    missed = [reader.called[name] for name in unused if _differs_from_default(reader, name)]
    for name in unused:
        reader.drop(name)
    if missed:
        names = missed[0] if len(missed) == 1 else f"{', '.join(missed[:-1])} and {missed[-1]}"
        verb, were = ("does", "was") if len(missed) == 1 else ("do", "were")
        where = "nothing without pattern" if used is None else f"not go with {used}"
        reader.notes.append(f"{names} {verb} {where} and {were} left out.")


def _differs_from_default(reader: _ArgumentReader, name: str) -> bool:
    """Returns whether an argument requests anything other than the default."""
    if name == "case_sensitive":
        return not reader.switch(name)
    if name in _SWITCHES:
        return reader.switch(name)
    value = reader.raw(name)
    if values.is_none_word(value):
        return False
    if name == "offset":
        return values.position(value) not in {ReadStart(0), ReadStart(1)}
    return name != "context" or values.integer(value) != 0


def _span(reader: _ArgumentReader, used: str | None) -> tuple[ReadStart | None, int | None]:
    """Returns the line to begin at and the number of lines; None for each that the call does not determine.

    With a pattern, the number is that of matches, so the end of a range is returned with the line to begin at.
    """
    offset, range_ = reader.position("offset"), reader.position("range")
    head, tail = reader.integer("head"), reader.integer("tail")
    limit, end = reader.integer("limit"), reader.integer("end")
    _note_unused(reader, {"head": head, "tail": tail, "end": end}, has_offset=offset is not None, range_=range_)
    if offset is None:
        offset = range_
    if offset is None and tail is not None and tail > 0:
        return ReadStart(-tail), limit or tail
    if head is not None and head > 0:
        limit = limit or head
    if offset is None and end is not None:
        offset = ReadStart(1)
    if offset is None:
        return None, limit
    end = end if offset.last is None else offset.last
    line = offset.line or 1
    around = None if reader.has("pattern") else reader.integer("context")
    # A single line with `context` means the lines around it: turn them into a first line and a number of lines.
    if reader.called.get("offset") in _SINGLE and around and around > 0 and limit is None and line > 0:
        return ReadStart(max(1, line - around)), min(line, around + 1) + around
    if end is not None and end > 0 and line > 0:
        # A range whose end is before its start can only mean the same lines in order.
        first, last = min(line, end), max(line, end)
        inside = offset.inside if first == line else 0
        if used == "pattern":
            return ReadStart(first, inside, last), limit
        return ReadStart(first, inside), limit or last - first + 1
    return ReadStart(line, offset.inside), limit


def _note_unused(
    reader: _ArgumentReader, numbers: dict[str, int | None], *, has_offset: bool, range_: ReadStart | None
) -> None:
    """Notes the parameters of a span that are negative, or have no effect beside an offset or a range."""
    for name, number in numbers.items():
        if number is not None and number < 0:
            reader.notes.append(f"{reader.called[name]} must be at least 1 and was left out.")
    if has_offset or range_ is not None:
        used = reader.called["offset" if has_offset else "range"]
        unused = (("range", has_offset and range_ is not None), ("tail", (numbers["tail"] or 0) > 0))
        reader.notes += [f"{used} was used, and {reader.called[name]} was left out." for name, has in unused if has]


def _plain(name: str) -> str:
    """Returns a name in snake_case, without leading hyphens, whatever style it was written in."""
    return _CAMEL.sub("_", str(name).strip().lstrip("-")).replace("-", "_").replace(" ", "_").lower()


def _render_name(name: str) -> str:
    return one_line(name[:_REPEATED_CHARS]).replace("(", "").replace(")", "") or "(unnamed)"
