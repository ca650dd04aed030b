"""When a history was sent, what was the latest turn then, and which of its items stay or go together.

A request was sent before each run of items that the model wrote, and one is sent now: those are the moments. A moment
knows only the history before it, so that decisions made moment by moment are the same in every longer history.

A segment is a message of the user, or a run of the model with the outputs that follow it (parallel calls are one run).
Segments that a call and its output connect form one block, wherever they are; a block with a call that is still open at
a moment ends after that moment, and is never left out.
"""

from bisect import bisect_left
from typing import final

from msgspec import Struct

from coatcheck.core.context.body.model import HistoryIndex, Item, Role
from coatcheck.core.context.notice import carrier_of, notice_in
from coatcheck.core.context.pairs import Pairs


class TimelineBlock(Struct, frozen=True):
    """Items that stay or go together."""

    items: tuple[int, ...]
    """Their numbers, in order."""
    end: int
    """One past the last."""


@final
class Timeline:
    """The moments and blocks of a history."""

    def __init__(self, index: HistoryIndex, pairs: Pairs) -> None:
        items = index.items
        self.size = len(items)
        self.notices = [number for number, item in enumerate(items) if notice_in(item) is not None]
        self.carriers = [number for number, item in enumerate(items) if carrier_of(item) is not None]
        """Messages with a notice in them, including `notices`, which are nothing else."""
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
        """Returns where the model's last step begins at a moment: its last run, with later results.

        Returns the moment itself if the model has not said anything yet.
        """
        at = bisect_left(self.runs, moment)
        return self.runs[at - 1] if at else moment

    def turn(self, moment: int) -> int:
        """Returns where the latest turn begins at a moment: the user's last message, or the last step if earlier."""
        prompt = self.prompt(moment)
        step = self.step(moment)
        return step if prompt is None else min(prompt, step)

    def recent(self, moment: int) -> int:
        """Returns where the turn before the latest begins at a moment: the user may still refer to it."""
        turn = self.turn(moment)
        step = self.step(turn)
        prompt = self.prompt(step)
        return min(turn, step, prompt or 0)

    def _blocks(self, items: list[Item], pairs: Pairs) -> list[TimelineBlock]:
        """Returns what may be left out, in the order of the blocks' ends.

        Blocks that never may are marked as pinned items.
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
        """Returns the segment of each item, and the segments that one run of the model connects."""
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
    """Returns whether an item says nothing about whose turn it is."""
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
        a, b = sorted((top(first), top(second)))
        parent[b] = a
    return [top(one) for one in range(count)]
