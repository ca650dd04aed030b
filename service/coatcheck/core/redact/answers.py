"""Whole answers with markers in place of fillers: their text within its bounds, and every other string in them."""

from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.redact.filler import DEL, reveal
from coatcheck.core.redact.mask import Mask, shown
from coatcheck.core.tokens import Tokenizer

S = TypeVar("S", bound=Struct)
_TOLD: Final = "\u2421"


def revealed(answer: S, mask: Mask, tokenizer: Tokenizer, tokens: int, chars: int) -> S:
    """An answer as it is given: of `text` at most so many tokens and characters, which `tokens` counts."""
    text = cast("str", getattr(answer, "text", ""))
    if not (DEL in text or _TOLD in text):
        return cast("S", _strings(answer, mask.names))
    named, count = shown(text, mask, tokenizer, tokens, chars)
    return cast("S", replace(cast("Struct", _strings(answer, mask.names)), text=named, tokens=count))


def revealed_strings(answer: S, mask: Mask) -> S:
    """Returns an answer that has no token limit with every string in it revealed."""
    return cast("S", _strings(answer, mask.names))


def _strings(value: Any, names: tuple[str, ...]) -> Any:  # noqa: ANN401, PLR0911 - any value of a wire struct
    """Returns a value with every string in it revealed; the value itself where there is nothing to reveal."""
    if isinstance(value, str):
        return reveal(value, names) if type(value) is str else value
    if isinstance(value, msgspec.Raw):
        return _raw(value, names)
    if isinstance(value, Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        made = {name: _strings(each, names) for name, each in fields.items()}
        changed = {name: each for name, each in made.items() if each is not fields[name]}
        return replace(value, **changed) if changed else value
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        made = [_strings(each, names) for each in items]
        if all(new is old for new, old in zip(made, items, strict=True)):
            return cast("Any", value)
        return made if isinstance(value, list) else tuple(made)
    if isinstance(value, dict):
        held = cast("dict[Any, Any]", value)
        return {_strings(key, names): _strings(each, names) for key, each in held.items()}
    return value


def _raw(value: msgspec.Raw, names: tuple[str, ...]) -> msgspec.Raw:
    """JSON for programs: a marker is legal wherever a filler stands, which is inside a string."""
    data = bytes(value)
    if b"\x7f" not in data:
        return value
    return msgspec.Raw(reveal(data.decode("utf-8", "replace"), names).encode())
