"""Makes the index of a history from what a format's adapter reads: items, and the texts and keys in them."""

from collections.abc import Callable

from coatcheck.core.context.body.model import Format, HistoryIndex, Item, Output, Piece, Role, Site, add_item
from coatcheck.core.context.body.pointer import Pointer, get
from coatcheck.core.context.body.shape import Object, Value, as_list, as_object, as_text
from coatcheck.core.text.long_text import Text, is_text


def index_messages(
    format_: Format, body: Value, list_at: Pointer, read_item: Callable[[Pointer, Object], Item], system: Value = None
) -> HistoryIndex:
    """Returns the index of a body with its messages at `list_at`; `read_item` makes an item of each."""
    messages = enumerate(as_list(get(body, list_at)))
    return HistoryIndex(
        format=format_,
        list_at=list_at,
        items=[read_item((*list_at, number), as_object(message)) for number, message in messages],
        system=[system] if system else [],
        tools=as_list(as_object(body).get("tools")),
    )


def item_of(at: Pointer, role: Role) -> Item:
    """Returns an empty item of a role. Give `Role.OTHER` for a message that does not fit the format."""
    return Item(at=at, role=role, model=role is Role.ASSISTANT, prompt=role is Role.USER, pinned=role is Role.SYSTEM)


def say(item: Item, at: Pointer, text: Text, *, cited: bool = False) -> None:
    """Adds a text that somebody said to an item."""
    item.pieces = add_item(item.pieces, Piece(at=at, text=text, cited=cited))


def show(output: Output, at: Pointer, text: Text, *, structured: bool = False) -> None:
    """Adds a text to an output."""
    output.pieces = add_item(output.pieces, Piece(at=at, text=text, structured=structured))


def keys_of(*values: Value) -> tuple[str, ...]:
    """Returns the keys by which a call or an output may be paired."""
    return tuple(dict.fromkeys(text for value in values if (text := as_text(value)) is not None))


def site_of(at: Pointer, value: Value, form: str) -> list[Site]:
    """Returns the copy of a call's arguments in `value`; none if it is neither an object nor text.

    `form` is the meaning of text: `json` or `text`. Clients write either where the provider wants the other.
    """
    if isinstance(value, dict):
        return [Site(at, "object")]
    return [Site(at, form)] if is_text(value) else []


def tell_prompt(item: Item) -> None:
    """Records whether a user speaks in a user's message, or only tools do."""
    item.prompt = bool(item.pieces or item.media or item.data) or not item.outputs
    if not item.prompt:
        item.role = Role.TOOL
