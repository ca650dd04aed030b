"""Which of the opened blob stores has a blob: its placement says so, and is never guessed.

An installation may change from files to S3 while it holds blobs. What the service was not given cannot be asked, which
says nothing of the bytes: they are never condemned and never given up for that.
"""

from coatcheck.core.artifact import Placement
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.blobs import BlobStore

_NAMES = {
    "file": "files in a data directory (COATCHECK_DATA)",
    "s3": "objects in an S3-compatible store (COATCHECK_BLOB_URL)",
}


def all_stores(blobs: BlobStore) -> tuple[BlobStore, ...]:
    """Every opened store; new blobs go to the first."""
    return (blobs, *blobs.others)


def store_of(blobs: BlobStore, placement: Placement) -> BlobStore | None:
    """The opened store of a placement that is not `inline`; None when the service was not given it."""
    if placement == blobs.placement:
        return blobs
    return next((other for other in blobs.others if other.placement == placement), None)


def not_opened(blobs: BlobStore, placement: Placement) -> CoatcheckError:
    """`storage_unavailable`: the bytes may be whole, in a place that the service was not given."""
    opened = " and ".join(_NAMES[store.placement] for store in all_stores(blobs))
    return CoatcheckError(
        Code.STORAGE_UNAVAILABLE,
        f"The stored bytes are {_NAMES[placement]}, but the service is configured with {opened} only. Nothing is "
        "lost: an operator must configure that store again.",
    )
