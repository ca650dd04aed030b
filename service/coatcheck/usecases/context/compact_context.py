"""Make a request to a model smaller: store its bulky payloads, and put cards and markers in their place.

A call handles one request body, and keeps nothing of it except the stored payloads. It changes no artifact that was
stored before. The parts of the body that need no change keep their exact bytes.

Crash story: each payload is ingested by itself. A repeated call finds the payloads that were stored before the crash,
by their identity.
"""

from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta, Raw, Struct, structs

from coatcheck.core.artifact import Caller
from coatcheck.core.context.apply import CompactedBody, carry_out
from coatcheck.core.context.body.encoding import Value, too_deep
from coatcheck.core.context.body.splice import Pointer, Splice, splice_body
from coatcheck.core.context.counting import CountCache, Counter
from coatcheck.core.context.measure import MeasureRequest, Meters, check_covers, measure_both
from coatcheck.core.context.plan import CompactionPlan, PlanContext, Planner
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.context.references import references, turn_searches
from coatcheck.core.context.replace import StoredPayload
from coatcheck.core.context.replaceable import PlannedPayload, find_encoded
from coatcheck.core.context.report import CompactionReport
from coatcheck.core.event import CHANGES
from coatcheck.core.keys import require_session
from coatcheck.core.tokens import Tokenizer
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.ledger import Ledger
from coatcheck.usecases.context.look_up_references import LookUpReferences
from coatcheck.usecases.context.measure_context import HistoryBody, examine_history
from coatcheck.usecases.payloads.find_or_ingest import FindOrIngest, PayloadCard, PayloadRetention
from coatcheck_client.contract.answers import Notice
from coatcheck_client.contract.blobs import REFUSED


class CompactRequest(Struct, frozen=True, kw_only=True):
    """A caller's request about a body."""

    policy: CompactionPolicy = CompactionPolicy()
    format: str | None = None
    """The body's format; None: it is recognised from the body."""
    keep: PayloadRetention = PayloadRetention()
    """How the payloads that are cut out of the body are stored."""
    ask: MeasureRequest = MeasureRequest()
    """What the caller knows in addition to the body, such as the model's window; used to measure the body."""
    repair: bool = False
    """Whether to repair faults of the body for which a provider would refuse it."""
    tools: str | None = None
    """The tool with which the model can read artifacts: `read_artifact`, or `none`; None: as the body declares."""
    notices: tuple[Notice, ...] = ()
    """Notices of changes that were necessary to accept the request; the answer passes them on to the caller."""


class KeptPayload(Struct, frozen=True, kw_only=True):
    """A payload of the body that was stored, or could not be stored."""

    pointer: str | None
    """JSON pointer to the payload in the given body; None: the payload consists of the messages that were left out."""
    message: int
    """Number of the message that contains the payload, or of the first message that was left out."""
    kind: str
    tool: str | None
    """The tool whose output the payload is; None: the history does not name the tool."""
    call_id: str | None
    id: str | None
    """The artifact's ID; None: the payload is not stored, so it cannot be read by an ID."""
    stored: bool
    created: bool
    """Whether this call stored the payload; False: it was stored before, or could not be stored."""
    left_out: bool
    """Whether the message that contains the payload was left out of the history."""


class CompactAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a compaction."""

    body: Annotated[
        Raw,
        Meta(description="The request body to send; whatever no change touches is byte for byte as given."),
    ]
    report: Annotated[
        CompactionReport, Meta(description="What changed and why, what stays and why, and what to send with it.")
    ]
    meters: Annotated[
        Meters, Meta(description="This turn and the next, before and after: as `/v1/context/measure` counts them.")
    ]
    payloads: Annotated[
        tuple[KeptPayload, ...],
        Meta(description="Payloads of the body that are stored, now or earlier, and those that could not be."),
    ]
    warnings: tuple[Notice, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Compact:
    """Makes a model request smaller: stores bulky payloads and puts cards and markers in their place."""

    store: FindOrIngest
    look_up: LookUpReferences
    """Finds the stored artifacts that a history refers to; changes nothing."""
    tokenizer: Tokenizer
    pool: Executor
    ledger: Ledger = field(default_factory=Ledger)
    counts: CountCache = field(default_factory=CountCache)
    """Token counts of texts, cached because a history sends the same texts again with every turn."""

    async def __call__(self, caller: Caller, body: HistoryBody, ask: CompactRequest) -> CompactAnswer:
        """Returns the body with cards and markers, and the report. Every payload is stored before the call returns.

        A payload that cannot be stored is shortened in the body or stays whole, and a warning says so.

        Raises:
            CoatcheckError: `unknown_format` for a body in no known format; `invalid_request` for a policy or a window
                that contradicts itself; `invalid_content` for a body that is nested too deeply; `forbidden` for a
                session that does not exist for the caller.
        """
        require_session(caller, ask.keep.session)
        decisions = await self._decide_changes(caller, body, ask)
        # The decoded values are released here: they take far more memory than the bytes, and the answer is written
        # from the bytes and the edits alone.
        body.value = None
        data = await in_pool(self.pool, _write_body, body, decisions)
        return CompactAnswer(
            body=Raw(data),
            report=decisions.report,
            meters=decisions.meters,
            payloads=decisions.payloads,
            warnings=(*ask.notices, *decisions.notices),
        )

    async def _decide_changes(self, caller: Caller, body: HistoryBody, ask: CompactRequest) -> "_Decisions":
        """Stores the payloads, and returns the changes to the body.

        The result holds no reference to the body's decoded values, so that the caller can release them.
        """
        pool, counter = self.pool, Counter(self.tokenizer, self.counts)
        can_read = None if ask.tools is None else ask.tools != "none"
        examined = await in_pool(
            pool, examine_history, body, ask.format, ask.policy, ask.ask, repair=ask.repair, can_read=can_read
        )
        index = examined.index
        check_covers(ask.ask, len(index.items))  # before anything is stored
        # Two look-ups in the store: the artifacts that the history refers to, and the limits of this turn's searches.
        known_artifacts = await self.look_up(caller, await in_pool(pool, references, index))
        searches = await in_pool(pool, turn_searches, index)
        caps = await self.look_up.search_caps(caller, ask.keep.session, searches)
        measure_request = structs.replace(ask.ask, search_caps=caps)
        context = PlanContext(
            index=index, known_artifacts=known_artifacts, window=ask.ask.window, compact_percent=ask.ask.compact_percent
        )
        planner = await in_pool(pool, Planner, body.value, ask.policy, counter, context)
        cards: dict[str, PayloadCard] = {}
        # Encoded bytes inside outputs, such as pictures, are stored as payloads of their own, and are reported
        # together with the payloads of the plan.
        blobs: list[PlannedPayload] = []
        # Each step of the planner returns a list of payloads whose cards it needs for its next step; the last step
        # returns the plan. The size of the cards decides how much is saved, and therefore what else must be replaced.
        while isinstance(step := await in_pool(pool, planner.advance, _results(cards)), list):
            cards |= await self._store(caller, step, ask.keep, planner, blobs)
        # The plan may also replace payloads whose cards it did not need. They too are stored before the body is
        # written.
        rest = [payload for payload in step.payloads_to_store if payload.key not in cards]
        cards |= await self._store(caller, rest, ask.keep, planner, blobs)
        planned = step
        # By now each payload either is stored or has failed, so the new body refers only to artifacts that can be read.
        compacted_body, meters = await in_pool(
            pool, _carry_out_plan, body.value, planned, cards, measure_request, counter
        )
        # The session's account is updated last, so that a compaction that fails counts nothing.
        self._account(caller, ask.keep, planned, cards, compacted_body, meters)
        return _Decisions(
            edits=compacted_body.edits,
            splice=Splice(planned.index.list_at or (), compacted_body.removed_messages, compacted_body.note)
            if compacted_body.removed_messages
            else None,
            report=compacted_body.report
            if not examined.repaired
            else _mark_repaired(compacted_body.report, examined.repaired),
            meters=meters,
            payloads=tuple(
                _describe_payload(payload, cards[payload.key]) for payload in (*planned.payloads_to_store, *blobs)
            ),
            notices=_notices(list(cards.values())),
        )

    async def _store(
        self,
        caller: Caller,
        payloads: list[PlannedPayload],
        keep: PayloadRetention,
        planner: Planner,
        blobs: list[PlannedPayload],
    ) -> dict[str, PayloadCard]:
        """Stores payloads, and before them the encoded bytes inside them; returns the cards of both by payload key.

        The payloads of encoded bytes are added to `blobs`.
        """
        # Two rounds of storing: the text of an output names its encoded bytes by their IDs, so these IDs must exist
        # before that text is stored.
        encoded_payloads = await in_pool(self.pool, find_encoded, payloads)
        new = [payload for each in encoded_payloads for payload in each.payloads]
        blobs += new
        cards = await self.store(caller, new, keep, planner.card_tokens, tools=planner.index.can_read) if new else {}
        ids = {key: card.id for key, card in cards.items() if card.is_stored}
        # Bytes that were refused because of a secret have a text but no ID. Their output must not contain them either.
        ids |= {key: REFUSED for key, card in cards.items() if card.id is None and card.text is not None}
        payloads_by_key = {each.payload.key: each.name(ids) for each in encoded_payloads}
        payloads = [payloads_by_key.get(payload.key, payload) for payload in payloads]
        return cards | await self.store(caller, payloads, keep, planner.card_tokens, tools=planner.index.can_read)

    def _account(
        self,
        caller: Caller,
        keep: PayloadRetention,
        planned: CompactionPlan,
        cards: dict[str, PayloadCard],
        compacted_body: CompactedBody,
        meters: Meters,
    ) -> None:
        ledger, space, session = self.ledger, caller.namespace, keep.session
        tokens_by_artifact = _count_shown_tokens(compacted_body)
        for payload in planned.payloads_to_store:
            card = cards[payload.key]
            if card.created:  # its ingest counted the tokens of its card, but the body may show another text
                ledger.gave(space, session, tokens_by_artifact.get(card.id or "", 0) - card.tokens)
        report = compacted_body.report
        ledger.record_compaction(caller, session, report.tokens_before, report.tokens_after, _describe_report(report))
        ledger.record_measurement(space, session, meters.after)


class _Decisions(Struct, frozen=True, kw_only=True):
    """The decisions about a body, without the body itself."""

    edits: dict[Pointer, Value]
    """New values, by the place in the body where they stand."""
    splice: Splice | None
    """The messages that are removed from the list, and the note that replaces them; None: no message is removed."""
    report: CompactionReport
    meters: Meters
    payloads: tuple[KeptPayload, ...]
    notices: list[Notice]


def _mark_repaired(report: CompactionReport, sentences: list[str]) -> CompactionReport:
    return structs.replace(report, changed=True, repaired=sentences)


def _write_body(body: HistoryBody, decisions: _Decisions) -> bytes:
    try:
        return splice_body(body.data, decisions.edits, decisions.splice, inside=body.inside, decodable=body.decodable)
    except RecursionError as e:
        raise too_deep() from e


def _carry_out_plan(
    value: Value, planned: CompactionPlan, cards: dict[str, PayloadCard], ask: MeasureRequest, counter: Counter
) -> tuple[CompactedBody, Meters]:
    try:
        compacted_body = carry_out(value, planned, _results(cards), counter)
        return compacted_body, measure_both(compacted_body, ask, counter)
    # Decoding takes less of the stack than these steps, so a value that was decoded may still be too deep here.
    except RecursionError as e:
        raise too_deep() from e


def _results(cards: dict[str, PayloadCard]) -> dict[str, StoredPayload]:
    return {
        key: StoredPayload(card.id, card.text, card.is_stored) for key, card in cards.items() if card.id or card.text
    }


def _count_shown_tokens(compacted_body: CompactedBody) -> dict[str, int]:
    """Returns for each artifact the tokens of the texts that replace its payload in the body."""
    tokens_by_artifact: dict[str, int] = {}
    for change in compacted_body.report.changes:
        if change.artifact_id is not None:
            tokens_by_artifact[change.artifact_id] = tokens_by_artifact.get(change.artifact_id, 0) + change.tokens_after
    return tokens_by_artifact


def _describe_payload(payload: PlannedPayload, card: PayloadCard) -> KeptPayload:
    return KeptPayload(
        pointer=next(iter(payload.pointers), None),
        message=payload.message,
        kind=payload.kind,
        tool=payload.tool,
        call_id=payload.call_id,
        id=card.id if card.is_stored else None,
        stored=card.is_stored,
        created=card.created,
        left_out=payload.left_out,
    )


def _notices(cards: list[PayloadCard]) -> list[Notice]:
    """Returns the notices of all cards, each notice once, with the number of payloads that it concerns."""
    counts: dict[tuple[str, str], int] = {}
    for card in cards:
        for notice in card.notices:
            counts[notice.code, notice.message] = counts.get((notice.code, notice.message), 0) + 1
    return [
        Notice(code, message if times == 1 else f"{message} ({times} payloads)")
        for (code, message), times in sorted(counts.items())
    ]


def _describe_report(report: CompactionReport) -> dict[str, Any]:
    """Returns the details of a compaction for the log of events: its first changes, and the number of changes."""
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
    # The log keeps numbers and IDs, never text of the body.
    return {
        "format": report.format,
        "changed": len(report.changes),
        "changes": changes,
        "messages_left_out": report.omitted_now or None,
    }
