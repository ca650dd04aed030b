"""Finds the lists of results in JSON of any form: records with an address, a title or a text, or only addresses.

A list is rated by the best kind of items of which it has enough. The best kind is a record with an address and
something to read, then a record with a title and a text, then an address alone. Lists inside the items of a chosen list
belong to these items.
"""

from collections import deque
from typing import Final

from msgspec import Struct

from coatcheck.core.search.model import SearchResult
from coatcheck.core.search.responses.providers import COMMON
from coatcheck.core.search.responses.reading import read_result
from coatcheck.core.search.responses.values import decode_document, is_plain, items_of, key, record_of

_MAX_NODES: Final = 10_000
"""Maximum values that are visited, and maximum items that are rated."""
_MAX_DEPTH: Final = 8
"""Maximum depth of objects and lists in which lists of results are searched for. Chosen, not measured."""
_JUDGED_ITEMS: Final = 40
"""Items at the beginning of a list by which the list is rated."""
_MIN_RESULT_SHARE: Final = 0.3
"""Minimum share of the rated items that must be results."""
_ASIDE: Final = """
    tools toolcalls functions error errors warnings images relatedsearches relatedqueries suggestions sitelinks
    pagination icons links messages
    """
_NO_RESULTS: Final = frozenset(_ASIDE.split())
"""Names of lists whose records have names and addresses but are no results."""
_ADDRESS, _TEXT, _BARE = 3, 2, 1
"""Ratings of a list by the kind of its items, the best first."""


class ResultList(Struct, frozen=True):
    """A list of results with its path."""

    path: str
    items: list[object]
    rating: int


def best_list(value: object) -> tuple[str, list[object]]:
    """Returns path and items of the best list if its items have addresses and texts; otherwise both are empty."""
    lists = result_lists(value)
    return (lists[0].path, lists[0].items) if lists and lists[0].rating == _ADDRESS else ("", [])


def result_lists(value: object) -> list[ResultList]:
    """Returns the best list, then all other lists of records outside it, in their order.

    If there is no list, returns the first record that is a page by itself. Lists of addresses alone are only returned
    if there is no better list.
    """
    rated_lists: list[tuple[int, int, ResultList]] = []
    alone: ResultList | None = None
    # Breadth first: of two equal lists, the one nearer to the top has the results.
    queue: deque[tuple[str, object, int]] = deque([("", value, 0)])
    node_count = judged = 0
    while queue and node_count < _MAX_NODES:
        path, each, depth = queue.popleft()
        node_count += 1
        inner = decode_document(each)
        items = items_of(inner)
        if items is None:
            record = record_of(inner)
            if record is None:
                continue
            # A page that was fetched is one result without a list around it.
            if alone is None and _is_page(record):
                alone = ResultList(path, [record], _ADDRESS)
            member_pairs = [(name, member) for name, member in record.items() if key(name) not in _NO_RESULTS]
            members = [(f"{path}.{name}" if path else name, member) for name, member in member_pairs]
            items = _read_keyed_items(record)
        else:
            members = [(f"{path}[]", item) for item in items]
        rating, good = _good(items) if judged < _MAX_NODES else (0, 0)
        judged += min(len(items), _JUDGED_ITEMS)
        if good:
            rated_lists.append((rating, good, ResultList(path, items, rating)))
        if depth < _MAX_DEPTH:
            queue.extend((name, member, depth + 1) for name, member in members if not is_plain(member))
    if not rated_lists:
        return [alone] if alone is not None else []
    # By kind first, then by number: three pages with addresses are better results than forty suggestions without.
    best = max(rated_lists, key=lambda each: each[:2])[2]
    distinct_lists = [best]
    for _, _, other in rated_lists:
        # A list inside a result, such as its links or images, is not a list of results.
        apart = not any(_within(other.path, each.path) or _within(each.path, other.path) for each in distinct_lists)
        if apart and other.rating >= _TEXT:
            distinct_lists.append(other)
    return distinct_lists


def _within(path: str, other: str) -> bool:
    return path == other or not other or path.startswith((f"{other}.", f"{other}["))


def _is_page(record: dict[str, object]) -> bool:
    """Returns whether an object is a result by itself: a page that was read, with an address, a title and a text."""
    names = {key(name) for name in record}
    if not ({"title", "name"} & names and names & {"url", "link", "href", "uri"}):
        return False
    result = read_result(record, COMMON, 1)
    return result is not None and bool(result.url and result.title and (result.content or result.snippet))


def _good(items: list[object]) -> tuple[int, int]:
    """Returns the best kind of which a list has enough items, and how many it probably has; zeros if there is none."""
    judged = items[:_JUDGED_ITEMS]
    counts = {_ADDRESS: 0, _TEXT: 0, _BARE: 0}
    for item in judged:
        result = read_result(item, COMMON, 1)
        if result is not None and (rating := _rating(result, item)):
            counts[rating] += 1
    # Items of a better kind count as well: a list of addresses may have a record among them.
    good = counts[_ADDRESS]
    for rating in (_ADDRESS, _TEXT, _BARE):
        good = counts[rating] + (good if rating != _ADDRESS else 0)
        if counts[rating] and good >= _MIN_RESULT_SHARE * len(judged):
            return rating, len(items) * good // len(judged)
    return 0, 0


def _rating(result: SearchResult, item: object) -> int:
    """Returns the kind of an item; 0 for an object with an address somewhere inside and nothing to read."""
    if result.title or result.snippet or result.content or result.more:
        return _ADDRESS if result.url else _TEXT
    record = record_of(item)
    return _BARE if record is None or result.url in record.values() else 0


def _read_keyed_items(record: dict[str, object]) -> list[object]:
    """Returns the members of an object whose names are addresses, as items with these addresses; else empty."""
    out: list[object] = []
    for name, member in record.items():
        inner = record_of(member)
        if inner is None or not name.startswith(("http://", "https://")):
            return []
        out.append({"url": name, **inner})
    return out
