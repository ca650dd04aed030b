"""Checks of names, IDs, labels and URLs: what decides something is refused if it is malformed."""

from collections.abc import Mapping
from typing import Any

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.metadata_bounds import adjust_metadata
from coatcheck.storing.ingest_request import Notice
from coatcheck_client.contract.identifiers import CONTROL


def plain(value: str | None, name: str) -> str | None:
    """Returns a text unchanged if it has neither control characters nor line separators.

    Raises:
        CoatcheckError: `invalid_request`.
    """
    if value is not None and (match := CONTROL.search(value)):
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"'{name}' contains a control character (U+{ord(match[0]):04X}) at position {match.start()}.",
            field=name,
        )
    return value


def check_labels(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Returns labels without duplicates, in the given order; refuses control characters."""
    for label in labels:
        plain(label, "labels")
    return tuple(dict.fromkeys(labels))


def describe(metadata: Mapping[str, object]) -> tuple[dict[str, Any], tuple[Notice, ...]]:
    """Returns metadata that only describes a payload, within its bounds, and a warning if any of it was changed."""
    adjusted, changes = adjust_metadata(metadata)
    return adjusted, (Notice("metadata_adjusted", f"{'; '.join(changes)}."),) if changes else ()
