"""First phase of a compaction: what shall be stored, and what shall take its place. Changes nothing.

    index = index_of(body)
    known = ...                                                  the caller asks the store for `references(index)`
    planner = Planner(body, policy, counter, PlanContext(index=index, known=known, window=...))
    stored = {}
    while (next_ := planner.advance(stored)) is not a plan:      payloads whose cards it must know before it goes on
        stored |= {payload.key: ... for payload in next_}        the caller stores them
    stored |= {payload.key: ... for payload in next_.stored}     and what remains
    done = carry_out(body, next_, stored, counter)

The caller stores each payload as ingest would, with its tool name and call ID, and asks for a card of the policy's
`card_tokens`. The plan belongs to the body it was made of.
"""

from collections.abc import Collection, Generator, Mapping
from typing import Final, final

from msgspec import Struct, structs

from coatcheck.core.context.body.encoding import MessageLines, Value, as_object, is_utf8, too_deep
from coatcheck.core.context.body.model import Format, HistoryIndex
from coatcheck.core.context.body.splice import get, render
from coatcheck.core.context.candidates import Candidates
from coatcheck.core.context.counting import ContextTokens, Counter
from coatcheck.core.context.detect import index_of
from coatcheck.core.context.policy import CompactionPolicy, check_policy
from coatcheck.core.context.references import KnownArtifacts
from coatcheck.core.context.replace import StoredPayload, TrueLengths, with_same
from coatcheck.core.context.replaceable import (
    PlannedPayload,
    ReplaceablePayload,
    Replacement,
    ReplacementCandidate,
    UnreplacedItem,
)
from coatcheck.core.context.replay import Replay, ReplayDecisions
from coatcheck.core.context.timeline import Timeline, pair
from coatcheck.core.context.window import CompactionBudget, ModelWindow, budget_of, cache_price

OMITTED: str = "omitted"
"""Key of the payload with the messages that are left out."""
_CARDS_PER_BUDGET: Final = 80
"""Cards of full size that a budget has room for: in a small one cards are smaller, rather than fewer messages stay."""
_MIN_CARD_TOKENS: Final = 128
"""Tokens of the smallest card: below, its own lines leave no room for the payload's. Chosen, not measured."""


class PlanContext(Struct, frozen=True, kw_only=True):
    """What is known besides a body and the policy."""

    index: HistoryIndex | None = None
    """That of the body, if it exists already."""
    known_artifacts: KnownArtifacts = KnownArtifacts()
    window: ModelWindow | None = None
    """The model's window; None: the one known by the model's name, if any."""
    compact_percent: int = 80
    """Share of the usable window from which a body is made smaller."""


class CompactionPlan(Struct, frozen=True, kw_only=True):
    """What a compaction will do to one body."""

    format: Format
    policy: CompactionPolicy
    index: HistoryIndex
    payloads: list[PlannedPayload]
    dropped: list[int]
    """Numbers of the messages that are left out, in order."""
    notices: list[int]
    """Numbers of the messages that are notices of earlier compactions."""
    leftovers: list[UnreplacedItem]
    copied: list[str]
    line: Timeline
    fixed: ContextTokens
    """Sizes of what is outside the messages."""
    sizes: list[ContextTokens]
    """Present size of each message."""
    replaceable: list[ReplacementCandidate]
    """Everything that the policy could replace, whatever its age."""
    replaced: set[int]
    """Those that are replaced."""
    before: ContextTokens
    """Present sizes of the whole body."""
    expected: int
    """Maximum tokens of the body afterwards."""
    budget: CompactionBudget | None
    dropped_bytes: list[int]
    """Bytes of each message that is left out, as JSON."""

    @property
    def payloads_to_store(self) -> list[PlannedPayload]:
        """The payloads to store."""
        return [payload for payload in self.payloads if payload.is_stored]


def plan(
    body: Value,
    policy: CompactionPolicy,
    counter: Counter,
    context: PlanContext = PlanContext(),  # noqa: B008 - frozen
) -> CompactionPlan:
    """Decides what to do with a body, as if every card had the policy's `card_tokens`.

    Args:
        body: a decoded request body in any format, or only its list of messages.
        policy: how to compact.
        counter: counts tokens; use the same one for `carry_out`, so that no text is counted twice.
        context: what else is known.

    Raises:
        CoatcheckError: `invalid_request` for an unknown format or a policy that contradicts itself; `invalid_content`
            for a body that is nested too deeply.
    """
    planner = Planner(body, policy, counter, context)
    while isinstance(step := planner.advance({}), list):
        pass
    return step


@final
class Planner:
    """Decides what to do with a body, asking for cards on the way; see `plan` for the arguments."""

    def __init__(
        self,
        body: Value,
        policy: CompactionPolicy,
        counter: Counter,
        context: PlanContext = PlanContext(),  # noqa: B008
    ) -> None:
        self._body, self._counter = body, counter
        self.index = index = context.index or index_of(body)
        self._known = context.known_artifacts
        policy = check_policy(policy)
        self._budget = budget_of(body, index, policy, context.window, context.compact_percent)
        self.card_tokens = policy.card_tokens
        """Maximum tokens of a card in this body."""
        if self._budget is not None:
            self.card_tokens = min(self.card_tokens, max(self._budget.start // _CARDS_PER_BUDGET, _MIN_CARD_TOKENS))
        self._policy = structs.replace(policy, card_tokens=self.card_tokens)
        self._stored: dict[str, StoredPayload] = {}
        self._steps = self._decide()

    def advance(self, stored_payloads: Mapping[str, StoredPayload]) -> list[PlannedPayload] | CompactionPlan:
        """Returns payloads whose cards decide how it goes on, or the plan.

        Args:
            stored_payloads: the results for all payloads that were returned before; what is missing could not be
                stored.

        Raises:
            CoatcheckError: `invalid_content` for a body that is nested too deeply.
        """
        self._stored |= stored_payloads
        try:
            return next(self._steps)
        except RecursionError as e:
            raise too_deep() from e

    def _decide(self) -> Generator[list[PlannedPayload] | CompactionPlan, None, None]:
        body, index, policy, counter = self._body, self.index, self._policy, self._counter
        # What the history is: who calls what, in which order, how large.
        pairs = pair(index)
        line = Timeline(index, pairs)
        sizes = [counter.item(body, item) for item in index.items]
        fixed = counter.fixed(index)
        budget = self._budget
        # What could go, and what each would save at least. A card's true length is only known once it is stored.
        candidates = Candidates(body, index, pairs, policy, counter, self._known)
        lengths = TrueLengths(body, candidates.candidates, counter, policy.card_tokens)
        price = cache_price(body, index.format)
        totals = [size.total for size in sizes]
        first_signs = (candidates.compacted, candidates.first_card)
        replay = Replay(
            line, candidates.candidates, totals, first_signs, fixed.total, policy, budget, price, lengths
        ).run()
        # The replay stops where a decision depends on a card that nobody has cut yet; the caller stores the payload and
        # comes back. Cards that decide nothing are never asked for.
        try:
            while True:
                payloads = {one: payload_of(index, candidates.candidates, one) for one in next(replay)}
                new = [payload for payload in payloads.values() if payload.key not in self._stored]
                if new:
                    yield new
                for one, payload in payloads.items():
                    lengths.learn(one, with_same(payload, self._stored))
        except StopIteration as end:
            decisions: ReplayDecisions = end.value
        # What is to be stored: each replaced candidate, and one artifact with all that is left out. Notices of earlier
        # compactions go into it, so that the chain of artifacts stays readable.
        payloads = [
            payload_of(index, candidates.candidates, decisions.replaced[number], decisions.dropped)
            for number in sorted(decisions.replaced)
        ]
        removed_messages = sorted({*decisions.dropped, *line.carriers}) if decisions.dropped else []
        lines = MessageLines(get(body, index.items[number].at) for number in removed_messages)
        if removed_messages:
            payloads.append(_make_omitted_payload(index, removed_messages[0], lines))
        yield CompactionPlan(
            format=index.format,
            policy=policy,
            index=index,
            payloads=payloads,
            dropped=sorted(decisions.dropped),
            notices=line.notices,
            leftovers=_find_leftovers(candidates, decisions, policy)
            + _find_leftovers_around(body, index, policy, counter),
            copied=candidates.copied,
            line=line,
            fixed=fixed,
            sizes=sizes,
            replaceable=candidates.candidates,
            replaced=set(decisions.replaced),
            before=ContextTokens.sum([fixed, *sizes]),
            expected=decisions.expected,
            budget=budget,
            dropped_bytes=[
                size for number, size in zip(removed_messages, lines.sizes, strict=True) if number in decisions.dropped
            ],
        )


def payload_of(
    index: HistoryIndex,
    candidates: list[ReplacementCandidate],
    replacement: Replacement,
    dropped: Collection[int] = (),
) -> PlannedPayload:
    """Returns what is to be stored of a candidate that is replaced, or whose message is left out."""
    one = candidates[replacement.candidate]
    fields = {name: getattr(one, name) for name in ReplaceablePayload.__struct_fields__}
    # Names with halves of surrogate pairs cannot be stored; the payload can be stored without them.
    fields |= {name: None for name in ("tool", "call_id") if not is_utf8(fields[name] or "")}
    return PlannedPayload(
        **fields,
        key=f"p{replacement.candidate}",
        role=index.items[one.message].role.value,
        left_out=one.message in dropped,
        same_as=None if replacement.same is None else f"p{replacement.same}",
    )


def _make_omitted_payload(index: HistoryIndex, first: int, lines: MessageLines) -> PlannedPayload:
    """Returns the messages that are left out, including earlier notices, as one payload."""
    return PlannedPayload(
        kind="message",
        why="left out",
        message=first,
        sites=(),
        content=lines,
        tokens=0,
        key=OMITTED,
        title=f"{len(lines.sizes):,} messages left out of a history",
        role=index.items[first].role.value,
        left_out=True,
    )


def _find_leftovers(
    candidates: Candidates, decisions: ReplayDecisions, policy: CompactionPolicy
) -> list[UnreplacedItem]:
    """Returns what is large and stays."""
    leftovers = [one for one in candidates.left if one.message not in decisions.dropped]
    for number, one in enumerate(candidates.candidates):
        if number not in decisions.replaced and one.message not in decisions.dropped:
            if one.tokens <= policy.inline_tokens:
                continue
            waits = "waits for a batch" if number in decisions.waiting else "stays while the window is not at stake"
            why = waits if number in decisions.waiting or one.pressed else "protected: the model still works with it"
            leftovers.append(UnreplacedItem(render(one.sites[0].at), one.tokens, why, one.message))
    return leftovers


def _find_leftovers_around(
    body: Value, index: HistoryIndex, policy: CompactionPolicy, counter: Counter
) -> list[UnreplacedItem]:
    """Returns large instructions and tools outside the messages."""
    leftovers: list[UnreplacedItem] = []
    for key, value in as_object(body).items():
        if value is index.tools or any(value is one for one in index.system):
            tokens = counter.json(value)
            if tokens > policy.inline_tokens:
                leftovers.append(UnreplacedItem(render((key,)), tokens, "instructions and tools are never changed"))
    return leftovers
