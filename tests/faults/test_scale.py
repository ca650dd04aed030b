"""Replicas, and servers that come and go: each harness in its short form, and what it says without a protection."""

from faults import combos
from faults.fork_server import Nursery
from faults.harnesses import replicas, restarts, slow_s3, vanish


def test_whatever_is_killed_or_frozen_each_artifact_is_buried_once_and_nothing_live_goes(forks: Nursery) -> None:
    report = replicas.run(combos.POSTGRES, 3, 1, [replicas.ALL_LEAD, "slow-burial"], forks)
    assert report.clean, report.line()
    assert report.counts["buried"] > 20


def test_when_the_replica_that_tidies_is_killed_another_one_does(forks: Nursery) -> None:
    report = replicas.run(combos.POSTGRES, 1, 1, (), forks, replicas=2)
    assert report.clean, report.line()
    assert report.counts["buried"] > 20


def test_without_the_lock_on_what_has_expired_each_is_still_buried_once(forks: Nursery) -> None:
    report = replicas.run(combos.POSTGRES, 1, 1, [replicas.ALL_LEAD, "slow-burial", "no-row-lock"], forks)
    assert report.clean, report.line()  # a second wall: a burial whose row somebody else removed is taken back
    assert report.counts["buried"] > 0


def test_replicas_that_go_by_their_own_clocks_are_noticed(forks: Nursery) -> None:
    report = replicas.run(combos.POSTGRES, 1, 1, [replicas.ALL_LEAD, "own-clock"], forks, replicas=2, patience=0)
    assert report.broken["lost"] > 0, report.line()


def test_a_database_that_is_restarted_and_frozen_costs_nothing_acknowledged_and_what_waited_is_stored(
    forks: Nursery,
) -> None:
    report = restarts.run(combos.POSTGRES, 2, 1, (), forks, kinds=["immediate", "frozen"], every=2.0)
    assert report.clean, report.line()
    assert report.counts["waited"] > 0


def test_commits_that_are_not_durable_and_payloads_that_do_not_wait_are_noticed_when_the_database_crashes(
    forks: Nursery,
) -> None:
    wrongs = ["no-durable", "no-shelter"]
    report = restarts.run(combos.POSTGRES, 1, 1, wrongs, forks, kinds=["immediate"], every=2.0, patience=1)
    # What was acknowledged last is lost: artifacts, or deletions.
    assert report.broken["lost"] + report.broken["revived"] > 0, report.line()
    assert report.broken["what waited can be read"] > 0, report.line()


def test_an_s3_store_that_loses_answers_and_goes_away_costs_nothing_acknowledged(forks: Nursery) -> None:
    report = slow_s3.run(combos.S3, 2, 1, (), forks, kinds=["lost answers", "absent"], every=2.0)
    assert report.clean, report.line()
    assert report.counts["waited"] > 0


def test_a_store_that_does_not_hear_that_s3_refused_is_noticed(forks: Nursery) -> None:
    report = slow_s3.run(combos.S3, 1, 1, ["deaf-s3"], forks, kinds=["absent"], every=2.0)
    assert report.broken["lost"] > 0, report.line()


def test_clients_that_vanish_leave_no_connection_to_the_database_behind(forks: Nursery) -> None:
    report = vanish.run(combos.POSTGRES, 48, 1, shared=forks)
    assert report.clean, report.line()
