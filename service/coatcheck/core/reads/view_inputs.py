"""An extractor's inputs, on which a payload's text view depends."""

from msgspec import Struct

from coatcheck.core.artifact import DeclaredMetadata, DetectedMetadata, Kind, PayloadForm
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.views.view import AS_IS


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
