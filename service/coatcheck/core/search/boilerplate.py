"""Finds the parts of a page's text that are not about its subject: menus, cookie notices, share buttons, repetitions.

They are found by structure rather than by words, and so in any language: runs of links, runs of short lines without
numbers or ends of sentences, lines that occur in several results or repeatedly in one. Only cookie notices, share
buttons and copyright lines are recognised by a few words. A line with a term of the query counts as boilerplate only if
it is a repetition or a link to a place in the page itself. Code is never boilerplate, and a list after a colon is no
menu. If menus would be nearly the whole text, they are what the page is about and stay. This module only finds
boilerplate; callers remove it.
"""

# ruff: noqa: RUF001 - punctuation of other scripts

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Final

from msgspec import Struct

from coatcheck.core.passages.units import units
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import decode

_LINK: Final = re.compile(r"!?\[([^\]\n]{0,400})\]\([^()\n]{0,2000}(?:\([^()\n]{0,200}\)[^()\n]{0,200})?\)")
_MIN_LINK_LINES: Final = 3
"""Minimum consecutive lines of links that count as a menu."""
_MIN_MENU_LINES: Final = 6
"""Minimum consecutive short lines or lines of links that count as a menu."""
_MENU_COLUMNS: Final = 28
"""Maximum width of a short line in columns; a character of a script without blanks has two."""
_SENTENCE_BLANKS: Final = 4
"""Minimum blanks of a short line that counts as a sentence instead of an entry of a menu. Chosen, not measured."""
_MAX_OUTSIDE_SHARE: Final = 0.25
"""Maximum letters outside the links of a line of links, as a share of the letters inside them."""
_MIN_SHARED_CHARS: Final = 24
"""Minimum characters of a line that counts as a repetition if it occurs in another result."""
_MIN_REPETITIONS: Final = 3
"""Minimum occurrences, in one text or in the results of one site, of a line that counts as boilerplate."""
_MIN_REPEATED_LETTERS: Final = 8
"""Minimum letters and digits of a line that counts as a repetition in one text: rules and bullets repeat in every
list."""
_SIGNS: Final = bytes(code for code in range(128) if not chr(code).isalnum())
_MAX_MENU_SHARE: Final = 0.8
"""Maximum share of a text that can be menus; above this share, the links are what the page is about."""
_MIN_JUDGED_CHARS: Final = 500
"""Minimum characters of a text to which `_MAX_MENU_SHARE` applies."""
_LISTED: Final = re.compile(r"[:：]\s*$")
_ENDS: Final = re.compile(r"[0-9.!?。！？:：;；|`=(){}]|^\s*(?:#|>|\|)")
_COOKIE: Final = re.compile(r"cookie|kuki|куки|クッキー|쿠키", re.IGNORECASE)
_CONSENT: Final = re.compile(
    r"accept|agree|consent|reject|decline|settings|preferences|policy|privacy|akzept|zustimm|einstell|datenschutz|ablehn|"
    r"refus|param[eè]tr|confidential|acepta|rechaz|privacidad|accett|rifiut|aceit|recus|akkoord|weiger|прин[яи]|соглас|"
    r"同意|接受|拒绝|拒絕|隐私|隱私|設定|设置|プライバシー|동의|거부|개인정보",
    re.IGNORECASE,
)
_NOTICE_CHARS: Final = 500
"""Maximum characters of a cookie notice."""
_NETWORK: Final = (
    "facebook|twitter|linkedin|whatsapp|reddit|pinterest|telegram|tumblr|xing|vk|weibo|wechat|line|mastodon|bluesky|"
    "threads|微博|微信|email|e-mail"
)
_SHARE: Final = re.compile(
    rf"\W*(?:(?:{_NETWORK}|x|share|tweet|post|pin|on|to|this|via|copy|link|print|teilen|auf|partager|sur|compartir|en|"
    r"condividi|su|compartilhar|分享到?|シェア|공유|поделиться|в)\W*)+",
    re.IGNORECASE,
)
_NETWORKS: Final = re.compile(rf"(?<!\w)(?:{_NETWORK})(?!\w)", re.IGNORECASE)
_LINKS_CHARS: Final = 120
"""Maximum characters of a line of share buttons, and maximum letters of a line of links in a menu. Chosen, not
measured."""
_RIGHTS: Final = re.compile(
    r"^\W*(?:©|\(c\)|copyright\b).{0,60}\b(?:19|20)\d\d\b|^.{0,80}\ball rights reserved\b", re.IGNORECASE
)
_JUMP: Final = re.compile(r"\W{0,8}\[[^\]\n]{0,80}\]\([^()\s]{0,2000}#[^()\s]{0,400}\)\W{0,8}")
_NOTICE_WORDS: Final = BlockPattern(rf"{_COOKIE.pattern}|©|\(c\)|copyright|all rights|{_NETWORK}", ignore_case=True)
"""Matches words of which every notice contains one. Searching for them is cheaper than matching the patterns."""
_RIGHTS_CHARS: Final = 200
"""Maximum characters of a copyright line. Chosen, not measured."""

Asked = Callable[[bytes, int, int], bool]
"""Returns whether a range of a text contains a term of the query."""
Ranges = list[tuple[int, int]]


class ResultText(Struct, frozen=True):
    """A result's text in UTF-8, and the site that it comes from."""

    data: bytes
    site: str


class _Line(Struct, gc=False):
    """A line of a text, or a sentence of a long line."""

    start: int
    end: int
    flat: str
    code: bool
    drop: bool = False


_START: Final = attrgetter("start")
MayDrop = Callable[[_Line], bool]
"""Returns whether a line contains no term of the query, so that it may be dropped."""


def find_boilerplate(pages: list[ResultText], matches_query: Asked | None = None) -> list[Ranges]:
    """Returns the byte ranges of the boilerplate of each text, disjoint and in order."""
    texts = [_lines(page.data) for page in pages]
    for page, lines in zip(pages, texts, strict=True):

        def may_drop(line: _Line, data: bytes = page.data) -> bool:
            return matches_query is None or not matches_query(data, line.start, line.end)

        _menus(lines, may_drop)
        _notices(page.data, lines, may_drop)
        _repeats(lines)
    # Only this step compares the texts with each other, so it comes last.
    _mark_shared(pages, texts)
    return [_ranges(lines) for lines in texts]


def _lines(data: bytes) -> list[_Line]:
    out: list[_Line] = []
    code = False
    text = data.decode() if data.isascii() else ""
    for start, end in units(data, 0):
        flat = " ".join((text[start:end] if text else decode(data[start:end])).split())
        fence = flat.startswith("```")
        out.append(_Line(start, end, flat, code or fence))
        if fence:
            code ^= flat.count("```") % 2 == 1
    return out


def _menus(lines: list[_Line], may_drop: MayDrop) -> None:
    """Marks menus: runs of lines of links, and of short lines."""
    menu_lines: list[_Line] = []
    for run, announced in _runs(lines):
        links = sum(kind == "links" for _, kind in run)
        if not announced and (links >= _MIN_LINK_LINES or len(run) >= _MIN_MENU_LINES):
            menu_lines += [line for line, _ in run]
    size = sum(len(line.flat) for line in lines)
    # A page that consists almost only of links is an index: its links are what was searched for.
    if size >= _MIN_JUDGED_CHARS and sum(len(line.flat) for line in menu_lines) > _MAX_MENU_SHARE * size:
        return
    for line in menu_lines:
        line.drop = may_drop(line)


def _runs(lines: list[_Line]) -> list[tuple[list[tuple[_Line, str]], bool]]:
    """Returns runs of consecutive lines that look like a menu, and whether the line before each announces a list."""
    out: list[tuple[list[tuple[_Line, str]], bool]] = []
    announced = False
    run: list[tuple[_Line, str]] = []
    for line in lines:
        kind = _menu_like(line)
        if kind:
            run.append((line, kind))
            continue
        if run:
            out.append((run, announced))
            run = []
        announced = _LISTED.search(line.flat) is not None
    return [*out, (run, announced)]


def _menu_like(line: _Line) -> str:
    if line.code:
        return ""
    if "](" in line.flat:
        beside = _alnum(_LINK.sub(" ", line.flat))
        inside = _alnum("".join(_LINK.findall(line.flat)))
        return "links" if beside <= _MAX_OUTSIDE_SHARE * max(inside, 1) and inside <= _LINKS_CHARS else ""
    # A character of a script without blanks is twice as wide, and says twice as much.
    wide = len(line.flat) if line.flat.isascii() else sum(2 if sign > "\u2e80" else 1 for sign in line.flat)
    if wide > _MENU_COLUMNS or line.flat.count(" ") >= _SENTENCE_BLANKS or _ENDS.search(line.flat):
        return ""
    return "short"


def _alnum(text: str) -> int:
    return len(text.encode().translate(None, _SIGNS)) if text.isascii() else sum(map(str.isalnum, text))


def _notices(data: bytes, lines: list[_Line], may_drop: MayDrop) -> None:
    """Marks cookie notices, share buttons, copyright lines, and links to places in the page itself."""
    for line in lines if b"](" in data else ():
        if "#" in line.flat and not line.code and len(line.flat) <= _NOTICE_CHARS and _JUMP.fullmatch(line.flat):
            line.drop = True
    # The patterns are slow, so they are only matched with lines that contain a word of a notice.
    for start, end in _find_notice_words(data):
        for line in lines[bisect_right(lines, start, key=_START) - 1 : bisect_right(lines, end, key=_START)]:
            if not line.drop and _is_notice(line) and may_drop(line):
                line.drop = True


def _find_notice_words(data: bytes) -> Iterator[tuple[int, int]]:
    """Yields the start and the end of each line that contains a word of a notice."""
    at = 0
    while (span := _NOTICE_WORDS.find(data, at)) is not None:
        end = data.find(b"\n", span[1])
        at = len(data) if end < 0 else end
        yield data.rfind(b"\n", 0, span[0]) + 1, at


def _is_notice(line: _Line) -> bool:
    flat = line.flat
    if line.code or len(flat) > _NOTICE_CHARS:
        return False
    if _COOKIE.search(flat) is not None and _CONSENT.search(flat) is not None:
        return True
    if len(flat) <= _LINKS_CHARS and len(_NETWORKS.findall(flat)) > 1 and _SHARE.fullmatch(_LINK.sub(r"\1", flat)):
        return True
    return len(flat) <= _RIGHTS_CHARS and _RIGHTS.search(flat) is not None


def _repeats(lines: list[_Line]) -> None:
    """Marks lines that occur repeatedly in one text, except the first occurrence."""
    counts = Counter(line.flat for line in lines if not line.code)
    again = {
        flat for flat, count in counts.items() if count >= _MIN_REPETITIONS and _alnum(flat) >= _MIN_REPEATED_LETTERS
    }
    earlier: set[str] = set()
    for line in lines if again else ():
        if not line.code and line.flat in again:
            line.drop = line.drop or line.flat in earlier
            earlier.add(line.flat)


def _mark_shared(pages: list[ResultText], texts: list[list[_Line]]) -> None:
    """Marks lines that occur in several results: in all but the first, or in all if many are of the same site."""
    where: dict[str, list[int]] = {}
    # Results of different sites may quote the same sentence, which stays in the first of them. A line in many pages of
    # one site belongs to the site's template.
    for number, lines in enumerate(texts):
        for flat in {line.flat for line in lines if len(line.flat) >= _MIN_SHARED_CHARS and not line.code}:
            where.setdefault(flat, []).append(number)
    for number, lines in enumerate(texts):
        for line in lines:
            others = where.get(line.flat, ())
            if len(others) > 1:
                sites = Counter(pages[other].site for other in others if pages[other].site)
                everywhere = bool(sites) and max(sites.values()) >= _MIN_REPETITIONS
                line.drop = line.drop or everywhere or others[0] != number


def _ranges(lines: list[_Line]) -> Ranges:
    out: Ranges = []
    for line in lines:
        if not line.drop:
            continue
        if out and out[-1][1] == line.start:
            out[-1] = (out[-1][0], line.end)
        else:
            out.append((line.start, line.end))
    return out
