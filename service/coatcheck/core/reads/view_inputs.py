"""What an extractor is told of a payload, on which its text view depends."""

from msgspec import Struct

from coatcheck.core.artifact import DeclaredMetadata, DetectedMetadata, Kind
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.views.view import AS_IS


def is_plain(kind: Kind) -> bool:
    """Returns whether a payload of this kind is what a reader reads: its text view is the payload itself."""
    spec = spec_of(kind)
    return spec.readable and spec.text_view in AS_IS


class ViewInputs(Struct, frozen=True):
    """What an extractor is told of a payload. Other inputs may give another view."""

    kind: Kind
    media_type: str | None
    source: str | None
    """The payload's URL; of plain text its title, where that is a file's name, which tells what it is."""


def view_inputs(said: DeclaredMetadata, facts: DetectedMetadata) -> ViewInputs:
    """Returns what an extractor is told of a payload that was declared and recognised as this."""
    title = said.title or ""
    named = is_plain(facts.kind) and "." in title.rpartition("/")[2]
    source = title if named else said.url or facts.url
    return ViewInputs(facts.kind, said.media_type or facts.media_type, source)
