"""First phase of a compaction: decides what is stored and what replaces it. Changes nothing.

    index = index_of(body)
    known = ...                                                  the caller asks the store for `references(index)`
    planner = Planner(body, policy, counter, PlanContext(index=index, known_artifacts=known, window=...))
    stored = {}
    while isinstance(step := planner.advance(stored), list):     payloads whose cards decide how the plan continues
        stored |= {payload.key: ... for payload in step}         the caller stores them
    stored |= {payload.key: ... for payload in step.payloads_to_store if payload.key not in stored}
    result = carry_out(body, step, stored, counter)

The caller stores each payload as ingest would, with its tool name and call ID, and asks for a card of at most
`planner.card_tokens`. The plan is only valid for the body from which it was made.
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
"""Key of the payload that contains the messages left out."""
_CARDS_PER_BUDGET: Final = 80
"""Number of full-size cards for which a budget has room. With a small budget, cards are made smaller, so that as many
of them fit."""
_MIN_CARD_TOKENS: Final = 128
"""Minimum tokens of a card: in a smaller one, its own lines leave no room for the payload. Chosen, not measured."""


class PlanContext(Struct, frozen=True, kw_only=True):
    """What the caller knows in addition to a body and a policy."""

    index: HistoryIndex | None = None
    """The index of the body, if the caller has made it already."""
    known_artifacts: KnownArtifacts = KnownArtifacts()
    window: ModelWindow | None = None
    """The model's window; None: the window known by the model's name, if there is one."""
    compact_percent: int = 80
    """Percentage of the usable window from which a body is made smaller."""


class CompactionPlan(Struct, frozen=True, kw_only=True):
    """The decisions of a compaction of one body."""

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
    """Tokens of everything outside the messages."""
    sizes: list[ContextTokens]
    """Tokens of each message before the compaction."""
    replaceable: list[ReplacementCandidate]
    """Everything that the policy could replace, regardless of age."""
    replaced: set[int]
    """Numbers of the candidates in `replaceable` that are replaced."""
    before: ContextTokens
    """Tokens of the whole body before the compaction."""
    expected: int
    """Maximum tokens of the body after the compaction."""
    budget: CompactionBudget | None
    dropped_bytes: list[int]
    """Bytes of the JSON of each message that is left out."""

    @property
    def payloads_to_store(self) -> list[PlannedPayload]:
        """The payloads of the plan that must be stored."""
        return [payload for payload in self.payloads if payload.is_stored]


def plan(
    body: Value,
    policy: CompactionPolicy,
    counter: Counter,
    context: PlanContext = PlanContext(),  # noqa: B008 - frozen
) -> CompactionPlan:
    """Makes the plan for a body without asking for cards, as if every card had the maximum length.

    Args:
        body: a decoded request body in any format, or only its list of messages.
        policy: how to compact.
        counter: counts tokens; pass the same counter to `carry_out`, so that no text is counted twice.
        context: what the caller knows in addition.

    Raises:
        CoatcheckError: `unknown_format` for a body of no known format; `invalid_request` for a body with too many
            messages, a policy that contradicts itself, or a window with nothing left in it; `invalid_content` for a
            body that is nested too deeply.
    """
    planner = Planner(body, policy, counter, context)
    while isinstance(step := planner.advance({}), list):
        pass
    return step


@final
class Planner:
    """Makes the plan for a body, and asks for cards when it needs them; see `plan` for the arguments."""

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
        """Returns payloads whose cards decide how the plan continues, or the finished plan.

        Args:
            stored_payloads: the stored payloads, by key, of all payloads that were returned before; a payload that is
                missing could not be stored.

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
        # First the structure of the history: who calls what, in which order, and how large each message is.
        pairs = pair(index)
        line = Timeline(index, pairs)
        sizes = [counter.item(body, item) for item in index.items]
        fixed = counter.fixed(index)
        budget = self._budget
        # Then all candidates, with the minimum saving of each. The true length of a card is only known once its payload
        # is stored.
        candidates = Candidates(body, index, pairs, policy, counter, self._known)
        lengths = TrueLengths(body, candidates.candidates, counter, policy.card_tokens)
        price = cache_price(body, index.format)
        totals = [size.total for size in sizes]
        first_signs = (candidates.compacted, candidates.first_card)
        replay = Replay(
            line, candidates.candidates, totals, first_signs, fixed.total, policy, budget, price, lengths
        ).run()
        # The replay pauses if a decision depends on a card that does not exist yet; the caller stores the payload and
        # resumes. Cards that no decision depends on are never requested here.
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
        # Payloads to store: one for each replaced candidate, and one artifact with everything left out. The latter
        # contains earlier notices, so that each notice leads to the artifact of the one before it.
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
    """Returns the payload of a candidate that is replaced or whose message is left out."""
    one = candidates[replacement.candidate]
    fields = {name: getattr(one, name) for name in ReplaceablePayload.__struct_fields__}
    # A name with half of a surrogate pair cannot be stored, so the payload is stored without it.
    fields |= {name: None for name in ("tool", "call_id") if not is_utf8(fields[name] or "")}
    return PlannedPayload(
        **fields,
        key=f"p{replacement.candidate}",
        role=index.items[one.message].role.value,
        left_out=one.message in dropped,
        same_as=None if replacement.same is None else f"p{replacement.same}",
    )


def _make_omitted_payload(index: HistoryIndex, first: int, lines: MessageLines) -> PlannedPayload:
    """Returns the payload with the messages that are left out, including earlier notices."""
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
    """Returns the large values that stay, with reasons."""
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
    """Returns the large instructions and tool declarations outside the messages."""
    leftovers: list[UnreplacedItem] = []
    for key, value in as_object(body).items():
        if value is index.tools or any(value is one for one in index.system):
            tokens = counter.json(value)
            if tokens > policy.inline_tokens:
                leftovers.append(UnreplacedItem(render((key,)), tokens, "instructions and tools are never changed"))
    return leftovers
