"""A request body, whatever its format, as items in order: who wrote each, its calls, outputs, texts and opaque parts.

An index is read-only and holds the body's own texts, never copies. It says where everything stands as a pointer into
the body, so that whoever changes something changes exactly that. What an adapter does not know it passes by: unknown
fields are not in the index, unknown items are in it as `OTHER`, so that they keep their place among the others.
"""

from enum import StrEnum

from msgspec import Struct, field

from coatcheck.core.context.body.pointer import Pointer
from coatcheck.core.context.body.shape import Object, Value, as_list, as_object
from coatcheck.core.text.long_text import Text


class Format(StrEnum):
    """Wire formats of model requests, by the names that the tool's declarations have, too."""

    OPENAI_CHAT = "openai-chat"
    OPENAI_RESPONSES = "openai-responses"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    LANGCHAIN = "langchain"


class Role(StrEnum):
    """Who speaks in an item."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    OTHER = "other"
    """Not known: stays where it is, and belongs to what stands before it."""


class Piece(Struct, frozen=True, kw_only=True, gc=False):
    """One text of a tool output or of a message."""

    at: Pointer
    """The value in the body that holds it."""
    inside: Pointer = ()
    """Where in the JSON document that is the string at `at`; empty when the value itself is meant."""
    text: Text
    structured: bool = False
    """The value is a list or an object; `text` is that value serialised, keys sorted, as ingest would store it."""
    cited: bool = False
    """Something points into this text by position, so no part of it may be cut out."""


class Media(Struct, frozen=True, kw_only=True, gc=False):
    """An image, a recording or a file in an output or a message."""

    at: Pointer
    part: Value
    type: str
    """Media type, or the name of its part."""
    size: int
    """Bytes that are in the body itself; 0 where only a reference is."""
    text_type: str | None = None
    """How a text part is named where this one stands; None when there is no place for text."""


class Output(Struct, kw_only=True, gc=False):
    """What a tool gave back."""

    at: Pointer
    keys: tuple[str, ...]
    """Under which names its call is looked for; empty pairs by order."""
    call_id: str | None = None
    name: str | None = None
    pieces: list[Piece] = field(default_factory=list[Piece])
    media: list[Media] = field(default_factory=list[Media])
    data: list[Value] = field(default_factory=list[Value])
    """Parts in no known shape: counted, never touched."""
    failed: bool = False
    server: bool = False
    """The provider ran the tool itself."""
    whole: Pointer | None = None
    """Where an object stands that a card may replace as a whole, as `{"output": card}`."""


class Site(Struct, frozen=True, gc=False):
    """One copy of a call's arguments."""

    at: Pointer
    form: str
    """`object`: a JSON object; `json`: one as a string; `text`: free text."""


class HistoryCall(Struct, kw_only=True, gc=False):
    """A tool call that the model made."""

    at: Pointer
    keys: tuple[str, ...]
    call_id: str | None = None
    name: str | None = None
    sites: list[Site] = field(default_factory=list[Site])
    """Every copy; the first is the one that is counted."""
    server: bool = False


class Opaque(Struct, frozen=True, gc=False):
    """Something that must come back to the provider byte for byte."""

    at: Pointer
    kind: str
    """`thinking` where it is bound to all that stands before it; otherwise `reasoning`, `compaction`, `signature`."""
    text: Text = ""
    """The part of it that counts as text, if any."""
    blob: int = 0
    """Characters of it that are ciphertext."""


class Item(Struct, kw_only=True, gc=False):
    """One message or item of a history."""

    at: Pointer
    role: Role
    model: bool = False
    """Written by the model or by tools of its provider."""
    prompt: bool = False
    """A user speaks here, not only tools."""
    pinned: bool = False
    """Never left out: instructions, compaction items, references to what the server has."""
    said: list[Piece] = field(default_factory=list[Piece])
    data: list[Value] = field(default_factory=list[Value])
    media: list[Media] = field(default_factory=list[Media])
    calls: list[HistoryCall] = field(default_factory=list[HistoryCall])
    outputs: list[Output] = field(default_factory=list[Output])
    opaque: list[Opaque] = field(default_factory=list[Opaque])

    @property
    def texts(self) -> list[Text]:
        """What is said in it, without where it stands."""
        return [piece.text for piece in self.said]


class HistoryIndex(Struct, kw_only=True):
    """A body, indexed."""

    format: Format
    list_at: Pointer | None
    """Where the list of items stands; None when the body has none."""
    items: list[Item] = field(default_factory=list[Item])
    system: list[Value] = field(default_factory=list[Value])
    """Instructions outside the items."""
    tools: list[Value] = field(default_factory=list[Value])
    notes: list[str] = field(default_factory=list[str])
    """Sentences about what cannot be seen from here."""

    def tool_names(self) -> set[str]:
        """The names of the tools that the body declares."""
        return {name for tool in self.declared() if isinstance(name := tool.get("name"), str)}

    def declared(self) -> list[Object]:
        """The declarations themselves, without what each format wraps around them."""
        found: list[Object] = []
        for tool in map(as_object, self.tools):
            many = as_list(tool.get("functionDeclarations", tool.get("function_declarations")))
            found += [as_object(one) for one in many] or [as_object(tool.get("function")) or tool]
        return found
