"""The form of the declared tool's answers: how a first line is written, and how an answer is recognised.

An answer of the tool is text that was requested, piece by piece; it must not become a card again, or reading that would
give another card, and so on forever. So an answer's first line has a form that nothing else of the service has, and so
do the lines of a list; `is_read_answer` recognises both. A payload could imitate one: all it gains is to be left as it
is, up to the size of an answer.
"""

import re
from typing import Final

from msgspec import Struct

from coatcheck.core.ids import is_id
from coatcheck_client.contract.inert import one_line

MAX_CHARS: Final = 30_000
"""Maximum characters of an answer: below the sizes at which agents' hosts cut a tool result again."""
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
    """Returns the line that names the artifact, its title, the part that follows, and the view."""
    label = one_line(name[: NAME_CHARS * 4]).replace("·", "-")
    if len(label) > NAME_CHARS:
        label = label[: NAME_CHARS - 1] + "…"
    return f"[{artifact_id} · {label or 'unnamed'} · {part} · {view}]"


class ReadBack(Struct, frozen=True):
    """The content of an answer's first line."""

    artifact_id: str
    described: str
    """The ID, the artifact's name, the part and the view, as in the line."""


def read_answer_of(text: str) -> ReadBack | None:
    """Returns what an answer that shows a part of an artifact says about itself; None for any other text."""
    match = _FIRST.match(text) if len(text) <= MAX_CHARS else None
    if match is None or not is_id(match[1]):
        return None
    return ReadBack(match[1], match[0][1:-1])


def is_read_answer(text: str) -> bool:
    """Returns whether a tool result is an answer of `read_artifact` that shows a part, or of `list_artifacts`.

    True only for text that begins with the tool's first line, or consists of a list's lines, with IDs that have correct
    check digits, and is no longer than an answer can be. Failures are short sentences, and are not recognised.
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
