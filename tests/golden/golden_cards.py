"""The golden set: 300 cards of made-up payloads, whose texts change only with ENGINE, by one number a release.

`make golden` runs this file, which writes their digests to `cards.json`. It refuses to where a card has changed and its
engine is that of the last release: then ENGINE must be raised first. It also refuses to skip a number.
"""

import hashlib
import random
import sys
import tomllib
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from coatcheck.core.artifact import ENGINE, DeclaredMetadata
from core.sample_payloads import ORDINARY
from core.test_card_promises import WORDS, payload
from facts import made_large, made_media, made_source
from facts.cases import Case, shown
from facts.test_every_fact import MAKERS

HERE: Final = Path(__file__).parent
FILE: Final = HERE / "cards.json"
COUNT: Final = 300
_BUDGETS: Final = (256, 600, 1024)
_OF_EACH: Final = 3
"""Cases of each maker."""
_UNSTEADY: Final = (made_large.__name__, made_media.__name__, made_source.__name__)
"""Makers whose payloads follow from the Python or the libraries that are installed, or take long."""
_DIGITS: Final = 16


class GoldenSet(msgspec.Struct, frozen=True, kw_only=True):
    """What `cards.json` holds."""

    version: str
    """The project's version when it was written: that of the last release."""
    released: int
    """The engine of that release."""
    engine: int
    """The engine of these cards: `released`, or the next one."""
    cards: dict[str, str]
    """By name, which contains the beginning of the payload's digest, the beginning of the digest of the card's text."""


def project_version() -> str:
    """The project's version."""
    declared = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text())
    version: str = declared["project"]["version"]
    return version


def make_cards() -> dict[str, str]:
    """The digests of all cards, by name; the same in every process."""
    cards: dict[str, str] = {}
    for i, (name, case) in enumerate(_cases()):
        budget, rng = _BUDGETS[i % len(_BUDGETS)], random.Random(i)
        query = " ".join(rng.choices(WORDS, k=2)) if i // len(_BUDGETS) % 2 else None
        key = f"{name} @{budget}{'' if query is None else ' query'} {_digest(case.data)[:8]}"
        cards[key] = _digest(shown(case, budget, query).text.encode())
    return cards


def _cases() -> list[tuple[str, Case]]:
    cases = [(name, Case(data, said=said)) for name, (data, said) in ORDINARY.items()]
    for maker, _ in MAKERS:
        if maker.__module__ not in _UNSTEADY:
            name = f"{maker.__module__.rpartition('.')[2]}.{maker.__name__}"
            made = islice(maker(random.Random(name), 20), _OF_EACH)
            cases += [(f"{name} {i}", case) for i, case in enumerate(made)]
    for i in range(COUNT - len(cases)):
        said = DeclaredMetadata(tool_name=(None, "bash", "read_file")[i % 3])
        cases.append((f"payload {i}", Case(payload(random.Random(f"golden {i}")), said=said)))
    return cases


def read() -> GoldenSet:
    """The digests as they were written last."""
    return msgspec.json.decode(FILE.read_bytes(), type=GoldenSet)


def changed(old: GoldenSet, cards: dict[str, str]) -> list[str]:
    """The cards of the same payloads, by name, whose texts have changed."""
    return [name for name, digest in cards.items() if old.cards.get(name, digest) != digest]


def renew(old: GoldenSet, cards: dict[str, str], *, engine: int, version: str) -> GoldenSet:
    """What the file has to hold now.

    Raises:
        ValueError: says what to do first.
    """
    names = changed(old, cards)
    if not old.engine <= engine <= old.released + 1:
        raise ValueError(f"ENGINE is {engine}, and has to be one of {old.engine} to {old.released + 1}.")
    if names and engine == old.released:
        raise ValueError(
            f"{len(names)} cards differ from those of release {old.version}, which has engine {engine}, among them "
            f"{', '.join(names[:3])}. If that is meant, raise ENGINE in core/artifact.py, then run `make golden`."
        )
    if names and version != old.version:
        raise ValueError(f"{len(names)} cards have changed: run `make golden` before the version is raised.")
    released = old.released if version == old.version else engine
    return GoldenSet(version=version, released=released, engine=engine, cards=cards)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


if __name__ == "__main__":
    try:
        golden = renew(read(), make_cards(), engine=ENGINE, version=project_version())
    except ValueError as error:
        sys.exit(str(error))
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(golden), indent=1) + b"\n")
