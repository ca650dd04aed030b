"""Routes each blob to the store that its placement names. No other store is tried.

An installation may switch from files to S3 while it has blobs in files. If the service is not configured with the store
of a blob, it cannot find out whether the blob's bytes exist. Such a blob is neither marked corrupt nor removed.
"""

from coatcheck.core.artifact import Placement
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.blobs import BlobStore

_NAMES = {
    "file": "files in a data directory (COATCHECK_DATA)",
    "s3": "objects in an S3-compatible store (COATCHECK_BLOB_URL)",
}


def all_stores(blobs: BlobStore) -> tuple[BlobStore, ...]:
    """Returns every open store. New blobs go to the first one."""
    return (blobs, *blobs.others)


def store_of(blobs: BlobStore, placement: Placement) -> BlobStore | None:
    """Returns the open store of a placement other than `inline`; None if the service is not configured with it."""
    if placement == blobs.placement:
        return blobs
    return next((other for other in blobs.others if other.placement == placement), None)


def not_opened(blobs: BlobStore, placement: Placement) -> CoatcheckError:
    """Returns the error for a blob in a store with which the service is not configured. Its bytes may be intact."""
    store_names = " and ".join(_NAMES[store.placement] for store in all_stores(blobs))
    return CoatcheckError(
        Code.STORAGE_UNAVAILABLE,
        f"The stored bytes are {_NAMES[placement]}, but the service is configured with {store_names} only. Nothing is "
        "lost: an operator must configure that store again.",
    )
