"""First phase of a compaction: what shall be stored, and what shall take its place. Changes nothing.

    index = index_of(body)
    known = ...                                                  the caller asks the store for `references(index)`
    plan = plan(body, policy, counter, PlanContext(index=index, known=known, window=...))
    stored = {payload.key: ... for payload in plan.stored}       the caller stores them
    done = carry_out(body, plan, stored, counter)

The caller stores each payload as ingest would, with its tool name and call ID, and asks for a card of the policy's
`card_tokens`. The plan belongs to the body it was made of.
"""

from msgspec import Struct

from coatcheck.core.context.body.encoding import MessageLines
from coatcheck.core.context.body.model import Format, HistoryIndex
from coatcheck.core.context.body.pointer import get, render
from coatcheck.core.context.body.shape import Value, as_object, is_utf8, too_deep
from coatcheck.core.context.candidates import Candidates
from coatcheck.core.context.counting import Counter, Sizes
from coatcheck.core.context.detect import index_of
from coatcheck.core.context.pairs import pair
from coatcheck.core.context.policy import CompactionPolicy, checked
from coatcheck.core.context.references import KnownArtifacts
from coatcheck.core.context.replaceable import Left, ReplaceablePayload, ReplacementCandidate
from coatcheck.core.context.replay import Replay, ReplayDecisions
from coatcheck.core.context.timeline import Timeline
from coatcheck.core.context.window import Budget, ModelWindow, budget_of

OMITTED: str = "omitted"
"""Key of the payload with the messages that are left out."""


class PlanContext(Struct, frozen=True, kw_only=True):
    """What is known besides a body and the policy."""

    index: HistoryIndex | None = None
    """That of the body, if it exists already."""
    known: KnownArtifacts = KnownArtifacts()
    window: ModelWindow | None = None
    """The model's window; None: the one known by the model's name, if any."""
    compact_percent: int = 80
    """Share of the usable window from which a body is made smaller."""


class PlannedPayload(ReplaceablePayload, frozen=True, kw_only=True):
    """A payload to be stored."""

    key: str
    """Its name in the argument of `carry_out`; the same in every plan of the same body."""
    role: str
    left_out: bool = False
    """Whether its message is left out of the history: it is stored so that the notice can name it, and nothing replaces
    it."""
    title: str | None = None
    same_as: str | None = None
    """Key of an earlier payload that is identical."""

    @property
    def is_stored(self) -> bool:
        """Whether it is to be stored; not if it is already in an artifact, or is text that is left out as a whole."""
        return self.content is not None and not (self.left_out and self.kind == "message" and self.places)

    @property
    def needs_card(self) -> bool:
        """Whether a card replaces it; otherwise its ID is enough."""
        return self.kind == "output" and not self.left_out

    @property
    def pointers(self) -> tuple[str, ...]:
        """Its places in the body, as RFC 6901."""
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
    """Sizes of what is outside the messages."""
    sizes: list[Sizes]
    """Present size of each message."""
    replaceable: list[ReplacementCandidate]
    """Everything that the policy could replace, whatever its age."""
    replaced: set[int]
    """Those that are replaced."""
    before: Sizes
    """Present sizes of the whole body."""
    expected: int
    """Maximum tokens of the body afterwards."""
    budget: Budget | None
    dropped_bytes: list[int]
    """Bytes of each message that is left out, as JSON."""

    @property
    def stored(self) -> list[PlannedPayload]:
        """The payloads to store."""
        return [payload for payload in self.payloads if payload.is_stored]


def plan(
    body: Value,
    policy: CompactionPolicy,
    counter: Counter,
    context: PlanContext = PlanContext(),  # noqa: B008 - frozen
) -> CompactionPlan:
    """Decides what to do with a body.

    Args:
        body: a decoded request body in any format, or only its list of messages.
        policy: how to compact.
        counter: counts tokens; use the same one for `carry_out`, so that no text is counted twice.
        context: what else is known.

    Raises:
        CoatcheckError: `invalid_request` for an unknown format or a policy that contradicts itself; `invalid_content`
            for a body that is nested too deeply.
    """
    policy = checked(policy)
    index = context.index or index_of(body)
    try:
        return _planned(body, index, policy, counter, context)
    except RecursionError as e:
        raise too_deep() from e


def _planned(
    body: Value, index: HistoryIndex, policy: CompactionPolicy, counter: Counter, context: PlanContext
) -> CompactionPlan:
    pairs = pair(index)
    line = Timeline(index, pairs)
    sizes = [counter.item(body, item) for item in index.items]
    fixed = counter.fixed(index)
    budget = budget_of(body, index, policy, context.window, context.compact_percent)
    found = Candidates(body, index, pairs, policy, counter, context.known)
    totals = [size.total for size in sizes]
    decisions = Replay(line, found.candidates, totals, fixed.total, policy, budget).run()
    payloads = [_payload(index, found.candidates[number], number, decisions) for number in sorted(decisions.replaced)]
    gone = sorted({*decisions.dropped, *line.notices}) if decisions.dropped else []
    lines = MessageLines(get(body, index.items[number].at) for number in gone)
    if gone:
        payloads.append(_left_out(index, gone[0], lines))
    return CompactionPlan(
        format=index.format,
        policy=policy,
        index=index,
        payloads=payloads,
        dropped=sorted(decisions.dropped),
        notices=line.notices,
        left=_left(found, decisions, policy) + _left_around(body, index, policy, counter),
        copied=found.copied,
        line=line,
        fixed=fixed,
        sizes=sizes,
        replaceable=found.candidates,
        replaced=set(decisions.replaced),
        before=Sizes.sum([fixed, *sizes]),
        expected=decisions.expected,
        budget=budget,
        dropped_bytes=[size for number, size in zip(gone, lines.sizes, strict=True) if number in decisions.dropped],
    )


def _payload(index: HistoryIndex, one: ReplacementCandidate, number: int, decisions: ReplayDecisions) -> PlannedPayload:
    fields = {name: getattr(one, name) for name in ReplaceablePayload.__struct_fields__}
    fields |= {name: None for name in ("tool", "call_id") if not is_utf8(fields[name] or "")}
    same = decisions.replaced[number]
    return PlannedPayload(
        **fields,
        key=f"p{number}",
        role=index.items[one.message].role.value,
        left_out=one.message in decisions.dropped,
        same_as=None if same is None else f"p{same}",
    )


def _left_out(index: HistoryIndex, first: int, lines: MessageLines) -> PlannedPayload:
    """Returns the messages that are left out, including earlier notices, as one payload."""
    return PlannedPayload(
        kind="message",
        why="left out",
        message=first,
        places=(),
        content=lines,
        tool=None,
        call_id=None,
        tokens=0,
        key=OMITTED,
        title=f"{len(lines.sizes):,} messages left out of a history",
        role=index.items[first].role.value,
        left_out=True,
    )


def _left(found: Candidates, decisions: ReplayDecisions, policy: CompactionPolicy) -> list[Left]:
    """Returns what is large and stays."""
    left = [one for one in found.left if one.message not in decisions.dropped]
    for number, one in enumerate(found.candidates):
        if number not in decisions.replaced and one.message not in decisions.dropped:
            why = "protected: the model still works with it"
            if one.kind in {"read", "search"}:
                if one.tokens <= policy.inline_tokens:
                    continue
                why = f"was {'read' if one.kind == 'read' else 'found'} in the latest turn"
            elif number in decisions.waiting:
                why = "waits for a batch"
            elif one.pressed:
                why = "stays while the window is not at stake"
            left.append(Left(render(one.places[0].at), one.tokens, why, one.message))
    return left


def _left_around(body: Value, index: HistoryIndex, policy: CompactionPolicy, counter: Counter) -> list[Left]:
    """Returns large instructions and tools outside the messages."""
    left: list[Left] = []
    for key, value in as_object(body).items():
        if value is index.tools or any(value is one for one in index.system):
            tokens = counter.json(value)
            if tokens > policy.inline_tokens:
                left.append(Left(render((key,)), tokens, "instructions and tools are never changed"))
    return left
