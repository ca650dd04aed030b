"""Bounds that every way of reading an artifact as text shares: budget, view, section, and whether it is text at all."""

from coatcheck.core.artifact import Artifact, Kind
from coatcheck.core.errors import CoatcheckError, Code

MAX_TOKENS = 8_000
DEFAULT_TOKENS = 4_000
MAX_CHARS = 30_000
"""With 8,000 tokens, below the sizes at which agents' hosts cut a tool result again."""
_SAME_AS_RAW = frozenset({Kind.COMMAND_OUTPUT, Kind.LOG, Kind.CODE_OR_FILE, Kind.DIFF, Kind.TABLE, Kind.TEXT})


def check_budget(max_tokens: int, least: int) -> None:
    """Refuse a token budget outside its bounds, whatever its length."""
    if not least <= max_tokens <= MAX_TOKENS:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"max_tokens must be {least} to {MAX_TOKENS}; read the rest in a further call.",
            parameter="max_tokens",
        )


def check_view(artifact: Artifact, view: str, section: str | None) -> None:
    """Refuse views and sections that the artifact does not have."""
    if section is not None:
        raise CoatcheckError(
            Code.SECTION_NOT_FOUND, f"{artifact.id} has no such section. Read it without `section`, by lines."
        )
    if view != "raw" and not (view == "text" and artifact.facts.kind in _SAME_AS_RAW):
        raise CoatcheckError(
            Code.VIEW_NOT_AVAILABLE, f"{artifact.id} has no such view. Use view=raw, which is the exact payload."
        )


def is_binary(artifact: Artifact) -> bool:
    """Whether the payload cannot be read as text. An SVG image can."""
    kind = artifact.facts.kind
    return kind is Kind.BINARY or (kind is Kind.IMAGE and not artifact.measure.utf8)
