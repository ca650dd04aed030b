"""Header fields that keep a served payload inert: its file name and its media type.

A payload is untrusted text. It is always offered as a download, is never sniffed, and is sandboxed without scripts in
case a browser shows it after all. The payload itself is not examined.
"""

import re
import unicodedata
from urllib.parse import quote

from coatcheck.core.artifact import Artifact

UNKNOWN_TYPE = "application/octet-stream"
NAME_LIMIT = 120
"""Maximum characters of a file name: below the 255 bytes of common file systems, even in UTF-8."""

_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_MEDIA_TYPE = re.compile(
    rf"{_WORD}/{_WORD}(?:[ \t]*;[ \t]*{_WORD}=(?:{_WORD}|\"(?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t \x21-\x7e])*\"))*"
)
_MEDIA_TYPE_LIMIT = 255
_NOT_PLAIN = re.compile(r"[^0-9A-Za-z ()+,.=@_-]")
_SEPARATORS = re.compile(r"[/\\:*?\"<>|%]")


def content_type(artifact: Artifact) -> str:
    """Returns the declared or detected media type, if it is valid (RFC 9110 section 8.3.1).

    `multipart/byteranges` counts as unknown, because it would be taken for our own framing of ranges.
    """
    media_type = artifact.declared.media_type or artifact.facts.media_type or UNKNOWN_TYPE
    if len(media_type) > _MEDIA_TYPE_LIMIT or not _MEDIA_TYPE.fullmatch(media_type):
        return UNKNOWN_TYPE
    return UNKNOWN_TYPE if media_type.lower().startswith("multipart/byteranges") else media_type


def content_disposition(artifact: Artifact, *, suffix: str = "") -> str:
    """Returns `attachment` with a safe file name (RFC 6266): the title, else the ID, then `suffix`.

    The plain form is ASCII only; if that changes the name, `filename*` (RFC 8187) has the full name.
    """
    name = (file_name(artifact.declared.title or artifact.facts.title) or artifact.id) + suffix
    plain = _NOT_PLAIN.sub("_", name)
    field = f'attachment; filename="{plain}"'
    return field if plain == name else f"{field}; filename*=UTF-8''{quote(name, safe='')}"


def file_name(title: str | None) -> str:
    """Returns a title as a file name: no separators, controls, invisible or bidirectional characters, no leading dot.

    Empty if nothing is left.
    """
    if not title:
        return ""
    printable = "".join(c for c in title[: 4 * NAME_LIMIT] if unicodedata.category(c)[0] != "C" or c in "\t\n")
    name = " ".join(_SEPARATORS.sub("_", printable).split())
    return name[:NAME_LIMIT].strip(" .")
