"""Finds the earlier run with which a new artifact is compared. It is chosen only once, when the artifact is created.

The engine makes the comparison itself, from the samples and surveys of both runs. If storage refuses the look-up, or
the earlier run is damaged, the artifact is stored without a comparison.
"""

from typing import Final

from coatcheck.core import ids
from coatcheck.core.artifact import Caller, EarlierRun, PayloadSample
from coatcheck.core.encoding.payload_encoder import sample_ranges
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.catalog import FoundArtifact, RunKey
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.content import UNREADABLE, OpenContent
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.storing.ingest_request import IngestRequest

PREVIOUS: Final = "previous"
"""Value of `compare_to` that stands for the latest artifact with the same session, tool and command."""


async def earlier_run(
    deps: IngestDeps, caller: Caller, request: IngestRequest, identity: bytes, open_content: OpenContent
) -> EarlierRun | None:
    """Returns the artifact that `request.compare_to` names, as the run to compare with.

    Returns None if `compare_to` is `previous` and there is no earlier run, if storage does not answer, or if the bytes
    of the earlier run are damaged.

    Args:
        deps: the dependencies of the ingest.
        caller: the caller, who may not be allowed to see every session.
        request: the request, whose session, tool and command identify the runs for `previous`.
        identity: the identity of the new artifact, which is never its own earlier run.
        open_content: opens the content of the earlier artifact.

    Raises:
        CoatcheckError: `compared_not_found` for an artifact that is unknown or gone, or that the caller may not see.
    """
    try:
        return await _load_earlier_run(deps, caller, request, identity, open_content)
    except CoatcheckError as error:
        if error.code not in UNREADABLE:
            raise
        return None


async def _load_earlier_run(
    deps: IngestDeps, caller: Caller, request: IngestRequest, identity: bytes, open_content: OpenContent
) -> EarlierRun | None:
    compare_to, now = request.compare_to, deps.clock.now()
    with deps.catalog_breaker.guard_call():
        is_named = compare_to != PREVIOUS
        number = ids.parse(compare_to or "") if is_named else await _previous(deps, caller, request, identity)
        if number is None:
            return None
        # The fallback buffer is searched first, because a payload that waits for storage has no row.
        entry = deps.fallback.find(caller.namespace, number, now)
        entry = entry or await deps.catalog.find(caller.namespace, number, now, with_bytes=True, with_survey=True)
    # An ID may be that of an artifact in a session that the caller may not see. Such an artifact must look exactly like
    # an unknown one.
    if isinstance(entry, FoundArtifact) and caller.sees(entry.artifact.declared.session):
        content, m = open_content(entry), entry.artifact.measure
        # The sample has the same two ranges as that of a new payload, so that the samples of both runs correspond.
        head, tail = sample_ranges(m.size)
        with deps.guard_read(entry.artifact.blob):
            sample = PayloadSample(await content.read(*head), await content.read(*tail), m.size)
        mask = deps.redacting.mask_of(entry.artifact)
        masked_sample = None
        if mask is not None and sample.whole:  # a card shows lines of the earlier run only if its sample is whole
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
        return None  # the artifact was deleted between the two queries
    raise CoatcheckError(
        Code.COMPARED_NOT_FOUND,
        f"There is no artifact {ids.render(number)} to compare with, or it is gone. Leave out compare_to, or use "
        f"{PREVIOUS}.",
        field="compare_to",
    )


async def _previous(deps: IngestDeps, caller: Caller, request: IngestRequest, identity: bytes) -> int | None:
    declared = request.declared
    if declared.session is None or (declared.tool_name is None and declared.command is None):
        return None  # without a session, and a tool or a command, no other run can be recognised
    # The new artifact itself is excluded. Otherwise a repeated post would be compared with its own first post.
    run = RunKey(
        namespace=caller.namespace,
        session=declared.session,
        tool_name=declared.tool_name,
        command=declared.command,
        but=identity,
    )
    return await deps.catalog.latest_run(run, deps.clock.now())
