"""Measure how full a context is: what stays in it, what is only in flight, whether to compact. Stores none of it."""

from concurrent.futures import Executor
from dataclasses import dataclass, field

from coatcheck.core.artifact import Caller
from coatcheck.core.context import CompactionPolicy, CountCache, Counter, Measured, MeasureRequest, measure
from coatcheck.core.context.body.shape import Value
from coatcheck.core.keys import require_session
from coatcheck.core.tokens import Tokenizer
from coatcheck.runtime.pool import in_pool
from coatcheck.storing.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class MeasureDeps:
    """What the composition hands to this verb."""

    tokenizer: Tokenizer
    pool: Executor
    ledger: Ledger = field(default_factory=Ledger)
    counts: CountCache = field(default_factory=CountCache)


class MeasureContext:
    """Measures how full a model's context is."""

    def __init__(self, deps: MeasureDeps) -> None:
        self._deps = deps

    async def __call__(
        self,
        caller: Caller,
        body: Value,
        ask: MeasureRequest,
        policy: CompactionPolicy,
        *,
        named: str | None,
        session: str | None,
    ) -> Measured:
        """Returns the account of a request body, and notes its two gauges in the session's account.

        Raises:
            CoatcheckError: `invalid_request` for a body in no known format and for a policy or a window that
                contradicts itself; `invalid_content` for a body that is nested too deeply; `forbidden` for a session
                that does not exist for the caller.
        """
        if session is not None:
            require_session(caller, session)
        counter = Counter(self._deps.tokenizer, self._deps.counts)
        measured = await in_pool(self._deps.pool, measure, body, ask, policy, counter, named)
        self._deps.ledger.measured(caller.namespace, session, measured.next_turn.tokens, measured.transient.tokens)
        return measured
