"""What the declared tool's answers look like: how a first line is written, and how an answer is known again.

An answer of the tool is text that was asked for, piece by piece; whoever keeps tool results must not make a card of it,
or reading it would give another card, and so on for ever. So an answer's first line has a form that nothing else of the
service has, and the lines of a list have one, too; `is_read_answer` knows both. A payload could begin like one on
purpose: what it gains is to be taken as it is, and only up to the size of an answer.
"""

import re
from typing import Final

from msgspec import Struct

from coatcheck.core.ids import is_id
from coatcheck_client.contract.inert import one_line

MAX_CHARS: Final = 30_000
"""Characters of the longest answer: below the sizes at which agents' hosts cut a tool result again."""
NAME_CHARS: Final = 60
"""Characters of an artifact's name that the first line shows."""

_FIRST: Final = re.compile(
    r"\[(art_[0-9]{18}) · [^\n]{1,80} · (?:(?:lines|matches|passages|values|outline)[^\n]{0,120}|empty)"
    r" · (?:raw|text)\]"
    r"(?=\r?\n|\Z)"
)
_LISTED: Final = re.compile(r"(art_[0-9]{18}) · [a-z_]+ · ")
_LIST_END: Final = re.compile(r"\([0-9]+ artifacts?, newest first\.")


def first_line(artifact_id: str, name: str, part: str, view: str) -> str:
    """Which artifact, what it is called, which part of it follows, and of which view."""
    shown = one_line(name[: NAME_CHARS * 4]).replace("·", "-")
    if len(shown) > NAME_CHARS:
        shown = shown[: NAME_CHARS - 1] + "…"
    return f"[{artifact_id} · {shown or 'unnamed'} · {part} · {view}]"


class ReadBack(Struct, frozen=True):
    """What the first line of an answer says."""

    artifact_id: str
    described: str
    """The ID, the artifact's name, the part and the view, as the line has them."""


def read_answer_of(text: str) -> ReadBack | None:
    """Returns what an answer that shows a part of an artifact says of itself; None for any other text."""
    found = _FIRST.match(text) if len(text) <= MAX_CHARS else None
    if found is None or not is_id(found[1]):
        return None
    return ReadBack(found[1], found[0][1:-1])


def is_read_answer(text: str) -> bool:
    """Whether a tool result is an answer of `read_artifact` that shows a part of an artifact, or of `list_artifacts`.

    True only for text that begins with the tool's first line, or consists of a list's lines, with IDs whose check
    digits are right, and is no longer than an answer can be. Failures are short sentences, and are not recognised.
    """
    if len(text) > MAX_CHARS:
        return False
    if read_answer_of(text) is not None:
        return True
    body, _, last = text.rstrip("\n").rpartition("\n")
    if _LIST_END.match(last) is None:
        return False
    rows = [_LISTED.match(row) for row in body.split("\n")]
    return all(row is not None and is_id(row[1]) for row in rows)
