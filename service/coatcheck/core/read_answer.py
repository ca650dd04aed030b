"""The declared tool's answers: how a first line is written and recognised, and the bounds that all reads share.

An answer of the tool is text that was requested, piece by piece; it must not become a card again, or reading that would
give another card, and so on forever. So an answer's first line has a form that nothing else of the service has, and so
do the lines of a list; `is_read_answer` recognises both. A payload that imitates one gains nothing but to be left as it
is, up to the size of an answer.
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
"""Characters of an artifact's name that the first line shows."""

_FIRST_LINE: Final = re.compile(
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
    match = _FIRST_LINE.match(text) if len(text) <= MAX_CHARS else None
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


MAX_TOKENS = 8_000
"""Largest budget of a read, in tokens."""
DEFAULT_TOKENS = 4_000
"""Budget of a read that names none: half the largest, so that a page and its neighbour fit one turn."""
MAX_ARGUMENT_CHARS = 30_000
"""With 8,000 tokens, below the sizes at which agents' hosts cut a tool result again."""
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
        "path, as `art_…%23r1`. Lines, characters and bytes still count in the whole view; an "
        "offset before the section starts at its beginning.",
        examples=["r1"],
    ),
]


def text_budget(least: int) -> Meta:
    """Returns bounds for the token budget of `text`, from `least` to MAX_TOKENS."""
    return Meta(ge=least, le=MAX_TOKENS, description="Maximum tokens of `text`; at most 30,000 characters in any case.")


class SearchedBytes(Struct, frozen=True):
    """How much of the view or section was looked at, from its beginning on."""

    bytes: int
    total: int


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
    is_opened = spec.text_view == "document" or not artifact.measure.utf8
    return artifact.facts.form is None and not spec.readable and is_opened


def is_plain(facts: DetectedMetadata) -> bool:
    """Returns whether a payload is readable as it is: its text view is the payload itself."""
    return facts.form is None and has_plain_view(facts.kind)


def has_plain_view(kind: Kind) -> bool:
    """Returns whether the text view of a payload of this kind is its text, without anything done to it."""
    spec = spec_of(kind)
    return spec.readable and spec.text_view in AS_IS


class ViewInputs(Struct, frozen=True):
    """An extractor's inputs. Others may give another view."""

    kind: Kind
    media_type: str | None
    form: PayloadForm | None
    source: str | None
    """The payload's URL; for plain text its title, if that is a file's name, which tells what it is."""


def view_inputs(declared: DeclaredMetadata, facts: DetectedMetadata) -> ViewInputs:
    """Returns an extractor's inputs for a payload with this declared and detected metadata."""
    title = declared.title or ""
    has_file_name = has_plain_view(facts.kind) and "." in title.rpartition("/")[2]
    source = title if has_file_name else declared.url or facts.url
    return ViewInputs(facts.kind, declared.media_type or facts.media_type, facts.form, source)
