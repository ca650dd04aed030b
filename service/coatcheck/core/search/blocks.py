"""What a model reads of a search, in the forms of providers' tool results.

Anthropic: one `search_result` block per result with citations enabled, and a text block with our own lines; its
citations count blocks, so a block is never removed later but replaced in its place. OpenAI and others: one text.
"""

from collections.abc import Iterator
from typing import Final, cast

from coatcheck.core.search.budget_model import Budgeted, ShownResult
from coatcheck.core.search.shorten import ADDRESS, short
from coatcheck.core.tokens import Tokenizer

Block = dict[str, object]
_TITLE: Final = 160
_DATE: Final = 80


def text_result(output: Budgeted) -> str:
    """Returns the text itself, for OpenAI Chat and Responses, Gemini and MCP."""
    return output.text


def anthropic_result(output: Budgeted, tokenizer: Tokenizer) -> list[Block]:
    """Returns the content of a `tool_result`; neither it nor any text in it is empty.

    If all its strings together exceed the total, which only addresses that the text cuts can cause, it is the text in
    one block.
    """
    blocks = [_text(output.before)] if output.before else []
    blocks += [
        _search_result(shown_result) if shown_result.quotes else _text(shown_result.block)
        for shown_result in output.shown_results
    ]
    if output.after:
        blocks.append(_text(output.after))
    if not blocks or tokenizer.count("\n".join(_strings(blocks))) > output.limits.max_total_tokens:
        return [_text(output.text or "No results.")]
    return blocks


def _strings(blocks: list[Block]) -> Iterator[str]:
    """Yields every string that a model reads."""
    for block in blocks:
        for name in ("text", "source", "title"):
            if name in block:
                yield cast("str", block[name])
        yield from _strings(cast("list[Block]", block.get("content", [])))


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _search_result(shown_result: ShownResult) -> Block:
    """Returns one result, in which each passage is a block that can be cited separately."""
    url = shown_result.result.url or shown_result.citation
    head = f"{shown_result.section} {short(shown_result.result.title, _TITLE)}".strip()
    return {
        "type": "search_result",
        "source": short(url, ADDRESS) if len(url) <= ADDRESS else shown_result.citation,
        "title": " | ".join(part for part in (head, short(shown_result.result.date or "", _DATE)) if part),
        "content": [_text(quote.text.rstrip("\n")) for quote in shown_result.quotes],
        "citations": {"enabled": True},
    }
