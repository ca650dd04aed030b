"""Which candidates are replaced and which blocks left out: the decisions of every request so far, made again in order.

Nothing is remembered between requests. Instead the history is walked through moment by moment, and at each moment only
what was there then decides. So the same history always gives the same result, a longer one keeps every earlier
decision, and what was decided is final: a text that became a card stays one.

At a moment, in this order:

1. Outputs that are new and over `latest_tokens` become cards: before the model has seen them, so at no cost.
2. What is out of protection is replaced: the text of a search at once, the rest when it saves `batch_tokens` or, where
   that is not given, when repeating it has cost as much as changing the prompt's cached prefix does.
3. Only over the budget, in the order of loss: what one call brings back, by `Step` and the oldest first, until the body
   is at what it settles at; of what was read again and of the last step only until it fits. Blocks are left out, the
   oldest first, only if all of that together is not enough. The user's last message and the last step's calls stay.

Settling below the budget is what makes cuts rare: the next one comes when the difference is used up. The lengths of
cards are asked for only where a decision depends on them, and only of what is taken (`run`).
"""

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import final

from msgspec import Struct

from coatcheck.core.context.counting import MESSAGE_TOKENS
from coatcheck.core.context.notice import notice_tokens
from coatcheck.core.context.policy import QUIET_BATCH_TOKENS, CompactionPolicy
from coatcheck.core.context.replace import TrueLengths
from coatcheck.core.context.replaceable import Replacement, ReplacementCandidate
from coatcheck.core.context.timeline import Timeline, TimelineBlock
from coatcheck.core.context.window import CachePrice, CompactionBudget
from coatcheck.core.text.long_text import Text, is_text


class Step(IntEnum):
    """The order in which candidates go while a body is over its budget."""

    FINISHED = 0
    """Arguments and outputs of finished steps: by age alone, so that a longer history only goes on with it."""
    MIDDLE = 1
    """Images, and the middle of long messages."""
    DUG_OUT = 2
    """What the model asked to read again: it has chosen that itself."""
    LAST = 3
    """Outputs of the last step, and its arguments."""
    JUST_READ = 4
    """Reads and searches of the last step, after blocks: the same call would bring them back into the same place."""


class ReplayDecisions(Struct, frozen=True):
    """The decisions of a replayed history."""

    replaced: dict[int, Replacement]
    """By the numbers of candidates, in the order of their replacement."""
    dropped: set[int]
    """Numbers of items."""
    expected: int
    """Maximum tokens of the result."""
    waiting: set[int]
    """Numbers of candidates that are no longer protected and wait for a batch."""


Asking = Generator[list[Replacement], None, None]
"""Yields replacements whose cards are to be cut before it goes on."""


@final
@dataclass
class Replay:
    """One pass through a history."""

    line: Timeline
    candidates: list[ReplacementCandidate]
    sizes: list[int]
    """Present tokens of each item."""
    first_signs: tuple[int, int]
    """The first items that show an earlier compaction, and a card."""
    fixed: int
    """Tokens outside the items."""
    policy: CompactionPolicy
    budget: CompactionBudget | None
    price: CachePrice
    lengths: TrueLengths

    def __post_init__(self) -> None:
        # The state of the history at the present moment.
        self._now = list(self.sizes)
        """Tokens of each item after the decisions so far."""
        self._arrived = 0
        self._compacted, self._first_card = self.first_signs
        self._total = self.fixed
        self._notice = 0 if self.budget is None else notice_tokens(self.budget.target) + MESSAGE_TOKENS
        self._replaced: dict[int, Replacement] = {}
        self._bounded: list[Replacement] = []
        """Replacements that are counted with the least that they save."""
        self._contents: dict[Text, int] = {}
        """By content, the first candidate with it that was replaced."""
        self._dropped: set[int] = set()
        # What has not been decided yet. Each queue is in the order of the history and read from the left, so that a
        # replay is linear, however many requests it goes through.
        self._queue: deque[TimelineBlock] = deque(self.line.blocks)
        order = sorted(range(len(self.candidates)), key=lambda number: self.candidates[number].message)
        self._arriving = deque(order)
        self._live: list[int] = []
        """Candidates that have arrived and are neither replaced nor left out."""
        transient = {"search"} if self.policy.is_quiet else {"search", "read"}
        unpressed = [number for number in order if not self.candidates[number].pressed]
        self._transient = deque(number for number in unpressed if self.candidates[number].kind in transient)
        self._others = deque(number for number in unpressed if self.candidates[number].kind not in transient)
        self._incomplete: list[int] = []
        """No longer protected, but with a call that is not completely answered."""
        self._released: list[int] = []
        """Candidates that are no longer protected and wait."""
        self._repeated = 0
        """Tokens that the waiting candidates have cost so far: of each once for each request that repeated it."""

    def run(self) -> Generator[list[Replacement], None, ReplayDecisions]:
        """Decides at every moment, in order.

        Yields replacements whose lengths must be known before it goes on, each at most once.
        """
        for moment in self.line.moments:
            self._arrive(moment)
            self._first_sight(moment)
            self._release(moment)
            if self.budget is not None and self._total > self.budget.start:
                yield from self._relieve(moment, self.budget)
        waiting = {number for number in self._released if self._is_live(number)}
        return ReplayDecisions(self._replaced, self._dropped, self._total, waiting)

    def _arrive(self, moment: int) -> None:
        before, self._arrived = self._arrived, moment
        self._total += sum(self._now[before:moment])

    def _first_sight(self, moment: int) -> None:
        limit = self.policy.latest_tokens
        # A file that the model asked for is left whole if it takes at most a quarter of the budget.
        files = limit if limit is None or self.budget is None else max(limit, self.budget.start // 4)
        while self._arriving and self.candidates[self._arriving[0]].message < moment:
            number = self._arriving.popleft()
            one = self.candidates[number]
            self._live.append(number)
            most = files if one.file else limit
            if most is not None and one.kind == "output" and one.tokens > most:
                self._replace([number])

    def _release(self, moment: int) -> None:
        """Replaces what is no longer protected, if that is worth the change."""
        turn = self.line.turn(moment)
        border = {"turn": turn, "step": self.line.step(moment), "none": moment}[self.policy.protect]
        # Searches go at their turn's end. Everything else waits a turn longer where it waits for pressure anyway: the
        # next message is mostly about it.
        if self.policy.is_quiet:
            self._replace(self._take_unprotected(self._transient, turn))
            released, border = [], self.line.recent(moment)
        else:
            released = self._take_unprotected(self._transient, min(border, turn))
        # Of calls that run in parallel, the arguments stay until the last output is there.
        self._incomplete += self._take_unprotected(self._others, min(border, moment))
        released += [number for number in self._incomplete if self.candidates[number].ready <= moment]
        self._incomplete = [number for number in self._incomplete if self.candidates[number].ready > moment]
        self._released = [number for number in (*self._released, *released) if self._is_live(number)]
        if self._released and self._is_worth(moment):
            self._replace(self._released)
            self._released, self._repeated = [], 0

    def _take_unprotected(self, numbers: deque[int], border: int) -> list[int]:
        """Takes the candidates before a message."""
        unprotected: list[int] = []
        while numbers and self.candidates[numbers[0]].message < border:
            unprotected.append(numbers.popleft())
        return unprotected

    def _is_worth(self, moment: int) -> bool:
        """Returns whether waiting candidates are replaced: once waiting has cost as much as replacing them costs."""
        saved = sum(max(self.candidates[number].saves, 1) for number in self._released)
        if not self.policy.is_quiet:
            return saved >= max(self.policy.batch_tokens or 0, 1)
        # Each request that repeats what waits pays for it again.
        self._repeated += saved
        # What was repeated before an earlier compaction can no longer be known. Cards are as old as their outputs where
        # all outputs became one at once: then none waits beside them.
        outputs = any(self.candidates[number].kind == "output" for number in self._released)
        if moment > self._compacted or (moment > self._first_card and outputs):
            return False
        first = min(self.candidates[number].message for number in self._released)
        going = (number for number in self._transient if first <= self.candidates[number].message < moment)
        behind = sum(self._now[first:moment]) - saved - sum(self.candidates[number].saves for number in going)
        return saved >= QUIET_BATCH_TOKENS and self.price.is_due(self._repeated, behind)

    def _is_live(self, number: int) -> bool:
        return number not in self._replaced and self.candidates[number].message not in self._dropped

    def _replacement(self, number: int, contents: dict[Text, int]) -> Replacement:
        one = self.candidates[number]
        if not one.becomes_card or not is_text(one.content):
            return Replacement(number)
        same = contents.setdefault(one.content, number)
        return Replacement(number, None if same == number else same)

    def _replace(self, numbers: Sequence[int]) -> None:
        """Replaces candidates; their lengths count once a decision depends on them."""
        for number in numbers:
            if self._is_live(number):
                replacement = self._replacement(number, self._contents)
                self._replaced[number] = replacement
                self._bounded.append(replacement)
                self._count(number, self.candidates[number].saves)

    def _count(self, number: int, saved: int) -> None:
        self._now[self.candidates[number].message] -= saved
        self._total -= saved

    # ---------------------------------------------------------------------------------------- over the budget

    def _relieve(self, moment: int, budget: CompactionBudget) -> Asking:
        """Takes the least loss until the body fits; nothing, if it does once all lengths are known."""
        bounded = [one for one in self._bounded if self.candidates[one.candidate].message not in self._dropped]
        yield from self._request_lengths(bounded)
        for one in bounded:
            self._count(one.candidate, self._saving(one) - self.candidates[one.candidate].saves)
        self._bounded = []
        if self._total <= budget.start:
            return
        self._repeated = 0
        steps = self._steps(moment)
        for step in (Step.FINISHED, Step.MIDDLE):
            yield from self._take(steps[step], budget.target)
        yield from self._take(steps[Step.DUG_OUT], budget.start)
        if self._total > budget.start:
            # The last step's outputs are new to the model: they only go where that spares every block, or must.
            contents = dict(self._contents)
            last = [self._replacement(number, contents) for number in steps[Step.LAST]]
            yield from self._request_lengths(last)
            if self._total - sum(max(self._saving(one), 0) for one in last) > budget.limit:
                self._leave_out(moment, budget.target)
        yield from self._take(steps[Step.LAST], budget.start)
        yield from self._take(steps[Step.JUST_READ], budget.limit)

    def _request_lengths(self, replacements: list[Replacement]) -> Asking:
        unknown = [one for one in replacements if self.lengths.saving(one) is None]
        if unknown:
            yield unknown

    def _saving(self, replacement: Replacement) -> int:
        """Returns what a replacement saves; of an unknown card, more than it can."""
        saved = self.lengths.saving(replacement)
        return self.candidates[replacement.candidate].tokens if saved is None else saved

    def _steps(self, moment: int) -> dict[Step, list[int]]:
        """Returns the candidates that may go, the oldest first."""
        last, prompt = self.line.step(moment), self.line.prompt(moment)
        steps: dict[Step, list[int]] = {step: [] for step in Step}
        self._live = [number for number in self._live if self._is_live(number)]
        for number in self._live:
            one = self.candidates[number]
            if one.ready <= moment and (step := step_of(one, last, prompt)) is not None:
                steps[step].append(number)
        return steps

    def _take(self, numbers: list[int], target: int) -> Asking:
        """Replaces candidates in order until the body is at `target`."""
        while self._total > target:
            total, contents, batch = self._total, dict(self._contents), list[tuple[Replacement, int]]()
            for number in numbers:
                if total <= target:
                    break
                replacement = self._replacement(number, contents)
                saved = self._saving(replacement)
                if saved > 0 or not self.candidates[number].saves:
                    batch.append((replacement, saved))
                    total -= saved
            unknown = [one for one, _ in batch if self.lengths.saving(one) is None]
            if unknown:  # with their lengths, more may have to go
                yield unknown
                continue
            for replacement, saved in batch:
                self._replaced[replacement.candidate] = replacement
                self._count(replacement.candidate, saved)
            self._contents = contents
            return

    def _leave_out(self, moment: int, mark: int) -> None:
        """Leaves out the oldest blocks, until the body is small enough or nothing is left that may go.

        Leaves out none if together they are smaller than the notice that replaces them.
        """
        step, prompt = self.line.step(moment), self.line.prompt(moment)
        # A notice that is there already costs nothing more.
        cost = 0 if self._dropped or self.line.carriers else self._notice
        gain = 0
        spared: list[TimelineBlock] = []
        removed_blocks: list[TimelineBlock] = []
        while self._queue and self._queue[0].end <= step and self._total + cost - gain > mark:
            block = self._queue.popleft()
            # The user's last message is never left out, wherever it is.
            if prompt in block.items:
                spared.append(block)
                continue
            removed_blocks.append(block)
            gain += sum(self._now[item] for item in block.items)
        # If together they save less than the notice takes, none of them goes.
        if gain > cost:
            self._total += cost - gain
            for item in (item for block in removed_blocks for item in block.items):
                self._dropped.add(item)
                self._now[item] = 0
        else:
            spared = sorted([*spared, *removed_blocks], key=lambda block: block.end)
        self._queue.extendleft(reversed(spared))


def step_of(one: ReplacementCandidate, last: int, prompt: int | None) -> Step | None:
    """Returns when a candidate goes; None while it may not."""
    at = one.message
    if one.kind == "message":
        return Step.MIDDLE if at < max(last, prompt or 0) and at != prompt else None
    if at >= last:
        return Step.JUST_READ if one.kind in {"read", "search"} else Step.LAST
    if one.kind == "media":
        return Step.MIDDLE
    return Step.DUG_OUT if one.kind == "read" else Step.FINISHED
