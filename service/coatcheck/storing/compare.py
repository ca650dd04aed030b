"""Finds the earlier artifact to compare a new one with. This is decided once, when the new one is created.

The comparison itself is made by the engine, from both surveys. If storage refuses, only the comparison is lost.
"""

from typing import Final

from coatcheck.core import ids
from coatcheck.core.artifact import Caller, EarlierRun, PayloadSample
from coatcheck.core.encoding.payload_encoder import sample_ranges
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.catalog import FoundArtifact, RunKey
from coatcheck.runtime.circuit_breaker import REFUSALS
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.content import OpenContent
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.storing.ingest_request import IngestRequest

PREVIOUS: Final = "previous"
"""Stands for an ID: the latest artifact with the same session, tool and command."""


async def earlier_run(
    deps: IngestDeps, caller: Caller, request: IngestRequest, identity: bytes, open_content: OpenContent
) -> EarlierRun | None:
    """Returns what `request.compare_to` names; None if `previous` names nothing, or storage does not answer.

    Args:
        deps: the catalogue, and its circuit breaker.
        caller: who may not see every session.
        request: the request; its session, tool and command identify the run.
        identity: that of the artifact to be compared, which is never its own earlier run.
        open_content: opens what is found.

    Raises:
        CoatcheckError: `compared_not_found` for an artifact that is unknown or gone, or that the caller may not see.
    """
    try:
        with deps.catalog_breaker.guard_call():
            return await _load_earlier_run(deps, caller, request, identity, open_content)
    except CoatcheckError as error:
        if error.code not in REFUSALS:
            raise
        return None


async def _load_earlier_run(
    deps: IngestDeps, caller: Caller, request: IngestRequest, identity: bytes, open_content: OpenContent
) -> EarlierRun | None:
    compare_to, now = request.compare_to, deps.clock.now()
    number = await _previous(deps, caller, request, identity) if compare_to == PREVIOUS else ids.parse(compare_to or "")
    if number is None:
        return None
    # The buffer first: a run that still waits for storage has no row.
    entry = deps.fallback.find(caller.namespace, number, now)
    entry = entry or await deps.catalog.find(caller.namespace, number, now, with_bytes=True, with_survey=True)
    # An explicit ID may name another session's artifact, which must look exactly like an unknown one.
    if isinstance(entry, FoundArtifact) and caller.sees(entry.artifact.declared.session):
        content, m = open_content(entry), entry.artifact.measure
        # The same two ranges as when the new payload was sampled, so that like is compared with like.
        head, tail = sample_ranges(m.size)
        sample = PayloadSample(await content.read(*head), await content.read(*tail), m.size)
        mask = deps.redacting.mask_of(entry.artifact)
        masked_sample = None
        if mask is not None and sample.whole:  # only lines of a whole sample are shown
            masked_sample, *_ = await in_pool(deps.pool, mask.sample, sample)
        return EarlierRun(
            id=entry.artifact.id,
            sha256=m.sha256,
            sample=sample,
            lines=m.lines,
            survey=entry.survey,
            shown=masked_sample,
        )
    if compare_to == PREVIOUS:
        return None  # it was deleted between the two queries
    raise CoatcheckError(
        Code.COMPARED_NOT_FOUND,
        f"There is no artifact {ids.render(number)} to compare with, or it is gone. Leave out compare_to, or use "
        f"{PREVIOUS}.",
        field="compare_to",
    )


async def _previous(deps: IngestDeps, caller: Caller, request: IngestRequest, identity: bytes) -> int | None:
    declared = request.declared
    if declared.session is None or (declared.tool_name is None and declared.command is None):
        return None  # nothing says what it would be another run of
    # The new artifact itself is excluded: a repeated put would otherwise be compared with its own first.
    run = RunKey(
        namespace=caller.namespace,
        session=declared.session,
        tool_name=declared.tool_name,
        command=declared.command,
        but=identity,
    )
    return await deps.catalog.latest_run(run, deps.clock.now())
