"""Finds the list of results in JSON of an unknown format: records with an address and something to read."""

from collections import deque
from typing import Final

from coatcheck.core.search.responses.providers import COMMON
from coatcheck.core.search.responses.reading import read_result
from coatcheck.core.search.responses.values import is_plain, items_of, opened, record_of

_NODES: Final = 10_000
"""Values that are visited, and items that are judged."""
_DEPTH: Final = 8
_JUDGED: Final = 40
"""Items of a list by which it is judged."""
_LEAST: Final = 0.3
"""Minimum share of a list's items that must be results."""


def best_list(value: object) -> tuple[str, list[object]]:
    """Returns the path and items of the list with the most results; the first on a tie. Empty if there is none."""
    best: tuple[int, str, list[object]] = (0, "", [])
    queue: deque[tuple[str, object, int]] = deque([("", value, 0)])
    looked = judged = 0
    while queue and looked < _NODES:
        path, each, depth = queue.popleft()
        looked += 1
        inner = opened(each)
        items = items_of(inner)
        if items is None:
            record = record_of(inner)
            if record is None:
                continue
            members = [(f"{path}.{name}" if path else name, member) for name, member in record.items()]
            items = _keyed(record)
        else:
            members = [(f"{path}[]", item) for item in items]
        good = _good(items) if judged < _NODES else 0
        judged += min(len(items), _JUDGED)
        if good > best[0]:
            best = (good, path, items)
        if depth < _DEPTH:
            queue.extend((name, member, depth + 1) for name, member in members if not is_plain(member))
    return best[1], best[2]


def _good(items: list[object]) -> int:
    """Returns how many items are results with an address; 0 if most are not."""
    judged = items[:_JUDGED]
    good = 0
    for item in judged:
        result = read_result(item, COMMON, 1, "") if record_of(item) is not None else None
        good += result is not None and bool(result.url) and bool(result.title or result.snippet or result.content)
    return len(items) * good // len(judged) if good and good >= _LEAST * len(judged) else 0


def _keyed(record: dict[str, object]) -> list[object]:
    """Returns the members of an object whose names are addresses, as items with those addresses."""
    out: list[object] = []
    for name, member in record.items():
        inner = record_of(member)
        if inner is None or not name.startswith(("http://", "https://")):
            return []
        out.append({"url": name, **inner})
    return out
