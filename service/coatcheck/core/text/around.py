"""Counts the tokens of a text with other text around it, given the tokens of the text itself.

Only what is between the ends and the nearest safe cuts is counted again: a long text is counted once.
"""

from typing import Final

from coatcheck.core.text.cuts import first_safe, last_safe
from coatcheck.core.tokens import Tokenizer

_AROUND_CHARS: Final = 400
"""Characters from either end in which a safe cut is searched for; most lines have several."""


def count_around(before: str, text: str, tokens: int, after: str, tokenizer: Tokenizer) -> int | None:
    """Returns exactly the tokens of `before + text + after`, given that `text` by itself has exactly `tokens` tokens.

    Takes as long as counting `before`, `after` and some hundred characters. None if that does not determine it.
    """
    cuts = _cuts(text)
    if cuts is None:
        return None
    head, tail = text[: cuts[0]], text[cuts[1] :]
    began = tokenizer.count(before + head) - tokenizer.count(head)
    ended = tokenizer.count(tail + after) - tokenizer.count(tail)
    return tokens + began + ended


def _cuts(text: str) -> tuple[int, int] | None:
    """Returns the first and the last safe cut of a text, in characters, near its ends; None if it has none there."""
    if len(text) <= 2 * _AROUND_CHARS:
        return None
    try:
        head, tail = text[:_AROUND_CHARS].encode(), text[-_AROUND_CHARS:].encode()
    except UnicodeEncodeError:
        return None
    first, last = first_safe(head, 1, len(head)), last_safe(tail, 0, len(tail) - 1)
    if first is None or last is None:
        return None
    return len(head[:first].decode()), len(text) - len(tail[last:].decode())
