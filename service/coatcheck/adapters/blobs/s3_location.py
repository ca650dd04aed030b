"""The location of blobs in an S3 store, from one URL, and the names of blobs there.

Names are `<prefix/><namespace>/<yyyymmdd>/<blob ID>`: the day is part of the ID, so no name needs a look-up. No byte of
a user enters a name unencoded, and a URL must contain no secrets, as it is logged and shown: both are refused here.
Makes no request.
"""

import re
from typing import Final, Literal, NamedTuple, cast
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from coatcheck.core.encoding.blob_ids import blob_day, is_blob_id

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
_LONGEST_NAMESPACE: Final = 512
"""Bytes of an encoded namespace: an S3 key has at most 1,024 (S3 User Guide, "Naming objects")."""
_LONGEST_PREFIX: Final = 256


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
    if not 0 < len(encoded) <= _LONGEST_NAMESPACE:
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
    if len(trimmed) > _LONGEST_PREFIX or not all(_SEGMENT.fullmatch(segment) for segment in trimmed.split("/")):
        raise ValueError(
            "The blob URL's prefix must consist of letters, digits, dots, - and _ between slashes, at most "
            f"{_LONGEST_PREFIX} in all."
        )
    return f"{trimmed}/"
