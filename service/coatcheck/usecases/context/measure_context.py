"""Measure how full a model's context is, and examine a request body before it is measured or compacted.

To examine a body is to recognise its format, to note its faults, and to note what is unknown, such as the model's
window; on request, also to repair the faults. No body is stored. `ShowSessionUsage` shows the token counts of a
session.
"""

import json
from concurrent.futures import Executor
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.artifact import Caller
from coatcheck.core.context.body.encoding import Value, as_list, as_object
from coatcheck.core.context.body.model import HistoryIndex
from coatcheck.core.context.body.splice import get
from coatcheck.core.context.counting import CountCache, Counter
from coatcheck.core.context.detect import index_of
from coatcheck.core.context.measure import ContextMeasurement, MeasureRequest, measure
from coatcheck.core.context.plan import PlanContext
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.context.references import references, turn_searches
from coatcheck.core.context.window import model_of, window_of
from coatcheck.core.event import SessionUsage, UsageDelta
from coatcheck.core.keys import require_session
from coatcheck.core.repair.faults import Fault, describe_faults, find_escaped_halves, find_faults, half_characters
from coatcheck.core.repair.mend import mend, with_elements
from coatcheck.core.tokens import Tokenizer
from coatcheck.ports.keys import SessionAccounts
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.find import SessionNames
from coatcheck.storing.ledger import Ledger
from coatcheck.upkeep.store_binding import NoteAccounts
from coatcheck.usecases.context.look_up_references import LookUpReferences


class HistoryBody(Struct):
    """A request body, as received and decoded."""

    data: bytes
    value: Value
    """The decoded body. A compaction sets it to None once the changes are decided, because it takes much memory."""
    inside: str | None = None
    """Key of the object in `data` that holds the body; None: `data` is the body."""
    decodable: bytes | None = None
    """The bytes that were decoded, of the same length as `data`; None: `data` itself could be decoded. They differ from
    `data` where it contains halves of surrogate pairs."""


class ExaminedHistory(Struct, frozen=True):
    """The index of a request body, and the repairs that were made to the body."""

    index: HistoryIndex
    """The index, whose notes name the faults that the body still has, and whatever is not known about it."""
    repaired: list[str]
    """One sentence for each repair; pointers in it refer to the body before the repair."""


def examine_history(
    body: HistoryBody,
    format_name: str | None,
    policy: CompactionPolicy,
    ask: MeasureRequest,
    *,
    repair: bool = False,
    can_read: bool | None = None,
) -> ExaminedHistory:
    """Returns the index of a body, with notes on its faults; with `repair`, the faults are repaired in `body` itself.

    Args:
        body: the body; a repair changes it.
        format_name: the body's format; None: it is recognised from the body.
        policy: how the body is to be compacted.
        ask: what the caller knows in addition to the body, such as the model's window.
        repair: whether to repair faults for which a provider would refuse the body.
        can_read: whether the model has the tool `read_artifact`; None: as the body declares.

    Raises:
        CoatcheckError: `unknown_format` or `invalid_request`, like `index_of`.
    """
    index = index_of(body.value, format_name)
    faults, halves, repaired = _faults(body.value, index), _halves(body), list[str]()
    # A repair changes both the values and the bytes: unchanged parts are later taken from the bytes.
    if repair and (faults or halves):
        mended = mend(body.value, index, faults)
        # From here on `data` holds the bytes that were decoded: the original bytes may have halves of surrogate pairs.
        body.data, body.decodable = body.decodable or body.data, None
        if index.list_at is not None and mended.mended:
            old, new = (as_list(get(value, index.list_at)) for value in (body.value, mended.body))
            body.data, body.inside = with_elements(body.data, index.list_at, old, new, body.inside), None
        body.value = mended.body
        repaired = describe_faults([*mended.mended, *halves], mended=True)
        # Mending may add and move messages, so every pointer of the old index may be wrong.
        index = index_of(body.value, index.format)
        faults, halves = _faults(body.value, index), []
    index.notes += describe_faults([*faults, *halves])
    # Without a budget no message is ever left out. Without this note, a caller would learn that only when the provider
    # refuses the body.
    if policy.max_tokens is None and window_of(body.value, ask.window) is None:
        model = model_of(body.value)
        problem = f"The window of the model {model[:80]!a} is not known" if model else "The body names no model"
        index.notes.append(
            f"{problem}, so there is no budget and nothing is left out. Give `window`, or `policy.max_tokens`."
        )
    if can_read is not None:
        index.can_read = can_read
    return ExaminedHistory(index, repaired)


def _faults(body: Value, index: HistoryIndex) -> list[Fault]:
    return [*find_faults(index), *find_escaped_halves(body, index)]


def _halves(body: HistoryBody) -> list[Fault]:
    """Returns a fault for each half of a surrogate pair that was replaced in the body before it was decoded."""
    if body.decodable is None:
        return []
    document = json.loads(body.data)
    return list(half_characters(document if body.inside is None else as_object(document).get(body.inside)))


@dataclass(frozen=True, kw_only=True)
class MeasureContext:
    """Measures how full a model's context is."""

    tokenizer: Tokenizer
    pool: Executor
    look_up: LookUpReferences
    ledger: Ledger = field(default_factory=Ledger)
    counts: CountCache = field(default_factory=CountCache)

    async def __call__(
        self,
        caller: Caller,
        body: HistoryBody,
        ask: MeasureRequest,
        policy: CompactionPolicy,
        *,
        format_name: str | None,
        session: str | None,
    ) -> ContextMeasurement:
        """Returns the measurement of a request body, and records its gauges in the session's account.

        Args:
            caller: the caller.
            body: the body.
            ask: what the caller knows in addition to the body.
            policy: how the body would be compacted.
            format_name: the body's format; None: it is recognised from the body.
            session: the session whose account records the measurement; None: no session.

        Raises:
            CoatcheckError: `unknown_format` for a body in no known format; `invalid_request` for a policy or a window
                that contradicts itself; `invalid_content` for a body that is nested too deeply; `forbidden` for a
                session that does not exist for the caller.
        """
        if session is not None:
            require_session(caller, session)
        pool, counter = self.pool, Counter(self.tokenizer, self.counts)
        index = (await in_pool(pool, examine_history, body, format_name, policy, ask)).index
        # Measuring makes the same look-ups as a compaction: otherwise the two would count differently.
        known_artifacts = await self.look_up(caller, await in_pool(pool, references, index))
        searches = await in_pool(pool, turn_searches, index)
        ask = replace(ask, search_caps=await self.look_up.search_caps(caller, session, searches))
        context = PlanContext(index=index, known_artifacts=known_artifacts)
        measured = await in_pool(pool, measure, body.value, ask, policy, counter, context)
        self.ledger.record_measurement(caller.namespace, session, measured)
        return measured


@dataclass(frozen=True)
class ShowSessionUsage:
    """Shows a session's account: the work of this process up to now, and of other processes up to a second ago."""

    accounts: SessionAccounts
    note: NoteAccounts
    session_names: SessionNames

    async def __call__(self, caller: Caller, session: str) -> SessionUsage:
        """Returns a session's account; an empty one if nothing was counted, or the caller may not see the session.

        Raises:
            CoatcheckError: `storage_full`, `storage_unavailable`.
        """
        # This process writes its counts first, so that the account includes the caller's own last call.
        await self.note()
        session = await self.session_names.real(caller, session)
        usage = await self.accounts.session_usage(caller.namespace, session) if caller.sees(session) else None
        return usage or SessionUsage(spent=UsageDelta(), since=None, at=None)
