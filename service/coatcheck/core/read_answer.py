"""The first line of what the declared tool answers: how it is written, and how it is known again.

An answer of the tool is text that was asked for, piece by piece; whoever keeps tool results must not make a card of it.
So its first line has a form that nothing else of the service has, and `is_read_answer` knows it. A payload could begin
like one on purpose: what it gains is to be taken as it is, and only up to the size of an answer.
"""

import re
from typing import Final

from coatcheck.core.errors import CoatcheckError
from coatcheck.core.ids import parse
from coatcheck.core.text.inert import one_line

MAX_CHARS: Final = 30_000
"""Characters of the longest answer: below the sizes at which agents' hosts cut a tool result again."""
NAME_CHARS: Final = 60
"""Characters of an artifact's name that the first line shows."""

_FIRST: Final = re.compile(
    r"\[(art_[0-9]{18}) · [^\n]{1,80} · (?:(?:lines|matches|passages|values) [^\n]{1,120}|empty) · (?:raw|text)\]"
    r"(?=\r?\n|\Z)"
)


def first_line(artifact_id: str, name: str, part: str, view: str) -> str:
    """Which artifact, what it is called, which part of it follows, and of which view."""
    shown = one_line(name[: NAME_CHARS * 4]).replace("·", "-")
    if len(shown) > NAME_CHARS:
        shown = shown[: NAME_CHARS - 1] + "…"
    return f"[{artifact_id} · {shown or 'unnamed'} · {part} · {view}]"


def is_read_answer(text: str) -> bool:
    """Whether a tool result is an answer of `read_artifact` that shows a part of an artifact.

    True only for text that begins with the tool's first line, holds an ID whose check digits are right, and is no
    longer than an answer can be. Failures are sentences; they are short, and are not recognised.
    """
    if len(text) > MAX_CHARS:
        return False
    found = _FIRST.match(text)
    if found is None:
        return False
    try:
        parse(found[1])
    except CoatcheckError:
        return False
    return True
