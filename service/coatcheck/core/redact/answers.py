"""Turns fillers into markers in whole answers, keeping each answer's text within its bounds."""

from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.redact.filler import DEL, reveal
from coatcheck.core.redact.mask import Mask, reveal_text
from coatcheck.core.tokens import Tokenizer

S = TypeVar("S", bound=Struct)
_TOLD: Final = "\u2421"


def reveal_answer(answer: S, mask: Mask, tokenizer: Tokenizer, tokens: int, chars: int) -> S:
    """Returns an answer with markers in every string, and `text` cut to its limits of tokens and characters."""
    text = cast("str", getattr(answer, "text", ""))
    if not (DEL in text or _TOLD in text):
        return cast("S", _strings(answer, mask.names))
    shown_text, count = reveal_text(text, mask, tokenizer, tokens, chars)
    return cast("S", replace(cast("Struct", _strings(answer, mask.names)), text=shown_text, tokens=count))


def reveal_strings(answer: S, mask: Mask) -> S:
    """Returns an answer that has no token limit, with markers in every string."""
    return cast("S", _strings(answer, mask.names))


def _strings(value: Any, names: tuple[str, ...]) -> Any:  # noqa: ANN401, PLR0911 - any value of a wire struct
    """Returns a value with markers in every string, or the value itself if it contains no fillers."""
    if isinstance(value, str):
        return reveal(value, names) if type(value) is str else value
    if isinstance(value, msgspec.Raw):
        return _raw(value, names)
    if isinstance(value, Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        members = {name: _strings(each, names) for name, each in fields.items()}
        changed = {name: each for name, each in members.items() if each is not fields[name]}
        return replace(value, **changed) if changed else value
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        members = [_strings(each, names) for each in items]
        if all(new is old for new, old in zip(members, items, strict=True)):
            return cast("Any", value)
        return members if isinstance(value, list) else tuple(members)
    if isinstance(value, dict):
        mapping = cast("dict[Any, Any]", value)
        return {_strings(key, names): _strings(each, names) for key, each in mapping.items()}
    return value


def _raw(value: msgspec.Raw, names: tuple[str, ...]) -> msgspec.Raw:
    """Puts markers into raw JSON, which stays valid because fillers occur only inside strings."""
    data = bytes(value)
    if b"\x7f" not in data:
        return value
    return msgspec.Raw(reveal(data.decode("utf-8", "replace"), names).encode())
