"""Translates errors of an S3 store or the network to the errors that callers see.

The S3 client distinguishes its errors by type and, beyond that, only by text; only this module parses it.
"""

import re
from typing import Final

from coatcheck.core.errors import CoatcheckError, Code

_STATUS: Final = re.compile(r"status code: (\d{3})", re.ASCII)
_CODE: Final = re.compile(r"<Code>(\w{1,64})</Code>", re.ASCII)
_FULL_STATUS: Final = 507
_REFUSED: Final = frozenset({401, 403})
_FULL: Final = frozenset(
    {"QuotaExceeded", "InsufficientStorage", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "StorageFull"}
)
_OWN: Final = {
    r"/latest/api/token|/latest/meta-data/|//169\.254\.170\.|//\[fd00:ec2::23\]": (
        "No credentials for the S3 store were found, and no instance role answered. Set AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, or give the service a role."
    ),
    "source: NotPartial|source: MissingEtag": (
        "What answers at the endpoint in COATCHECK_BLOB_URL is no S3 store. Correct the endpoint, or what is in front "
        "of it."
    ),
    "dns error|failed to lookup address": (
        "The S3 store's host name is unknown. Correct the endpoint in COATCHECK_BLOB_URL, or the name server."
    ),
}
"""The client's own errors that have a remedy: patterns of their texts, and what to do. A client without credentials
requests those of an instance or a container at fixed addresses, which name the first of them."""


def status_of(error: BaseException) -> int | None:
    """Returns the HTTP status of the store's answer, or None if there was none."""
    match = _STATUS.search(str(error))
    return int(match[1]) if match else None


def code_of(error: BaseException) -> str | None:
    """Returns the store's own error code (S3 API, "Error responses"), or None if it gave none."""
    match = _CODE.search(str(error))
    return match[1] if match else None


def says_absent(error: BaseException) -> bool:
    """Returns whether the store itself says that there is no such object.

    A bare 404 does not count: a missing bucket, a wrong endpoint or a proxy also answer 404, and a blob that is taken
    for lost is marked corrupt.
    """
    return code_of(error) == "NoSuchKey"


def s3_error(error: BaseException) -> CoatcheckError:
    """Returns `storage_full` if the store has no room for more, otherwise `storage_unavailable`, with a remedy."""
    status, code = status_of(error), code_of(error)
    if status == _FULL_STATUS or code in _FULL:
        return CoatcheckError(
            Code.STORAGE_FULL,
            "The S3 store or its quota is full; nothing was stored. Free space, then send the payload again.",
        )
    return CoatcheckError(Code.STORAGE_UNAVAILABLE, _sentence(error, status, code))


def too_slow(seconds: float) -> CoatcheckError:
    """Returns the error for a store that did not answer in time."""
    return CoatcheckError(
        Code.STORAGE_UNAVAILABLE, f"The S3 store did not answer within {seconds:.0f} seconds. Retry the same call."
    )


def _sentence(error: BaseException, status: int | None, code: str | None) -> str:
    own = next((sentence for pattern, sentence in _OWN.items() if re.search(pattern, str(error))), None)
    if own is not None:
        return own
    if code == "NoSuchBucket":
        return "The S3 bucket does not exist. Create it, or correct the bucket or the endpoint in COATCHECK_BLOB_URL."
    if code == "PermanentRedirect" or (status is None and "incorrectly configured region" in str(error)):
        return "The S3 bucket is in another region. Set region= in COATCHECK_BLOB_URL."
    if status in _REFUSED:
        return (
            f"The S3 store refused the service's credentials ({code or status}). It needs a correct clock, "
            "s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload "
            "on its objects."
        )
    if status is None:
        return "The S3 store could not be reached, or the connection broke. Retry the same call."
    return f"The S3 store answered {status}{f' {code}' if code else ''}. Retry the same call."
