"""Distinguishes the texts that the service writes for models from the texts of tools."""

import re
from typing import Final

from coatcheck_client.contract.inert import MARK
from coatcheck_client.contract.tools import TOOLS

_CARD: Final = re.compile(
    rf"\[(?:art_[0-9]{{18}} · |NOT STORED\b)"
    rf"|{MARK} (?:Search(?::| for | by )|[0-9]+ results?[ ,;]|an answer without results[ ;.]|failed: "
    r"|the response was not understood|searched (?:'|the web))"
)
"""Matches the beginning of a card, of an answer of the declared tools, of a search's text or summary, and of an excerpt
in a card's place."""
_FINAL: Final = re.compile(r"\[(?:NOT STORED\b|art_[0-9]{18} · [^\n]* · (?:stored outside this|NOT STORED))")
"""Matches the beginning of a card, or of an excerpt in a card's place."""
_LONGEST_CARD: Final = 64 * 1024
_LONGEST_TEXT: Final = 256 * 1024
"""Characters of the longest card or answer, which have at most 8,192 tokens or 30,000 characters, and of the longest
text of a search, which has at most 32,768 tokens. Anything longer is not Coatcheck's, whatever it begins with."""
_OWN: Final = tuple(tool.name for tool in TOOLS)
"""Names of Coatcheck's tools."""


def is_card(text: str) -> bool:
    """Returns whether Coatcheck wrote a text: a card, an answer of its tools, or an excerpt in a card's place."""
    return len(text) <= (_LONGEST_CARD if text.startswith("[") else _LONGEST_TEXT) and _CARD.match(text) is not None


def is_final(text: str) -> bool:
    """Returns whether a text is a card, or an excerpt in a card's place. Compaction keeps both; it replaces answers."""
    return _FINAL.match(text) is not None


def withheld(amount: str) -> str:
    """Returns what a model reads in place of a payload that was refused for a secret in it; `amount` is its size."""
    return f"[{amount} withheld: the service refused to keep them [secret_refused], so they are not shown either]\n"


def is_own(tool_name: object) -> bool:
    """Returns whether a tool is one of Coatcheck's, also with the prefix that hosts add to the tools of a server."""
    return isinstance(tool_name, str) and (tool_name in _OWN or tool_name.endswith(tuple(f"__{own}" for own in _OWN)))
