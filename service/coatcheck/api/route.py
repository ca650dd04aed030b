"""What the OpenAPI document says of each route beside what its code says: words, answers, examples.

Values only. A handler names its entry in `opt["doc"]`; a route without one does not start.
"""

from typing import Final

from msgspec import Struct

from coatcheck.api import parameters as fields
from coatcheck.core.errors import Code

JSON: Final = "application/json"


class DocumentedAnswer(Struct, frozen=True, kw_only=True):
    """A response that is no problem."""

    status: int
    description: str
    model: type[Struct] | None = None
    """Schema of its JSON; None: see `schema` and `other`."""
    schema: str | None = None
    """Name of a schema that no type stands for."""
    other: tuple[str, ...] = ()
    """Media types of answers that are no JSON: text, or bytes where it is no text type."""
    headers: tuple[str, ...] = ()


class Doc(Struct, frozen=True, kw_only=True):
    """One operation."""

    operation_id: str
    tag: str
    summary: str
    description: str
    query: type[Struct] = fields.EmptyQuery
    headers: tuple[str, ...] = ()
    """Names of shared header parameters."""
    body: tuple[tuple[str, str], ...] = ()
    """Media types and the names of their request schemas."""
    answers: tuple[DocumentedAnswer, ...]
    problems: tuple[Code, ...] = ()


TAGS: Final = {
    "Administration": "Keys, namespaces, and what is decided for all payloads. Needs the scope `admin`.",
    "Artifacts": "Look artifacts up, change how long they are kept, delete them.",
    "Contexts": "What a model is sent: made smaller, measured, accounted for.",
    "Hooks": "What hosts of agents call by themselves after each tool call.",
    "Ingest": "Hand over payloads; get back what the model should read instead.",
    "Reading": "Read further: bytes, parts, matches.",
    "Searching": "Web searches within a budget: what to read of a response, what to persist, what is quoted truly.",
    "Service": "Health and description of the service.",
    "Tools": "The tool that a model reads further with: how to declare it, and what a call of it answers.",
}

BODY = (
    Code.UNSUPPORTED_MEDIA_TYPE,
    Code.UNSUPPORTED_ENCODING,
    Code.CORRUPT_ENCODING,
    Code.DECOMPRESSION_LIMIT,
    Code.INVALID_DIGEST,
    Code.DIGEST_MISMATCH,
    Code.TRUNCATED_BODY,
    Code.BODY_TOO_LARGE,
)
ONE = (Code.INVALID_ARTIFACT_ID, Code.ARTIFACT_NOT_FOUND, Code.ARTIFACT_GONE)
CODED = ("Content-Encoding", "Content-Digest", "Repr-Digest")
