"""Replaces secrets: by fillers of the same length while a text is processed, by markers when it is shown.

Ranges, line counts and character counts stay the same, because each byte becomes one byte and each character one
character, and line ends stay. The filler is DEL (0x7F), which is valid in any text and in a JSON string, and which
texts do not contain. The first bytes of a filler encode the rule that found the secret. However the text is cut, no
part contains anything of the secret. `reveal` turns fillers into markers such as `[redacted: github-pat]`, which give
away neither the length nor any part of the secret.

Private keys are found here as well, by their lines: from BEGIN to END, or, if one of these is cut off, as far as lines
of a key go. They are also found on one line with escaped line feeds, as in JSON and environment files.
"""

import re
from typing import Final

from msgspec import Struct

DEL: Final = "\x7f"
_DEL: Final = b"\x7f"
_OWN: Final = b"?"
"""Replaces DEL characters of the payload itself, which would otherwise look like fillers."""
_SIGNS: Final = "~^!*$+#-"
"""Characters that encode the rule's number: they are valid in JSON, and no word or search contains them."""

_TWO: Final = re.compile(rb"[\xc2-\xdf][\x80-\xbf]")
_THREE: Final = re.compile(rb"[\xe0-\xef][\x80-\xbf]{2}")
_FOUR: Final = re.compile(rb"[\xf0-\xf4][\x80-\xbf]{3}")
_WIDE: Final = ((_TWO, b"\xc2\x9f"), (_THREE, b"\xee\x80\x80"), (_FOUR, b"\xf3\xb0\x80\x80"))
"""Replacements for characters of two, three and four bytes: controls and private-use characters, only after a DEL."""
_KEPT: Final = bytes(byte if byte in b"\r\n" or byte >= 0x80 else 0x7F for byte in range(256))  # noqa: PLR2004 - ASCII
_RETURN: Final = re.compile(rb"\r(?!\n)")
"""Matches a carriage return that ends no line. If it stayed, a filler would look overwritten."""
_FILL: Final = "\x7f\x9f\ue000\U000f0000"
_RUN: Final = re.compile(
    rf"(?:\A[{re.escape(_SIGNS)}]{{1,3}}(?=[{_FILL}]))?"  # the end of a filler that was cut
    rf"\x7f(?:([{re.escape(_SIGNS)}]{{3}})(?=[{_FILL}])|[{re.escape(_SIGNS)}]{{1,3}}\Z)?"
    rf"[{_FILL}]*(?:\r?\n(?!\x7f[{re.escape(_SIGNS)}]{{3}}[{_FILL}])[{_FILL}]+)*"
)
PICTURE: Final = "\u2421"
"""Character into which `inert` turns DEL."""
_PICTURES: Final = re.compile(
    rf"(?:\A[{re.escape(_SIGNS)}]{{1,3}}(?={PICTURE}))?"
    rf"{PICTURE}(?:([{re.escape(_SIGNS)}]{{3}})(?={PICTURE})|(?={PICTURE}))"
    rf"{PICTURE}*(?:\r?\n(?!{PICTURE}[{re.escape(_SIGNS)}]{{3}}{PICTURE}){PICTURE}+)*"
)
"""Matches fillers in which `inert` replaced DEL. A single such character belongs to the payload."""
_BRIEF: Final = "•"
"""Marker of one token, used if the full marker does not fit."""


class SecretRange(Struct, frozen=True, order=True):
    """A range of bytes to hide."""

    start: int
    end: int
    rule: int
    """Number of the rule that found it."""


def merge_ranges(ranges: list[SecretRange]) -> list[SecretRange]:
    """Returns ranges in order, merging those that overlap or touch; a merged range has the rule of its longest part."""
    out: list[SecretRange] = []
    longest = 0
    for each in sorted(ranges):
        size = each.end - each.start
        if out and each.start <= out[-1].end:
            last = out[-1]
            rule = each.rule if size >= longest else last.rule
            longest = max(size, longest)
            out[-1] = SecretRange(last.start, max(last.end, each.end), rule)
        else:
            out.append(each)
            longest = size
    return out


def fill(data: bytes, secrets: list[SecretRange], base: int = 0, *, text: bool = True) -> bytes:
    """Returns `data` with fillers in place of secrets.

    The positions of secrets count from `base` bytes before `data`, and may extend beyond `data`. With `text`, DEL bytes
    of the data itself are replaced.
    """
    if text and _DEL in data:
        data = data.replace(_DEL, _OWN)
    if not secrets:
        return data
    out = bytearray(data)
    for each in secrets:
        start, end = max(0, each.start - base), min(len(data), each.end - base)
        if start < end:
            offset = start + base - each.start
            out[start:end] = _filler(data[start:end], each.rule, offset)
    return bytes(out)


def _filler(secret: bytes, rule: int, offset: int) -> bytes:
    """Returns the filler of a secret, of which `secret` is the part after the first `offset` bytes."""
    for wide, one in _WIDE:
        secret = wide.sub(one, secret) if not secret.isascii() else secret
    filling = _RETURN.sub(_DEL, secret).translate(_KEPT)
    head = (DEL + _signs(rule) + DEL).encode()[offset:]
    return head + filling[len(head) :] if head and filling.startswith(_DEL * len(head)) else filling


def _signs(rule: int) -> str:
    base = len(_SIGNS)
    return _SIGNS[rule // base // base % base] + _SIGNS[rule // base % base] + _SIGNS[rule % base]


def rule_of(signs: str) -> int:
    """Returns the number of the rule that three characters encode."""
    base = len(_SIGNS)
    return sum(_SIGNS.index(sign) * base**power for power, sign in enumerate(reversed(signs)))


def marker(name: str) -> str:
    """Returns the marker that is shown in place of a secret: it is the same for every secret of a rule."""
    return f"[redacted: {name}]" if name else "[redacted]"


def reveal(text: str, names: tuple[str, ...], *, brief: bool = False) -> str:
    """Returns `text` with markers in place of fillers; `brief` markers have one character."""
    if DEL not in text and PICTURE not in text:
        return text

    def marker_for(match: re.Match[str]) -> str:
        if brief:
            return _BRIEF
        number = rule_of(match.group(1)) if match.group(1) else len(names)
        return marker(names[number] if number < len(names) else "")

    text = _RUN.sub(marker_for, text) if DEL in text else text
    return _PICTURES.sub(marker_for, text) if PICTURE in text else text


def rules_in(data: bytes) -> list[int]:
    """Returns the rule number of each secret masked in `data`, if its filler is long enough to have one."""
    heads = re.findall(rb"\x7f([" + re.escape(_SIGNS).encode() + rb"]{3})(?=\x7f)", data) if _DEL in data else []
    return [rule_of(head.decode()) for head in heads]


LONGEST: Final = 64 * 1024
"""Maximum bytes of a key with its BEGIN and END lines; an RSA key of 16,384 bits takes 13,000."""
_BEGIN: Final = re.compile(rb"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----")
_END: Final = re.compile(rb"-----END[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----")
_GAP: Final = rb"(?:[\s>|#*\"'+,]|\\+[nrt])"
_BODY: Final = re.compile(
    rb"(?:"
    + _GAP
    + rb"{0,64}(?:[A-Za-z0-9+/=]{16,}|(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset):[^\r\n\\]{0,200}))*"
    rb"(?:" + _GAP + rb"{0,64}[A-Za-z0-9+/]{1,76}={0,2}(?![A-Za-z0-9 ]))?"
)
_BACK: Final = re.compile(
    rb"(?:(?:[nrt]\\+|[\s>|#*\"'+,]){1,64}[A-Za-z0-9+/=]{16,}+)*(?:(?:[nrt]\\+|[\s>|#*\"'+,]){1,64}[A-Za-z0-9+/=]{0,76})?"
)
"""Matches the lines of a key before END, in reversed bytes."""
_SHORTEST: Final = 24
"""Minimum bytes of a key between BEGIN and END; a shorter text only mentions a key."""


def keys(data: bytes, rule: int, *, begins: bool = True, ends: bool = True) -> list[SecretRange]:
    """Returns the private keys in `data`.

    `begins` and `ends` say whether the whole text begins and ends with `data`; if not, a key may be cut off there.
    """
    if b"PRIVATE KEY" not in data:
        return []
    out: list[SecretRange] = []
    at = 0
    while (begin := _BEGIN.search(data, at)) is not None:
        limit = begin.end() + LONGEST
        end = _END.search(data, begin.end(), limit)
        other = _BEGIN.search(data, begin.end(), limit)
        if end is not None and (other is None or other.start() > end.start()):
            body_end, stop = end.span()
        else:  # END is cut off: the key extends as far as its lines do
            body = _BODY.match(data, begin.end(), limit)
            body_end = stop = begin.end() if body is None else body.end()
        at = max(begin.end(), stop)
        if body_end - begin.end() >= _SHORTEST or (stop == len(data) and not ends):
            out.append(SecretRange(begin.start(), stop, rule))
    first = _END.search(data)
    if first is not None and not begins and (not out or first.start() < out[0].start):
        back = _BACK.match(data[max(0, first.start() - LONGEST) : first.start()][::-1])
        out.append(SecretRange(first.start() - (back.end() if back is not None else 0), first.end(), rule))
    return out
