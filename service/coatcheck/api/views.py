"""Converts requests to use cases' values, and use cases' results to answers.

`copy_fields` copies the fields that both have; its caller supplies what differs. Times are RFC 3339 in UTC; unknown
values are null, not missing.
"""

from collections.abc import Iterable
from typing import Annotated, Final, TypeVar

from msgspec import Meta, Struct

from coatcheck.core.ids import EXAMPLE_ID
from coatcheck.storing.ingest_request import Notice

V = TypeVar("V", bound=Struct)

Id = Annotated[str, Meta(pattern="^art_[0-9]{18}$", description="Artifact ID.", examples=[EXAMPLE_ID])]
TextTokens = Annotated[int, Meta(ge=0, description="Tokens of `text` in o200k_base.", examples=[312])]
Text = Annotated[str, Meta(description="Exactly what to put into the tool result.")]


class WarningView(Struct, frozen=True):
    """A warning about a request that succeeded."""

    code: Annotated[str, Meta(description="Permanent name.", examples=["lone_surrogates_replaced"])]
    message: Annotated[str, Meta(description="A sentence.")]


_COPIED: Final[dict[tuple[type, ...], tuple[tuple[str, int], ...]]] = {}
"""For each pair of types, the fields that both have, with the source of each."""


def copy_fields(model: type[V], *sources: object, **overrides: object) -> V:
    """Returns a `model` with fields from `overrides`, else from the first source that has them, else their defaults.

    Raises:
        TypeError: if a field without a default is found nowhere.
    """
    kinds = (model, *map(type, sources))
    copied = _COPIED.get(kinds)
    if copied is None:
        positions = {
            name: next((at for at, s in enumerate(sources) if hasattr(s, name)), None)
            for name in model.__struct_fields__
        }
        copied = _COPIED[kinds] = tuple((name, at) for name, at in positions.items() if at is not None)
    for name, at in copied:
        if name not in overrides:
            overrides[name] = getattr(sources[at], name)
    return model(**overrides)


def warnings_view(notices: Iterable[Notice]) -> tuple[WarningView, ...]:
    """Returns notices as callers see them."""
    return tuple(copy_fields(WarningView, notice) for notice in notices)
