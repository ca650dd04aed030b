"""Bounds that all ways of reading an artifact as text share: budget, and whether it is text at all."""

from typing import Literal

from coatcheck.core.artifact import Artifact, Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.media.documents import is_document

MAX_TOKENS = 8_000
DEFAULT_TOKENS = 4_000
MAX_ARGUMENT_CHARS = 30_000
"""With 8,000 tokens, below the sizes at which agents' hosts cut a tool result again."""
ViewName = Literal["raw", "text"]


def check_budget(max_tokens: int, least: int) -> None:
    """Refuses a token budget out of bounds."""
    if not least <= max_tokens <= MAX_TOKENS:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"max_tokens must be {least} to {MAX_TOKENS}; read the rest in a further call.",
            parameter="max_tokens",
        )


def text_instead(artifact: Artifact) -> str:
    """Returns how a refusal to read a document's bytes as text begins, as it may have a text view."""
    return "Use view=text for the text of what is in it. " if is_document(artifact.facts.media_type) else ""


def opens_document(kind: Kind) -> bool:
    """Returns whether a payload of this kind may be a document, which has to be opened to be read."""
    return spec_of(kind).text_view == "document"


def is_binary(artifact: Artifact) -> bool:
    """Returns whether the payload cannot be read as text. An SVG image can."""
    spec = spec_of(artifact.facts.kind)
    return (
        artifact.facts.form is None
        and not spec.readable
        and (spec.text_view == "document" or not artifact.measure.utf8)
    )
