"""Which candidates are replaced and which blocks left out: the decisions of every request so far, made again in order.

Nothing is remembered between requests. Instead the history is walked through moment by moment, and at each moment only
what was there then decides. So the same history always gives the same result, a longer one keeps every earlier
decision, and what was decided is final: a text that became a card stays one.

At a moment, in this order:

1. Outputs that are new and over `latest_tokens` become cards: before the model has seen them, so at no cost.
2. What is out of protection is replaced: what can be had again at once, the rest when it saves `batch_tokens` or, where
   that is not given, when repeating it has cost as much as changing the prompt's cached prefix does.
3. Only over the budget, and each only while the body is over what it settles at: candidates by their `Rank`, the oldest
   first; then the oldest blocks are left out. The last message of the user and blocks of the last step stay.

Settling below the budget is what makes cuts rare: the next one comes when the difference is used up.
"""

from collections import deque
from enum import IntEnum
from typing import final

from msgspec import Struct

from coatcheck.core.context.counting import MESSAGE
from coatcheck.core.context.notice import notice_tokens
from coatcheck.core.context.policy import CACHED_PERCENT, QUIET_BATCH, CompactionPolicy
from coatcheck.core.context.replaceable import ReplacementCandidate
from coatcheck.core.context.timeline import Timeline, TimelineBlock
from coatcheck.core.context.window import Budget
from coatcheck.core.text.long_text import Text, is_text


class Rank(IntEnum):
    """The order in which candidates go while a body is over its budget."""

    READS = 0
    """Answers of reads from finished turns."""
    SEARCHES = 1
    OUTPUTS = 2
    ARGUMENTS = 3
    STEPS = 4
    """Outputs and arguments of the latest turn's finished steps."""
    FILES = 5
    """Files that the model asked for, of any finished step."""
    REPEATABLE = 6
    """Reads and searches of the latest turn's finished steps."""
    MESSAGES = 7
    LAST_STEP = 8
    """Results of the last step: only if what may not be left out is too much by itself."""


class ReplayDecisions(Struct, frozen=True):
    """The decisions of a replayed history."""

    replaced: dict[int, int | None]
    """Numbers of candidates in the order of their replacement; each with the earlier replaced one that has the same
    content, if any."""
    dropped: set[int]
    """Numbers of items."""
    expected: int
    """Maximum tokens of the result."""
    waiting: set[int]
    """Numbers of candidates that are no longer protected and wait for a batch."""


@final
class Replay:
    """One pass through a history."""

    def __init__(
        self,
        timeline: Timeline,
        candidates: list[ReplacementCandidate],
        sizes: list[int],
        fixed: int,
        policy: CompactionPolicy,
        budget: Budget | None,
    ) -> None:
        self._line = timeline
        self._all = candidates
        self._policy = policy
        self._budget = budget
        self._now = list(sizes)
        """Tokens of each item after the decisions so far."""
        self._fixed = fixed
        self._total = fixed
        self._held = [0]
        """Tokens of items that are never left out, up to each item."""
        for size, pinned in zip(sizes, timeline.pinned, strict=True):
            self._held.append(self._held[-1] + size * pinned)
        self._notice = 0 if budget is None else notice_tokens(budget.settle) + MESSAGE
        self._replaced: dict[int, int | None] = {}
        self._contents: dict[Text, int] = {}
        """By content, the first candidate with it that was replaced."""
        self._dropped: set[int] = set()
        self._queue: deque[TimelineBlock] = deque(timeline.blocks)
        order = sorted(range(len(candidates)), key=lambda number: candidates[number].message)
        self._arriving = deque(order)
        self._live: list[int] = []
        """Candidates that have arrived and are neither replaced nor left out."""
        unpressed = [number for number in order if not candidates[number].pressed]
        late = {number for number in unpressed if policy.is_quiet and candidates[number].kind in {"output", "media"}}
        self._early = _Waiting(candidates, [number for number in unpressed if number not in late])
        self._late = _Waiting(candidates, [number for number in unpressed if number in late])
        self._released: list[int] = []
        """Candidates that are no longer protected and wait."""
        self._spent = 0
        """What repeating the waiting candidates has cost so far, in hundredths of a token."""

    def run(self) -> ReplayDecisions:
        """Decides at every moment, in order."""
        before = 0
        for moment in self._line.moments:
            self._total += sum(self._now[before:moment])
            self._first_sight(moment)
            self._release(moment)
            if self._budget is not None and self._total > self._budget.start:
                self._relieve(moment, self._budget.settle)
            before = moment
        waiting = set(self._released) - self._replaced.keys()
        return ReplayDecisions(self._replaced, self._dropped, self._total, waiting)

    def _first_sight(self, moment: int) -> None:
        limit = self._policy.latest_tokens
        files = limit if limit is None or self._budget is None else max(limit, self._budget.start // 4)
        while self._arriving and self._all[self._arriving[0]].message < moment:
            number = self._arriving.popleft()
            one = self._all[number]
            self._live.append(number)
            most = files if one.file else limit
            if most is not None and one.kind == "output" and one.tokens > most:
                self._replace([number])

    def _release(self, moment: int) -> None:
        """Replaces what is no longer protected, if that is worth the change."""
        turn = self._line.turn(moment)
        border = {"turn": turn, "step": self._line.step(moment), "none": moment}[self._policy.protect]
        self._released += self._early.release(min(border, moment), turn, moment)
        self._released += self._late.release(self._line.recent(moment), turn, moment)
        self._released = [number for number in self._released if self._is_live(number)]
        if self._policy.is_quiet:
            again = [number for number in self._released if self._all[number].can_be_had_again]
            self._replace(again)
            self._released = [number for number in self._released if number not in self._replaced]
        if self._released and self._is_worth(moment, self._saved(self._released)):
            self._replace(self._released)
            self._released, self._spent = [], 0

    def _is_worth(self, moment: int, saved: int) -> bool:
        """Returns whether waiting candidates are replaced: once waiting has cost as much as replacing them costs.

        A cache charges a tenth for what it has, so each request that repeats them wastes a tenth of their price;
        replacing them costs the rest of the price, once, for everything after the first place that changes.
        """
        if not self._policy.is_quiet:
            return saved >= max(self._policy.batch_tokens or 0, 1)
        self._spent += CACHED_PERCENT * saved
        first = min(self._all[number].message for number in self._released)
        behind = sum(self._now[first:moment]) - saved
        return saved >= QUIET_BATCH and self._spent >= (100 - CACHED_PERCENT) * behind

    def _is_live(self, number: int) -> bool:
        return number not in self._replaced and self._all[number].message not in self._dropped

    def _saved(self, numbers: list[int]) -> int:
        return sum(max(self._all[number].saves, 1) for number in numbers)

    def _replace(self, numbers: list[int]) -> None:
        for number in numbers:
            if self._is_live(number):
                one = self._all[number]
                same = self._contents.setdefault(one.content, number) if is_text(one.content) else number
                self._replaced[number] = None if same == number or one.kind != "output" else same
                self._now[one.message] -= one.saves
                self._total -= one.saves

    # ---------------------------------------------------------------------------------------- over the budget

    def _relieve(self, moment: int, settle: int) -> None:
        self._spent = 0
        turn, step = self._line.turn(moment), self._line.step(moment)
        prompt = self._line.prompt(moment)
        ranked: dict[Rank, list[int]] = {rank: [] for rank in Rank}
        self._live = [number for number in self._live if self._is_live(number)]
        for number in self._live:
            one = self._all[number]
            if one.ready <= moment and (rank := _rank(one, turn, step, prompt)) is not None:
                ranked[rank].append(number)
        for rank in Rank:
            if rank is Rank.LAST_STEP and self._kept(moment, step) <= settle:
                continue
            for number in ranked[rank]:
                if self._total <= settle:
                    return
                self._replace([number])
        if self._total > settle:
            self._leave_out(moment, step, settle)

    def _kept(self, moment: int, step: int) -> int:
        """Returns the tokens that cannot be left out at a moment."""
        prompt = self._line.prompt(moment)
        alone = self._now[prompt] if prompt is not None and prompt < step else 0
        return self._fixed + self._held[step] + alone + sum(self._now[step:moment]) + self._notice

    def _leave_out(self, moment: int, step: int, settle: int) -> None:
        """Leaves out the oldest blocks, until the body is small enough or nothing is left that may go.

        Leaves out none if together they are smaller than the notice that replaces them.
        """
        prompt = self._line.prompt(moment)
        cost = 0 if self._dropped or self._line.notices else self._notice
        gain = 0
        spared: list[TimelineBlock] = []
        gone: list[TimelineBlock] = []
        while self._queue and self._queue[0].end <= step and self._total + cost - gain > settle:
            block = self._queue.popleft()
            if prompt in block.items:
                spared.append(block)
                continue
            gone.append(block)
            gain += sum(self._now[item] for item in block.items)
        if gain > cost:
            self._total += cost - gain
            for item in (item for block in gone for item in block.items):
                self._dropped.add(item)
                self._now[item] = 0
        else:
            spared = sorted([*spared, *gone], key=lambda block: block.end)
        self._queue.extendleft(reversed(spared))


def _rank(one: ReplacementCandidate, turn: int, step: int, prompt: int | None) -> Rank | None:  # noqa: PLR0911 - a table
    """Returns when a candidate goes; None while it may not."""
    at = one.message
    if one.kind == "message":
        return Rank.MESSAGES if at < max(step, prompt or 0) and at != prompt else None
    if one.kind in {"read", "search"}:
        if at >= turn:
            return Rank.REPEATABLE if at < step else None
        return Rank.READS if one.kind == "read" else Rank.SEARCHES
    if at >= step:
        return Rank.LAST_STEP
    if one.file:
        return Rank.FILES
    if at >= turn:
        return Rank.STEPS
    return Rank.ARGUMENTS if one.kind == "arguments" else Rank.OUTPUTS


@final
class _Waiting:
    """Candidates in the order in which they cease to be protected."""

    def __init__(self, candidates: list[ReplacementCandidate], order: list[int]) -> None:
        self._all = candidates
        self._reads = deque(number for number in order if candidates[number].kind in {"read", "search"})
        self._others = deque(number for number in order if candidates[number].kind not in {"read", "search"})
        self._incomplete: list[int] = []
        """No longer protected, but with a call that is not completely answered."""

    def release(self, border: int, turn: int, moment: int) -> list[int]:
        """Takes what precedes the border and is complete; reads and searches only once their turn is over."""
        released: list[int] = []
        while self._reads and self._all[self._reads[0]].message < min(border, turn):
            released.append(self._reads.popleft())
        while self._others and self._all[self._others[0]].message < border:
            self._incomplete.append(self._others.popleft())
        released += [number for number in self._incomplete if self._all[number].ready <= moment]
        self._incomplete = [number for number in self._incomplete if self._all[number].ready > moment]
        return released
