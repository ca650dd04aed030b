"""Decides which candidates are replaced and which blocks are left out, by repeating the decisions of every request.

Nothing is stored between requests. Instead the history is replayed moment by moment (a moment is the time of one
request, see timeline.py), and each decision depends only on the messages that existed at its moment. The same history
therefore always gives the same result, a longer history repeats every earlier decision, and decisions are final: a text
that became a card stays a card.

At each moment, in this order:

1. New outputs of more than `latest_tokens` become cards. The model has not seen them yet, so this costs nothing.
2. Candidates that are no longer protected are replaced. If the policy gives `batch_tokens`, this happens once they save
   that many tokens together. Otherwise, without `protect=turn`, it happens at once; with it, texts of searches are
   replaced at once, and all others once they save `QUIET_BATCH_TOKENS` and repeating them has cost as much as a change
   of the cached prefix costs.
3. Only if the body is over its budget, candidates are replaced in the order of `Step`: the smallest loss for the model
   first and, within a step, the oldest first. Finished steps, images and long messages are replaced until the body
   reaches the budget's target; the other steps, only until it fits. If the body would not fit even without the outputs
   of the last step, blocks are left out before these outputs, the oldest first. The user's last message and the calls
   of the last step always stay.

The target is below the budget so that cuts are rare: the next cut comes when new messages have used up the difference.
The lengths of cards are requested only if a decision depends on them, and only for the candidates to replace (`run`).
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
    """The order in which candidates are replaced while a body is over its budget."""

    FINISHED = 0
    """Arguments and outputs of finished steps. They are replaced by age alone, so that a longer history continues this
    order."""
    MIDDLE = 1
    """Images, and the middles of long messages."""
    DUG_OUT = 2
    """Reads of artifacts before the last step: the model chose to have them in its context."""
    LAST = 3
    """Outputs, arguments and images of the last step."""
    JUST_READ = 4
    """Reads and searches of the last step. Blocks are left out before them, since the model would repeat these calls at
    once."""


class ReplayDecisions(Struct, frozen=True):
    """The decisions of a replay."""

    replaced: dict[int, Replacement]
    """Replacements by the numbers of their candidates, in the order in which they were decided."""
    dropped: set[int]
    """Numbers of the items that are left out."""
    expected: int
    """Maximum tokens of the body that results."""
    waiting: set[int]
    """Numbers of the candidates that are no longer protected and wait until their replacement pays."""


Asking = Generator[list[Replacement], None, None]
"""Yields replacements whose cards must be made before the generator is resumed."""


@final
@dataclass
class Replay:
    """One pass through a history."""

    line: Timeline
    candidates: list[ReplacementCandidate]
    sizes: list[int]
    """Tokens of each item as it is in the body."""
    first_signs: tuple[int, int]
    """Number of the first item that shows an earlier compaction, and of the first item with a card."""
    fixed: int
    """Tokens of the body outside the items."""
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
        """Replacements that are counted with their minimum saving, because the lengths of their cards are not known
        yet."""
        self._contents: dict[Text, int] = {}
        """By content, the number of the first replaced candidate that has it."""
        self._dropped: set[int] = set()
        # Candidates and blocks that are not decided yet. Each queue has the order of the history and is read from the
        # left, so that a replay takes linear time for any number of requests.
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
        """Numbers of candidates that are no longer protected, but whose calls have not all their outputs yet."""
        self._released: list[int] = []
        """Numbers of candidates that are no longer protected and wait until their replacement pays."""
        self._repeated = 0
        """Tokens that waiting has cost so far: each request adds the tokens that it would have saved without the
        waiting candidates."""

    def run(self) -> Generator[list[Replacement], None, ReplayDecisions]:
        """Makes the decisions of every moment, in order.

        Yields replacements whose lengths must be known before the generator is resumed, each replacement at most once.
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
        # A file that the model asked to read stays whole if it takes at most a quarter of the budget.
        files = limit if limit is None or self.budget is None else max(limit, self.budget.start // 4)
        while self._arriving and self.candidates[self._arriving[0]].message < moment:
            number = self._arriving.popleft()
            one = self.candidates[number]
            self._live.append(number)
            most = files if one.file else limit
            if most is not None and one.kind == "output" and one.tokens > most:
                self._replace([number])

    def _release(self, moment: int) -> None:
        """Replaces candidates that are no longer protected, if the saving is worth changing the cached prefix."""
        turn = self.line.turn(moment)
        border = {"turn": turn, "step": self.line.step(moment), "none": moment}[self.policy.protect]
        # If the policy is quiet, searches are replaced when their turn ends. All other candidates stay protected one
        # turn longer, because the user's next message is usually about them.
        if self.policy.is_quiet:
            self._replace(self._take_unprotected(self._transient, turn))
            released, border = [], self.line.recent(moment)
        else:
            released = self._take_unprotected(self._transient, min(border, turn))
        # If calls run in parallel, their arguments stay until the last output is there.
        self._incomplete += self._take_unprotected(self._others, min(border, moment))
        released += [number for number in self._incomplete if self.candidates[number].ready <= moment]
        self._incomplete = [number for number in self._incomplete if self.candidates[number].ready > moment]
        self._released = [number for number in (*self._released, *released) if self._is_live(number)]
        if self._released and self._is_worth(moment):
            self._replace(self._released)
            self._released, self._repeated = [], 0

    def _take_unprotected(self, numbers: deque[int], border: int) -> list[int]:
        """Removes the candidates before the message `border` from a queue, and returns them."""
        unprotected: list[int] = []
        while numbers and self.candidates[numbers[0]].message < border:
            unprotected.append(numbers.popleft())
        return unprotected

    def _is_worth(self, moment: int) -> bool:
        """Returns whether to replace the waiting candidates now: they save a batch, or waiting has cost too much."""
        saved = sum(max(self.candidates[number].saves, 1) for number in self._released)
        if not self.policy.is_quiet:
            return saved >= max(self.policy.batch_tokens or 0, 1)
        # Each request that repeats the waiting candidates costs their tokens again.
        self._repeated += saved
        # If the history was compacted before, the cost of waiting until then is no longer known, so nothing is
        # replaced. Cards alone do not show an earlier compaction, since a host may replace every output by a card when
        # it arrives. But then no output waits, so cards beside waiting outputs do show one.
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
        """Replaces candidates. Each counts with its minimum saving until a decision depends on the exact length."""
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
        """Replaces candidates, the smallest loss first, and leaves out blocks if needed, until the body fits.

        Replaces nothing if the exact lengths of cards show that the body fits already.
        """
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
            # The model has not seen the outputs of the last step yet. They are replaced only if that spares every
            # block, or if nothing else is left.
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
        """Returns the saving of a replacement.

        While the length of its card is unknown, returns an upper bound: all tokens of the candidate.
        """
        saved = self.lengths.saving(replacement)
        return self.candidates[replacement.candidate].tokens if saved is None else saved

    def _steps(self, moment: int) -> dict[Step, list[int]]:
        """Returns the candidates that may be replaced while the body is over its budget, by step, the oldest first."""
        last, prompt = self.line.step(moment), self.line.prompt(moment)
        steps: dict[Step, list[int]] = {step: [] for step in Step}
        self._live = [number for number in self._live if self._is_live(number)]
        for number in self._live:
            one = self.candidates[number]
            if one.ready <= moment and (step := step_of(one, last, prompt)) is not None:
                steps[step].append(number)
        return steps

    def _take(self, numbers: list[int], target: int) -> Asking:
        """Replaces candidates in order until the body has at most `target` tokens."""
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
            if unknown:  # once their lengths are known, more candidates may be needed
                yield unknown
                continue
            for replacement, saved in batch:
                self._replaced[replacement.candidate] = replacement
                self._count(replacement.candidate, saved)
            self._contents = contents
            return

    def _leave_out(self, moment: int, mark: int) -> None:
        """Leaves out the oldest blocks until the body has at most `mark` tokens, or no block is left that may go.

        Leaves out no block if all of them together are smaller than the notice that replaces them.
        """
        step, prompt = self.line.step(moment), self.line.prompt(moment)
        # A notice that exists already costs nothing more.
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
        # If the blocks save less than the notice takes, all of them stay.
        if gain > cost:
            self._total += cost - gain
            for item in (item for block in removed_blocks for item in block.items):
                self._dropped.add(item)
                self._now[item] = 0
        else:
            spared = sorted([*spared, *removed_blocks], key=lambda block: block.end)
        self._queue.extendleft(reversed(spared))


def step_of(one: ReplacementCandidate, last: int, prompt: int | None) -> Step | None:
    """Returns the step at which a candidate is replaced; None while it must stay."""
    at = one.message
    if one.kind == "message":
        return Step.MIDDLE if at < max(last, prompt or 0) and at != prompt else None
    if at >= last:
        return Step.JUST_READ if one.kind in {"read", "search"} else Step.LAST
    if one.kind == "media":
        return Step.MIDDLE
    return Step.DUG_OUT if one.kind == "read" else Step.FINISHED
