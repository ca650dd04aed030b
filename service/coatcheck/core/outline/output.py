"""The phases of a log or a command's output, if the program marks them: groups, steps, tasks, banners, commands."""

import re
from collections import deque
from typing import Final, final

from coatcheck.core.outline.line_scanner import LineScanner
from coatcheck.core.outline.model import What, make_title
from coatcheck.core.text.scan import BlockPattern

_STAMP: Final = r"(?:\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]{8,18}(?:Z|[+-][0-9:]{4,6})?\]? +)?"
_PHASES: Final = BlockPattern(
    rf"^{_STAMP}(?:##\[(?:group|section|command)\]|::group::|section_start:|={{3,}} ?[^= ].* ?={{3,}}\s*$"
    r"|-{3,} [^- ].* -{3,}\s*$|\*{3,} [^*]|> Task :|Step [0-9]+/[0-9]+ *:|#[0-9]+ \[[^\]]{1,60}\]|\$ \S|\+ \S|={2,}> \S"
    r"|make(?:\[[0-9]+\])?: Entering directory|\[INFO\] -{3,}< |PLAY \[|TASK \[|Stage \"|\[Pipeline\] (?:stage|\{ \())"
)
_TIME: Final = re.compile(
    rb"[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
    rb"|[0-9]{1,2}/(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)/[0-9]{4}:[0-9:]{8}(?: [+-][0-9]{4})?"
    rb"|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2}"
    rb"|(?m:^)\[?[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,6})?"
)
_LOOK: Final = 16 * 1024
_STAMP_PREFIX: Final = re.compile(_STAMP.encode() + rb"(?:##\[(?:group|section|command)\]|::group::)?")


@final
class Phases(LineScanner):
    """Finds phases. They are not nested: a program says where one begins, but seldom where it ends."""

    pattern = _PHASES
    longest = 1_000

    def entry(self, line: bytes) -> tuple[What, str, int]:
        """Returns a phase, titled by its line without time and group mark."""
        mark = _STAMP_PREFIX.match(line)
        return "phase", make_title(line[mark.end() if mark else 0 :]), 1


def times(head: bytes, tail: bytes) -> str | None:
    """Returns when the output begins and ends, by the first and last time in it; None if there is none."""
    first = _TIME.search(head[:_LOOK])
    last = next(iter(deque(_TIME.finditer(tail[-_LOOK:]), maxlen=1)), None)
    if first is None:
        return None
    begin = first[0].decode("latin-1").lstrip("[")
    if last is None or last[0] == first[0]:
        return f"Times begin with {begin}."
    return f"Times from {begin} to {last[0].decode('latin-1').lstrip('[')}."
