"""Decides which parts of a payload an excerpt shows, and describes the parts that it does not show. Pure.

Parts come from outside: of their own description, only a plain name of their type is repeated.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from coatcheck_client.contract.json_values import is_among

Json = Any

_TEXTS: Final = frozenset({"text", "input_text", "output_text", "text-plain"})
"""Types of parts that contain nothing but a text."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")
_NAMELESS: Final = "other"
_NAMED: Final = 8
"""Maximum number of types that one line names."""


class OmittedParts(Struct, frozen=True):
    """The parts of a payload that its texts do not contain, or not completely."""

    parts: int
    """Number of all parts."""
    gone: tuple[str, ...]
    """Types of the parts without any text."""
    cut: tuple[str, ...]
    """Types of the parts with a text and something else."""

    def lines(self, budget: int) -> str:
        """Returns what is not shown, in numbers and types: up to two lines, each of at most `budget` bytes if possible.

        A line that would be longer names fewer types, or none.
        """
        return "".join(
            _counted(lead, kinds, self.parts, budget)
            for lead, kinds in (("not shown", self.gone), ("only the text is shown of", self.cut))
            if kinds
        )


def texts_of(parts: Iterable[Json]) -> tuple[list[str], OmittedParts | None]:
    """Returns the texts of parts, in order, and what else the parts contain; None if there is nothing else."""
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
    """Returns texts joined as the service joins them: a line feed is added only where a text does not end in one."""
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
    """Returns whether a part with a text has no other content.

    Citations are content. Other annotations and cache marks are not.
    """
    if isinstance(part, str):
        return True
    block = cast("dict[str, Json]", part)
    if "type" not in block:
        return block.keys() == {"text"}
    return is_among(block["type"], _TEXTS) and not block.get("citations")


def _kind(part: Json) -> str:
    """Returns a part's type; if it has none, the name of its only member, which is the type in Gemini's form."""
    if not isinstance(part, dict):
        return _NAMELESS
    block = cast("dict[str, Json]", part)
    name: Json = block.get("type", next(iter(block)) if len(block) == 1 else None)
    return name if isinstance(name, str) and _NAME.fullmatch(name) else _NAMELESS


def _counted(lead: str, kinds: Sequence[str], total: int, budget: int) -> str:
    """Returns one line, which names as many types as there is room for in `budget` bytes."""
    known = Counter(kinds).most_common()
    begun = f"¦ {lead}: {len(kinds)} of {total} parts"
    for named in range(min(len(known), _NAMED), 0, -1):
        words = [f"{count} {kind}" for kind, count in known[:named]]
        rest = sum(count for _, count in known[named:])
        line = f"{begun} ({', '.join([*words, *([f'{rest} of other types'] if rest else [])])})\n"
        if len(line.encode()) <= budget:
            return line
    return f"{begun}\n"
