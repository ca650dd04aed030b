r"""What stands in a secret's place: bytes of the same number while text is cut, a marker when it is shown.

Every range, line and character count of a text stays what it was, because a byte is replaced by a byte, a character by
a character and a line's end by itself. The filler is DEL (0x7F), the one byte that is allowed in any text and in a JSON
string, and that texts do not have; its first bytes say which rule found the secret. Whatever is cut, nothing of the
secret is left in either part. `reveal` turns what is shown into markers such as `[redacted: github-pat]`, which say
neither the length nor any part.
"""

import re
from typing import Final

from msgspec import Struct

DEL: Final = "\x7f"
_DEL: Final = b"\x7f"
_OWN: Final = b"?"
"""What a payload's own DEL becomes where secrets are masked: otherwise it would pass for one."""
_SIGNS: Final = "~^!*$+#-"
"""Signs that say which rule: legal in JSON, none of them a letter that a word or a search could mean."""
MOST_RULES: Final = len(_SIGNS) ** 3
_TWO: Final = re.compile(rb"[\xc2-\xdf][\x80-\xbf]")
_THREE: Final = re.compile(rb"[\xe0-\xef][\x80-\xbf]{2}")
_FOUR: Final = re.compile(rb"[\xf0-\xf4][\x80-\xbf]{3}")
_WIDE: Final = ((_TWO, b"\xc2\x9f"), (_THREE, b"\xee\x80\x80"), (_FOUR, b"\xf3\xb0\x80\x80"))
"""What longer characters become: controls and private characters that only follow a DEL here."""
_KEPT: Final = bytes(byte if byte in b"\r\n" or byte >= 0x80 else 0x7F for byte in range(256))  # noqa: PLR2004 - ASCII
_FILL: Final = "\x7f\x9f\ue000\U000f0000"
_RUN: Final = re.compile(
    rf"(?:\A[{re.escape(_SIGNS)}]{{1,3}}(?=[{_FILL}]))?"  # the end of a head that was cut
    rf"\x7f(?:([{re.escape(_SIGNS)}]{{3}})(?=[{_FILL}])|[{re.escape(_SIGNS)}]{{1,3}}\Z)?"
    rf"[{_FILL}]*(?:\r?\n(?!\x7f[{re.escape(_SIGNS)}]{{3}}[{_FILL}])[{_FILL}]+)*"
)
_PICTURE: Final = "\u2421"
"""What `inert` makes of DEL."""
_PICTURES: Final = re.compile(
    rf"(?:\A[{re.escape(_SIGNS)}]{{1,3}}(?={_PICTURE}))?"
    rf"{_PICTURE}(?:([{re.escape(_SIGNS)}]{{3}})(?={_PICTURE})|(?={_PICTURE}))"
    rf"{_PICTURE}*(?:\r?\n(?!{_PICTURE}[{re.escape(_SIGNS)}]{{3}}{_PICTURE}){_PICTURE}+)*"
)
"""A single one is the payload's own."""
_BRIEF: Final = "•"
"""One token, for where a marker does not fit."""


class SecretRange(Struct, frozen=True, order=True):
    """A range of bytes that is not to be shown, and the number of the rule that found it."""

    start: int
    end: int
    rule: int


def merged(found: list[SecretRange]) -> list[SecretRange]:
    """In order, without overlaps: what overlaps or touches is one, named by the longest part of it."""
    out: list[SecretRange] = []
    longest = 0
    for each in sorted(found):
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
    """`data` with fillers in place of secrets, which count from `base` bytes before it and may reach beyond it.

    In what is no `text`, other DEL bytes stay.
    """
    if text and _DEL in data:
        data = data.replace(_DEL, _OWN)
    if not secrets:
        return data
    out = bytearray(data)
    for each in secrets:
        start, end = max(0, each.start - base), min(len(data), each.end - base)
        if start < end:
            cut = start + base - each.start
            out[start:end] = _filler(data[start:end], each.rule, cut)
    return bytes(out)


def _filler(secret: bytes, rule: int, cut: int) -> bytes:
    """The filler of a secret, or of what is left of it behind its first `cut` bytes."""
    for wide, one in _WIDE:
        secret = wide.sub(one, secret) if not secret.isascii() else secret
    made = secret.translate(_KEPT)
    head = (DEL + _signs(rule) + DEL).encode()[cut:]
    return head + made[len(head) :] if head and made.startswith(_DEL * len(head)) else made


def _signs(rule: int) -> str:
    base = len(_SIGNS)
    return _SIGNS[rule // base // base % base] + _SIGNS[rule // base % base] + _SIGNS[rule % base]


def rule_of(signs: str) -> int:
    """The number that three signs say."""
    base = len(_SIGNS)
    return sum(_SIGNS.index(sign) * base**power for power, sign in enumerate(reversed(signs)))


def marker(name: str) -> str:
    """What is shown in place of a secret; it has the same form for every secret of a rule."""
    return f"[redacted: {name}]" if name else "[redacted]"


def reveal(text: str, names: tuple[str, ...], *, brief: bool = False) -> str:
    """`text` with markers in place of fillers; `brief` ones are a single sign."""
    if DEL not in text and _PICTURE not in text:
        return text

    def named(found: re.Match[str]) -> str:
        if brief:
            return _BRIEF
        number = rule_of(found.group(1)) if found.group(1) else len(names)
        return marker(names[number] if number < len(names) else "")

    text = _RUN.sub(named, text) if DEL in text else text
    return _PICTURES.sub(named, text) if _PICTURE in text else text


def rules_in(data: bytes) -> list[int]:
    """The numbers of the rules whose secrets are masked in `data`, one for each that has room to say so."""
    heads = re.findall(rb"\x7f([" + re.escape(_SIGNS).encode() + rb"]{3})(?=\x7f)", data) if _DEL in data else []
    return [rule_of(head.decode()) for head in heads]
