"""A backup's manifest. It is written last: a directory without one is not a backup."""

from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code

MANIFEST = "manifest.json"
DATABASE = "coatcheck.db"
"""The catalogue's file, in a backup as in a data directory."""
FORMAT = 1
"""Version of the manifest and the layout beside it: `coatcheck.db` and `blobs/<2 hex>/<id>`."""


class DatabaseFile(Struct, frozen=True, kw_only=True):
    """The copied catalogue."""

    size: int
    sha256: str
    """Digest of the file, in hexadecimal."""


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was copied, when, and by which release. The blobs' files are verified by the rows in the database."""

    format: int
    release: str
    schema: str
    created_at: datetime
    """The moment that the backup shows, within the seconds of its last pass."""
    database: DatabaseFile
    artifacts: int
    blobs: int
    files: int
    file_bytes: int
    lost: tuple[str, ...]
    """Blobs that were known to be corrupt, and whose bytes are missing here."""


def write_manifest(folder: Path, manifest: Manifest) -> Path:
    """Writes the manifest; the caller syncs it."""
    path = folder / MANIFEST
    path.write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    return path


def read_manifest(folder: Path) -> Manifest:
    """Returns a directory's manifest.

    Raises:
        CoatcheckError: `invalid_request` if it is not a backup, `integrity` if its manifest is damaged.
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
