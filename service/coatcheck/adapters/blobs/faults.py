"""Translates system errors of storage to the errors that callers see."""

import errno

from coatcheck.core.errors import CoatcheckError, Code

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def storage_error(error: OSError) -> CoatcheckError:
    """Returns `storage_full` if there is no room for more bytes, otherwise `storage_unavailable`."""
    if error.errno in _FULL:
        return CoatcheckError(
            Code.STORAGE_FULL,
            "The disk or its quota is full; nothing was stored. Free space, then send the payload again.",
        )
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    return CoatcheckError(
        Code.STORAGE_UNAVAILABLE,
        f"The blob store failed with {name}; the call had no effect. Retry the same call.",
    )


def missing(blob_id: str) -> CoatcheckError:
    """Returns the error for a row whose bytes do not exist."""
    return CoatcheckError(
        Code.INTEGRITY,
        f"Stored bytes are missing (blob {blob_id}). Run the tool again, or restore them from a backup.",
    )


def too_short(blob_id: str, expected_size: int, actual_size: int) -> CoatcheckError:
    """Returns the error for a blob that is shorter than its row says."""
    return CoatcheckError(
        Code.INTEGRITY,
        f"Stored bytes are cut off (blob {blob_id}: {actual_size} bytes where {expected_size} were expected). "
        "Run the tool again, or restore them from a backup.",
    )
