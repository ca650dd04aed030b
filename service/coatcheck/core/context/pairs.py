"""Pairs calls with outputs, over a whole body.

They are paired by ID wherever there is one, over the whole list; an ID that was used before belongs to the newest open
call with it. Calls without IDs are paired with outputs of the same name in order. The rest are open calls and orphans,
whose other half a provider may have.
"""

from typing import final

from msgspec import Struct

from coatcheck.core.context.body.model import HistoryCall, HistoryIndex, Output


class Pair(Struct, frozen=True):
    """A call and its output, by the numbers of their items."""

    call_item: int
    call: HistoryCall
    output_item: int
    output: Output


class Pairs(Struct, frozen=True):
    """All pairs of a body in the order of their outputs, and what has no other half."""

    pairs: list[Pair]
    open: list[tuple[int, HistoryCall]]
    orphans: list[tuple[int, Output]]


def pair(index: HistoryIndex) -> Pairs:
    """Pairs the calls of an index with its outputs."""
    waiting = _Waiting()
    pairs: list[Pair] = []
    orphans: list[tuple[int, Output]] = []
    for number, item in enumerate(index.items):
        for call in item.calls:
            waiting.add(number, call)
        for output in sorted(item.outputs, key=_without_id):  # an ID is more reliable than the order
            waiting_call = waiting.take(output)
            if waiting_call is None:
                orphans.append((number, output))
            else:
                pairs.append(Pair(*waiting_call, number, output))
    late = [(orphan, waiting_call) for orphan in orphans if (waiting_call := waiting.take_by_id(orphan[1])) is not None]
    if late:  # outputs that precede their calls
        pairs += [Pair(*call, number, output) for (number, output), call in late]
        pairs.sort(key=lambda one: one.output_item)
        paired = {id(output) for (_, output), _ in late}
        orphans = [orphan for orphan in orphans if id(orphan[1]) not in paired]
    return Pairs(pairs, list(waiting.open.values()), orphans)


def _without_id(output: Output) -> bool:
    return output.call_id is None


@final
class _Waiting:
    """Calls without an output yet. What was taken under one name is skipped under its others."""

    def __init__(self) -> None:
        self.open: dict[int, tuple[int, HistoryCall]] = {}
        self._keyed: dict[str, list[tuple[int, _Line]]] = {}
        """By key, the items with such calls, newest last."""
        self._named: dict[str | None, _Line] = {}
        """By name, its calls in order; under None, all of them."""

    def add(self, number: int, call: HistoryCall) -> None:
        """Adds a call."""
        self.open[id(call)] = (number, call)
        for key in call.keys:
            stack = self._keyed.setdefault(key, [])
            if not stack or stack[-1][0] != number:
                stack.append((number, _Line()))
            stack[-1][1].calls.append(call)
        for name in {None, call.name}:
            self._named.setdefault(name, _Line()).calls.append(call)

    def take(self, output: Output) -> tuple[int, HistoryCall] | None:
        """Returns the call that an output answers, which then no longer waits; None if there is none."""
        if not output.keys:
            return self._first(self._named.get(output.name, _Line()))
        for key in output.keys:
            stack = self._keyed.get(key, [])
            while stack:
                waiting_call = self._first(stack[-1][1])
                if waiting_call is not None:
                    return waiting_call
                _ = stack.pop()
        return None

    def take_by_id(self, output: Output) -> tuple[int, HistoryCall] | None:
        """Returns the waiting call with the output's ID; without order, names are not reliable enough."""
        if output.call_id is None or output.call_id not in output.keys:
            return None
        for _, line in reversed(self._keyed.get(output.call_id, [])):
            waiting_call = self._first(line)
            if waiting_call is not None:
                return waiting_call
        return None

    def _first(self, line: "_Line") -> tuple[int, HistoryCall] | None:
        while line.at < len(line.calls):
            line.at += 1
            waiting_call = self.open.pop(id(line.calls[line.at - 1]), None)
            if waiting_call is not None:
                return waiting_call
        return None


class _Line:
    """Calls that are taken from the front. There is one per call, and a deque takes ten times the memory."""

    __slots__ = ("at", "calls")

    def __init__(self) -> None:
        self.calls: list[HistoryCall] = []
        self.at = 0
