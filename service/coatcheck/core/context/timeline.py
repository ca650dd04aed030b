"""Finds when each request of a history was sent, where its latest turn began, and which items stay or go together.

A request was sent before each run of items that the model wrote, and another is sent now. The times of these requests
are the moments. A decision at a moment uses only the history before it; therefore decisions made moment by moment are
the same in every longer history.

Calls and outputs are paired over the whole body (`pair`). An output with an ID belongs to the newest open call with
this ID, since an ID may be used again; outputs and calls without IDs are paired by name, in order. The remaining calls
are open, and the remaining outputs are orphans; perhaps the provider stores their counterparts. A segment is a message
of the user, or a run of the model with the outputs that follow it (parallel calls are one run). Segments that a call
and its output connect form one block, wherever they are. A block with a call that is still open at a moment ends after
this moment, so that it cannot be left out yet.

Newer models of Anthropic sign each thinking block together with everything before it: system, tools, all earlier
messages. If anything before a block has changed, the request is refused, unless this and every later request have a
field and a header that allow dropping the block (platform.claude.com/docs/build-with-claude/preserved-thinking).
Thinking blocks before the change stay valid, even those in the changed message before its first changed block
(`invalid`, `send`).
"""

from bisect import bisect_left
from typing import Final, final

from msgspec import Struct

from coatcheck.core.context.body.encoding import Value, as_object
from coatcheck.core.context.body.model import Format, HistoryCall, HistoryIndex, Item, Output, Role
from coatcheck.core.context.body.splice import Pointer
from coatcheck.core.context.notice import carrier_of, notice_in
from coatcheck.core.context.report import RequestAdditions


class Pair(Struct, frozen=True):
    """A call and its output, with the numbers of the items that contain them."""

    call_item: int
    call: HistoryCall
    output_item: int
    output: Output


class Pairs(Struct, frozen=True):
    """All pairs of a body in the order of their outputs; calls without an output; and outputs without a call."""

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
    """The calls that have no output yet. A call that is taken by one of its keys is skipped under its other keys."""

    def __init__(self) -> None:
        self.open: dict[int, tuple[int, HistoryCall]] = {}
        self._keyed: dict[str, list[tuple[int, _Line]]] = {}
        """By key, the items with calls that have this key, newest last."""
        self._named: dict[str | None, _Line] = {}
        """By name, the calls with this name, in order; under None, all calls."""

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
        """Returns the call that an output answers, and removes it from the waiting calls; None if there is none."""
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
        """Returns the waiting call with the output's ID. Names are not used, since they are reliable only in order."""
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
    """A queue of calls. There is one queue per call, and a deque would take ten times the memory."""

    __slots__ = ("at", "calls")

    def __init__(self) -> None:
        self.calls: list[HistoryCall] = []
        self.at = 0


class TimelineBlock(Struct, frozen=True):
    """Items that are kept or left out together."""

    items: tuple[int, ...]
    """Numbers of the items, in order."""
    end: int
    """Number of the item after the last one."""


@final
class Timeline:
    """The moments and blocks of a history."""

    def __init__(self, index: HistoryIndex, pairs: Pairs) -> None:
        items = index.items
        self.size = len(items)
        self.notices = [number for number, item in enumerate(items) if notice_in(item) is not None]
        self.carriers = [number for number, item in enumerate(items) if carrier_of(item) is not None]
        """Messages that contain a notice, including `notices`, which contain nothing else."""
        notice_numbers = set(self.notices)
        self.prompts = [number for number, item in enumerate(items) if item.prompt and number not in notice_numbers]
        self.runs = _run_starts(items)
        first = next((number for number, item in enumerate(items) if not _transparent(item)), self.size)
        self.moments = sorted({*(start for start in self.runs if start > first), self.size})
        self.pinned: list[bool] = [item.pinned or number in notice_numbers for number, item in enumerate(items)]
        self.blocks = self._blocks(items, pairs)

    def prompt(self, moment: int) -> int | None:
        """Returns the number of the user's last message at a moment."""
        at = bisect_left(self.prompts, moment)
        return self.prompts[at - 1] if at else None

    def step(self, moment: int) -> int:
        """Returns where the model's last step begins at a moment: the model's last run, with the outputs after it.

        Returns the moment itself if the model has not written anything yet.
        """
        at = bisect_left(self.runs, moment)
        return self.runs[at - 1] if at else moment

    def turn(self, moment: int) -> int:
        """Returns where the latest turn begins at a moment: at the user's last message or the last step, if earlier."""
        prompt = self.prompt(moment)
        step = self.step(moment)
        return step if prompt is None else min(prompt, step)

    def recent(self, moment: int) -> int:
        """Returns where the second latest turn begins at a moment: the user may still refer to it."""
        turn = self.turn(moment)
        step = self.step(turn)
        prompt = self.prompt(step)
        return min(turn, step, prompt or 0)

    def _blocks(self, items: list[Item], pairs: Pairs) -> list[TimelineBlock]:
        """Returns the blocks that may be left out, in the order of their ends.

        Marks the items of all other blocks as pinned.
        """
        segment, links = self._segments(items)
        links += [(segment[one.call_item], segment[one.output_item]) for one in pairs.pairs]
        root = _group_segments(segment[-1] + 1 if segment else 0, links)
        members: dict[int, list[int]] = {}
        for number, at in enumerate(segment):
            members.setdefault(root[at], []).append(number)
        fixed = {number for number, _ in (*pairs.open, *pairs.orphans)}
        blocks: list[TimelineBlock] = []
        for numbers in members.values():
            if any(self.pinned[number] or number in fixed for number in numbers):
                for number in numbers:
                    self.pinned[number] = True
            else:
                blocks.append(TimelineBlock(tuple(numbers), numbers[-1] + 1))
        return sorted(blocks, key=lambda block: block.end)

    def _segments(self, items: list[Item]) -> tuple[list[int], list[tuple[int, int]]]:
        """Returns the segment of each item, and pairs of segments that one run of the model connects."""
        starts, prompts = set(self.runs), set(self.prompts)
        segment: list[int] = []
        links: list[tuple[int, int]] = []
        current, last_model = -1, -1
        for number, item in enumerate(items):
            apart = self.pinned[number] or (number > 0 and self.pinned[number - 1])
            if current < 0 or number in starts or number in prompts or apart:
                current += 1
            if item.model:
                if number not in starts and last_model not in {-1, current}:
                    links.append((last_model, current))
                last_model = current
            segment.append(current)
        return segment, links


def _transparent(item: Item) -> bool:
    """Returns whether an item does not show whose turn it is."""
    return not item.model and item.role in {Role.SYSTEM, Role.OTHER}


def _run_starts(items: list[Item]) -> list[int]:
    starts: list[int] = []
    running = False
    for number, item in enumerate(items):
        if item.model and not running:
            starts.append(number)
        if not _transparent(item):
            running = item.model
    return starts


def _group_segments(count: int, links: list[tuple[int, int]]) -> list[int]:
    """Returns the representative of each segment's group."""
    parent = list(range(count))

    def top(one: int) -> int:
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one

    for first, second in links:
        low, high = sorted((top(first), top(second)))
        parent[high] = low
    return [top(one) for one in range(count)]


BETA: Final = "thinking-binding-controls-2026-08-01"

Position = tuple[int, int]
"""A message's number, and the number of a content block in this message."""


def position(item: int, item_at: Pointer, at: Pointer) -> Position:
    """Returns the position of a pointer into an item; calls outside the content follow all blocks."""
    steps = at[len(item_at) :]
    for number, step in enumerate(steps[:-1]):
        after = steps[number + 1]
        if step == "content" and isinstance(after, int):
            return item, after
    return item, 1 << 30 if "tool_calls" in steps or "additional_kwargs" in steps else 0


def invalid(index: HistoryIndex, first: Position, dropped: set[int]) -> list[tuple[int, Pointer]]:
    """Returns the thinking blocks after the first change, with their messages' numbers, except those left out."""
    return [
        (number, opaque.at)
        for number, item in enumerate(index.items)
        if number >= first[0] and number not in dropped
        for opaque in item.opaque
        if opaque.kind == "thinking" and position(number, item.at, opaque.at) > first
    ]


def send(format_: Format, body: Value) -> RequestAdditions | None:
    """Returns what must be sent with a body that has invalid thinking; None if the format has no such means."""
    if format_ not in {Format.ANTHROPIC, Format.LANGCHAIN}:
        return None
    thinking = as_object(as_object(body).get("thinking")) or {"type": "adaptive"}
    binding = as_object(thinking.get("block_binding"))
    return RequestAdditions(
        headers={"anthropic-beta": BETA},
        body={"thinking": {**thinking, "block_binding": {**binding, "prefix_mismatch_behavior": "drop_block"}}},
    )
