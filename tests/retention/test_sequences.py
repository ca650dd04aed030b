"""No sequence of operations deletes what is held, takes what is pinned, loses bytes or lets usage drift."""

from pathlib import Path

import pytest

from retention.sequences import DATABASES, OPERATIONS, sequence

SEEDS = 6
"""Sequences of one test. `python -m tests.retention.sequences` runs thousands."""


@pytest.mark.parametrize("first", range(0, 12, SEEDS))
@pytest.mark.parametrize("database", DATABASES)
async def test_every_promise_is_kept_after_every_operation(database: str, first: int, tmp_path: Path) -> None:
    async with DATABASES[database](tmp_path) as opened:
        did = [await sequence(opened, seed) for seed in range(first, first + SEEDS)]
    assert sum(each["held before"] for each in did) > 0


def test_every_operation_is_drawn_and_has_a_weight() -> None:
    assert all(weight > 0 for weight, _ in OPERATIONS)
    assert len({operation.__name__ for _, operation in OPERATIONS}) == len(OPERATIONS)
