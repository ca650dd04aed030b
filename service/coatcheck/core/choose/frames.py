"""Finds the lines of a stack trace at which a program's own code and that of others meet."""

import re
from itertools import pairwise
from typing import Final

from coatcheck.core.choose.units import Units
from coatcheck.core.text.scan import BlockPattern

_FRAME: Final = BlockPattern(
    r"[\w.+-]\.[A-Za-z]\w{0,4}:\d+(?::\d+)?\)?(?: \+0x\w+| in .*)?$|^\s*File \".*\", line \d+|^\s*from .*:\d+:in "
)
"""Matches lines that end, or nearly end, with a place in a source file."""
_FOREIGN: Final = re.compile(rb"/usr/|\.\./|/lib/|[-_]packages/|node_modules|<|/vendor/|\bjava[.x]|\bnode:|/\.\w+/")
"""Matches files of libraries, runtimes and caches."""
_NEAR: Final = 3
"""Maximum distance of two lines of one trace: a source line or a variable may be between them."""


def own_frames(units: Units) -> list[int]:
    """Returns frames in the program's own files that have no neighbour, or one in a file of others."""
    rows = _FRAME.rows(units.block)
    own = {row for row in rows if not _FOREIGN.search(units.text[row])}
    joined = [(row, below) for row, below in pairwise(rows) if {row, below} <= own and below - row <= _NEAR]
    inner = {row for row, _ in joined} & {below for _, below in joined}
    return sorted(own - inner)
