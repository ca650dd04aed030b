"""Web pages: who they say they are, and the text a reader would read, found in the markup in one linear pass.

Only the head is given to an HTML parser, after scripts, styles and comments are gone and tags of hostile length are
refused: parsers are quadratic in attributes and in nesting. The text is found without a parser.
"""

import html
import re
from itertools import islice
from typing import Final
from urllib.parse import urljoin, urlsplit

from selectolax.lexbor import LexborHTMLParser

from coatcheck.core.artifact import Facts, Said, Sample
from coatcheck.core.kinds.cutter import Description, Passage, Plan

_PARSED: Final = 64 * 1024
_LONGEST_TAG: Final = 16 * 1024
_OPAQUE: Final = re.compile(
    rb"<(script|style|svg|noscript|template|iframe|select|textarea)\b[^<>]{0,4096}>|<!--", re.IGNORECASE
)
_HEAD_END: Final = re.compile(rb"</head\s*>|<body\b", re.IGNORECASE)
_MAX: Final = 300


class _Meta:
    """What a page's head says."""

    def __init__(self, data: bytes) -> None:
        self.title: str | None = None
        self.canonical: str | None = None
        self.description: str | None = None
        self.language: str | None = None
        tree = LexborHTMLParser(data.decode("utf-8", "replace"))
        root = tree.css_first("html")
        self.language = root.attributes.get("lang") if root is not None else None
        node = tree.css_first("title")
        titles = [node.text() if node is not None else None]
        named: dict[str, str] = {}
        for meta in tree.css("meta"):
            name = (meta.attributes.get("property") or meta.attributes.get("name") or "").lower()
            content = meta.attributes.get("content")
            if name and content:
                named.setdefault(name, content)
        link = next((n for n in tree.css("link") if (n.attributes.get("rel") or "").lower() == "canonical"), None)
        self.canonical = (link.attributes.get("href") if link is not None else None) or named.get("og:url")
        titles += [named.get("og:title"), named.get("twitter:title")]
        self.title = next((_clean(t) for t in titles if t and t.strip()), None)
        words = named.get("description") or named.get("og:description")
        self.description = _clean(words) if words else None
        self.published = named.get("article:published_time") or named.get("date")


def _clean(text: str) -> str:
    return " ".join(text.split())[:_MAX]


def blank_opaque(data: bytes) -> bytes:
    """The page with scripts, styles, comments and the like blanked out, every other byte at its place. Linear."""
    pieces: list[bytes] = []
    at = 0
    while True:
        match = _OPAQUE.search(data, at)
        if match is None:
            pieces.append(data[at:])
            return b"".join(pieces)
        name = match.group(1)
        closing = re.compile(rb"</" + name + rb"\b[^<>]{0,64}>", re.IGNORECASE) if name else _COMMENT_END
        end = closing.search(data, match.end())
        stop = end.end() if end else len(data)
        pieces += [data[at : match.start()], b" " * (stop - match.start())]
        at = stop


_COMMENT_END: Final = re.compile(rb"-->")


def _parsable(data: bytes) -> bytes | None:
    """The part of the cleaned page that is safe to parse: its head, at most 64 KB, no monstrous tag."""
    end = _HEAD_END.search(data)
    part = re.sub(rb"[ \t\r\n]{2,}", b"\n", data[: end.start() if end else len(data)])[:_PARSED]
    longest = max((len(piece) for piece in part.split(b"<")), default=0)
    return None if longest > _LONGEST_TAG or part.count(b"<") > 4_000 else part  # noqa: PLR2004 - heads have hundreds


class PageCutter:
    """HTML: title, canonical URL, description; the passages of its main text."""

    def describe(self, sample: Sample, said: Said) -> Description:
        """From the head alone. A relative canonical URL is resolved against the URL the caller gave."""
        part = _parsable(blank_opaque(sample.head[: 4 * _PARSED]))
        if part is None:
            return Description()
        meta = _Meta(part)
        shape = [f"Description: {meta.description}"] if meta.description and meta.description != meta.title else []
        if meta.published and len(meta.published) <= 40:  # noqa: PLR2004 - a date, not a text
            shape.append(f"Published: {meta.published}")
        url = _resolve(meta.canonical, said.url)
        language = meta.language.strip()[:20] if meta.language else None
        return Description(shape=tuple(shape), title=meta.title, url=url, language=language or None)

    def plan(self, sample: Sample, facts: Facts) -> Plan:
        """The main text from where it begins; the ends of the markup if there is none."""
        del facts
        return Plan(shape=0.15, hints=0.0, passages=tuple(main_text(sample.head)))


def _resolve(canonical: str | None, base: str | None) -> str | None:
    if not canonical:
        return None
    try:
        url = urljoin(base or "", canonical.strip())
        parts = urlsplit(url)
    except ValueError:
        return None
    return url if parts.scheme in {"http", "https"} and parts.netloc and url != base else None


# ---------------------------------------------------------------------------------------------------- main text

_TAG: Final = re.compile(
    rb"<(?:(/?)([a-zA-Z][a-zA-Z0-9-]{0,20})[^<>\"']*+(?:>|(?:(?:\"[^\"<]{0,4000}+\"|'[^'<]{0,4000}+')[^<>\"']*+)++>)"
    rb"|[!?][^>]{0,2000}>)"
)
_INLINE: Final = frozenset(
    b"a abbr b bdi bdo big cite code data del dfn em font i ins kbd label mark q ruby s samp small span strike strong "
    b"sub sup time tt u var wbr rb rt rp nobr".split()
)
_HEADING: Final = frozenset(b"h1 h2 h3 h4 h5 h6".split())
_ASIDE: Final = frozenset(b"nav footer aside button header figure menu dialog".split())
_GAP: Final = 5
"""Short blocks in a row that end the article once it has begun."""
_NESTED: Final = 50
_TAGS: Final = 20_000
_LONGEST_TEXT: Final = 16_000
"""Characters of one block that are kept; a card shows less."""


class _Block:
    """Text between two block tags."""

    __slots__ = ("aside", "end", "heading", "links", "parts", "start", "text")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.links = 0
        self.start = -1
        self.end = -1
        self.aside = False
        self.heading = False
        self.text = ""

    def begin(self, *, aside: bool, heading: bool) -> None:
        """Take over as the block after a tag. One that has no text yet is used again: pages have many of them."""
        self.parts.clear()
        self.aside = aside
        self.heading = heading

    @property
    def prose(self) -> bool:
        """Whether this reads as a paragraph: long, hardly linked, outside menus."""
        size = len(self.text)
        wide = size if self.text.isascii() else size * 2
        return not self.aside and wide >= 80 and self.links * 3 < size  # noqa: PLR2004 - a line and a half


class _Menus:
    """The elements around a place that hold no article."""

    def __init__(self) -> None:
        self._open: list[bytes] = []

    def __bool__(self) -> bool:
        return bool(self._open)

    def see(self, name: bytes, *, closing: bool) -> None:
        """Take a tag: open a menu, or close the innermost of that name with all inside it."""
        if name not in _ASIDE or len(self._open) > _NESTED:
            return
        if not closing:
            self._open.append(name)
        elif name in self._open:
            del self._open[len(self._open) - 1 - self._open[::-1].index(name) :]


def _blocks(data: bytes) -> list[_Block]:
    body = blank_opaque(data)
    begin = re.search(rb"<body\b", body, re.IGNORECASE)
    at = begin.start() if begin else 0
    blocks: list[_Block] = []
    menus = _Menus()
    link = False
    block = _Block()
    for match in islice(_TAG.finditer(body, at), _TAGS):
        low, high = match.span()
        if low > at:
            _text(block, body, at, low, link=link)
        at = high
        slash, tag = match.groups()
        if tag is None:
            continue
        name = tag.lower()
        if name == b"a":
            link = not slash
        elif name == b"br":
            block.parts.append(" ")
        elif name not in _INLINE:
            menus.see(name, closing=bool(slash))
            if block.start >= 0:
                blocks.append(block)
                block = _Block()
            block.begin(aside=bool(menus), heading=name in _HEADING and not slash)
    if at < len(body):
        _text(block, body, at, min(len(body), at + _LONGEST_TEXT), link=link)
    blocks.append(block)
    for each in blocks:
        each.text = " ".join(html.unescape("".join(each.parts)[:_LONGEST_TEXT]).split())
    return [each for each in blocks if each.text]


def _text(block: _Block, body: bytes, start: int, end: int, *, link: bool) -> None:
    piece = body[start:end]
    if piece.isspace():
        if block.parts:
            block.parts.append(" ")
        return
    if block.start < 0:
        block.start = start + len(piece) - len(piece.lstrip())
    block.end = start + len(piece.rstrip())
    text = piece.decode("utf-8", "replace")
    block.parts.append(text)
    if link:
        block.links += len(text.strip())


def main_text(data: bytes) -> list[Passage]:
    """The paragraphs of the densest stretch of the page, its headings among them, in order."""
    blocks = _blocks(data)
    best: tuple[int, int, int] = (0, 0, 0)
    start: int | None = None
    last = weight = gap = 0
    for place, block in enumerate([*blocks, None]):
        if block is not None and block.prose:
            start = place if start is None else start
            last, gap = place, 0
            weight += len(block.text)
            continue
        gap += 1
        if start is not None and (block is None or gap > _GAP):
            best = max(best, (weight, -start, last))
            start, weight = None, 0
    weight, start, last = best[0], -best[1], best[2]
    if not weight:
        return []
    first = next((p for p in range(start - 1, max(-1, start - 8), -1) if blocks[p].heading), start)
    chosen = [
        b for b in blocks[first : last + 1] if not b.aside and (b.prose or b.heading or b.links * 2 <= len(b.text))
    ]
    return [Passage(b.text, b.start, b.end) for b in chosen]
