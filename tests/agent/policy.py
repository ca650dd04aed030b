"""A scripted agent: one fixed policy that sees only a card and the declared tool's answers, and decides by their text.

No model. It looks for a value that it would know by its form when it sees it, near words that it was told. First it
searches for the words, then it asks for them, then it reads by path if the card says that this is JSON. It copies IDs
and paths from the card, as a model does, and never looks at anything else.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from support.service import Service

MAX_CALLS = 3
MAX_TOKENS = 6_000
_ID = re.compile(r"art_[0-9]{18}")
_TAG = re.compile(r"<[^<>]*>|&nbsp;")
_ARRAY = re.compile(r"^(\$\S*\[\*\]):? ", re.MULTILINE)


@dataclass(frozen=True)
class Question:
    """What the agent wants to know."""

    words: str
    """What the value is called where it stands: searched for as it is."""
    plain: str
    """The question in plain words."""
    form: re.Pattern[str]
    """The value, in its one group, with what stands around it."""
    key: tuple[str, str] | None = None
    """For JSON: a member and its value that tell the record."""


@dataclass
class Walk:
    """What the agent did."""

    value: str | None = None
    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    tokens: list[int] = field(default_factory=list[int])


def ask(service: Service, card: str, question: Question, count: Callable[[str], int]) -> Walk:
    """Find the value, in at most three calls."""
    walk = Walk(value=_seen(card, question))
    found = _ID.search(card)
    assert found is not None
    for arguments in _ways(card, question):
        if walk.value is not None or len(walk.calls) == MAX_CALLS:
            break
        text = service.read(found[0], **arguments)
        walk.calls.append(arguments)
        walk.tokens.append(count(text))
        walk.value = _seen(text, question)
    return walk


def _ways(card: str, question: Question) -> list[dict[str, Any]]:
    arrays = _ARRAY.findall(card)
    ways: list[dict[str, Any]] = [{"pattern": re.escape(question.words)}, {"query": question.plain}]
    if question.key is not None and arrays:
        name, value = question.key
        ways.append({"path": f'{arrays[0].removesuffix("[*]")}[?@.{name}=="{value}"]'})
    return ways


def _seen(text: str, question: Question) -> str | None:
    """The value, if it stands in a text, whatever markup and line ends stand in between."""
    plain = re.sub(r"\s+", " ", _TAG.sub(" ", text))
    found = question.form.search(plain)
    return None if found is None else found[1]
