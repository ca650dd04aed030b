"""The index of a request body of any format: items in order, with authors, calls, outputs, texts and opaque parts.

An index is read-only and refers to the body's own texts. It has a pointer into the body for each part, so that exactly
this part can be changed. Unknown fields are not in the index. Unknown items are in the index as `OTHER`, so that they
keep their place among the others.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct, field

from coatcheck.core.context.body.encoding import Object, Value, as_list, as_object
from coatcheck.core.context.body.splice import Pointer
from coatcheck.core.text.long_text import Text

T = TypeVar("T")


def add_item(items: Sequence[T], one: T) -> Sequence[T]:
    """Returns `items` with one more value; a list is changed in place.

    `items` are the values of one kind in an item or an output. Most have one value or none, and a history has thousands
    of items: empty lists would take more memory than the values, so the first value becomes a tuple.
    """
    if isinstance(items, list):
        items.append(one)
        return items
    return [*items, one] if items else (one,)


class Format(StrEnum):
    """Wire formats of model requests. Declarations of `read_artifact` have the same names for the first four."""

    OPENAI_CHAT = "openai-chat"
    OPENAI_RESPONSES = "openai-responses"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    LANGCHAIN = "langchain"
    BEDROCK = "bedrock"
    PYDANTIC_AI = "pydantic-ai"


class Role(StrEnum):
    """The author of an item."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    OTHER = "other"
    """Unknown: a pinned item stays in its place; any other item could not be read, and the body is refused."""


class Piece(Struct, frozen=True, kw_only=True, gc=False):
    """One text of a tool output or of a message."""

    at: Pointer
    """The place in the body of the value that contains the text."""
    inside: Pointer = ()
    """The place in the JSON document that is the string at `at`; empty if the text is the value at `at` itself."""
    text: Text
    structured: bool = False
    """Whether the value is a list or an object; `text` is then this value as JSON with sorted keys, as ingest stores
    it."""
    cited: bool = False
    """Whether something refers to positions in this text, so that no part of it may be left out."""


class Media(Struct, frozen=True, kw_only=True, gc=False):
    """An image, a recording or a file in an output or a message."""

    at: Pointer
    part: Value
    type: str
    """Media type; the type of the part if no media type is known."""
    size: int
    """Bytes that the body itself contains; 0 for a reference."""
    text_type: str | None = None
    """The type of a text part that may replace it; None if no text is allowed there."""


class Output(Struct, kw_only=True, gc=False):
    """The output of a tool."""

    at: Pointer
    keys: tuple[str, ...] = ()
    """Keys by which the output's call is found, by default the call ID; if empty, the output is paired by order."""
    call_id: str | None = None
    name: str | None = None
    pieces: Sequence[Piece] = ()
    media: Sequence[Media] = ()
    data: Sequence[Value] = ()
    """Parts of unknown form, which are counted and never changed."""
    failed: bool = False
    server: bool = False
    """Whether the provider ran the tool itself."""
    whole: Pointer | None = None
    """The place of an object that a card may replace as a whole, as `{"output": card}`; None if there is none."""

    def __post_init__(self) -> None:
        """Uses the call ID as key if the format gives no other keys."""
        self.keys = self.keys or _names_of(self.call_id)


class Site(Struct, frozen=True, gc=False):
    """One copy of a call's arguments."""

    at: Pointer
    form: str
    """`object`: a JSON object; `json`: a JSON object in a string; `text`: free text."""


class HistoryCall(Struct, kw_only=True, gc=False):
    """A tool call that the model made."""

    at: Pointer
    keys: tuple[str, ...] = ()
    """Keys by which the call's outputs find it, by default the call ID."""
    call_id: str | None = None
    name: str | None = None
    sites: list[Site] = field(default_factory=list[Site])
    """All copies of the arguments; only the first one is counted."""
    server: bool = False
    has_schema: bool = False
    """Whether the provider itself defines the members of the arguments and their types."""

    def __post_init__(self) -> None:
        """Uses the call ID as key if the format gives no other keys."""
        self.keys = self.keys or _names_of(self.call_id)


def _names_of(call_id: str | None) -> tuple[str, ...]:
    return () if call_id is None else (call_id,)


class Opaque(Struct, frozen=True, gc=False):
    """A part that must be returned to the provider byte for byte."""

    at: Pointer
    kind: str
    """`thinking` if it is bound to everything before it; otherwise `reasoning`, `compaction`, `signature`."""
    text: Text = ""
    """The text in it that counts as tokens; empty if there is none."""
    blob: int = 0
    """Number of characters of ciphertext in it."""


class Item(Struct, kw_only=True, gc=False):
    """One message or item of a history."""

    at: Pointer
    role: Role
    model: bool = False
    """Whether it was written by the model, or by tools that its provider ran."""
    prompt: bool = False
    """Whether a user speaks in it, as opposed to tools only."""
    pinned: bool = False
    """Whether it is never left out: instructions, compaction items, references to data on the server."""
    pieces: Sequence[Piece] = ()
    data: Sequence[Value] = ()
    media: Sequence[Media] = ()
    calls: Sequence[HistoryCall] = ()
    outputs: Sequence[Output] = ()
    opaque: Sequence[Opaque] = ()

    @property
    def texts(self) -> list[Text]:
        """Returns the texts of the item without their places."""
        return [piece.text for piece in self.pieces]


class HistoryIndex(Struct, kw_only=True):
    """The index of a body."""

    format: Format
    list_at: Pointer | None
    """The place of the list of items; None if the body has none."""
    items: list[Item] = field(default_factory=list[Item])
    system: list[Value] = field(default_factory=list[Value])
    """Instructions outside the items."""
    tools: list[Value] = field(default_factory=list[Value])
    notes: list[str] = field(default_factory=list[str])
    """Sentences about what could not be read from the body."""
    continues: bool = False
    """Whether the provider stores the messages before these items."""
    can_read: bool = True
    """Whether the model has `read_artifact`, so that a card may name a call of it. True if the body does not tell: for
    a list of messages without a body, and for formats that declare no tools."""

    def tool_names(self) -> set[str]:
        """Returns the names of the tools that the body declares."""
        return {name for tool in self.unwrap_declarations() if isinstance(name := tool.get("name"), str)}

    def unwrap_declarations(self) -> list[Object]:
        """Returns the declarations of the tools, without the wrappers of the formats."""
        declarations: list[Object] = []
        for tool in map(as_object, self.tools):
            many = as_list(tool.get("functionDeclarations", tool.get("function_declarations")))
            declarations += [as_object(one) for one in many] or [
                as_object(tool.get("function", tool.get("toolSpec"))) or tool
            ]
        return declarations
