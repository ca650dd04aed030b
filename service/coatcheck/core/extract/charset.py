"""Decodes a page's bytes: as UTF-8 if valid, else as the header or the page declares, else by detection."""

import codecs
import re
from typing import Any, Final, cast

_BOMS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_HEADER: Final = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_META: Final = re.compile(
    rb"(?:<meta[^>]{0,200}?charset\s*=\s*[\"']?|<\?xml[^>]{0,80}?encoding\s*=\s*[\"'])([A-Za-z0-9_:.-]{1,40})",
    re.IGNORECASE,
)
_META_BYTES: Final = 4 * 1024
_DETECTED: Final = 32 * 1024
"""Bytes outside ASCII, with their surroundings, that detection uses."""
_WRONG: Final = 0.02
"""Share of undecodable characters above which a declared encoding is considered wrong."""
_LATIN: Final = {
    "iso-8859-1": "cp1252",
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
}
"""What browsers understand by these names (WHATWG Encoding, section 4.2)."""


def decoded(data: bytes, media_type: str | None) -> str:
    """Returns the text of a page; undecodable bytes are replaced, NUL is dropped. Never raises."""
    for bom, name in _BOMS:
        if data.startswith(bom):
            return _clean(data[len(bom) :].decode(name, "replace"))
    try:
        return _clean(data.decode())
    except UnicodeDecodeError as error:
        if error.end - error.start < 4 and error.start >= len(data) - 4:  # noqa: PLR2004 - cut inside a character
            return _clean(data.decode("utf-8", "replace"))
    for name in _declared(data, media_type):
        text = _try(data, name)
        if text is not None:
            return _clean(text)
    replaced = data.decode("utf-8", "replace")
    if replaced.count("\ufffd") <= _WRONG * len(replaced):
        return _clean(replaced)
    return _clean(_try(data, _looks_like(data)) or replaced)


def _declared(data: bytes, media_type: str | None) -> list[str]:
    header = _HEADER.search(media_type[:300]) if media_type else None
    meta = _META.search(data, 0, _META_BYTES)
    names = [header.group(1) if header else "", meta.group(1).decode("ascii") if meta else ""]
    known: list[str] = []
    for name in names:
        try:
            known.append(codecs.lookup(name).name)
        except LookupError:
            continue
    return [_LATIN.get(name, name) for name in known if name != "utf-8"]


def _try(data: bytes, name: str) -> str | None:
    """Returns the text in an encoding; None if it does not fit, or is not an encoding of text."""
    try:
        text = data.decode(name, "replace")
    except (LookupError, ValueError, AssertionError):  # not an encoding of text
        return None
    return text if text.count("\ufffd") <= _WRONG * len(text) else None


def _looks_like(data: bytes) -> str:
    from charset_normalizer import from_bytes  # noqa: PLC0415 - 20 ms that almost no page needs

    first = re.search(rb"[\x80-\xff]", data)
    at = max(0, first.start() - 200 if first else 0)
    best = cast("Any", from_bytes)(data[at : at + _DETECTED], enable_fallback=True).best()
    return str(best.encoding) if best is not None else "cp1252"


def _clean(text: str) -> str:
    if "\x00" in text:
        text = text.replace("\x00", "")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
