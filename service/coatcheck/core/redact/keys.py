r"""Finds private keys by their lines: from BEGIN to END, or as far as key lines go where either is cut off.

Keys on one line with escaped line feeds, as in JSON and environment files, are found as well.
"""

import re
from typing import Final

from coatcheck.core.redact.filler import SecretRange

LONGEST: Final = 64 * 1024
"""Longest key with its BEGIN and END lines, in bytes; an RSA key of 16,384 bits takes 13,000."""
_BEGIN: Final = re.compile(rb"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----")
_END: Final = re.compile(rb"-----END[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----")
_GAP: Final = rb"(?:[\s>|#*\"'+,]|\\+[nrt])"
_BODY: Final = re.compile(
    rb"(?:"
    + _GAP
    + rb"{0,64}(?:[A-Za-z0-9+/=]{16,}|(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset):[^\r\n\\]{0,200}))*"
    rb"(?:" + _GAP + rb"{0,64}[A-Za-z0-9+/]{1,76}={0,2}(?![A-Za-z0-9 ]))?",
)
_BACK: Final = re.compile(
    rb"(?:(?:[nrt]\\+|[\s>|#*\"'+,]){1,64}[A-Za-z0-9+/=]{16,}+)*(?:(?:[nrt]\\+|[\s>|#*\"'+,]){1,64}[A-Za-z0-9+/=]{0,76})?"
)
"""Matches the lines before an END, read backwards."""
_SHORTEST: Final = 24
"""Shortest body, in bytes; anything shorter only mentions a key."""


def keys(data: bytes, rule: int, *, begins: bool = True, ends: bool = True) -> list[SecretRange]:
    """Returns the private keys in `data`. `begins` and `ends` say whether it starts and stops with the whole text."""
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
        else:  # cut off: as far as lines of a key go
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
