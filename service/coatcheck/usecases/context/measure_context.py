"""Measure how full a context is: what stays in it, what is only in flight, whether to compact. Stores none of it."""

from concurrent.futures import Executor
from dataclasses import dataclass, field

from msgspec.structs import replace

from coatcheck.core.artifact import Caller
from coatcheck.core.context import (
    CompactionPolicy,
    CountCache,
    Counter,
    Measured,
    MeasureRequest,
    PlanContext,
    measure,
    references,
    turn_searches,
)
from coatcheck.core.keys import require_session
from coatcheck.core.tokens import Tokenizer
from coatcheck.runtime.pool import in_pool
from coatcheck.storing.ledger import Ledger
from coatcheck.usecases.context.examine_history import HistoryBody, examine_history
from coatcheck.usecases.context.look_up_references import LookUpReferences


@dataclass(frozen=True, kw_only=True)
class MeasureDeps:
    """What the composition hands to this verb."""

    tokenizer: Tokenizer
    pool: Executor
    look_up: LookUpReferences
    ledger: Ledger = field(default_factory=Ledger)
    counts: CountCache = field(default_factory=CountCache)


class MeasureContext:
    """Measures how full a model's context is."""

    def __init__(self, deps: MeasureDeps) -> None:
        self._deps = deps

    async def __call__(
        self,
        caller: Caller,
        body: HistoryBody,
        ask: MeasureRequest,
        policy: CompactionPolicy,
        *,
        format_name: str | None,
        session: str | None,
    ) -> Measured:
        """Returns the account of a request body, and notes its gauges in the session's account.

        Raises:
            CoatcheckError: `unknown_format` for a body in no known format; `invalid_request` for a policy or a window
                that contradicts itself; `invalid_content` for a body that is nested too deeply; `forbidden` for a
                session that does not exist for the caller.
        """
        if session is not None:
            require_session(caller, session)
        pool, counter = self._deps.pool, Counter(self._deps.tokenizer, self._deps.counts)
        index = (await in_pool(pool, examine_history, body, format_name, policy, ask)).index
        known_artifacts = await self._deps.look_up(caller, await in_pool(pool, references, index))
        searches = await in_pool(pool, turn_searches, index)
        ask = replace(ask, search_caps=await self._deps.look_up.search_caps(caller, session, searches))
        context = PlanContext(index=index, known_artifacts=known_artifacts)
        measured = await in_pool(pool, measure, body.value, ask, policy, counter, format_name, context)
        self._deps.ledger.record_measurement(caller.namespace, session, measured)
        return measured
