"""Which candidates are replaced and which blocks left out: the decisions of every request so far, made again in order.

Nothing is remembered between requests. Instead the history is walked through moment by moment, and at each moment only
what was there then decides. So the same history always gives the same result, a longer one keeps every earlier
decision, and what was decided is final: a text that became a card stays one.

At a moment, in this order:

1. Outputs that are new and over `latest_tokens` become cards: before the model has seen them, so at no cost.
2. What is out of protection is replaced, once that saves `batch_tokens`.
3. Only over the budget, and each only while the body is over what it shall settle at: what waited for a batch; then
   what the latest turn holds apart from its last step; then the last step's outputs, if what may not be left out is
   alone too much; then the oldest blocks are left out. Blocks of the last step and the last message of the user stay.

Settling below the budget is what makes cuts rare: the next one comes when the difference is used up.
"""

from collections import deque
from typing import final

from msgspec import Struct

from coatcheck.core.context.candidates import ReplacementCandidate
from coatcheck.core.context.notice import NOTICE_TOKENS
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.context.timeline import Timeline, TimelineBlock


class ReplayDecisions(Struct, frozen=True):
    """What replaying a history decided."""

    replaced: set[int]
    """Numbers of candidates."""
    dropped: set[int]
    """Numbers of items."""
    expected: int
    """Tokens of the result, at most."""
    waiting: set[int]
    """Numbers of candidates that are out of protection and wait for a batch."""


@final
class Replay:
    """One walk through a history."""

    def __init__(
        self,
        timeline: Timeline,
        candidates: list[ReplacementCandidate],
        sizes: list[int],
        fixed: int,
        policy: CompactionPolicy,
    ) -> None:
        self._line = timeline
        self._all = candidates
        self._order = sorted(range(len(candidates)), key=lambda number: candidates[number].message)
        self._policy = policy
        self._now = list(sizes)
        """Tokens of each item after what was decided so far."""
        self._fixed = fixed
        self._total = fixed
        self._held = [0]
        """Tokens of items that are never left out, up to each item."""
        for size, pinned in zip(sizes, timeline.pinned, strict=True):
            self._held.append(self._held[-1] + size * pinned)
        self._replaced: set[int] = set()
        self._dropped: set[int] = set()
        self._queue: deque[TimelineBlock] = deque(timeline.blocks)
        self._pending: list[int] = []
        """Candidates out of protection, not replaced."""
        self._late: list[int] = []
        """Candidates out of protection whose call is not answered completely."""
        self._freed = 0
        self._seen = 0
        self._raw = 0
        """Every candidate before this place in the order is replaced or was taken out of protection."""

    def run(self) -> ReplayDecisions:
        """Decide at every moment in order."""
        before = 0
        for moment in self._line.moments:
            self._total += sum(self._now[before:moment])
            self._first_sight(moment)
            self._release(moment)
            if self._saved(self._pending) >= max(self._policy.batch_tokens, 1):
                self._replace(self._pending)
            limit = self._policy.max_tokens
            if limit is not None and self._total > limit:
                self._relieve(moment, limit * self._policy.settle_percent // 100)
            before = moment
        return ReplayDecisions(self._replaced, self._dropped, self._total, set(self._pending))

    def _protected(self, moment: int) -> int:
        """The number of the first item that is protected at a moment."""
        match self._policy.protect:
            case "turn":
                return self._line.turn(moment)
            case "step":
                return self._line.step(moment)
            case _:
                return moment

    def _first_sight(self, moment: int) -> None:
        limit = self._policy.latest_tokens
        while self._seen < len(self._order) and self._all[self._order[self._seen]].message < moment:
            number = self._order[self._seen]
            one = self._all[number]
            if limit is not None and one.kind == "output" and one.tokens > limit:
                self._replace([number])
            self._seen += 1

    def _release(self, moment: int) -> None:
        """Take what is out of protection now among what can be replaced."""
        border = min(self._protected(moment), moment)
        while self._freed < len(self._order) and self._all[self._order[self._freed]].message < border:
            self._late.append(self._order[self._freed])
            self._freed += 1
        self._pending += [number for number in self._late if self._all[number].ready <= moment]
        self._late = [number for number in self._late if self._all[number].ready > moment]
        gone = self._replaced
        self._pending = [number for number in self._pending if number not in gone and self._alive(number)]

    def _alive(self, number: int) -> bool:
        return self._all[number].message not in self._dropped

    def _saved(self, numbers: list[int]) -> int:
        return sum(max(self._all[number].saves, 1) for number in numbers)

    def _replace(self, numbers: list[int]) -> None:
        for number in numbers:
            if number not in self._replaced and self._alive(number):
                one = self._all[number]
                self._replaced.add(number)
                self._now[one.message] -= one.saves
                self._total -= one.saves
        self._pending = [number for number in self._pending if number not in self._replaced]

    def _relieve(self, moment: int, settle: int) -> None:
        self._replace(self._pending)
        step = self._line.step(moment)
        if self._total > settle:
            self._replace(self._between(0, step, moment))
        if self._total > settle and self._kept(moment, step) > settle:
            self._replace(self._between(step, moment, moment))
        if self._total > settle:
            self._leave_out(moment, step, settle)

    def _between(self, start: int, end: int, moment: int) -> list[int]:
        """Candidates that stand there and are complete at a moment."""
        self._raw = max(self._raw, self._freed)
        while self._raw < self._seen and self._order[self._raw] in self._replaced:
            self._raw += 1
        chosen = [number for number in self._late if start <= self._all[number].message < end]
        chosen += [number for number in self._order[self._raw : self._seen] if start <= self._all[number].message < end]
        return [number for number in chosen if self._all[number].ready <= moment]

    def _kept(self, moment: int, step: int) -> int:
        """Tokens that cannot be left out at a moment."""
        prompt = self._line.prompt(moment)
        alone = self._now[prompt] if prompt is not None and prompt < step else 0
        return self._fixed + self._held[step] + alone + sum(self._now[step:moment]) + NOTICE_TOKENS

    def _leave_out(self, moment: int, step: int, settle: int) -> None:
        """The oldest blocks, until the body is small enough or nothing is left that may go."""
        prompt = self._line.prompt(moment)
        spared: list[TimelineBlock] = []
        while self._queue and self._queue[0].end <= step and self._total > settle:
            block = self._queue.popleft()
            if prompt in block.items:
                spared.append(block)
                continue
            if not self._dropped and not self._line.notices:
                self._total += NOTICE_TOKENS
            self._dropped.update(block.items)
            self._total -= sum(self._now[item] for item in block.items)
        self._queue.extendleft(reversed(spared))
