"""The main text of a page, found in its markup in one linear pass, whatever the page's size.

Elements score by the prose in them, as readers' modes of browsers do it: a paragraph counts for what it stands in, and
half for what that stands in. What scores best is the article, with those around it that score like it. Menus, footers,
comments and hidden things are left out; a page in which no prose is found is given whole but for those.
"""

import html
from typing import Final

from coatcheck.core.extract.beside import BESIDE, PERHAPS
from coatcheck.core.extract.blocks import Blocks
from coatcheck.core.extract.reader import Block, Element, Reader
from coatcheck.core.extract.tags import without_opaque, words
from coatcheck.core.views import Extracted

EXTRACTOR: Final = "markup-removed 1"
_LEAVES: Final = words("p li dd dt td th pre blockquote")
_ALL: Final = 0.9
"""Share of an element's text that must be prose for it to be taken instead of one inside it."""
_CLIMBS: Final = 4
"""Elements around the best one that are looked at for that."""
_MORE: Final = 1.15
"""How much more prose they must have."""
_SPARSE: Final = 0.15
"""Share of links that prose may be, in such an element."""
_DENSE: Final = 0.25
"""The same in a paragraph beside the best element."""
_SHORT: Final = 500
"""Characters of prose under which what only looks unlikely is looked at again."""
_PROSE: Final = 25
"""Characters from which a block may be prose."""
_WHOLE: Final = 140
"""Characters of prose under which no article was found."""


def _scored(reader: Reader, beside: int) -> list[Element]:
    """The elements with their scores, of which those that are `beside` or more surely beside the text have none."""
    for element in reader.elements:
        element.score = element.liked
        element.prose = element.good = element.links = 0
    for block in reader.blocks:
        _score(block, beside)
    for element in reversed(reader.elements):
        if element.parent is not None:
            element.parent.prose += element.prose
            element.parent.good += element.good
            element.parent.links += element.links
    return reader.elements


def _score(block: Block, beside: int) -> None:
    """Count a block for what it stands in."""
    owner = block.owner
    if owner.aside >= beside:
        return
    size = len(block.text)
    owner.prose += size
    owner.links += min(block.linked, size)
    wide = size if block.text.isascii() else size * 2
    if wide < _PROSE or block.linked * 2 > size or block.kind == "h":
        return
    owner.good += size
    points = 1 + block.text.count(",") + block.text.count("、") + min(wide / 100, 3.0)
    if block.kind in {"li", "row"}:
        points /= 2
    holder = owner.parent if owner.name in _LEAVES else owner
    for share in (1.0, 2.0, 3.0):
        if holder is None:
            return
        holder.score += points / share
        holder = holder.parent


def _chosen(elements: list[Element]) -> list[Element]:
    """The element that the article is, and those beside it that read like it."""
    best = max(elements, key=lambda element: element.score * (1 - element.density) if element.good else 0.0)
    around = best.parent
    for _ in range(_CLIMBS):
        if around is None or not _is_prose(around):
            break
        if around.good > best.good * _MORE:
            best = around
        around = around.parent
    least = max(10.0, 0.2 * best.score)
    return [
        each
        for each in elements
        if each is best or (each.parent is best.parent and each.parent is not None and _akin(each, least))
    ]


def _is_prose(element: Element) -> bool:
    return element.good >= _ALL * element.prose and element.density < _SPARSE


def _akin(element: Element, least: float) -> bool:
    if element.name == "p":
        return element.good >= 80 and element.density < _DENSE  # noqa: PLR2004 - as readers' modes have it
    return element.good > 0 and element.score * (1 - element.density) >= least


def _lists_links(block: Block) -> bool:
    """Whether a block is one of many that only lead elsewhere."""
    if block.linked * 2 <= len(block.text) or block.kind == "h":
        return False
    holder = block.owner.parent if block.owner.name in _LEAVES and block.owner.parent else block.owner
    return holder.density > 0.5  # noqa: PLR2004 - most of it


def page_text(text: str, base: str | None) -> tuple[Blocks, bool]:
    """The main text of a page, and whether all of the page was looked at.

    Args:
        text: its markup.
        base: its URL, which relative links are resolved against.
    """
    reader = Reader()
    reader.read(without_opaque(text))
    beside = PERHAPS
    chosen = _chosen(_scored(reader, beside))
    strict = sum(each.good for each in chosen)
    if strict < _SHORT:
        beside = BESIDE
        chosen = _chosen(_scored(reader, beside))
        if sum(each.good for each in chosen) < 2 * strict:
            beside = PERHAPS
            chosen = _chosen(_scored(reader, beside))
    out = Blocks(base)
    if sum(each.good for each in chosen) < _WHOLE:
        chosen = reader.elements[:1]
    for top in chosen:
        for block in reader.blocks[top.first : top.last]:
            if block.owner.aside < beside and not _lists_links(block):
                _put(out, block)
    if not out.size:
        for block in reader.blocks:
            _put(out, block)
    return out, not reader.partial


def _put(out: Blocks, block: Block) -> None:
    match block.kind:
        case "h":
            out.heading(block.level, block.text)
        case "li":
            out.item(block.text, depth=block.depth, number=block.number)
        case "row":
            out.row(block.cells)
        case "pre":
            out.code(block.text)
        case "quote":
            out.quote(block.text)
        case _:
            out.paragraph(block.text)
    for linked, url in block.links:
        out.link(html.unescape(linked), url)


def extract_page(text: str, url: str | None, *, partial: bool = False) -> Extracted | None:
    """The text view of a page; None when there is no text in it."""
    blocks, whole = page_text(text, url)
    data, found = blocks.end()
    if not data:
        return None
    return Extracted(text=data, sections=found, extractor=EXTRACTOR, partial=partial or not whole)
