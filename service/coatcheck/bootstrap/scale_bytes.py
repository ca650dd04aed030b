"""The location of the bytes of a store on PostgreSQL: a bucket or a shared directory, after checking whose it is."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from coatcheck.adapters.blobs.files import FileBlobStore
from coatcheck.adapters.blobs.multi_store import SwitchedBlobStore
from coatcheck.adapters.blobs.s3 import S3BlobStore
from coatcheck.bootstrap.embedded import explain_opening_errors
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.blobs import BlobStore
from coatcheck.runtime.pool import in_pool
from coatcheck.settings import Settings
from coatcheck.upkeep.store_binding import StoreBinding


async def open_bytes(
    settings: Settings, pool: ThreadPoolExecutor, readers: ThreadPoolExecutor, binding: StoreBinding, *, make: bool
) -> tuple[BlobStore, list[str]]:
    """Returns the location in the settings, with earlier files if there are any; and what should be known about it.

    Raises:
        CoatcheckError: `invalid_request` for an invalid URL and for a location of another database;
            `storage_unavailable`.
    """
    if not settings.blob_url:
        await _refuse_without_bucket(binding)
        files = await in_pool(pool, _files, Path(settings.data), pool, readers, make=make)
        await binding(files)
        return files, []
    try:
        bucket = S3BlobStore.open(settings.blob_url)
    except ValueError as error:
        raise CoatcheckError(Code.INVALID_REQUEST, f"COATCHECK_BLOB_URL: {error}") from error
    await bucket.reaches()
    await binding(bucket)
    before = await in_pool(pool, _files, Path(settings.data), pool, readers, make=False)
    if await binding.holds(before):
        return SwitchedBlobStore(bucket, before), []
    return bucket, await _warn_of_files(binding, settings.data)


async def _refuse_without_bucket(binding: StoreBinding) -> None:
    """Refuses a missing setting, which would put new bytes into an unshared directory that may go with a container."""
    if await binding.bound("s3"):
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            "This database keeps its bytes in an S3-compatible store, but COATCHECK_BLOB_URL is not set. Set it; "
            "files from before are still read from COATCHECK_DATA.",
        )


async def _warn_of_files(binding: StoreBinding, data: str) -> list[str]:
    warning = (
        f"This database has kept bytes as files, and {Path(data)} is not the directory that has them: what is still in "
        "files cannot be read or removed. Name that directory with COATCHECK_DATA, beside COATCHECK_BLOB_URL."
    )
    return [warning] if await binding.bound("file") else []


def _files(root: Path, pool: ThreadPoolExecutor, readers: ThreadPoolExecutor, *, make: bool) -> FileBlobStore:
    with explain_opening_errors(root):
        if make:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        return FileBlobStore(root, pool, make=make, readers=readers)
