"""Make a request to a model smaller: store what is bulky in it, and put cards and markers in its place.

A call handles one request body. It remembers nothing of the body and changes nothing that is stored; parts that no
change touches keep their exact bytes.

Crash story: one ingest for each payload. What was stored before a crash is found again by its identity.
"""

from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct, structs

from coatcheck.core.artifact import Caller
from coatcheck.core.context import (
    CompactedBody,
    CompactionPlan,
    CompactionPolicy,
    CountCache,
    Counter,
    MeasureRequest,
    Meters,
    PlanContext,
    PlannedPayload,
    Report,
    Splice,
    StoredPayload,
    carry_out,
    index_of,
    measure_both,
    plan,
    references,
    spliced,
)
from coatcheck.core.context.body.pointer import Pointer
from coatcheck.core.context.body.shape import Value, too_deep
from coatcheck.core.context.encoded import encoded_in
from coatcheck.core.event import CHANGES
from coatcheck.core.keys import require_session
from coatcheck.core.tokens import Tokenizer
from coatcheck.runtime.pool import in_pool
from coatcheck.storing.ingest_request import Notice
from coatcheck.storing.ledger import Ledger
from coatcheck.usecases.context.look_up_references import LookUpReferences
from coatcheck.usecases.payloads.find_or_ingest import FindOrIngest, PayloadCard, PayloadRetention
from coatcheck_client.contract.blobs import REFUSED


class HistoryBody(Struct):
    """A request body, as received and decoded."""

    data: bytes
    value: Value
    """Released once everything is decided: it takes more memory than anything else."""
    inside: str | None = None
    """Key of the object in `data` that holds the body; None: `data` is the body."""
    decodable: bytes | None = None
    """The bytes that were decoded, if they differ from `data`; they have the same length."""


class CompactRequest(Struct, frozen=True, kw_only=True):
    """A caller's request about a body."""

    policy: CompactionPolicy = CompactionPolicy()
    format: str | None = None
    """The body's format, if it is known."""
    keep: PayloadRetention = PayloadRetention()
    ask: MeasureRequest = MeasureRequest()
    """What is known in addition to the body, for the accounts."""
    notices: tuple[Notice, ...] = ()


class KeptPayload(Struct, frozen=True, kw_only=True):
    """A payload of the body that was stored, or could not be stored."""

    pointer: str | None
    """Where the payload stands, or stood, in the given body; None for the messages that were left out."""
    message: int
    """Number of its message, or of the first message that was left out."""
    kind: str
    tool: str | None
    call_id: str | None
    id: str | None
    stored: bool
    created: bool
    """False: it was stored before, or could not be stored."""
    left_out: bool
    """Whether its message was left out of the history."""


class Compacted(Struct, frozen=True, kw_only=True):
    """A compacted body, with everything that there is to know about it."""

    body: bytes
    report: Report
    meters: Meters
    payloads: tuple[KeptPayload, ...]
    warnings: tuple[Notice, ...]


@dataclass(frozen=True, kw_only=True)
class CompactDeps:
    """What the composition hands to this verb."""

    store: FindOrIngest
    look_up: LookUpReferences
    tokenizer: Tokenizer
    pool: Executor
    ledger: Ledger = field(default_factory=Ledger)
    counts: CountCache = field(default_factory=CountCache)


class Compact:
    """Makes a model request smaller: stores bulky payloads and puts cards and markers in their place."""

    def __init__(self, deps: CompactDeps) -> None:
        self._deps = deps

    async def __call__(self, caller: Caller, body: HistoryBody, ask: CompactRequest) -> Compacted:
        """Returns the body with cards and markers, and the report. All payloads are stored before it returns.

        A payload that cannot be stored is cut in place or stays whole; the warnings say so.

        Raises:
            CoatcheckError: `invalid_request` for a body in no known format and for a policy or a window that
                contradicts itself; `invalid_content` for a body that is nested too deeply; `forbidden` for a session
                that does not exist for the caller.
        """
        require_session(caller, ask.keep.session)
        decided = await self._decided(caller, body, ask)
        body.value = None
        data = await in_pool(self._deps.pool, _written, body, decided)
        return Compacted(
            body=data,
            report=decided.report,
            meters=decided.meters,
            payloads=decided.payloads,
            warnings=(*ask.notices, *decided.notices),
        )

    async def _decided(self, caller: Caller, body: HistoryBody, ask: CompactRequest) -> "_Decided":
        """Returns what becomes of the body. Afterwards only the caller still holds its values."""
        pool, counter = self._deps.pool, Counter(self._deps.tokenizer, self._deps.counts)
        index = await in_pool(pool, index_of, body.value, ask.format)
        known = await self._deps.look_up(caller, await in_pool(pool, references, index))
        context = PlanContext(index=index, known=known, window=ask.ask.window, compact_percent=ask.ask.compact_percent)
        planned = await in_pool(pool, plan, body.value, ask.policy, counter, context)
        planned, blobs, cards = await self._store_blobs(caller, planned, ask.keep)
        cards |= await self._deps.store(caller, planned.stored, ask.keep, planned.policy.card_tokens)
        done, meters = await in_pool(pool, _carried_out, body.value, planned, cards, ask.ask, counter)
        self._account(caller, ask.keep, planned, cards, done, meters)
        return _Decided(
            edits=done.edits,
            cut=Splice(planned.index.list_at or (), done.gone, done.note) if done.gone else None,
            report=done.report,
            meters=meters,
            payloads=tuple(_told(payload, cards[payload.key]) for payload in (*planned.stored, *blobs)),
            notices=_notices(list(cards.values())),
        )

    async def _store_blobs(
        self, caller: Caller, planned: CompactionPlan, keep: PayloadRetention
    ) -> tuple[CompactionPlan, list[PlannedPayload], dict[str, PayloadCard]]:
        """Stores bytes that are encoded in outputs; returns the plan with their names, and what was stored."""
        found = await in_pool(self._deps.pool, encoded_in, planned.stored)
        blobs = [payload for each in found for payload in each.payloads]
        cards = await self._deps.store(caller, blobs, keep, planned.policy.card_tokens) if blobs else {}
        ids = {key: card.id for key, card in cards.items() if card.stored}
        # What was refused, which alone has a text and no ID, is not to be stored with its output either.
        ids |= {key: REFUSED for key, card in cards.items() if card.id is None and card.text is not None}
        named = {each.payload.key: each.name(ids) for each in found}
        payloads = [named.get(payload.key, payload) for payload in planned.payloads]
        return structs.replace(planned, payloads=payloads), blobs, cards

    def _account(
        self,
        caller: Caller,
        keep: PayloadRetention,
        planned: CompactionPlan,
        cards: dict[str, PayloadCard],
        done: CompactedBody,
        meters: Meters,
    ) -> None:
        ledger, space, session = self._deps.ledger, caller.namespace, keep.session
        shown = _shown(done)
        for payload in planned.stored:
            one = cards[payload.key]
            if one.created:  # its ingest counted a card where something else may stand
                ledger.gave(space, session, shown.get(one.id or "", 0) - one.tokens)
        report = done.report
        ledger.compacted(caller, session, report.tokens_before, report.tokens_after, _logged(report))
        after = meters.after
        ledger.measured(space, session, after.next_turn.tokens, after.transient.tokens)


class _Decided(Struct, frozen=True, kw_only=True):
    """The decisions about a body, without the body itself."""

    edits: dict[Pointer, Value]
    cut: Splice | None
    report: Report
    meters: Meters
    payloads: tuple[KeptPayload, ...]
    notices: list[Notice]


def _written(body: HistoryBody, decided: _Decided) -> bytes:
    try:
        return spliced(body.data, decided.edits, decided.cut, inside=body.inside, decodable=body.decodable)
    except RecursionError as e:
        raise too_deep() from e


def _carried_out(
    value: Value, planned: CompactionPlan, cards: dict[str, PayloadCard], ask: MeasureRequest, counter: Counter
) -> tuple[CompactedBody, Meters]:
    stored = {key: StoredPayload(one.id, one.text, one.stored) for key, one in cards.items() if one.id or one.text}
    try:
        done = carry_out(value, planned, stored, counter)
        return done, measure_both(planned, done, ask, counter)
    except RecursionError as e:  # values that a thread could decode may be too deep where less of its stack is left
        raise too_deep() from e


def _shown(done: CompactedBody) -> dict[str, int]:
    """Returns the tokens that stand in the body for each artifact."""
    shown: dict[str, int] = {}
    for change in done.report.changes:
        if change.artifact_id is not None:
            shown[change.artifact_id] = shown.get(change.artifact_id, 0) + change.tokens_after
    return shown


def _told(payload: PlannedPayload, one: PayloadCard) -> KeptPayload:
    return KeptPayload(
        pointer=next(iter(payload.pointers), None),
        message=payload.message,
        kind=payload.kind,
        tool=payload.tool,
        call_id=payload.call_id,
        id=one.id if one.stored else None,
        stored=one.stored,
        created=one.created,
        left_out=payload.left_out,
    )


def _notices(cards: list[PayloadCard]) -> list[Notice]:
    """Returns what went wrong: each problem once, with the number of payloads that it affected."""
    met: dict[tuple[str, str], int] = {}
    for one in cards:
        for notice in one.notices:
            met[notice.code, notice.message] = met.get((notice.code, notice.message), 0) + 1
    return [
        Notice(code, message if times == 1 else f"{message} ({times} payloads)")
        for (code, message), times in sorted(met.items())
    ]


def _logged(report: Report) -> dict[str, Any]:
    """What a compaction changed, as it is logged: its first changes, and how many there were."""
    changes = [
        {
            "to": change.to,
            "tool": change.tool,
            "artifact": change.artifact_id,
            "before": change.tokens_before,
            "after": change.tokens_after,
        }
        for change in report.changes[:CHANGES]
    ]
    return {
        "format": report.format,
        "changed": len(report.changes),
        "changes": changes,
        "messages_left_out": report.omitted_now or None,
    }
