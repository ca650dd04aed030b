"""A request body of any format as items in order: their authors, calls, outputs, texts and opaque parts.

An index is read-only and refers to the body's own texts. It gives the place of everything as a pointer into the body,
so that exactly that can be changed. What an adapter does not know is ignored: unknown fields are not in the index,
unknown items are in it as `OTHER`, so that they keep their place among the others.
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
    """Returns what an item or output holds, with one more.

    Most hold one of a sort or none, and a history has thousands: empty lists would take more than what they say.
    """
    if isinstance(items, list):
        items.append(one)
        return items
    return [*items, one] if items else (one,)


class Format(StrEnum):
    """Wire formats of model requests, by the names that the tool's declarations also use."""

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
    """Nobody's: if it is pinned, it stays in its place; otherwise it could not be read, and the body is refused."""


class Piece(Struct, frozen=True, kw_only=True, gc=False):
    """One text of a tool output or of a message."""

    at: Pointer
    """The value in the body that holds it."""
    inside: Pointer = ()
    """The place in the JSON document that is the string at `at`; empty if the value itself is meant."""
    text: Text
    structured: bool = False
    """Whether the value is a list or an object; then `text` is that value serialised with sorted keys, as ingest stores
    it."""
    cited: bool = False
    """Whether something points into this text by position, so that no part of it may be cut out."""


class Media(Struct, frozen=True, kw_only=True, gc=False):
    """An image, a recording or a file in an output or a message."""

    at: Pointer
    part: Value
    type: str
    """Media type, or the name of its part."""
    size: int
    """Bytes in the body itself; 0 for a reference."""
    text_type: str | None = None
    """The type of a text part in its place; None if there cannot be one."""


class Output(Struct, kw_only=True, gc=False):
    """The output of a tool."""

    at: Pointer
    keys: tuple[str, ...] = ()
    """Names by which its call is found, by default its ID; if empty, it is paired by order."""
    call_id: str | None = None
    name: str | None = None
    pieces: Sequence[Piece] = ()
    media: Sequence[Media] = ()
    data: Sequence[Value] = ()
    """Parts of unknown form: counted, never changed."""
    failed: bool = False
    server: bool = False
    """Whether the provider ran the tool itself."""
    whole: Pointer | None = None
    """The place of an object that a card may replace as a whole, as `{"output": card}`."""

    def __post_init__(self) -> None:
        """Pairs by the ID where the format has no other names."""
        self.keys = self.keys or _names_of(self.call_id)


class Site(Struct, frozen=True, gc=False):
    """One copy of a call's arguments."""

    at: Pointer
    form: str
    """`object`: a JSON object; `json`: one as a string; `text`: free text."""


class HistoryCall(Struct, kw_only=True, gc=False):
    """A tool call that the model made."""

    at: Pointer
    keys: tuple[str, ...] = ()
    """Names by which its outputs find it, by default its ID."""
    call_id: str | None = None
    name: str | None = None
    sites: list[Site] = field(default_factory=list[Site])
    """All copies; the first one is counted."""
    server: bool = False

    def __post_init__(self) -> None:
        """Pairs by the ID where the format has no other names."""
        self.keys = self.keys or _names_of(self.call_id)


def _names_of(call_id: str | None) -> tuple[str, ...]:
    return () if call_id is None else (call_id,)


class Opaque(Struct, frozen=True, gc=False):
    """Something that must be returned to the provider byte for byte."""

    at: Pointer
    kind: str
    """`thinking` if it is bound to everything before it; otherwise `reasoning`, `compaction`, `signature`."""
    text: Text = ""
    """The part of it that counts as text, if any."""
    blob: int = 0
    """Characters of ciphertext in it."""


class Item(Struct, kw_only=True, gc=False):
    """One message or item of a history."""

    at: Pointer
    role: Role
    model: bool = False
    """Whether the model or tools of its provider wrote it."""
    prompt: bool = False
    """Whether a user speaks in it, not only tools."""
    pinned: bool = False
    """Whether it is never left out: instructions, compaction items, references to data of the server."""
    pieces: Sequence[Piece] = ()
    data: Sequence[Value] = ()
    media: Sequence[Media] = ()
    calls: Sequence[HistoryCall] = ()
    outputs: Sequence[Output] = ()
    opaque: Sequence[Opaque] = ()

    @property
    def texts(self) -> list[Text]:
        """Returns what is said in it, without places."""
        return [piece.text for piece in self.pieces]


class HistoryIndex(Struct, kw_only=True):
    """A body, indexed."""

    format: Format
    list_at: Pointer | None
    """The place of the list of items; None if the body has none."""
    items: list[Item] = field(default_factory=list[Item])
    system: list[Value] = field(default_factory=list[Value])
    """Instructions outside the items."""
    tools: list[Value] = field(default_factory=list[Value])
    notes: list[str] = field(default_factory=list[str])
    """Sentences about what is unknown here."""
    continues: bool = False
    """Whether the provider keeps what precedes these items."""
    can_read: bool = True
    """Whether the model has `read_artifact`, so that a card may name a call of it. A list of messages without the body
    around it, and formats whose bodies declare no tools, do not tell."""

    def tool_names(self) -> set[str]:
        """Returns the names of the tools that the body declares."""
        return {name for tool in self.unwrap_declarations() if isinstance(name := tool.get("name"), str)}

    def unwrap_declarations(self) -> list[Object]:
        """Returns the declarations themselves, without each format's wrapper."""
        declarations: list[Object] = []
        for tool in map(as_object, self.tools):
            many = as_list(tool.get("functionDeclarations", tool.get("function_declarations")))
            declarations += [as_object(one) for one in many] or [
                as_object(tool.get("function", tool.get("toolSpec"))) or tool
            ]
        return declarations
