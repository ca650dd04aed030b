"""Text views of archives and databases, taken apart for tests."""

from coatcheck.adapters.extract.documents import extract_document
from coatcheck.adapters.extract.wire import check
from coatcheck.core.views.view import ExtractedText

SECONDS = 30.0


def view_of(payload: bytes, seconds: float = SECONDS) -> ExtractedText:
    """The view, which must be there and sound."""
    found = extract_document(payload, seconds)
    assert found is not None
    check(found, payload)
    return found


def text_of(found: ExtractedText) -> str:
    assert found.text is not None
    return found.text.decode()


def summary(found: ExtractedText) -> list[str]:
    """The lines before the first empty one."""
    return text_of(found).partition("\n\n")[0].splitlines()


def listing(found: ExtractedText) -> list[tuple[str, ...]]:
    """The rows of an archive's list."""
    rows = text_of(found).partition("Bytes\tName\n")[2].partition("\n\n")[0]
    return [tuple(row.split("\t")) for row in rows.splitlines()]


def bodies(found: ExtractedText) -> dict[str, str]:
    """Titles of sections, which must be different, to their texts without the heading and the last line ends."""
    text = found.text or b""
    parts = {each.title: text[each.start : each.end].decode() for each in found.sections}
    assert len(parts) == len(found.sections)
    for title, part in parts.items():
        assert part.startswith(f"## {title}\n")
    return {title: part.partition("\n")[2].rstrip("\n") for title, part in parts.items()}
