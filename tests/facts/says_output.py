"""What plain counting says of an output: levels, outcomes, statuses, rules, lines by file."""

import re
from collections import Counter
from collections.abc import Iterable

_LABELS = (
    "Levels",
    "Outcomes",
    "Statuses",
    "Failed requests",
    "Findings by rule",
    "Lines by file",
    "Blocks",
    "Elements",
)


class TallyOracle:
    """Understands one tally."""

    def __init__(self, label: str, each: Iterable[str], lines: int = 0) -> None:
        """`each`: what every line that counts is counted as, of all these `lines`."""
        assert label in _LABELS
        self._label = label
        self._lines = lines
        self._counts = Counter(each)

    def __call__(self, line: str) -> bool:
        label, _, told = line.partition(": ")
        found = re.fullmatch(r"(\d+) lines? in (\d+) files?", label)
        some = re.fullmatch(r"(Levels) in (\d+) of (\d+) lines", label)
        if some is not None:
            label = some[1]
        if (label if found is None else "Lines by file") != self._label:
            return False
        if found is not None:
            assert (int(found[1]), int(found[2])) == (self._counts.total(), len(self._counts)), (
                line[:200],
                self._counts,
            )
        if some is not None:
            assert (int(some[2]), int(some[3])) == (self._counts.total(), self._lines), (line[:200], self._counts)
        items = told.split(", ")
        more = re.fullmatch(r"… (\d+) more", items[-1])
        if more is not None:
            items.pop()
            assert int(more[1]) == len(self._counts) - len(items)
        shown = {name: int(count) for name, _, count in (item.rpartition(" ") for item in items)}
        assert len(shown) == len(items)
        if more is None:
            assert shown == dict(self._counts), (line, self._counts)
        assert all(self._counts[name] == count for name, count in shown.items()), (line, self._counts)
        return True
