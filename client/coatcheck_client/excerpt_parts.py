"""Decides which of several parts an excerpt shows, and describes those that it does not show. Pure.

Parts come from outside: nothing of their own description is repeated except a plain name of their type.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from msgspec import Struct

Json = Any

_TEXTS: Final = frozenset({"text", "input_text", "output_text", "text-plain"})
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")
_NAMELESS: Final = "other"
_NAMED: Final = 8
"""Maximum number of types that are named."""


class OmittedParts(Struct, frozen=True):
    """Parts that are not completely among the texts."""

    parts: int
    """Number of all parts."""
    gone: tuple[str, ...]
    """Types of those without any text."""
    cut: tuple[str, ...]
    """Types of those with a text and more."""

    def lines(self, budget: int) -> str:
        """Returns what is not shown, in numbers and types: up to two lines, of `budget` bytes each if numbers fit."""
        return "".join(
            _counted(lead, kinds, self.parts, budget)
            for lead, kinds in (("not shown", self.gone), ("only the text is shown of", self.cut))
            if kinds
        )


def texts_of(parts: Iterable[Json]) -> tuple[list[str], OmittedParts | None]:
    """Returns the texts of parts, in order, and what else there is; None if there is nothing else."""
    texts: list[str] = []
    gone: list[str] = []
    cut: list[str] = []
    total = 0
    for part in parts:
        total += 1
        text = part if isinstance(part, str) else _text(part)
        if text is None:
            gone.append(_kind(part))
            continue
        texts.append(text)
        if not _is_all_text(part):
            cut.append(_kind(part))
    return texts, OmittedParts(total, tuple(gone), tuple(cut)) if gone or cut else None


def joined(texts: Iterable[str]) -> str:
    """Returns texts joined as the service does: on separate lines, without empty ones between."""
    whole: list[str] = []
    for text in texts:
        if whole and not whole[-1].endswith("\n"):
            whole.append("\n")
        whole.append(text)
    return "".join(whole)


def _text(part: Json) -> str | None:
    found = cast("dict[str, Json]", part).get("text") if isinstance(part, dict) else None
    return found if isinstance(found, str) else None


def _is_all_text(part: Json) -> bool:
    """Returns whether a part with a text is nothing else; annotations and cache marks are not content."""
    if isinstance(part, str):
        return True
    block = cast("dict[str, Json]", part)
    if "type" not in block:
        return block.keys() == {"text"}
    return block["type"] in _TEXTS and not block.get("citations")


def _kind(part: Json) -> str:
    """Returns what a part is: its type, or, if it has none, its only member, as in Gemini's form."""
    if not isinstance(part, dict):
        return _NAMELESS
    block = cast("dict[str, Json]", part)
    name: Json = block.get("type", next(iter(block)) if len(block) == 1 else None)
    return name if isinstance(name, str) and _NAME.fullmatch(name) else _NAMELESS


def _counted(lead: str, kinds: Sequence[str], total: int, budget: int) -> str:
    """Returns one line, with as many types as there is room for."""
    known = Counter(kinds).most_common()
    begun = f"¦ {lead}: {len(kinds)} of {total} parts"
    for named in range(min(len(known), _NAMED), 0, -1):
        words = [f"{count} {kind}" for kind, count in known[:named]]
        rest = sum(count for _, count in known[named:])
        line = f"{begun} ({', '.join([*words, *([f'{rest} of other types'] if rest else [])])})\n"
        if len(line.encode()) <= budget:
            return line
    return f"{begun}\n"
