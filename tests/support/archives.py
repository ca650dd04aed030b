"""Unpacking archives that we made or whose digest is pinned."""

import tarfile
from pathlib import Path


def unpack(archive: Path, into: Path) -> None:
    """Unpacks a tar file. Pythons before 3.11.4 have no filters, which later ones want to be told."""
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # type: ignore[assignment]
        packed.extractall(into)  # noqa: S202 - no stranger's archive
