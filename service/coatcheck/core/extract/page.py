"""The text view of a page: the blocks of its article, rendered, in one linear pass over markup of any size."""

import html
from typing import Final

from coatcheck.core.extract.article import article_blocks
from coatcheck.core.extract.blocks import Blocks
from coatcheck.core.extract.reader import PageBlock, PageReader
from coatcheck.core.extract.tags import without_opaque
from coatcheck.core.views.view import ExtractedText

EXTRACTOR: Final = "markup-removed 5"


def extract_page(text: str, url: str | None, *, partial: bool = False) -> ExtractedText | None:
    """Returns the text view of a page, or None if it has no text.

    Args:
        text: its markup.
        url: its address, against which relative links are resolved.
        partial: whether the markup is only the beginning of the page.
    """
    reader = PageReader()
    reader.read(without_opaque(text))
    blocks = Blocks(url)
    for block in article_blocks(reader):
        _render(blocks, block)
    data, found = blocks.end()
    if not data:
        return None
    return ExtractedText(text=data, sections=found, extractor=EXTRACTOR, partial=partial or reader.partial)


def _render(out: Blocks, block: PageBlock) -> None:
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
