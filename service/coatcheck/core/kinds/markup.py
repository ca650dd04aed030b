"""Whether a text is a web page, or a piece of one: the elements of HTML, many sorts of them and densely.

A document element at the start is proof. Without one, a few tags prove nothing: documentation, templates and code are
full of them.
"""

import re
from typing import Final

from coatcheck.core.text.scan import Scan

_START: Final = re.compile(
    rb"\A(?:\xef\xbb\xbf)?\s*(?:(?><\?xml[^>]{0,200}>)\s*|(?><!--.{0,4000}?-->)\s*){0,3}<(?:!doctype\s+html|html\b|head\b"
    rb"|body\b)",
    re.IGNORECASE | re.DOTALL,
)
_ELEMENT: Final = re.compile(
    rb"<(/?)(p|div|a|span|li|ul|ol|table|tbody|tr|td|th|h[1-6]|br|img|section|article|nav|header|footer|main|dl|dt|dd"
    rb"|pre|code|strong|em|b|i|hr|form|input|button|label|link|meta|script|style|title|head|body|html|blockquote|figure"
    rb"|aside|svg|path|tt|font|small|sup|center|iframe|select|option)(?=[\s/>])(?:\s[^<>]{0,600})?>",
    re.IGNORECASE,
)
_FENCES: Final = Scan(
    r"^(?:#{1,6} \S|```|\.\. \w|\s*(?:import|export|const|let|function|def|class|return)\b.*[;:{(]?$|\s*\{%)"
)
_LOOK: Final = 16 * 1024
_SORTS: Final = 3
_BRIEF: Final = 1_000
_EACH: Final = 220
"""Bytes for each tag, at most, in a piece of a page."""


def is_page(head: bytes) -> bool:
    """Whether bytes that begin like this are a page."""
    return bool(_START.match(head)) or _dense(head[:_LOOK])


def _dense(head: bytes) -> bool:
    if head.count(b"</") < _SORTS:
        return False
    found = [(match.group(1), match.group(2).lower()) for match in _ELEMENT.finditer(head)]
    sorts = {name for _, name in found}
    if len(sorts) < _SORTS or len(found) < 2 * _SORTS - (len(head) < _BRIEF) or len(found) * _EACH < len(head):
        return False
    if 3 * len(found) < head.count(b"<"):
        return False
    lines = max(1, head.count(b"\n"))
    return not (lines > 4 and _FENCES.share(head, lines, 0.15))  # noqa: PLR2004
