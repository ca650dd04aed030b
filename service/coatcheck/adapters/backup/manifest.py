"""What a backup says of itself. It is written last: a directory without it is no backup."""

from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code

MANIFEST = "manifest.json"
DATABASE = "coatcheck.db"
"""The catalogue's file, in a backup as in a data directory."""
FORMAT = 1
"""Of the manifest and the layout beside it: `coatcheck.db` and `blobs/<2 hex>/<id>`."""


class DatabaseFile(Struct, frozen=True, kw_only=True):
    """The copied catalogue."""

    size: int
    sha256: str
    """Of the file, in hexadecimal."""


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was copied, when, and by which release. The rows in the database vouch for the blobs' files."""

    format: int
    release: str
    schema: str
    created_at: datetime
    """The moment that the backup shows, give or take the seconds of its last pass."""
    database: DatabaseFile
    artifacts: int
    blobs: int
    files: int
    file_bytes: int
    lost: tuple[str, ...]
    """Blobs that were marked as lost already and whose bytes are not here."""


def write_manifest(folder: Path, manifest: Manifest) -> Path:
    """Write it; the caller syncs."""
    path = folder / MANIFEST
    path.write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    return path


def read_manifest(folder: Path) -> Manifest:
    """What a directory says of itself.

    Raises:
        CoatcheckError: `invalid_request` when it is no backup, `integrity` when its manifest is damaged.
    """
    try:
        raw = (folder / MANIFEST).read_bytes()
    except OSError as error:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"{folder} is not a complete backup: it has no {MANIFEST} ({error.strerror}). Name a directory that a "
            "finished `coatcheck backup` wrote.",
        ) from error
    try:
        form = msgspec.json.decode(raw, type=dict[str, object]).get("format")
        if isinstance(form, int) and form > FORMAT:
            raise CoatcheckError(
                Code.SCHEMA_OUTDATED,
                f"{folder} was made by a newer release (format {form}). Restore it with that release.",
            )
        return msgspec.json.decode(raw, type=Manifest)
    except msgspec.MsgspecError as error:
        raise CoatcheckError(
            Code.INTEGRITY, f"The {MANIFEST} of {folder} is damaged: {error}. Use another backup."
        ) from error
