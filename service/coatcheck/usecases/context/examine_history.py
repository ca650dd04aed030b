"""Find out what a request body is before anything is decided: its format, what is broken in it, what is not known.

Mends it first, if the caller asks for that. Nothing is stored.
"""

import json

from msgspec import Struct

from coatcheck.core.context import CompactionPolicy, MeasureRequest, index_of
from coatcheck.core.context.body.model import HistoryIndex
from coatcheck.core.context.body.pointer import get
from coatcheck.core.context.body.shape import Value, as_list, as_object
from coatcheck.core.context.window import model_of, window_of
from coatcheck.core.repair import (
    describe_faults,
    find_escaped_halves,
    find_faults,
    half_characters,
    mend,
    with_elements,
)
from coatcheck.core.repair.faults import Fault


class HistoryBody(Struct):
    """A request body, as received and decoded."""

    data: bytes
    value: Value
    """Released once everything is decided: it takes more memory than anything else."""
    inside: str | None = None
    """Key of the object in `data` that holds the body; None: `data` is the body."""
    decodable: bytes | None = None
    """The bytes that were decoded, if they differ from `data`; they have the same length."""


class ExaminedHistory(Struct, frozen=True):
    """What a request body is."""

    index: HistoryIndex
    """Its notes say what is broken, and what is not known."""
    repaired: list[str]
    """What was mended, a sentence each; pointers are into the body as it was given."""


def examine_history(
    body: HistoryBody,
    format_name: str | None,
    policy: CompactionPolicy,
    ask: MeasureRequest,
    *,
    repair: bool = False,
    can_read: bool | None = None,
) -> ExaminedHistory:
    """Returns the index of a body with notes; with `repair`, the body is replaced by one without its faults.

    Args:
        body: the body; changed by a repair.
        format_name: its format, if the caller knows it.
        policy: how it is to be compacted.
        ask: what else is known.
        repair: whether to mend what a provider would refuse.
        can_read: whether the model has `read_artifact`; None: as the body says.

    Raises:
        CoatcheckError: `unknown_format` or `invalid_request`, like `index_of`.
    """
    index = index_of(body.value, format_name)
    faults, halves, repaired = _faults(body.value, index), _halves(body), list[str]()
    if repair and (faults or halves):
        mended = mend(body.value, index, faults)
        body.data, body.decodable = body.decodable or body.data, None
        if index.list_at is not None and mended.mended:
            old, new = (as_list(get(value, index.list_at)) for value in (body.value, mended.body))
            body.data, body.inside = with_elements(body.data, index.list_at, old, new, body.inside), None
        body.value = mended.body
        repaired = describe_faults([*mended.mended, *halves], mended=True)
        index = index_of(body.value, index.format)
        faults, halves = _faults(body.value, index), []
    index.notes += describe_faults([*faults, *halves])
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
    """Returns where a body had halves of surrogate pairs, which were replaced before it was decoded."""
    if body.decodable is None:
        return []
    document = json.loads(body.data)
    return list(half_characters(document if body.inside is None else as_object(document).get(body.inside)))
