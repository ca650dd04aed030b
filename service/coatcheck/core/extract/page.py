"""The text view of a page: its blocks as text, with the article separate from the rest. Linear in the markup."""

import html
import re
from typing import Final

from coatcheck.core.extract.article import article_blocks
from coatcheck.core.extract.blocks import Blocks
from coatcheck.core.extract.boilerplate import without_noscript, without_opaque
from coatcheck.core.extract.reader import PageBlock, PageReader
from coatcheck.core.views.view import ExtractedText

AROUND: Final = "Around the article"
EXTRACTOR: Final = "markup-removed 6"
_SCRIPT: Final = re.compile(r"<script\b[^<>]*>", re.IGNORECASE)
NO_TEXT: Final = "[No text without JavaScript. view=raw has the source of the page.]"


def extract_page(
    text: str, url: str | None, *, partial: bool = False, is_article: bool = False
) -> ExtractedText | None:
    """Returns the text view of a page: all of its visible text, in order; None if there is nothing to show.

    Text around the article is in asides. Text for browsers without scripts is included only if there is no other text.
    A line before it then says that the page has no text without JavaScript; a page with scripts and without any text
    has only this line.

    Args:
        text: the markup of the page.
        url: the page's URL, against which relative links are resolved.
        partial: whether the markup is only the beginning of the page.
        is_article: whether the whole page is the article, as in a chapter of a book.
    """
    markup = without_opaque(text)
    reader = _read(without_noscript(markup))
    blocks = Blocks(url)
    if not reader.blocks:
        reader = _read(markup)
        if reader.blocks or _SCRIPT.search(text):
            blocks.paragraph(NO_TEXT)
    main = [True] * len(reader.blocks) if is_article else article_blocks(reader)
    first, last = main.index(True) if True in main else 0, len(main) - 1 - main[::-1].index(True) if True in main else 0
    for place, block in enumerate(reader.blocks):
        if main[place]:
            blocks.end_aside()
        elif not blocks.in_aside:
            outside = place < first or place > last
            blocks.begin_aside("Navigation" if place < first else AROUND if place < last else "Footer", outer=outside)
        _render(blocks, block)
    blocks.add_links()
    return blocks.finish(EXTRACTOR, "s", partial=partial or reader.partial)


def _read(markup: str) -> PageReader:
    reader = PageReader()
    reader.read(markup)
    return reader


def _render(out: Blocks, block: PageBlock) -> None:
    match block.kind:
        case "h" if len(block.text) > block.alternatives:
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
