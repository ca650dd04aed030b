"""Binary bytes as text: rows of 16 with their offset and their ASCII, like those of `xxd -g1`."""

from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.clip import ClipBudget, Cut

ROW = 16
MIN_TOKENS = 64
"""More tokens than the longest row has; below this, nothing could be shown."""


def hex_row(piece: bytes, offset: int) -> str:
    """Returns up to 16 bytes with their offset and their ASCII, and a line end."""
    ascii_text = "".join(chr(b) if 0x20 <= b <= 0x7E else "." for b in piece)  # noqa: PLR2004 - visible ASCII
    return f"{offset:08x}: {piece.hex(' '):<47}  {ascii_text}\n"


def clip_dump(data: bytes, offset: int, budget: ClipBudget, tokenizer: Tokenizer) -> tuple[int, str, int, Cut | None]:
    """Returns as many whole rows as the budget allows: bytes shown, text, its tokens, and what cut it.

    `budget.tokens` is at least MIN_TOKENS and `budget.chars` one row, so there is always one.
    """
    rows = [hex_row(data[n : n + ROW], offset + n) for n in range(0, len(data), ROW)]
    limited_by: Cut | None = None
    fitting, length = 0, 0
    for row in rows:
        length += len(row)
        if length > budget.chars:
            limited_by = "max_characters"
            break
        fitting += 1
    while True:
        text = "".join(rows[:fitting])
        tokens = tokenizer.count(text)
        if tokens <= budget.tokens or fitting <= 1:
            return min(len(data), fitting * ROW), text, tokens, limited_by
        limited_by = "max_tokens"
        fitting = max(1, min(fitting - 1, fitting * budget.tokens // tokens))
