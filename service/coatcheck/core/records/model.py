"""Lists of records: fields by name, each with one value per record, however the payload writes them."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct, field

LONGEST: Final = 4_096
"""Maximum characters of a value that is looked at."""
FIELDS: Final = 100
"""Maximum fields of a list; further ones are left out."""

LINE: Final = "line"
"""The place of records that are lines."""

Column = Sequence[object]
"""The scalars of a field, one per record: text, a number, a truth value; None where a record does not have it."""


class RecordList(Struct):
    """Records of one kind, in the order of the payload."""

    place: str
    """Where they are, as a card says it: a JSONPath, the name of an element, or `row`."""
    size: int
    """Number of records."""
    columns: dict[str, Column] = field(default_factory=dict[str, Column])
    locate: Callable[[int], str] = str
    """Returns where a record is, given its number from 0: a JSONPath or a line."""
    owners: Sequence[tuple["RecordList", int] | None] = ()
    """The record that each one is in; None, or nothing at all, if it is in none."""
    steps: bool = False
    """Whether a field's name is the end of a JSONPath, and begins with a dot."""

    def last_step(self, name: str) -> str:
        """Returns the last part of a field's name: `message` of `failure.message`."""
        return name.rpartition(".")[2].removesuffix("[0]")
