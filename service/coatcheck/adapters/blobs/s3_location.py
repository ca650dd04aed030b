"""The location of blobs in an S3 store, from one URL; the names of blobs there; and what errors of the store mean.

Names are `<prefix/><namespace>/<yyyymmdd>/<blob ID>`: the day is part of the ID, so no name needs a look-up. No byte of
a user enters a name unencoded, and a URL must contain no secrets, as it is logged and shown: both are refused here.
The client library distinguishes errors by type and, beyond that, only by text; only this module parses it.
"""

import re
from typing import Final, Literal, NamedTuple, cast
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from coatcheck.core.encoding.frames import blob_day, is_blob_id
from coatcheck.core.errors import CoatcheckError, Code

Addressing = Literal["path", "virtual"]
Checksum = Literal["sha256", "crc64nvme", "none"]

_OPTIONS: Final = ("endpoint", "region", "addressing", "checksum", "encryption", "kms_key")
_ADDRESSINGS: Final = ("path", "virtual")
_CHECKSUMS: Final = ("sha256", "crc64nvme", "none")
_ENCRYPTIONS: Final = ("AES256", "aws:kms")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_SEGMENT: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]+", re.ASCII)
_HOST: Final = re.compile(r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]", re.ASCII)
_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_ESCAPE: Final = re.compile(r"\.([0-9a-f]{2})", re.ASCII)
_MAX_NAMESPACE_BYTES: Final = 512
"""Bytes of an encoded namespace: an S3 key has at most 1,024 (S3 User Guide, "Naming objects")."""
_MAX_PREFIX_CHARS: Final = 256
"""With a namespace of 512 bytes, a day and an ID, a key stays below the 1,024 bytes that S3 allows."""


class S3Location(Struct, frozen=True, kw_only=True):
    """A bucket, how to reach it, and the prefix of all names."""

    bucket: str
    prefix: str = ""
    """Empty, or ends in a slash."""
    endpoint: str | None = None
    """Scheme and host, without a path. None: that of AWS_ENDPOINT_URL, or Amazon's own for the region."""
    region: str | None = None
    """None: that of AWS_REGION, or us-east-1."""
    addressing: Addressing = "virtual"
    """Whether the bucket is the first part of the path or of the host name."""
    checksum: Checksum = "sha256"
    """Sent with every upload for the store to verify and keep, in addition to the signed SHA-256 of each request."""
    encryption: str | None = None
    """Server-side encryption to request. None: the bucket's own rule."""
    kms_key: str | None = None

    def name(self, namespace: str, blob_id: str) -> str:
        """Returns a blob's name. Raises ValueError for an invalid namespace or blob ID."""
        return f"{self.prefix}{encode_namespace(namespace)}/{blob_day(blob_id)}/{blob_id}"

    def parse(self, name: str) -> "NamespaceAndId | None":
        """Returns the blob that a name stands for; None for every name that we would not have given."""
        if not name.startswith(self.prefix):
            return None
        encoded, _, rest = name[len(self.prefix) :].partition("/")
        blob_id = rest.rpartition("/")[2]
        namespace = _decode_namespace(encoded)
        if namespace is None or not is_blob_id(blob_id):
            return None
        try:
            return NamespaceAndId(namespace, blob_id) if self.name(namespace, blob_id) == name else None
        except ValueError:
            return None


class NamespaceAndId(NamedTuple):
    """A blob ID and its namespace."""

    namespace: str
    blob_id: str


def parse_s3_url(url: str) -> S3Location:
    """Parses `s3://bucket/prefix?option=value&…`.

    Options: `endpoint` (http or https URL of another store than Amazon's; http is accepted only if it is written here),
    `region`, `addressing` (`path` or `virtual`; by default `virtual` at Amazon, `path` elsewhere or for a bucket with a
    dot in its name), `checksum` (`sha256`, `crc64nvme` or `none`), `encryption` (`AES256` or `aws:kms`), `kms_key`.

    Raises:
        ValueError: a sentence that says what is wrong with it, without repeating the URL.
    """
    parts = urlsplit(url)
    if parts.scheme != "s3":
        raise ValueError("The blob URL must begin with s3://.")
    if "@" in parts.netloc:
        raise ValueError(
            "The blob URL must not contain credentials. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead."
        )
    if not _BUCKET.fullmatch(parts.netloc):
        raise ValueError("The blob URL must name a bucket: s3://bucket or s3://bucket/prefix.")
    if parts.fragment:
        raise ValueError("The blob URL must not have a fragment (#).")
    options = _options(parts.query)
    endpoint = _endpoint(options.get("endpoint"))
    encryption = _one_of(options, "encryption", _ENCRYPTIONS, None)
    if "kms_key" in options and encryption != "aws:kms":
        raise ValueError("The blob URL's option kms_key needs encryption=aws:kms.")
    # A bucket with a dot in its name matches no certificate of the form *.host.
    usual = "virtual" if endpoint is None and "." not in parts.netloc else "path"
    addressing = _one_of(options, "addressing", _ADDRESSINGS, usual)
    return S3Location(
        bucket=parts.netloc,
        prefix=_prefix(parts.path),
        endpoint=endpoint,
        region=options.get("region"),
        addressing=cast("Addressing", addressing),
        checksum=cast("Checksum", _one_of(options, "checksum", _CHECKSUMS, "sha256")),
        encryption=encryption,
        kms_key=options.get("kms_key"),
    )


def encode_namespace(namespace: str) -> str:
    """Returns a namespace as one segment of a name: letters, digits, `-` and `_` unchanged, any other byte as `.xx`.

    Two namespaces never have the same encoding, and none is `.` or `..`.

    Raises:
        ValueError: it is empty or longer than an S3 key can hold.
    """
    encoded = "".join(chr(byte) if byte in _PLAIN else f".{byte:02x}" for byte in namespace.encode())
    if not 0 < len(encoded) <= _MAX_NAMESPACE_BYTES:
        raise ValueError("not a namespace that an S3 name can carry")
    return encoded


def _decode_namespace(encoded: str) -> str | None:
    if not encoded.isascii():
        return None
    try:
        return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), encoded).encode("latin-1").decode()
    except UnicodeDecodeError:
        return None


def _options(query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, strict_parsing=True, keep_blank_values=True) if query else []
    except ValueError:
        raise ValueError("The blob URL's options must be name=value, joined by &.") from None
    options: dict[str, str] = {}
    for name, value in pairs:
        if name not in _OPTIONS:
            raise ValueError(f"The blob URL does not take an option {name!r}. Known options: {', '.join(_OPTIONS)}.")
        if name in options:
            raise ValueError(f"The blob URL gives the option {name} twice.")
        if not value:
            raise ValueError(f"The blob URL's option {name} is empty.")
        options[name] = value
    return options


def _one_of(options: dict[str, str], name: str, allowed: tuple[str, ...], default: str | None) -> str | None:
    value = options.get(name, default)
    if value is not None and value not in allowed:
        raise ValueError(f"The blob URL's option {name} must be one of {', '.join(allowed)}.")
    return value


def _endpoint(value: str | None) -> str | None:
    if value is None:
        return None
    wrong = ValueError(
        "The blob URL's endpoint must be http:// or https:// with a host and an optional port, and nothing else."
    )
    parts = urlsplit(value)
    host, _, port = parts.netloc.rpartition(":") if re.search(r":\d+$", parts.netloc) else (parts.netloc, "", "")
    clean = parts.path in {"", "/"} and not parts.query and not parts.fragment
    if parts.scheme not in {"http", "https"} or not clean or not _HOST.fullmatch(host):
        raise wrong
    return f"{parts.scheme}://{host}:{port}" if port else f"{parts.scheme}://{host}"


def _prefix(path: str) -> str:
    trimmed = path.strip("/")
    if not trimmed:
        return ""
    if len(trimmed) > _MAX_PREFIX_CHARS or not all(_SEGMENT.fullmatch(segment) for segment in trimmed.split("/")):
        raise ValueError(
            "The blob URL's prefix must consist of letters, digits, dots, - and _ between slashes, at most "
            f"{_MAX_PREFIX_CHARS} in all."
        )
    return f"{trimmed}/"


_STATUS: Final = re.compile(r"status code: (\d{3})", re.ASCII)
_CODE: Final = re.compile(r"<Code>(\w{1,64})</Code>", re.ASCII)
_FULL_STATUS: Final = 507
"""The HTTP status Insufficient Storage (RFC 4918), by which some stores say that they are full."""
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
