"""Which of several parts an excerpt shows, and the words for what it does not show. Pure.

The parts are foreign: of what they say of themselves nothing but a plain name of their type is repeated.
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
"""Types that are named at most."""


class OmittedParts(Struct, frozen=True):
    """Parts of which not everything is among the texts."""

    parts: int
    """All that there are."""
    gone: tuple[str, ...]
    """Types of those without any text."""
    cut: tuple[str, ...]
    """Types of those with a text and more than that."""

    def lines(self, budget: int) -> str:
        """What is not shown, in numbers and types: two lines at most, of `budget` bytes each if their numbers fit."""
        return "".join(
            _counted(lead, kinds, self.parts, budget)
            for lead, kinds in (("not shown", self.gone), ("only the text is shown of", self.cut))
            if kinds
        )


def texts_of(parts: Iterable[Json]) -> tuple[list[str], OmittedParts | None]:
    """The texts of parts, in order, and what else there is; None where there is nothing else."""
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
    """Texts as the service joins them: on lines of their own, without an empty one between."""
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
    """Whether a part with a text is nothing else; annotations and marks of caches are no content."""
    if isinstance(part, str):
        return True
    block = cast("dict[str, Json]", part)
    if "type" not in block:
        return block.keys() == {"text"}
    return block["type"] in _TEXTS and not block.get("citations")


def _kind(part: Json) -> str:
    """What a part is: its type, or where it has none its only member, as Gemini has it."""
    if not isinstance(part, dict):
        return _NAMELESS
    block = cast("dict[str, Json]", part)
    name: Json = block.get("type", next(iter(block)) if len(block) == 1 else None)
    return name if isinstance(name, str) and _NAME.fullmatch(name) else _NAMELESS


def _counted(lead: str, kinds: Sequence[str], total: int, budget: int) -> str:
    """One line, with as many types as there is room for."""
    known = Counter(kinds).most_common()
    begun = f"¦ {lead}: {len(kinds)} of {total} parts"
    for named in range(min(len(known), _NAMED), 0, -1):
        words = [f"{count} {kind}" for kind, count in known[:named]]
        rest = sum(count for _, count in known[named:])
        line = f"{begun} ({', '.join([*words, *([f'{rest} of other types'] if rest else [])])})\n"
        if len(line.encode()) <= budget:
            return line
    return f"{begun}\n"
