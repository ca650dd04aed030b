"""A card's text changes only with ENGINE, which is raised at most once a release."""

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from coatcheck.core.artifact import ENGINE
from golden.golden_cards import COUNT, GoldenSet, changed, make_cards, project_version, read, renew

RELEASED = GoldenSet(version="1.0.0", released=4, engine=4, cards={"a": "1", "b": "2"})
UNRELEASED = replace(RELEASED, engine=5)
SAME = {"a": "1", "b": "2"}
OTHER = {"a": "1", "b": "3"}


def test_a_cards_text_changes_only_with_the_engine() -> None:
    golden, cards = read(), make_cards()
    assert len(cards) == COUNT
    expected = renew(golden, cards, engine=ENGINE, version=project_version())  # raises if ENGINE has to be raised
    stale = changed(golden, cards)
    words = (
        f"{len(stale)} cards have changed: {', '.join(stale[:3])}" if stale else "It is of another engine or version"
    )
    assert golden == expected, f"{words}. Run `make golden`."


def test_the_golden_set_has_cards_of_every_budget_with_and_without_a_query() -> None:
    names = list(read().cards)
    for budget in ("@256", "@600", "@1024"):
        of_budget = [name for name in names if budget in name]
        assert len(of_budget) == COUNT // 3
        assert 40 <= sum("query" in name for name in of_budget) <= 60


@dataclass(frozen=True)
class Step:
    """A state of the project in which `make golden` is run, and what the file then says of engines."""

    old: GoldenSet
    cards: dict[str, str]
    engine: int
    version: str
    released: int


ALLOWED = {
    "nothing has changed": Step(RELEASED, SAME, 4, "1.0.0", 4),
    "the first change after a release": Step(RELEASED, OTHER, 5, "1.0.0", 4),
    "another change before the next release": Step(UNRELEASED, OTHER, 5, "1.0.0", 4),
    "another payload with the same engine": Step(RELEASED, {"a": "1", "c": "9"}, 4, "1.0.0", 4),
    "a release with the engine of the one before": Step(RELEASED, SAME, 4, "1.1.0", 4),
    "a release with a new engine": Step(UNRELEASED, SAME, 5, "1.1.0", 5),
}
REFUSED = {
    "a released engine's card has changed": (Step(RELEASED, OTHER, 4, "1.0.0", 0), "raise ENGINE"),
    "it has changed with the release": (Step(RELEASED, OTHER, 4, "1.1.0", 0), "raise ENGINE"),
    "a number is skipped": (Step(RELEASED, OTHER, 6, "1.0.0", 0), "one of 4 to 5"),
    "a second number for a release": (Step(UNRELEASED, OTHER, 6, "1.0.0", 0), "one of 5 to 5"),
    "a number is taken back": (Step(UNRELEASED, SAME, 4, "1.0.0", 0), "one of 5 to 5"),
    "the version was raised too early": (Step(UNRELEASED, OTHER, 5, "1.1.0", 0), "before the version"),
}


@pytest.mark.parametrize("why", ALLOWED)
def test_the_golden_set_is_written(why: str) -> None:
    step = ALLOWED[why]
    golden = renew(step.old, step.cards, engine=step.engine, version=step.version)
    assert golden == GoldenSet(version=step.version, released=step.released, engine=step.engine, cards=step.cards)


@pytest.mark.parametrize("why", REFUSED)
def test_the_golden_set_is_not_written(why: str) -> None:
    step, words = REFUSED[why]
    with pytest.raises(ValueError, match=words):
        renew(step.old, step.cards, engine=step.engine, version=step.version)
