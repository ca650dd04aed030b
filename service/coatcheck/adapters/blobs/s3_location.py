"""The location of blobs in an S3 store, which one URL states; the names of blobs there; and the errors of the store.

Names are `<prefix/><namespace>/<yyyymmdd>/<blob ID>`. The day is part of the blob ID, so a name follows from namespace
and ID without a look-up. Every byte of a namespace that might be unsafe in a name is encoded. A URL with credentials is
refused, because URLs are logged and shown. The client library distinguishes errors by type and, beyond that, only by
their texts; no other module parses these texts.
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
"""Maximum bytes of an encoded namespace. An S3 key has at most 1,024 bytes (S3 User Guide, "Naming objects")."""
_MAX_PREFIX_CHARS: Final = 256
"""Maximum characters of a prefix. With a namespace of 512 bytes, a day and an ID, a key then has less than the 1,024
bytes that S3 allows."""


class S3Location(Struct, frozen=True, kw_only=True):
    """A bucket, the way to reach it, and the prefix of all names of blobs."""

    bucket: str
    prefix: str = ""
    """The beginning of all names of blobs; empty, or ends in a slash."""
    endpoint: str | None = None
    """Scheme and host of the store, without a path. None: AWS_ENDPOINT_URL, or Amazon's own endpoint for the region."""
    region: str | None = None
    """The region of the bucket. None: AWS_REGION, or us-east-1."""
    addressing: Addressing = "virtual"
    """Whether a URL has the bucket as the first part of its path (`path`) or of its host name (`virtual`)."""
    checksum: Checksum = "sha256"
    """The checksum that is sent with every upload, for the store to verify and keep. The signed SHA-256 of each request
    is sent in addition."""
    encryption: str | None = None
    """The server-side encryption that each upload requests. None: the bucket's own rule applies."""
    kms_key: str | None = None
    """The ID of the key for the encryption `aws:kms`. None: the store's default key."""

    def name(self, namespace: str, blob_id: str) -> str:
        """Returns a blob's name. Raises ValueError for an invalid namespace or blob ID."""
        return f"{self.prefix}{encode_namespace(namespace)}/{blob_day(blob_id)}/{blob_id}"

    def parse(self, name: str) -> "NamespaceAndId | None":
        """Returns the blob that a name stands for; None if `name` never returns this name."""
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

    The options are:
    - `endpoint`: the URL of a store other than Amazon's. Unencrypted http is only used if this URL says so.
    - `region`: the region of the bucket.
    - `addressing`: `path` or `virtual`. The default is `virtual` at Amazon, and `path` at other stores or if the
      bucket's name contains a dot.
    - `checksum`: `sha256`, `crc64nvme` or `none`.
    - `encryption`: `AES256` or `aws:kms`.
    - `kms_key`: the ID of a key, only for `aws:kms`.

    Raises:
        ValueError: the URL is wrong; the text says what is wrong, without repeating the URL.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # its text repeats a part of the URL, which may be a secret
        raise ValueError("The blob URL is not a URL: its host has characters that no host may have.") from None
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
    # If the bucket's name contains a dot, its host name matches no certificate of the form *.host.
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

    Two namespaces never have the same encoding, and no encoding is `.` or `..`.

    Raises:
        ValueError: the namespace is empty, or its encoding has more than 512 bytes.
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
"""The HTTP status Insufficient Storage (RFC 4918), with which some stores answer when they are full."""
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
"""Errors of the client library that an operator can correct: patterns of their texts, each with a sentence that says
what to do. The first pattern has the fixed addresses from which a client without credentials requests the credentials
of its instance or container."""


def status_of(error: BaseException) -> int | None:
    """Returns the HTTP status of the store's answer; None if there was no answer."""
    match = _STATUS.search(str(error))
    return int(match[1]) if match else None


def code_of(error: BaseException) -> str | None:
    """Returns the error code in the store's answer (S3 API, "Error responses"); None if there was none."""
    match = _CODE.search(str(error))
    return match[1] if match else None


def says_absent(error: BaseException) -> bool:
    """Returns whether the store itself says that there is no such object.

    A status of 404 alone does not count, because it is also the answer for a missing bucket, from a wrong endpoint and
    from a proxy. A blob that is believed lost would be marked corrupt.
    """
    return code_of(error) == "NoSuchKey"


def s3_error(error: BaseException) -> CoatcheckError:
    """Returns the error `storage_full` if the store is full, else `storage_unavailable`; its text names a remedy."""
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
