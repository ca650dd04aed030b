"""First phase of a compaction: what shall be stored, and what shall take its place. Changes nothing.

    plan = plan(body, policy, counter)
    stored = {payload.key: ... for payload in plan.payloads}     the caller stores them
    done = carry_out(body, plan, stored, counter)

The caller stores each payload as ingest would, with its tool name and call ID, and asks for a card of the policy's
`card_tokens`. The plan belongs to the body it was made of.
"""

from msgspec import Struct

from coatcheck.core.context.candidates import Candidates, Left, ReplaceablePayload, ReplacementCandidate
from coatcheck.core.context.counting import Counter, Sizes
from coatcheck.core.context.detect import index_of
from coatcheck.core.context.model import Format, HistoryIndex
from coatcheck.core.context.pairs import pair
from coatcheck.core.context.pointer import render
from coatcheck.core.context.policy import CompactionPolicy, checked
from coatcheck.core.context.replay import Replay, ReplayDecisions
from coatcheck.core.context.shape import Value, is_utf8, too_deep
from coatcheck.core.context.timeline import Timeline


class PlannedPayload(ReplaceablePayload, frozen=True, kw_only=True):
    """A payload to be stored."""

    key: str
    """Names it in what the caller hands to `carry_out`; the same in every plan of the same body."""
    role: str
    left_out: bool = False
    """Its message is left out of the history: it is stored so that the notice can name it; nothing takes its place."""

    @property
    def needs_card(self) -> bool:
        """Whether a card takes its place; otherwise its ID is enough."""
        return self.kind == "output" and not self.left_out

    @property
    def pointers(self) -> tuple[str, ...]:
        """Where it stands in the body, as RFC 6901."""
        return tuple(render(place.at) for place in self.places)


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
    left: list[Left]
    copied: list[str]
    line: Timeline
    fixed: Sizes
    """Of what stands outside the messages."""
    sizes: list[Sizes]
    """Of each message, as it is."""
    replaceable: list[ReplacementCandidate]
    """Everything that the policy could replace, whatever its age."""
    replaced: set[int]
    """Which of them are."""
    before: Sizes
    """Of the whole body, as it is."""
    expected: int
    """Tokens of the body afterwards, at most."""


def plan(body: Value, policy: CompactionPolicy, counter: Counter, named: str | None = None) -> CompactionPlan:
    """Decide what to do with a body.

    Args:
        body: a decoded request body in any format, or its list of messages alone.
        policy: what is wanted.
        counter: counts tokens; hand the same one to `carry_out`, and no text is counted twice.
        named: the body's format where it is known; otherwise it is detected.

    Raises:
        CoatcheckError: `invalid_request` for a body in no known format or a policy that contradicts itself;
            `invalid_content` for a body that is nested too deeply.
    """
    policy = checked(policy)
    index = index_of(body, named)
    try:
        return _planned(body, index, policy, counter)
    except RecursionError as e:
        raise too_deep() from e


def _planned(body: Value, index: HistoryIndex, policy: CompactionPolicy, counter: Counter) -> CompactionPlan:
    pairs = pair(index)
    line = Timeline(index, pairs)
    sizes = [counter.item(body, item) for item in index.items]
    fixed = counter.fixed(index)
    found = Candidates(body, index, pairs, policy, counter)
    decisions = Replay(line, found.candidates, [size.total for size in sizes], fixed.total, policy).run()
    return CompactionPlan(
        format=index.format,
        policy=policy,
        index=index,
        payloads=[
            _payload(index, one, number, one.message in decisions.dropped)
            for number, one in enumerate(found.candidates)
            if number in decisions.replaced
        ],
        dropped=sorted(decisions.dropped),
        notices=line.notices,
        left=_left(found, decisions),
        copied=found.copied,
        line=line,
        fixed=fixed,
        sizes=sizes,
        replaceable=found.candidates,
        replaced=decisions.replaced,
        before=Sizes.sum([fixed, *sizes]),
        expected=decisions.expected,
    )


def _payload(index: HistoryIndex, one: ReplacementCandidate, number: int, left_out: bool) -> PlannedPayload:
    fields = {name: getattr(one, name) for name in ReplaceablePayload.__struct_fields__}
    fields |= {name: None for name in ("tool", "call_id") if not is_utf8(fields[name] or "")}
    return PlannedPayload(**fields, key=f"p{number}", role=index.items[one.message].role.value, left_out=left_out)


def _left(found: Candidates, decisions: ReplayDecisions) -> list[Left]:
    """What is large and stays."""
    left = [one for one in found.left if one.message not in decisions.dropped]
    for number, one in enumerate(found.candidates):
        if number not in decisions.replaced and one.message not in decisions.dropped:
            why = "waits for a batch" if number in decisions.waiting else "protected: the model still works with it"
            left.append(Left(render(one.places[0].at), one.tokens, why, one.message))
    return left
