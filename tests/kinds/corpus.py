"""A labelled set for the classifier: what each payload is follows from where it came from, never from the classifier.

Pieces of real files and of the outputs of real programs, beside made ones for what no machine has lying around. They
are cut to many lengths, at arbitrary bytes. The same machine gives the same set.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from coatcheck.core.artifact import Kind

SMALLEST: Final = 200
LARGEST: Final = 300_000
ENDS: Final = frozenset({Kind.LOG, Kind.COMMAND_OUTPUT, Kind.CODE_OR_FILE, Kind.TEXT, Kind.DIFF, Kind.WEB_PAGE})
"""Kinds of which a piece from the middle is still of that kind to a reader."""


@dataclass(frozen=True)
class Source:
    """Something whole, before it is cut."""

    kind: Kind
    family: str
    """What sort of thing it is, such as `python` or `psql`: families are kept in balance."""
    name: str
    data: bytes


@dataclass(frozen=True)
class Item:
    """A payload with its label."""

    kind: Kind
    family: str
    name: str
    data: bytes

    @property
    def half(self) -> str:
        """`tune` or `test`: the classifier's numbers were chosen on the one and are reported for the other."""
        return "test" if hashlib.sha256(self.name.encode()).digest()[0] % 2 else "tune"


def assemble(sources: Iterable[Source], per_kind: int, seed: str = "kinds") -> list[Item]:
    """At most `per_kind` items of every kind, its families as even as they can be, cut to many lengths."""
    families: dict[Kind, dict[str, list[Source]]] = {}
    for source in sources:
        if len(source.data) >= SMALLEST:
            families.setdefault(source.kind, {}).setdefault(source.family, []).append(source)
    items: list[Item] = []
    for kind in Kind:
        chosen = list(_even(families.get(kind, {}), per_kind))
        items += [_cut(source, Random(f"{seed}/{source.family}/{source.name}")) for source in chosen]
    return items


def _even(families: dict[str, list[Source]], limit: int) -> Iterator[Source]:
    """One of each family in turn; within a family in an order that has nothing to do with what is in it."""
    shuffled = {
        name: sorted(members, key=lambda source: hashlib.sha256(source.name.encode()).digest())
        for name, members in sorted(families.items())
    }
    taken = 0
    for rank in range(max(map(len, shuffled.values()), default=0)):
        for members in shuffled.values():
            if rank < len(members) and taken < limit:
                taken += 1
                yield members[rank]


def _cut(source: Source, rng: Random) -> Item:
    """A piece: from the first byte, or for some from a line in the middle; its length anything, logarithmically."""
    data = source.data
    if source.kind in {Kind.IMAGE, Kind.BINARY}:
        size = rng.choice((len(data), rng.randrange(64, 4096)))
        return Item(source.kind, source.family, source.name, data[: min(size, LARGEST)])
    if source.kind in ENDS and rng.random() < 0.25:
        start = data.find(b"\n", rng.randrange(max(1, len(data) // 2))) + 1
        data = data[start:] if len(data) - start >= SMALLEST else data
    size = int(math.exp(rng.uniform(math.log(SMALLEST), math.log(LARGEST))))
    if rng.random() < 0.3:
        size = LARGEST
    return Item(source.kind, source.family, source.name, data[:size])
