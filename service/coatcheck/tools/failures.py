"""Failures as sentences for a model: what happened, and the one thing to do next, in the tool's own terms.

HTTP callers are told codes and parameters that the tool does not have (`unit=byte`, `literal=true`), which would
mislead a model. Nothing is said about an internal error except that it happened.
"""

from typing import Final

from coatcheck.core.artifact import Artifact
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.media.documents import is_document

_PASSING: Final = frozenset(
    {Code.COUNT_PENDING, Code.UPLOAD_FENCED, Code.OVERLOADED, Code.STORAGE_UNAVAILABLE, Code.SCHEMA_OUTDATED}
)
_RETRY: Final = "Retry the same call"
_LITERAL: Final = " To search for the text as it is, use literal=true."
_LENGTH: Final = 1_000
"""Maximum characters of a sentence: patterns and IDs that it repeats come from callers."""
_ELSEWHERE: Final = (
    "{} did not come from an answer. Copy it from the last answer, keep the other arguments the same, or leave "
    "it out to begin again."
)
_OWN_WORDS: Final = (
    ("`read` and `search`", "offset and pattern"),
    (_LITERAL, " Correct it, or put a backslash before each sign that is meant as it is."),
    (", or use view=raw.", "."),
    (" Or use view=raw.", ""),
)
"""What HTTP callers are told, and the tool's equivalent."""
INTERNAL: Final = (
    "Something went wrong in the artifact service; it was logged. Retry the same call once; if it fails again, go on "
    "without this artifact or run the tool again."
)


def sentence(error: CoatcheckError, *, place: str = "offset") -> str:
    """Returns the sentence for an expected failure. `place` is the argument that says where an answer continues."""
    detail = error.detail.strip()
    if error.code is Code.INTERNAL:
        return INTERNAL
    if error.code in _PASSING:
        has_retry_advice = _RETRY.lower() in detail.lower()
        detail = detail if has_retry_advice else f"{detail} {_RETRY} in a few seconds."
    elif error.code is Code.INTEGRITY and "again" not in detail:
        detail = f"{detail} Run the tool again if you need its output."
    elif error.code is Code.INVALID_CURSOR:
        detail = _ELSEWHERE.format(place)
    for theirs, ours in _OWN_WORDS:
        detail = detail.replace(theirs, ours)
    return detail if len(detail) <= _LENGTH else f"{detail[: _LENGTH - 1]}…"


def not_text(artifact: Artifact, path: str | None = None) -> CoatcheckError:
    """Returns the error for binaries, and for a path into a document, which has a text but is not JSON."""
    media_type = artifact.facts.media_type
    if path is not None and is_document(media_type):
        message = (
            f"{artifact.id} is not JSON ({media_type}): path does not apply. Read it with section, pattern or query."
        )
        return CoatcheckError(Code.NOT_TEXT, message)
    what = artifact.declared.media_type or media_type or artifact.facts.kind.value
    return CoatcheckError(
        Code.NOT_TEXT,
        f"{artifact.id} is not text ({what}, {artifact.measure.size:,} bytes), so there are no lines to read. "
        f"A program can fetch its bytes from GET /v1/artifacts/{artifact.id}/content.",
    )


def unknown_tool(name: str, tool_names: tuple[str, ...]) -> CoatcheckError:
    """Returns the error for a call of a tool that is not ours."""
    printable_name = "".join(c if c.isprintable() else "\ufffd" for c in name[:60])
    what = f'There is no tool "{printable_name}" here.' if printable_name.strip() else "The call names no tool."
    return CoatcheckError(Code.INVALID_REQUEST, f"{what} There is {' and '.join(tool_names)}.")
