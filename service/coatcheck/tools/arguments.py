"""A call's arguments as they were meant, whatever they are called and however they are written.

Forgiving in what it takes, exact in what it says: everything that was changed, ignored or could not be read becomes a
note in the answer. If nothing but the artifact was understood of a call that says more, it is refused: whoever asks for
something else does not want the first 4,000 tokens. Conflicts are settled in one order:

1. A parameter's own name comes before its other names, in the order of the table below.
2. `offset` (or a place to begin under another name) comes before a range, a range before `head` and `tail`.
3. `limit` comes before an end.
4. `pattern` comes before `query`, `query` before `path`, `path` before `outline`; none of them reads lines.

Nothing here raises but for these calls and for an artifact that is not named, and nothing looks at an artifact.
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
"""Maximum lines around a hit; more are clipped, since a read shows them at less cost."""
_REPEATED_CHARS: Final = 40
"""Characters of a caller's word that a note repeats."""
_MAX_NAMED_ARGUMENTS: Final = 5
"""Unknown arguments that a note names."""
_AROUND: Final = frozenset({"line", "line_number"})
"""Names of an offset with which `context` means the lines around it."""
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
"""Names of parameters in readers that models know. The order is the order of precedence."""
_LIST_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "session": ("session", "session_id"),
    "kind": ("kind", "type"),
    "tool_name": ("tool_name", "tool"),
    "label": ("label",),
    "query": ("query", "q", "search", "text", "words", "pattern", "find"),
    "limit": _NAMES["limit"],
    "cursor": ("cursor",),
}
"""Names of `list_artifacts`' arguments that models use; there, a pattern can only be meant as words."""
_JOINTS: Final = {"pattern": "|", "query": " "}
"""Parameters that join several texts, and what comes between them."""
_SWITCHES: Final = ("ignore_case", "literal")
"""Parameters that are on or off."""
_FIND: Final = ("pattern", "query", "path")
"""Ways to find something, in the order of precedence."""
OUTLINE_WORDS: Final = frozenset({"outline", "toc", "contents", "sections", "list", "all", "?", "*"})
"""What models write as a section to learn which there are."""
_MOST: Final[dict[str | None, tuple[int, str]]] = {
    None: (MAX_LINES, "lines"),
    "pattern": (MAX_MATCHES, "matches"),
    "path": (MAX_VALUES, "values"),
    "outline": (MAX_VALUES, "entries"),
}
"""The maximum `limit`, by what is requested, and what it counts."""
_SPAN: Final = ("offset", "range", "head", "tail", "limit", "end")
"""Parameters that say which lines are meant."""
_USELESS: Final[dict[str | None, tuple[str, ...]]] = {
    "query": (*_SPAN, "context", *_SWITCHES, "case_sensitive"),
    "path": ("range", "head", "tail", "end", "context", *_SWITCHES, "case_sensitive"),
    "outline": ("range", "head", "tail", "end", "context", *_SWITCHES, "case_sensitive"),
    None: ("context", *_SWITCHES, "case_sensitive"),
}
"""What has no effect beside a query, a path or an outline, and when lines are read."""
_ID_HOLDERS: Final = ("path", "query", "section", "pattern", "range")
"""Where an ID may be if `artifact_id` is missing."""


class ReadArguments(Struct, frozen=True, kw_only=True):
    """The request of `read_artifact`, with at most one of pattern, query, path and outline."""

    artifact_id: str
    """As written: the use case refuses what is no ID."""
    outline: bool = False
    section: str | None = None
    """A name from the outline, or a title."""
    offset: ReadStart | None = None
    """The line to begin at."""
    place: str | None = None
    """With a path: `offset` as written, which is where an answer said that the values continue."""
    limit: int | None = None
    """Lines, matches, values or entries, by what is read."""
    pattern: str | None = None
    """A regular expression, or plain text, to find lines by."""
    query: str | None = None
    """Words to find passages by."""
    path: str | None = None
    """A JSONPath expression over the payload."""
    context: int | None = None
    """Lines around a match."""
    ignore_case: bool = False
    literal: bool = False
    raw: bool = False
    """Whether the payload itself is read rather than its text."""
    notes: tuple[str, ...] = ()
    """What was left out or understood differently: the answer says so, so that the model learns."""


class ListArguments(Struct, frozen=True, kw_only=True):
    """The request of `list_artifacts`."""

    session: str | None = None
    kind: str | None = None
    tool_name: str | None = None
    label: str | None = None
    query: str | None = None
    limit: int | None = None
    cursor: str | None = None
    """`next` of the page before, as it was printed."""
    notes: tuple[str, ...] = ()


def read_arguments(arguments: dict[str, object], notes: list[str]) -> ReadArguments:
    """Returns what a call of `read_artifact` means. `notes` come from unpacking it.

    Raises:
        CoatcheckError: `invalid_request` if no artifact is named, or if that is all that was understood of a call with
            other arguments.
    """
    reader = _ArgumentReader(arguments, notes)
    artifact_id, section = _artifact(reader)
    # One way to find comes first; models often fill in the others too, and a note says that these were left out.
    words = {name: reader.text(name) for name in _FIND}
    used = next((name for name, word in words.items() if word is not None), None)
    for name, word in words.items():
        if word is not None and name != used:
            _drop_second(reader, used, name)
            words[name] = None
    outline = reader.switch("outline")
    if outline and used is not None:
        _drop_second(reader, used, "outline")
    elif outline:
        used = "outline"
    if used != "pattern":
        _leave_out(reader, used)
    # With a path, an offset is where an earlier answer said that the values continue, not a line.
    offset, limit = (None, reader.integer("limit")) if used == "path" else _span(reader)
    context = reader.integer("context") if used == "pattern" else None
    section = reader.text("section") or section
    # A call of which nothing was understood would read the beginning, which is not what the model asked for.
    if reader.misread and (used, offset, limit, section) == (None, None, None, None):
        ids.parse(artifact_id)  # a wrong ID is to be corrected first
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
        raw=reader.text("view") == "raw",
        notes=reader.all_notes(),
    )


def _drop_second(reader: "_ArgumentReader", used: str | None, name: str) -> None:
    reader.notes.append(f"{used} was used, and {name} was left out: give only one of them.")
    reader.drop(name)


def _limit(reader: "_ArgumentReader", used: str | None, limit: int | None) -> int | None:
    """Returns the limit within its bounds. A query has none, and a section that requests the outline has its own."""
    if limit is None or used not in _MOST:
        return limit
    if limit < 1:
        reader.notes.append("limit must be at least 1 and was left out.")
        return None
    most, things = _MOST[used]
    if limit > most:
        reader.notes.append(f"limit is at most {most:,} {things}.")
    return min(limit, most)


def list_arguments(arguments: dict[str, object], notes: list[str]) -> ListArguments:
    """Returns what a call of `list_artifacts` means."""
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
    """The arguments under our names."""

    def __init__(
        self, arguments: dict[str, object], notes: list[str], names: Mapping[str, tuple[str, ...]] = _NAMES
    ) -> None:
        self.notes = list(notes)
        self.misread = bool(notes)
        """Whether something that the call says was not understood."""
        self._values: dict[str, object] = {}
        """By our own name, as written."""
        self.called: dict[str, str] = {}
        """The name that the caller used for each, which notes repeat."""
        # Reversed, so that the first of two spellings of one name wins, as a later item replaces an earlier one.
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
        """Returns text.

        Several texts are alternatives of a pattern, or all of them a query; otherwise the first counts.
        """
        value = self._values.get(name)
        if value is None:
            return None
        several = values.texts(value)
        if len(several) > 1 and name not in _JOINTS:
            called = self.called[name]
            self.notes.append(f"{called} takes one value: this is for the first. Give the others in further calls.")
            value = several[0]
        if values.is_placeholder(value):
            self.misread = True
            self.notes.append(f"{name}={value} stands for words of your own, and was left out.")
            self.drop(name)
            return None
        word = values.text(value, joint=_JOINTS.get(name, "|"))
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
        """Returns where an answer said that the values of a path continue, which is not a line."""
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
    """Returns the artifact's ID as written, and the section if it is a citation."""
    value = reader.raw("artifact_id")
    reference = values.find_reference(value)
    if reference is None:
        # The ID may stand in another argument, which is used up then: it must not count as a path or a pattern as well.
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


def _leave_out(reader: _ArgumentReader, used: str | None) -> None:
    """Drops what has no effect here, and reports what would have changed something."""
    around = used is None and reader.called.get("offset") in _AROUND and not (reader.has("limit") or reader.has("head"))
    # A line with the lines around it is a span.
    unused = [name for name in _USELESS[used] if reader.has(name) and not (around and name == "context")]
    missed = [reader.called[name] for name in unused if _asks(reader, name)]
    for name in unused:
        reader.drop(name)
    if missed:
        names = missed[0] if len(missed) == 1 else f"{', '.join(missed[:-1])} and {missed[-1]}"
        verb, were = ("does", "was") if len(missed) == 1 else ("do", "were")
        where = "nothing without pattern" if used is None else f"not go with {used}"
        reader.notes.append(f"{names} {verb} {where} and {were} left out.")


def _asks(reader: _ArgumentReader, name: str) -> bool:
    """Returns whether an argument requests anything but the default."""
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


def _span(reader: _ArgumentReader) -> tuple[ReadStart | None, int | None]:
    """Returns where to begin, and how many lines."""
    offset, range_ = reader.position("offset"), reader.position("range")
    head, tail = reader.integer("head"), reader.integer("tail")
    limit, end = reader.integer("limit"), reader.integer("end")
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
    # A line with `context` means the lines around it, which become a span here.
    if reader.called.get("offset") in _AROUND and around and around > 0 and limit is None and line > 0:
        return ReadStart(max(1, line - around)), min(line, around + 1) + around
    if end is not None and end > 0 and line > 0:
        # A range that is written backwards can only mean the same lines.
        first, last = min(line, end), max(line, end)
        return ReadStart(first, offset.inside if first == line else 0), limit or last - first + 1
    return ReadStart(line, offset.inside), limit


def _plain(name: str) -> str:
    """Returns a name without the differences between writing styles."""
    return _CAMEL.sub("_", str(name).strip().lstrip("-")).replace("-", "_").replace(" ", "_").lower()


def _render_name(name: str) -> str:
    return one_line(name[:_REPEATED_CHARS]).replace("(", "").replace(")", "") or "(unnamed)"
