"""The declared tool's answers: how their first line is written and recognised, and the bounds that all reads share.

An answer of the tool is text that a model requested, piece by piece. Such an answer must not become a card itself, or
reading it would only give another card, and so on forever. So the first line of an answer, and the lines of a list,
have forms that nothing else in the service has, and `is_read_answer` recognises both. A payload that imitates an answer
gains nothing but to be left as it is, up to the size of an answer.
"""

import re
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from coatcheck.core.artifact import Artifact, DeclaredMetadata, DetectedMetadata, Kind, PayloadForm
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.ids import SECTION_LENGTH, is_id
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.media.documents import is_document
from coatcheck.core.views.view import AS_IS
from coatcheck_client.contract.inert import one_line

MAX_CHARS: Final = 30_000
"""Maximum characters of an answer: below the sizes at which agents' hosts cut a tool result again."""
NAME_CHARS: Final = 60
"""Maximum characters of an artifact's name in the first line."""
_PART_CHARS: Final = 400
"""Maximum characters of what the first line says about the part that follows. Chosen, not measured."""

_FIRST_LINE: Final = re.compile(
    r"\[(art_[0-9]{18}) · [^\n]{1,80} · (?:(?:lines|matches|passages|values|outline)"
    rf"[^\n]{{0,{_PART_CHARS}}}|empty)"
    r" · (?:raw|text)\]"
    r"(?=\r?\n|\Z)"
)
_LISTED: Final = re.compile(r"(art_[0-9]{18}) · [a-z_]+ · ")
_LIST_END: Final = re.compile(r"\([0-9]+ artifacts?, newest first\.")


def first_line(artifact_id: str, name: str, part: str, view: str) -> str:
    """Returns the first line of an answer, which states the artifact, its name, the part that follows, and the view."""
    label = one_line(name[: NAME_CHARS * 4]).replace("·", "-")
    if len(label) > NAME_CHARS:
        label = label[: NAME_CHARS - 1] + "…"
    part = part if len(part) <= _PART_CHARS else part[: _PART_CHARS - 1] + "…"
    return f"[{artifact_id} · {label or 'unnamed'} · {part} · {view}]"


class ReadBack(Struct, frozen=True):
    """The content of an answer's first line."""

    artifact_id: str
    described: str
    """The artifact's ID and name, the part and the view, as they are written in the line."""


def read_answer_of(text: str) -> ReadBack | None:
    """Returns the content of the first line of an answer that shows a part of an artifact; None for any other text."""
    match = _FIRST_LINE.match(text) if len(text) <= MAX_CHARS else None
    if match is None or not is_id(match[1]):
        return None
    return ReadBack(match[1], match[0][1:-1])


def is_read_answer(text: str) -> bool:
    """Returns whether a tool result is an answer of `read_artifact` that shows a part, or of `list_artifacts`.

    The text must begin with the tool's first line, or consist of a list's lines. Its IDs must have correct check
    digits, and it must not be longer than MAX_CHARS. Error messages of the tool are short sentences, and are not
    recognised.
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


MAX_TOKENS = 8_000
"""Largest budget of a read, in tokens."""
DEFAULT_TOKENS = 4_000
"""Budget of a read for which none is requested, in tokens. It is half of the largest budget, so that two such reads fit
into one turn."""
MAX_TEXT_CHARS = 30_000
"""Maximum characters of `text` in the answer to a read over HTTP. MAX_CHARS bounds the whole answer of the tool."""
View = Annotated[
    Literal["raw", "text"],
    Meta(
        description="`raw` is the exact payload, `text` its readable form: a page without its markup, minified JSON "
        "indented, plain text unchanged. Default: text if a section is named, otherwise raw.",
        examples=["text"],
    ),
]
Section = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=SECTION_LENGTH,
        description="A named part of the text view, from the card or the outline; it can also be cited in the "
        "path, as `art_…%23r1`. Positions are still those of the whole view. If the offset lies "
        "before the section, reading begins with the section.",
        examples=["r1"],
    ),
]


def text_budget(least: int) -> Meta:
    """Returns bounds for the token budget of `text`, from `least` to MAX_TOKENS."""
    return Meta(ge=least, le=MAX_TOKENS, description="Maximum tokens of `text`; at most 30,000 characters in any case.")


class SearchedBytes(Struct, frozen=True):
    """How much of the view or section was searched, from its beginning on."""

    bytes: int
    total: int


def check_budget(max_tokens: int, least: int) -> None:
    """Raises CoatcheckError `invalid_request` for a token budget that is not from `least` to MAX_TOKENS."""
    if not least <= max_tokens <= MAX_TOKENS:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"max_tokens must be {least} to {MAX_TOKENS}; read the rest in a further call.",
            parameter="max_tokens",
        )


def text_instead(artifact: Artifact) -> str:
    """Returns a sentence that recommends the text view, for the error that a payload's bytes are not text.

    The result is empty if the payload cannot have a text view.
    """
    return "Use view=text to read the text in it. " if is_document(artifact.facts.media_type) else ""


def opens_document(kind: Kind) -> bool:
    """Returns whether a payload of this kind may be a document, which must be opened by an adapter to be read."""
    return spec_of(kind).text_view == "document"


def is_binary(artifact: Artifact) -> bool:
    """Returns whether the payload cannot be read as text; false for an SVG image, whose bytes are text."""
    spec = spec_of(artifact.facts.kind)
    is_opened = spec.text_view == "document" or not artifact.measure.utf8
    return artifact.facts.form is None and not spec.readable and is_opened


def is_plain(facts: DetectedMetadata) -> bool:
    """Returns whether a payload is readable as it is, so that its text view is the payload itself."""
    return facts.form is None and has_plain_view(facts.kind)


def has_plain_view(kind: Kind) -> bool:
    """Returns whether the text view of a payload of this kind is the unchanged text of the payload."""
    spec = spec_of(kind)
    return spec.readable and spec.text_view in AS_IS


class ViewInputs(Struct, frozen=True):
    """An extractor's inputs beside the payload. Different inputs may give a different view."""

    kind: Kind
    media_type: str | None
    form: PayloadForm | None
    source: str | None
    """The payload's URL. For plain text, it is the title if that is a file name, as the name shows the type of a
    file."""


def view_inputs(declared: DeclaredMetadata, facts: DetectedMetadata) -> ViewInputs:
    """Returns an extractor's inputs for a payload with this declared and detected metadata."""
    title = declared.title or ""
    has_file_name = has_plain_view(facts.kind) and "." in title.rpartition("/")[2]
    source = title if has_file_name else declared.url or facts.url
    return ViewInputs(facts.kind, declared.media_type or facts.media_type, facts.form, source)
