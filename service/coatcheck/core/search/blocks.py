"""What a model reads of a search, in the forms that providers take for a tool's result.

Anthropic: one `search_result` block a result with citations enabled, and a text block with our own lines; its citations
count blocks, so that a block is never left out later but replaced where it stands. OpenAI and others: one text.
"""

from typing import Final

from coatcheck.core.search.budgeted import Budgeted, Shown
from coatcheck.core.search.frame import short

Block = dict[str, object]
_TITLE: Final = 160


def text_result(made: Budgeted) -> str:
    """For OpenAI Chat and Responses, Gemini, MCP: the text itself."""
    return made.text


def anthropic_result(made: Budgeted) -> list[Block]:
    """The content of a `tool_result`; neither it nor any text in it is empty."""
    blocks = [_text(made.before)] if made.before else []
    blocks += [_search_result(shown) if shown.quotes else _text(shown.block) for shown in made.shown]
    if made.after:
        blocks.append(_text(made.after))
    return blocks or [_text(made.text or "No results.")]


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _search_result(shown: Shown) -> Block:
    """One result: each passage is a block that can be cited by itself."""
    return {
        "type": "search_result",
        "source": shown.result.url or shown.citation,
        "title": f"{shown.section} {short(shown.result.title, _TITLE)}".strip(),
        "content": [_text(quote.text.rstrip("\n")) for quote in shown.quotes],
        "citations": {"enabled": True},
    }
