"""Files beside the data in which payloads wait for storage while no process runs."""

from collections.abc import Sequence
from typing import Protocol


class WaitingFiles(Protocol):
    """Files of records, each written whole at the end of a process and read by the next one. All methods block."""

    def save(self, records: Sequence[bytes], limit: int) -> int:
        """Makes records durable in a new file, the last ones if not all have room; returns how many.

        Args:
            records: oldest first.
            limit: bytes that all files together may take.
        """
        ...

    def open_next(self) -> list[int]:
        """Opens a file that no process has open; returns the positions of its records that are not settled.

        Empty: there is none. What cannot be read is reported, and its file set aside when the rest is settled.
        """
        ...

    def read(self, position: int) -> bytes:
        """Returns a record of the open file."""
        ...

    def finish(self, position: int, *, durably: bool) -> None:
        """Marks a record: no process will read it again. `durably`: not even after a power loss."""
        ...

    def set_aside(self) -> None:
        """Keeps the open file, under another name, when it is closed: a record makes no sense."""
        ...

    def close(self, *, is_complete: bool) -> None:
        """Closes the open file and, if all of it is `is_complete`, removes it."""
        ...
