"""Power failures and failing calls, at the system calls that the service and SQLite really make."""

import pytest

from faults import combos, syscalls
from faults.fork_server import Nursery
from faults.harnesses import ioerrors, power

HERE = combos.EMBEDDED
WHY_NOT = syscalls.why_not()
watched = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


@watched
def test_what_was_acknowledged_is_there_after_a_power_failure(forks: Nursery) -> None:
    report = power.run(HERE, 2, 1, shared=forks)
    assert report.clean, report.line()
    assert report.counts["stored"] >= 2 * power.STORED


@watched
@pytest.mark.parametrize("wrong", ["sync-normal", "no-sync", "no-directory-sync"])
def test_a_sync_that_is_left_out_of_the_log_of_a_blob_or_of_its_name_is_noticed(forks: Nursery, wrong: str) -> None:
    report = power.run(HERE, 1, 1, [wrong], forks)
    assert report.broken["lost"] > 0, report.line()


@watched
def test_whichever_call_fails_nothing_is_acknowledged_in_vain_and_the_next_life_succeeds() -> None:
    report = ioerrors.run(HERE, 2, 1)
    assert report.clean, report.line()
    assert report.counts["errors that somebody was told of"] > 0


@watched
def test_a_store_that_does_not_hear_a_failed_sync_is_noticed() -> None:
    report = ioerrors.run(HERE, 2, 1, ["deaf"], only="fsync blob")
    assert report.broken["durable when acknowledged"] > 0, report.line()
