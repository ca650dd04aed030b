"""Bounds that every way of reading an artifact as text shares: budget, and whether it is text at all."""

from typing import Literal

from coatcheck.core.artifact import Artifact, Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.kinds.documents import is_document

MAX_TOKENS = 8_000
DEFAULT_TOKENS = 4_000
MAX_CHARS = 30_000
"""With 8,000 tokens, below the sizes at which agents' hosts cut a tool result again."""
ViewName = Literal["raw", "text"]
_SAME_AS_RAW = frozenset({Kind.COMMAND_OUTPUT, Kind.LOG, Kind.CODE_OR_FILE, Kind.DIFF, Kind.TABLE, Kind.TEXT})


def check_budget(max_tokens: int, least: int) -> None:
    """Refuse a token budget outside its bounds, whatever its length."""
    if not least <= max_tokens <= MAX_TOKENS:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"max_tokens must be {least} to {MAX_TOKENS}; read the rest in a further call.",
            parameter="max_tokens",
        )


def text_instead(artifact: Artifact) -> str:
    """What a refusal to read a payload's bytes as text says first of a document, which may have a text view."""
    return "It is a document: use view=text for its text. " if is_document(artifact.facts.media_type) else ""


def is_plain(kind: Kind) -> bool:
    """Whether a payload of this kind is what a reader reads: its text view is the payload itself."""
    return kind in _SAME_AS_RAW


def is_binary(artifact: Artifact) -> bool:
    """Whether the payload cannot be read as text. An SVG image can."""
    kind = artifact.facts.kind
    return kind is Kind.BINARY or (kind is Kind.IMAGE and not artifact.measure.utf8)
