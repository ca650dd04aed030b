"""Finds the first rows of tables that a program printed, with the names of their columns."""

import re
from typing import Final

from coatcheck.core.choose.units import Units
from coatcheck.core.text.scan import BlockPattern

_LETTERS: Final = re.compile(rb"[A-Za-z\x80-\xff]{2}")
_RULE: Final = BlockPattern(r"^[ |+]*[-=─━]{2,}(?:[-=─━]*[ |+:┼╋]+[-=─━]{2,})+[ |+:┤]*$")
"""Matches a line between the names of columns and the rows of a printed table."""
_DASHES: Final = (b"===", b"---", "──".encode(), "━━".encode())
"""Every such line contains one of these, the last two only where not all is ASCII: searching for them is fast."""


def first_rows(units: Units) -> list[int]:
    """Returns the first row of each table that a program printed, and the line above its rule, which names columns."""
    text, block = units.text, units.block
    dashes = _DASHES[: 2 if block.isascii() else 4]
    rules = _RULE.rows(block) if any(each in block for each in dashes) else []
    return [at for row in rules for at in (row - 1, row + 1) if 0 <= at < len(text) and _LETTERS.search(text[at])]
