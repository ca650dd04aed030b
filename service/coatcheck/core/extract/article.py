"""Chooses the blocks of a page that form its article, by the prose in its elements. Linear in the page.

Elements are scored by the prose in them, as in browsers' reader modes: a paragraph counts for the element that contains
it, half for the element around this one, and a third for the next. The article is the element with the best score,
together with siblings of similar scores and the prose between the headline and this element.
"""

from typing import Final

from coatcheck.core.extract.boilerplate import COMMENTS, CONTENT, SUSPECT, words
from coatcheck.core.extract.reader import Element, PageBlock, PageReader

_LEAVES: Final = words("p li dd dt td th pre blockquote")
_PROSE: Final = 25
"""Minimum characters of a block of prose."""
_HALF: Final = 0.5
"""Share of the page's prose from which an element with the headline is not boilerplate, whatever its name."""
_NEARLY_ALL: Final = 0.8
"""Share of the page's prose from which an element without the headline is not boilerplate."""
_MIN_PROSE_CHARS: Final = 500
"""Characters of prose below which suspect elements are searched too."""
_NONE: Final = 140
"""Characters of prose below which comments are searched too. If there is still less prose, the page has no article."""
_CLIMBS: Final = 4
"""Maximum number of elements around the best element that are tried in its place."""
_PURE: Final = 0.9
"""Minimum share of such an element's text that is prose."""
_MORE: Final = 1.3
"""Factor by which the prose of such an element must exceed that of the best element."""
_PART: Final = 2.0
"""Factor by which the prose of the page's `main` must exceed that of the best element to replace it. That happens in
references of many parts."""
_SMALL_PART: Final = 4.0
"""Factor by which the prose of a whole page without a `main` must exceed that of the best element to replace it. It is
higher, because a page has boilerplate that nothing marks."""
_LISTS: Final = 0.4
"""Share of links that such a `main` or page must stay below; with more links, it is a list of other pages."""
_SPARSE: Final = 0.15
"""Share of links that an element around the best element must stay below to be tried in its place."""
_PARAGRAPH: Final = 80
"""Minimum characters of prose with which a paragraph beside the article belongs to it."""
_DENSE: Final = 0.25
"""Share of links that such a paragraph may have."""
_BEGINNING: Final = 300
"""Minimum characters of the paragraphs between the headline and the article that count as the article's beginning."""
_HEADLINE: Final = 10
"""Minimum characters of a heading that is the headline because the page's title repeats it."""
_WORD: Final = 5
"""Minimum characters of a word that shows, if the page's title has it as well, that the only heading of level 1 is the
headline."""
_SHORT: Final = 30
"""Maximum characters of text between two blocks of the article that still belongs to it."""
_TITLE: Final = 400
"""Characters of a title, or of a heading, that are compared."""


def article_blocks(reader: PageReader) -> list[bool]:
    """Returns for each block whether it belongs to the article. Without an article: whether it is not boilerplate.

    If there is a table between the headline and the element with the most prose, everything between these two belongs
    to the article: such a page is about what the table describes, such as a product before its reviews. Short text
    between two blocks of the article belongs to it as well.
    """
    headline, is_title = _headline(reader)
    verdicts = _verdicts(reader, headline)
    limit = CONTENT
    elements, prose = _choose(reader, verdicts, limit)
    for more, few in ((SUSPECT, _MIN_PROSE_CHARS), (COMMENTS, _NONE)):
        if prose < few:
            other, other_prose = _choose(reader, verdicts, more)
            if other_prose >= 2 * prose and other_prose:
                elements, prose, limit = other, other_prose, more
    blocks = reader.blocks
    if prose < _NONE:  # a page of links, or of very few words
        main = [verdicts[block.owner] <= limit for block in blocks]
        return main if any(main) else [True] * len(blocks)
    main = [False] * len(blocks)
    ranges = [(top.first, top.last) for top in elements]
    if headline is not None and is_title:
        begin = max(elements, key=lambda top: top.prose).first
        if any(block.kind == "row" and verdicts[block.owner] <= limit for block in blocks[headline + 1 : begin]):
            ranges = [(headline + 1, begin), *[each for each in ranges if each[0] >= begin]]
        else:
            for place in _opening(blocks, range(headline + 1, elements[0].first), verdicts):
                main[place] = True
    for first, last in ranges:
        for place in range(first, last):
            main[place] = verdicts[blocks[place].owner] <= limit and not _is_link_list(blocks[place])
    _join(main, blocks)
    return main


def _join(main: list[bool], blocks: list[PageBlock]) -> None:
    """Adds short text between two blocks of the article to the article."""
    last, size = None, 0
    for place, block in enumerate(blocks):
        if not main[place]:
            size += len(block.text)
            continue
        if last is not None and place - last > 1 and size <= _SHORT:
            main[last:place] = [True] * (place - last)
        last, size = place, 0


def _headline(reader: PageReader) -> tuple[int | None, bool]:
    """Returns the number of the block that is the page's headline, and whether that is sure.

    It is the longest heading of level 1 or 2 that the title repeats, which is sure. Otherwise, it is the first heading
    of level 1, which is sure if there is no other of this level and the title has one of its longer words. None if
    there is neither.
    """
    title = " ".join(reader.title[:_TITLE].split()).casefold()
    best, longest = None, 0
    outer = [block.text.casefold() for block in reader.blocks if block.kind == "h" and block.level == 1]
    for number, block in enumerate(reader.blocks):
        if block.kind == "h" and block.level <= 2 and len(block.text) <= _TITLE:  # noqa: PLR2004 - h1 and h2
            text = " ".join(block.text.split()).casefold()
            repeated = len(text) if len(text) >= _HEADLINE and text in title else 0
            if repeated > longest or (best is None and block.level == 1):
                best, longest = number, repeated
    shared = len(outer) == 1 and any(len(word) >= _WORD and word in title for word in outer[0].split())
    return best, longest > 0 or shared


def _verdicts(reader: PageReader, headline: int | None) -> dict[Element, int]:
    """Returns the verdict on each element: the worse one of its own and that on the element around it.

    An element's own verdict is ignored if it contains most of the page's prose, or the headline and enough prose.
    """
    _count(reader, None, CONTENT)
    total = reader.elements[0].prose
    verdicts: dict[Element, int] = {}
    for element in reader.elements:
        verdict = element.verdict
        if verdict and element.prose >= _NONE:
            holds = headline is not None and element.first <= headline < element.last
            share = element.prose / total
            if (holds and (verdict == SUSPECT or share > _HALF)) or (
                share > _NEARLY_ALL and (headline is None or verdict == SUSPECT)
            ):
                verdict = CONTENT
        verdicts[element] = max(verdict, verdicts[element.parent]) if element.parent is not None else CONTENT
    return verdicts


def _count(reader: PageReader, verdicts: dict[Element, int] | None, limit: int) -> None:
    """Counts characters, prose and score of all elements.

    Only blocks whose owner's verdict is at most `limit` count; if `verdicts` is None, all blocks count.
    """
    for element in reader.elements:
        element.score = element.weight
        element.chars = element.prose = element.linked = 0
    for block in reader.blocks:
        if verdicts is None or verdicts[block.owner] <= limit:
            _count_block(block)
    for element in reversed(reader.elements):
        if element.parent is not None:
            element.parent.chars += element.chars
            element.parent.prose += element.prose
            element.parent.linked += element.linked


def _count_block(block: PageBlock) -> None:
    owner = block.owner
    size = max(0, len(block.text) - block.alternatives)
    owner.chars += size
    owner.linked += min(block.linked, size)
    wide = size if block.text.isascii() else size * 2
    if wide < _PROSE or block.linked * 2 > size or block.kind == "h":
        return
    owner.prose += size
    points = 1 + block.text.count(",") + block.text.count("、") + min(wide / 100, 3.0)
    if block.kind in {"li", "row"}:
        points /= 2
    holder = owner.parent if owner.name in _LEAVES else owner
    for share in (1.0, 2.0, 3.0):
        if holder is None:
            return
        holder.score += points / share
        holder = holder.parent


def _choose(reader: PageReader, verdicts: dict[Element, int], limit: int) -> tuple[list[Element], int]:
    """Returns the element of the article with similar siblings, and the number of characters of their prose."""
    _count(reader, verdicts, limit)
    best = max(reader.elements, key=lambda each: each.score * (1 - each.link_density) if each.prose else 0.0)
    articles = sum(each.name == "article" and each.prose > 0 for each in reader.elements)
    around = best
    for _ in range(_CLIMBS):
        if around.name == "main" or (around.name == "article" and articles == 1):
            break
        around = around.parent
        if around is None or around.prose < _PURE * around.chars or around.link_density >= _SPARSE:
            break
        if around.prose > best.prose * _MORE:
            best = around
    main = best
    while main.name != "main" and main.parent is not None:
        main = main.parent
    part = _PART if main.name == "main" else _SMALL_PART
    if main.prose > part * best.prose and main.link_density < _LISTS:
        best = main
    siblings = [each for each in reader.elements if each.parent is best.parent and each.parent is not None]
    elements = [each for each in siblings or [best] if each is best or _is_akin(each, best)]
    return elements, sum(each.prose for each in elements)


def _is_akin(element: Element, best: Element) -> bool:
    """Returns whether a sibling of the best element belongs to the article as well.

    Beside an `article` or `main`, only elements of the same name do.
    """
    if best.name in {"article", "main"}:
        return element.name == best.name and element.prose > 0
    if element.name == "p":
        return element.prose >= _PARAGRAPH and element.link_density < _DENSE
    least = max(10.0, 0.2 * best.score)
    return element.prose > 0 and element.score * (1 - element.link_density) >= least


def _opening(blocks: list[PageBlock], indexes: range, verdicts: dict[Element, int]) -> list[int]:
    """Returns the numbers of the blocks between the headline and the article that are the article's beginning.

    These are longer paragraphs and code. Paragraphs without code that have few characters together do not count: they
    are a byline or a standfirst, which the article repeats.
    """
    opening = [
        place
        for place in indexes
        if verdicts[blocks[place].owner] == CONTENT
        and (blocks[place].kind == "pre" or (blocks[place].kind == "p" and len(blocks[place].text) >= _PARAGRAPH))
        and blocks[place].linked <= _DENSE * len(blocks[place].text)
    ]
    is_long = sum(len(blocks[place].text) for place in opening) >= _BEGINNING
    return opening if is_long or any(blocks[place].kind == "pre" for place in opening) else []


def _is_link_list(block: PageBlock) -> bool:
    """Returns whether a block is mostly links, inside an element that is mostly links."""
    if block.linked * 2 <= len(block.text) or block.kind == "h":
        return False
    holder = block.owner.parent if block.owner.name in _LEAVES and block.owner.parent else block.owner
    return holder.link_density > _HALF
