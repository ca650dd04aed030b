"""Checks of names, IDs, labels and URLs: refuses control characters and drops repeated labels."""

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.text.controls import CONTROL


def plain(value: str | None, name: str) -> str | None:
    """Returns a text unchanged if it has neither control characters nor line separators.

    Raises:
        CoatcheckError: `invalid_request`.
    """
    if value is not None and (found := CONTROL.search(value)):
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"'{name}' contains a control character (U+{ord(found[0]):04X}) at position {found.start()}.",
            field=name,
        )
    return value


def checked_labels(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Returns labels without duplicates, in the given order; refuses control characters."""
    for label in labels:
        plain(label, "labels")
    return tuple(dict.fromkeys(labels))


def plain_fields(source: object, *names: str) -> dict[str, str | None]:
    """Returns the named text attributes of a request after checking each. Raises as `plain` does."""
    return {name: plain(getattr(source, name), name) for name in names}
